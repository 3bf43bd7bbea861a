package search

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stratamem/strata/internal/levels"
)

// part is a segment as the picture has it: what is wanted of every document, in
// columns, and where the rest is. Its documents have numbers one after another.
type part struct {
	key         string
	first, last uint64 // appends
	base        uint32 // number of the first document
	docs        int
	size        int // bytes of its records, about
	columns     columns
	ids, terms  []block
	filter      filter
	runs        []run
}

// columns have an element for each document.
type columns struct {
	lengths  []uint8 // in terms, 255 at most
	flags    []uint8
	sessions []uint32 // numbers
	casts    []uint32 // numbers
	times    []int64  // milliseconds since 1970
}

const columnBytes = 1 + 1 + 4 + 4 + 8 // of a document

func makeColumns(n int) columns {
	return columns{make([]uint8, n), make([]uint8, n), make([]uint32, n), make([]uint32, n), make([]int64, n)}
}

func (c *columns) grow(n int) {
	n -= len(c.lengths)
	c.lengths = append(c.lengths, make([]uint8, n)...)
	c.flags = append(c.flags, make([]uint8, n)...)
	c.sessions = append(c.sessions, make([]uint32, n)...)
	c.casts = append(c.casts, make([]uint32, n)...)
	c.times = append(c.times, make([]int64, n)...)
}

func (c *columns) put(at uint32, from *columns) {
	copy(c.lengths[at:], from.lengths)
	copy(c.flags[at:], from.flags)
	copy(c.sessions[at:], from.sessions)
	copy(c.casts[at:], from.casts)
	copy(c.times[at:], from.times)
}

// run is the documents of a session in a part: from ≤ number < to, in order.
type run struct {
	part     *part
	from, to uint32
}

// session is a session with documents.
type session struct {
	name   string
	runs   []run // by the time of their first document
	docs   int
	length int // in terms
}

// cast is who says a document and what it is.
type cast struct{ speaker, kind, layer, scope string }

// newPart returns a segment as a part that is not yet in the picture.
func (p *picture) newPart(key string, s *segment, size int) *part {
	n := &part{key: key, first: s.first, last: s.last, docs: len(s.docs), size: size, columns: makeColumns(len(s.docs)), ids: s.ids, terms: s.terms, filter: s.filter}
	if n.large() {
		for _, list := range [][]block{s.ids, s.terms} {
			for i := range list {
				n.size += list[i].size
			}
		}
	}
	c := &n.columns
	for i := range s.docs {
		e := &s.docs[i]
		c.lengths[i], c.flags[i], c.times[i] = uint8(min(e.length, 255)), e.flags, e.time
		if i > 0 && e.labels == s.docs[i-1].labels {
			c.sessions[i], c.casts[i] = c.sessions[i-1], c.casts[i-1]
			continue
		}
		c.sessions[i] = p.session(e.labels[labelSession])
		c.casts[i] = p.cast(cast{e.labels[labelSpeaker], e.labels[labelType], e.labels[labelLayer], e.labels[labelScope]})
	}
	return n
}

func (p *picture) session(name string) uint32 {
	n, ok := p.sessionOf[name]
	if !ok {
		if k := len(p.idle); k > 0 {
			n = p.idle[k-1]
			p.idle = p.idle[:k-1]
		} else {
			n = uint32(len(p.sessions))
			p.sessions = append(p.sessions, session{})
		}
		name = strings.Clone(name)
		p.sessions[n], p.sessionOf[name] = session{name: name}, n
	}
	return n
}

func (p *picture) cast(c cast) uint32 {
	n, ok := p.castOf[c]
	if !ok {
		n = uint32(len(p.casts))
		p.casts, p.castOf[c] = append(p.casts, c), n
		who := p.speakers.number(c.speaker)
		p.speakerOf = append(p.speakerOf, who)
		if list := nameWords(c.speaker); len(list) > 0 {
			p.spoken[who] = list
		}
	}
	return n
}

// compare orders parts by when they came.
func (n *part) compare(o *part) int {
	return cmp.Or(cmp.Compare(n.first, o.first), strings.Compare(n.key, o.key))
}

// large reports whether blocks of the part are read from the store.
func (n *part) large() bool { return len(n.ids) > 0 && n.ids[0].data == "" }

// overlaps reports whether parts may have documents in common, which two writers
// have merged at once.
func (n *part) overlaps(o *part) bool {
	return n != o && n.first <= o.last && o.first <= n.last
}

// place gives a part its numbers and its place in the picture.
func (p *picture) place(n *part) {
	n.base = p.room(n.docs)
	p.columns.put(n.base, &n.columns)
	n.columns = columns{}
	at, _ := slices.BinarySearchFunc(p.parts, n.base, func(o *part, base uint32) int { return cmp.Compare(o.base, base) })
	p.parts = slices.Insert(p.parts, at, n)
	end := n.base + uint32(n.docs)
	for from := n.base; from < end; {
		to := from + 1
		for to < end && p.columns.sessions[to] == p.columns.sessions[from] {
			to++
		}
		n.runs = append(n.runs, run{n, from, to})
		p.link(run{n, from, to})
		from = to
	}
	p.live += n.docs
}

