package search

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Ranking is what relevance is made of. A zero field means its default, and a
// negative one that the cue is off. Weights multiply parts of which 1 is what a
// document of average length scores that has each term of the query once.
//
// Words are ranked by BM25 (Robertson and Zaragoza, "The Probabilistic Relevance
// Framework: BM25 and Beyond", 2009), with the idf of Lucene,
// ln(1 + (N − n + 0.5) / (n + 0.5)), divided by the sum of the idf of all terms
// of the query, of which those that no document has count as well.
type Ranking struct {
	K1 float64 // how soon repeating a word stops to count; default 1.2
	B  float64 // how much long documents are discounted; default 0.3

	Session  float64 // the score of the whole session, also for those of its documents that share no word; default 0.4
	Previous float64 // the words of the neighbour before; default 0.5
	Next     float64 // the words of the neighbour after; default 0.25
	Speaker  float64 // whom the query names is speaking; default 0.3
	Date     float64 // the date as text, for what the query names of one; default 1
	When     float64 // says when, and the query asks that; default 0.2
	Answer   float64 // the words of the neighbour before, if it is a question; default 0.3
	Far      float64 // the words of neighbours two away; default 0.1

	// Similar is the weight of the cosines that an index of vectors gives: the
	// highest of them counts this part of the best score without them, the lowest
	// nothing. As evidence a cosine counts for itself times the weight. Default
	// 0.7, so that a cosine of 0.65 is above the floor; no measurement with a model
	// stands behind it.
	Similar float64

	// Floor is the least evidence for anything to be found: the score of the
	// best document without what its speaker and its expressions of time give,
	// which anything has. Default 0.45.
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

// wide is how many documents, by their words, a search looks at closely at
// least. Of more the others can come in as neighbours only.
const wide = 1000

// find returns at most want documents, best first, and what there is to say if
// there are none. Under the index's lock.
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

// similar returns the cosines that are above 0, of documents that are there.
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

// score gives every document the score of its words, every session that of its
// documents together, and every document that of its date.
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

// scoreSessions adds what a term gives to the sessions that have it.
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

// collect lists the best of the documents that may be what is wanted: those
// with words of the query, and their neighbours, and those of the best sessions,
// the newest of them if there are many. It returns the most evidence
// that there is for one.
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
	if look(chosen); len(s.list) < want && least > 0 { // most of the best are excluded
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

// parts returns what a document's score is made of.
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
