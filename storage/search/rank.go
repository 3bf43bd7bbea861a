package search

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Ranking says how relevance is computed. A zero field means its default, and a
// negative one turns the cue off. Weights multiply parts, scaled so that a
// document of average length that has each term of the query once scores 1.
//
// Words are ranked by BM25 (Robertson and Zaragoza, "The Probabilistic
// Relevance Framework: BM25 and Beyond", 2009), with the idf of Lucene, ln(1 +
// (N − n + 0.5) / (n + 0.5)), divided by the sum of the idf of all terms of the
// query, including those that are in no document.
type Ranking struct {
	K1 float64 // how soon repeating a word stops counting; default 1.2
	B  float64 // how much long documents are discounted; default 0.3

	Session  float64 // the score of the whole session, even for its documents that share no word; default 0.4
	Previous float64 // the words of the neighbour before; default 0.5
	Next     float64 // the words of the neighbour after; default 0.25
	Speaker  float64 // the speaker is named in the query; default 0.3
	Date     float64 // the date matches the one in the query; default 1
	When     float64 // says when, if the query asks that; default 0.2
	Answer   float64 // the words of the neighbour before, if it is a question; default 0.3
	Far      float64 // the words of neighbours two away; default 0.1

	// Similar is the weight of the cosines from an index of vectors: the highest
	// counts this fraction of the best score without them, the lowest nothing. As
	// evidence, a cosine counts multiplied by the weight. The default of 0.7, with
	// which a cosine of 0.65 is above the floor, was not measured with a model.
	Similar float64

	// Floor is the least evidence with which anything is found: the score of the
	// best document without the parts for its speaker and its expressions of time,
	// which any document may have. Default 0.45.
	Floor float64
}

func (r Ranking) withDefaults() Ranking {
	for _, f := range []struct {
		field *float64
		value float64
	}{
		{&r.K1, 1.2}, {&r.B, 0.3}, {&r.Session, 0.4}, {&r.Previous, 0.5}, {&r.Next, 0.25},
		{&r.Speaker, 0.3}, {&r.Date, 1}, {&r.When, 0.2}, {&r.Answer, 0.3}, {&r.Far, 0.1}, {&r.Similar, 0.7}, {&r.Floor, 0.45},
	} {
		*f.field = max(cmp.Or(*f.field, f.value), 0)
	}
	return r
}

// found is a document that a search found.
type found struct {
	number        uint32
	id            string
	score         float64
	parts         Parts
	before, after []string // ids of neighbours
}

// wide is the least number of documents, chosen by their words, that a search
// scores closely. Beyond these, others are found only as neighbours.
const wide = 1000

// find returns at most want documents, best first, and a note if there are
// none. The caller holds the index's lock.
func (ix *Index) find(l *reading, q *Query, want int) ([]found, Result) {
	p, rk := ix.picture, &ix.ranking
	if p.live == 0 {
		return nil, Result{Note: "the index is empty"}
	}
	ask := ix.ask(l, q.Text)
	ask.similar = p.similar(l, q.Similar)
	if len(ask.terms)+len(ask.dates)+len(ask.similar) == 0 {
		return nil, Result{Note: "the query has no words to search for"}
	}
	s := ix.take()
	defer ix.give(s)
	ix.score(s, &ask)
	res := Result{Evidence: ix.collect(l, s, &ask, q, want)}
	if len(s.list) == 0 {
		res.Note = "nothing shares a word with the query"
		return nil, res
	}
	limit := rk.Floor
	if q.Floor != 0 {
		limit = q.Floor
	}
	if res.Evidence < limit {
		res.Note = fmt.Sprintf("the best of %d documents has %.2f of what the query asks for, below %.2f", p.live, res.Evidence, limit)
		return nil, res
	}
	if i := slices.IndexFunc(s.list, func(c candidate) bool { return c.score < q.Cut*s.list[0].score }); i >= 0 {
		s.list = s.list[:i]
	}
	list := make([]found, len(s.list))
	for i := range list {
		f := &list[i]
		f.number, f.score = s.list[i].number, s.list[i].score
		f.id, f.parts = p.id(l, f.number), ix.parts(s, &ask, f.number)
		for n, k := p.previous(f.number), 0; n >= 0 && k < q.Around; n, k = p.previous(uint32(n)), k+1 {
			f.before = append(f.before, p.id(l, uint32(n)))
		}
		slices.Reverse(f.before)
		for n, k := p.next(f.number), 0; n >= 0 && k < q.Around; n, k = p.next(uint32(n)), k+1 {
			f.after = append(f.after, p.id(l, uint32(n)))
		}
	}
	return list, res
}