// link takes a run into its session.
func (p *picture) link(r run) {
	c := &p.columns
	s := &p.sessions[c.sessions[r.from]]
	if s.docs == 0 && s.name != "" {
		p.whole++
	}
	for n := r.from; n < r.to; n++ {
		s.docs++
		s.length += int(c.lengths[n])
		p.length += int64(c.lengths[n])
	}
	clear := s.name != ""
	for _, o := range s.runs {
		if c.times[o.from] <= c.times[r.to-1] && c.times[r.from] <= c.times[o.to-1] {
			clear = false
			for n := o.from; n < o.to; n++ {
				c.flags[n] &^= flagPrevious | flagNext
			}
		}
	}
	for n := r.from; n < r.to && clear; n++ {
		if n > r.from {
			c.flags[n] |= flagPrevious
		}
		if n+1 < r.to {
			c.flags[n] |= flagNext
		}
	}
	at, _ := slices.BinarySearchFunc(s.runs, r, func(o, r run) int {
		return cmp.Or(cmp.Compare(c.times[o.from], c.times[r.from]), o.part.compare(r.part))
	})
	s.runs = slices.Insert(s.runs, at, r)
}

// drop notes that a part is gone.
func (p *picture) drop(n *part) {
	at := slices.Index(p.added, n)
	if at < 0 {
		p.dropped = append(p.dropped, n)
		return
	}
	p.added = slices.Delete(p.added, at, at+1)
	p.empty = append(p.empty, n.columns.sessions...)
}

// displace takes a part out of the picture.
func (p *picture) displace(n *part) {
	c := &p.columns
	for _, r := range n.runs {
		at := c.sessions[r.from]
		s := &p.sessions[at]
		for n := r.from; n < r.to; n++ {
			if c.flags[n]&flagGone == 0 {
				p.uncount(n)
			}
		}
		s.runs = slices.DeleteFunc(s.runs, func(o run) bool { return o.part == n })
		if len(s.runs) == 0 {
			p.empty = append(p.empty, at)
		}
	}
	at := slices.Index(p.parts, n)
	p.parts = slices.Delete(p.parts, at, at+1)
	p.giveBack(span{n.base, n.base + uint32(n.docs)})
}

// uncount takes a document out of what is counted.
func (p *picture) uncount(n uint32) {
	s := &p.sessions[p.columns.sessions[n]]
	s.docs--
	s.length -= int(p.columns.lengths[n])
	if s.docs == 0 && s.name != "" {
		p.whole--
	}
	p.live--
	p.length -= int64(p.columns.lengths[n])
}

// count is the opposite of uncount.
func (p *picture) count(n uint32) {
	s := &p.sessions[p.columns.sessions[n]]
	if s.docs == 0 && s.name != "" {
		p.whole++
	}
	s.docs++
	s.length += int(p.columns.lengths[n])
	p.live++
	p.length += int64(p.columns.lengths[n])
}

// forget gives back the numbers of sessions that have no documents.
func (p *picture) forget() {
	for _, n := range p.empty {
		if s := &p.sessions[n]; len(s.runs) == 0 && p.sessionOf[s.name] == n && n > 0 {
			delete(p.sessionOf, s.name)
			*s = session{}
			p.idle = append(p.idle, n)
		}
	}
	p.empty = p.empty[:0]
}

// span is numbers: from ≤ number < to.
type span struct{ from, to uint32 }

// room returns the first of n numbers one after another that are free.
func (p *picture) room(n int) uint32 {
	for i := range p.free {
		f := &p.free[i]
		if int(f.to-f.from) < n {
			continue
		}
		base := f.from
		if f.from += uint32(n); f.from == f.to {
			p.free = slices.Delete(p.free, i, i+1)
		}
		return base
	}
	base := len(p.columns.lengths)
	p.columns.grow(base + n)
	return uint32(base)
}

func (p *picture) giveBack(s span) {
	if s.from == s.to {
		return
	}
	for n := s.from; n < s.to; n++ {
		p.columns.flags[n] = flagGone
	}
	at, _ := slices.BinarySearchFunc(p.free, s, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	p.free = slices.Insert(p.free, at, s)
	if at+1 < len(p.free) && p.free[at].to == p.free[at+1].from {
		p.free[at].to = p.free[at+1].to
		p.free = slices.Delete(p.free, at+1, at+2)
	}
	if at > 0 && p.free[at-1].to == p.free[at].from {
		p.free[at-1].to = p.free[at].to
		p.free = slices.Delete(p.free, at, at+1)
	}
}

// of returns the part that has a number.
func (p *picture) of(n uint32) *part {
	at, ok := slices.BinarySearchFunc(p.parts, n, func(o *part, n uint32) int { return cmp.Compare(o.base, n) })
	if !ok {
		at--
	}
	return p.parts[at]
}

// keys returns the segments of a level, the oldest first.
func (p *picture) keys(level int) []*part {
	var list []*part
	for _, n := range p.parts {
		if levels.Level(n.key) == level {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, (*part).compare)
	return list
}
