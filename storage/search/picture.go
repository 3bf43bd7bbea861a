package search

import (
	"cmp"
	"math"
	"time"
)

// picture is the postings of an index as queries want them: documents are
// numbers in the order in which they came, and what is known of them stands in
// slices by number. A document that is gone keeps its number until the picture
// is made anew.
type picture struct {
	byID     map[string]uint32
	ids      []string
	sums     []uint32
	refs     []uint16 // in how many segments; 0: gone
	labels   [entryLabels][]uint32
	times    []int64 // milliseconds since 1970
	dates    []date
	lengths  []uint8 // in terms, 255 at most
	flags    []uint8
	previous []int32 // of the same session, or -1
	next     []int32

	names    names               // what labels refer to
	sessions []session           // by the number of their name
	speakers map[uint32][]string // the words of their names, by the number of the name
	terms    map[string]uint32
	postings [][]uint32 // by term: number<<8 | count, ascending

	live   int
	whole  int   // sessions that have documents
	length int64 // of those that live, in terms
}

// session is a session with documents.
type session struct {
	last   int32 // the newest, or -1
	docs   int
	length int // in terms
}

const maxDocs = 1 << 24 // that fit beside a count in a posting

// names gives texts numbers.
type names struct {
	of   map[string]uint32
	text []string
}

func (n *names) number(text string) uint32 {
	i, ok := n.of[text]
	if !ok {
		i = uint32(len(n.text))
		n.of[text] = i
		n.text = append(n.text, text)
	}
	return i
}

func newPicture() *picture {
	return &picture{
		byID:  make(map[string]uint32),
		names: names{of: make(map[string]uint32)},
		terms: make(map[string]uint32),

		speakers: make(map[uint32][]string),
	}
}

// load adds the documents of a segment and returns their numbers.
func (p *picture) load(s *segment) []uint32 {
	numbers := make([]uint32, len(s.docs))
	fresh := make([]bool, len(s.docs))
	for i := range s.docs {
		e := &s.docs[i]
		n, ok := p.byID[e.id]
		if ok && p.sums[n] != e.sum {
			p.remove(n) // an older document of that name
			ok = false
		}
		if !ok {
			n = p.add(e)
			fresh[i] = true
		}
		p.refs[n]++
		numbers[i] = n
	}
	for _, t := range s.terms {
		at, ok := p.terms[t.term]
		if !ok {
			at = uint32(len(p.postings))
			p.terms[t.term] = at
			p.postings = append(p.postings, nil)
		}
		list := p.postings[at]
		for _, o := range t.postings {
			if fresh[o.doc] {
				list = append(list, numbers[o.doc]<<8|o.count)
			}
		}
		p.postings[at] = list
	}
	return numbers
}

func (p *picture) add(e *entry) uint32 {
	n := uint32(len(p.ids))
	p.byID[e.id] = n
	p.ids = append(p.ids, e.id)
	p.sums = append(p.sums, e.sum)
	p.refs = append(p.refs, 0)
	for l, text := range e.labels {
		p.labels[l] = append(p.labels[l], p.names.number(text))
	}
	if who := p.labels[labelSpeaker][n]; p.speakers[who] == nil {
		if list := nameWords(e.labels[labelSpeaker]); len(list) > 0 {
			p.speakers[who] = list
		}
	}
	for len(p.sessions) < len(p.names.text) {
		p.sessions = append(p.sessions, session{last: -1})
	}
	p.times = append(p.times, e.time)
	d := date(0)
	if e.flags&flagTimed != 0 {
		d = dateOf(time.UnixMilli(e.time))
	}
	p.dates = append(p.dates, d)
	p.lengths = append(p.lengths, uint8(min(e.length, math.MaxUint8)))
	p.flags = append(p.flags, e.flags)
	p.previous = append(p.previous, -1)
	p.next = append(p.next, -1)
	p.live++
	p.length += int64(p.lengths[n])
	if e.labels[labelSession] != "" {
		p.link(n)
	}
	return n
}

// link gives a document its place in its session.
func (p *picture) link(n uint32) {
	s := &p.sessions[p.labels[labelSession][n]]
	if s.docs++; s.docs == 1 {
		p.whole++
	}
	s.length += int(p.lengths[n])
	after, before := s.last, int32(-1)
	for after >= 0 && p.order(uint32(after), n) > 0 {
		after, before = p.previous[after], after
	}
	p.previous[n], p.next[n] = after, before
	if after >= 0 {
		p.next[after] = int32(n)
	}
	if before >= 0 {
		p.previous[before] = int32(n)
	} else {
		s.last = int32(n)
	}
}

// order compares the places of two documents of a session.
func (p *picture) order(a, b uint32) int {
	return cmp.Or(cmp.Compare(p.times[a], p.times[b]), cmp.Compare(p.ids[a], p.ids[b]))
}

// release gives back the references of a segment to documents.
func (p *picture) release(numbers []uint32) {
	for _, n := range numbers {
		if p.refs[n] == 0 {
			continue // replaced by another of the same ID
		}
		if p.refs[n]--; p.refs[n] == 0 {
			p.refs[n] = 1
			p.remove(n)
		}
	}
}

// remove takes a document out. Its postings stay until the picture is made
// anew, and count in the frequencies of its terms.
func (p *picture) remove(n uint32) {
	p.refs[n] = 0
	delete(p.byID, p.ids[n])
	p.live--
	p.length -= int64(p.lengths[n])
	if p.names.text[p.labels[labelSession][n]] == "" {
		return
	}
	s := &p.sessions[p.labels[labelSession][n]]
	if s.docs--; s.docs == 0 {
		p.whole--
	}
	s.length -= int(p.lengths[n])
	after, before := p.previous[n], p.next[n]
	if after >= 0 {
		p.next[after] = before
	}
	if before >= 0 {
		p.previous[before] = after
	} else {
		s.last = after
	}
}

// wasteful tells whether so much of the picture is gone that it should be made
// anew.
func (p *picture) wasteful() bool {
	return len(p.ids)-p.live > 256+p.live/2
}