// similar returns the positive cosines of existing documents.
func (p *picture) similar(l *reading, cosines map[string]float64) map[uint32]similar {
	if len(cosines) == 0 {
		return nil
	}
	all := make(map[uint32]similar, len(cosines))
	lowest, highest := math.Inf(1), 0.0
	known := p.find(l, slices.Collect(maps.Keys(cosines)))
	for id, c := range cosines {
		if o, ok := known[id]; ok && c > 0 {
			all[o.number] = similar{cosine: c}
			lowest, highest = min(lowest, c), max(highest, c)
		}
	}
	for n, c := range all {
		if c.part = 1; highest > lowest {
			c.part = (c.cosine - lowest) / (highest - lowest)
		}
		all[n] = c
	}
	return all
}

// score computes the score of every document's words, of every session's
// documents together, and of every document's date.
func (ix *Index) score(s *scratch, ask *question) {
	p, rk := ix.picture, &ix.ranking
	all := 0.0
	for i := range ask.terms {
		all += ix.idf(ask.lists[i].n)
	}
	dated := make([]int, len(ask.dates))
	if len(dated) > 0 {
		p.dated(func(first, end int, d date) {
			for i, w := range ask.dates {
				if w.match(d) {
					dated[i] += end - first
				}
			}
		})
	}
	for i := range ask.dates {
		if dated[i] > 0 {
			all += ix.idf(dated[i])
		}
	}
	all = max(all, 1e-9)
	var discount [256]float32 // of a document by its length
	average := max(float64(p.length)/float64(p.live), 1)
	for i := range discount {
		discount[i] = float32(rk.K1 * (1 - rk.B + rk.B*float64(i)/average))
	}
	for i := range ask.lists {
		list := &ask.lists[i]
		g := gainsOf(float32(ix.idf(list.n)*(rk.K1+1)/all), &discount)
		for _, part := range list.old {
			s.addStretch(p, part, g)
		}
		for _, o := range list.young {
			n, count := o>>8, o&0xff
			if p.refs[n] == 0 {
				continue
			}
			s.blocks[n/scoreBlock] = true
			s.words[n] += g.of(count, p.lengths[n])
			s.count(p.sessions[n], count)
		}
		ix.scoreSessions(s, g.gain)
	}
	for i, w := range ask.dates {
		if dated[i] == 0 {
			continue
		}
		s.dates = s.datesOf(len(p.refs))
		gain := float32(ix.idf(dated[i]) / all)
		p.dated(func(first, end int, d date) {
			if w.match(d) {
				for n := range s.dates[first:end] {
					s.dates[first+n] += gain
				}
			}
		})
	}
}

// scoreSessions adds the score of a term to the sessions that have it.
func (ix *Index) scoreSessions(s *scratch, gain float32) {
	p, rk := ix.picture, &ix.ranking
	average := max(float64(p.length)/float64(max(p.whole, 1)), 1)
	for _, at := range s.seen {
		count := float64(s.counts[at])
		s.counts[at] = 0
		if rk.Session == 0 || p.names.text[at] == "" {
			continue
		}
		if s.sessions[at] == 0 {
			s.visited = append(s.visited, at)
		}
		discount := rk.K1 * (1 - rk.B + rk.B*float64(p.session[at].length)/average)
		s.sessions[at] += gain * float32(count/(count+discount))
	}
	s.seen = s.seen[:0]
}

func (ix *Index) idf(n int) float64 {
	n = max(n, 0)
	return math.Log(1 + (max(float64(ix.picture.live-n), 0)+0.5)/(float64(n)+0.5))
}

// collect lists the best candidates: documents with words of the query, their
// neighbours, and documents of the best sessions, the newest if there are many.
// It returns the most evidence for any one.
func (ix *Index) collect(l *reading, s *scratch, ask *question, q *Query, want int) (evidence float64) {
	p, rk := ix.picture, &ix.ranking
	admits := q.Filter.admits(l, p)
	least := s.least()
	if q.Filter.narrows() {
		least = 0
	}
	best := 0.0 // without cosines
	consider := func(n uint32) {
		if s.marks.has(n) || p.refs[n] == 0 {
			return
		}
		s.marks.add(n)
		if admits != nil && !admits(n) {
			return
		}
		parts := ix.parts(s, ask, n)
		score := parts.sum()
		evidence = max(evidence, score-parts.Speaker-parts.When)
		best = max(best, score)
		if _, ok := ask.similar[n]; !ok {
			s.offer(l, p, candidate{score, n}, want)
		}
	}
	near := rk.Previous > 0 || rk.Next > 0
	look := func(numbers []uint32) {
		for _, n := range numbers {
			consider(n)
			if near {
				for _, m := range [...]int32{p.previous(n), p.next(n)} {
					if m >= 0 {
						consider(uint32(m))
					}
				}
			}
		}
	}
	chosen := s.choose(least)
	if len(chosen) == 0 {
		chosen = s.chooseDated()
	}
	if look(chosen); len(s.list) < want && least > 0 { // many of the best are excluded
		look(s.choose(0))
	}
	room := wide
	for _, at := range s.best() {
		for n := p.session[at].last; n >= 0 && room > 0; n = p.previous(uint32(n)) {
			consider(uint32(n))
			room--
		}
	}
	ask.scale = rk.Similar * cmp.Or(best, 1)
	for n, c := range ask.similar {
		if p.refs[n] > 0 && (admits == nil || admits(n)) {
			evidence = max(evidence, rk.Similar*c.cosine)
			parts := ix.parts(s, ask, n)
			s.offer(l, p, candidate{parts.sum(), n}, want)
		}
	}
	return evidence
}

// parts returns the summands of a document's score.
func (ix *Index) parts(s *scratch, ask *question, n uint32) Parts {
	p, rk := ix.picture, &ix.ranking
	at := func(n int32) float64 {
		if n < 0 {
			return 0
		}
		return float64(s.words[n])
	}
	before, after := p.previous(n), p.next(n)
	parts := Parts{
		Words:      float64(s.words[n]),
		Session:    rk.Session * float64(s.sessions[p.sessions[n]]),
		Neighbours: rk.Previous*at(before) + rk.Next*at(after),
	}
	if before >= 0 && p.flags[before]&flagQuestion != 0 {
		parts.Answer = rk.Answer * at(before)
	}
	if rk.Far > 0 {
		if before >= 0 {
			parts.Far += rk.Far * at(p.previous(uint32(before)))
		}
		if after >= 0 {
			parts.Far += rk.Far / 2 * at(p.next(uint32(after)))
		}
	}
	if len(ask.speakers) > 0 && slices.Contains(ask.speakers, p.label(labelSpeaker, n)) {
		parts.Speaker = rk.Speaker
	}
	if s.dates != nil {
		parts.Date = rk.Date * float64(s.dates[n])
	}
	if ask.when && p.flags[n]&flagTime != 0 {
		parts.When = rk.When
	}
	parts.Similar = ask.scale * ask.similar[n].part
	return parts
}
