package search

import (
	"math"
	"slices"
	"time"
)

// picture is what is held of an index, in the form that queries need: documents
// are numbered in the order in which they came, and what is known about them is
// in slices by number. A removed document keeps its number until the picture is
// rebuilt.
//
// It has everything about the segments of levels 0 and 1, of which there are
// few. It has 25 bytes per document of those of level 2, and queries read the
// rest.
type picture struct {
	refs     []uint16 // number of segments that have it; 0: removed
	sessions []uint32 // number of the name
	kinds    []uint32 // number of its other labels
	times    []int64  // milliseconds since 1970
	lengths  []uint8  // in terms, 255 at most
	flags    []uint8
	before   map[uint32]int32 // the neighbour before, unless it is the previous number; see previous
	after    map[uint32]int32

	names    names                     // texts of labels
	kind     [][entryLabels - 1]uint32 // labels by number, without the session
	kindOf   map[[entryLabels - 1]uint32]uint32
	session  []session           // by the number of the name
	speakers map[uint32][]string // the words of their names, by the number of the name

	young    map[uint32]docName // documents in no sealed segment
	byID     map[string]uint32  // the same
	terms    map[string]uint32
	postings [][]uint32 // by term: number<<8 | count, ascending; of young documents

	sealed []*sealed          // by base
	kept   map[string]*sealed // by key: those of the previous picture
	twins  bool               // whether a document is in a sealed segment and elsewhere
	made   bool               // whether what is being loaded is a change
	stale  bool               // whether it must be rebuilt

	live   int
	whole  int   // number of sessions that have documents
	length int64 // of existing documents, in terms
	gone   int   // number of removed young documents
}

// docName identifies a document.
type docName struct {
	id  string
	sum uint32
}

// session is a session with documents.
type session struct {
	last   int32 // the newest, or -1
	docs   int
	length int // in terms
}

const maxDocs = 1 << 24 // that fit in a posting together with a count

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

// newPicture returns an empty picture, which takes over the cached blocks of an
// older one, if there is one.
func newPicture(old *picture) *picture {
	p := &picture{
		names:    names{of: make(map[string]uint32)},
		kindOf:   make(map[[entryLabels - 1]uint32]uint32),
		speakers: make(map[uint32][]string),
		young:    make(map[uint32]docName),
		byID:     make(map[string]uint32),
		terms:    make(map[string]uint32),
		before:   make(map[uint32]int32),
		after:    make(map[uint32]int32),
	}
	if old != nil {
		const fresh = 1 << 13 // about as many as come before the next rebuild
		p.grow(old.live + fresh)
		p.kept = make(map[string]*sealed)
		for _, s := range old.sealed {
			p.kept[s.key] = s
		}
	}
	return p
}

// part is what a segment contributed to a picture.
type part struct {
	numbers []uint32 // of its documents, if it is not sealed
	sealed  *sealed
}

// small reports whether a segment is small enough to be merged with others of
// its level. So is one of an older program, which is not sealed.
func (s *part) small() bool { return s.sealed == nil || s.sealed.bytes < sealBytes }

// has reports whether a segment has one of some documents.
func (s *part) has(numbers map[uint32]bool) bool {
	if s.sealed == nil {
		return slices.ContainsFunc(s.numbers, func(n uint32) bool { return numbers[n] })
	}
	for n := range numbers {
		if n-s.sealed.base < uint32(len(s.sealed.hashes)) {
			return true
		}
	}
	return false
}

// load adds the documents of a segment.
func (p *picture) load(l *reading, s *segment) *part {
	numbers := make([]uint32, len(s.docs))
	fresh := make([]bool, len(s.docs))
	in := p.inSealed(l, s.docs)
	for i := range s.docs {
		e := &s.docs[i]
		n, ok := p.byID[e.id]
		same := ok && p.young[n].sum == e.sum
		for _, o := range in[e.id] {
			if !ok && p.refs[o.number] > 0 {
				n, ok, same = o.number, true, o.sum == e.sum
			}
		}
		if ok && !same {
			p.remove(n) // an older document with that ID
		}
		if !same {
			n = p.add(l, e)
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
	return &part{numbers: numbers}
}

func (p *picture) add(l *reading, e *entry) uint32 {
	var labels [entryLabels]uint32
	for i, text := range e.labels {
		labels[i] = p.names.number(text)
	}
	n := p.row(labels, e.time, e.length, e.flags)
	p.byID[e.id] = n
	p.young[n] = docName{e.id, e.sum}
	p.live++
	p.length += int64(p.lengths[n])
	p.link(l, n, n)
	return n
}

// row gives a document a number, and stores what is known about it.
func (p *picture) row(labels [entryLabels]uint32, at int64, length int, flags uint8) uint32 {
	n := uint32(len(p.refs))
	if who := labels[labelSpeaker]; p.speakers[who] == nil {
		if list := nameWords(p.names.text[who]); len(list) > 0 {
			p.speakers[who] = list
		}
	}
	for len(p.session) < len(p.names.text) {
		p.session = append(p.session, session{last: -1})
	}
	kind := [entryLabels - 1]uint32(labels[1:])
	k, ok := p.kindOf[kind]
	if !ok {
		k = uint32(len(p.kind))
		p.kindOf[kind] = k
		p.kind = append(p.kind, kind)
	}
	p.refs = append(p.refs, 0)
	p.sessions = append(p.sessions, labels[labelSession])
	p.kinds = append(p.kinds, k)
	p.times = append(p.times, at)
	p.lengths = append(p.lengths, uint8(min(length, math.MaxUint8)))
	p.flags = append(p.flags, flags&storedFlags|flagFirst|flagLast)
	return n
}

// label returns the number of a label of a document.
func (p *picture) label(label int, n uint32) uint32 {
	if label == labelSession {
		return p.sessions[n]
	}
	return p.kind[p.kinds[n]][label-1]
}

// seal adds the documents of a sealed segment. One that comes later has
// documents of other segments, which are being removed, so that little remains:
// the picture is rebuilt.
func (p *picture) seal(l *reading, h *header) *part {
	sealed := h.sealed // without the rest of the record
	s := &sealed
	s.base = uint32(len(p.refs))
	if kept := p.kept[s.key]; kept != nil {
		s.blocks = kept.blocks
	}
	s.mask = newMask(len(s.hashes))
	for _, h := range s.hashes {
		s.mask.add(h)
	}
	p.grow(h.docs)
	labels := make([]uint32, len(h.labels))
	for i, text := range h.labels {
		labels[i] = p.names.number(text)
	}
	for d := range h.rows.rows(h.docs, len(h.labels)) {
		var of [entryLabels]uint32
		for i, at := range d.labels {
			of[i] = labels[at]
		}
		p.refs[p.row(of, d.time, d.length, d.flags)] = 1
	}
	p.dropTwins(l, s)
	p.sealed = append(p.sealed, s)
	for i := 0; i < h.docs; {
		first := i
		for i++; i < h.docs && p.refs[s.base+uint32(first)] > 0 && p.refs[s.base+uint32(i)] > 0 && p.sessions[s.base+uint32(i)] == p.sessions[s.base+uint32(first)]; i++ {
		}
		if from := s.base + uint32(first); p.refs[from] > 0 {
			p.link(l, from, s.base+uint32(i-1))
		}
	}
	for n := s.base; n < uint32(len(p.refs)); n++ {
		if p.refs[n] > 0 {
			p.live++
			p.length += int64(p.lengths[n])
		}
	}
	return &part{sealed: s}
}

// grow allocates memory for n documents.
func (p *picture) grow(n int) {
	p.refs = slices.Grow(p.refs, n)
	p.sessions = slices.Grow(p.sessions, n)
	p.kinds = slices.Grow(p.kinds, n)
	p.times = slices.Grow(p.times, n)
	p.lengths = slices.Grow(p.lengths, n)
	p.flags = slices.Grow(p.flags, n)
}

// release drops the references of a segment to documents.
func (p *picture) release(s *part) {
	if p.stale = p.stale || p.twins || s.sealed != nil; p.stale {
		return
	}
	for _, n := range s.numbers {
		if p.refs[n] == 0 {
			continue // replaced by another of the same ID
		}
		if p.refs[n]--; p.refs[n] == 0 {
			p.refs[n] = 1
			p.remove(n)
		}
	}
}

// remove removes a document. Its postings stay until the picture is rebuilt,
// and count in the frequencies of its terms.
func (p *picture) remove(n uint32) {
	p.refs[n] = 0
	if name, ok := p.young[n]; ok {
		delete(p.byID, name.id)
		delete(p.young, n)
		p.gone++
	}
	p.live--
	p.length -= int64(p.lengths[n])
	if p.names.text[p.sessions[n]] == "" {
		return
	}
	s := &p.session[p.sessions[n]]
	if s.docs--; s.docs == 0 {
		p.whole--
	}
	s.length -= int(p.lengths[n])
	after, before := p.previous(n), p.next(n)
	p.join(after, before)
	if before < 0 {
		s.last = after
	}
}

// ready ends a change, and reports whether the picture may stay, or should be
// rebuilt because so much was removed.
func (p *picture) ready() bool {
	p.kept, p.made = nil, true
	return !p.stale && p.gone <= 256+len(p.young)/2
}

// dated calls f with each run of documents of one day.
func (p *picture) dated(f func(first, end int, d date)) {
	const day = 24 * 60 * 60 * 1000
	first, from, d := 0, int64(math.MinInt64), date(0) // of the run; from is the beginning of its day, if it has one
	timed := false
	for n, at := range p.times {
		is := p.flags[n]&flagTimed != 0
		if n > 0 && is == timed && (!is || at >= from && at < from+day) {
			continue
		}
		if n > first {
			f(first, n, d)
		}
		first, timed, d = n, is, 0
		if is {
			d = dateOf(time.UnixMilli(at))
			if from = at - at%day; at < from {
				from -= day
			}
		}
	}
	if n := len(p.times); n > first {
		f(first, n, d)
	}
}

// list has the postings of a term.
type list struct {
	n     int
	young []uint32 // number<<8 | count
	old   []stretch
}

// stretch is postings in a sealed segment.
type stretch struct {
	of       *sealed
	postings []byte
}

func (p *picture) list(l *reading, term string) list {
	var found list
	if at, ok := p.terms[term]; ok {
		found.young = p.postings[at]
		found.n = len(found.young)
	}
	if len(p.sealed) == 0 {
		return found
	}
	h := termHash(term)
	for _, s := range p.sealed {
		if !s.may(h) {
			continue
		}
		if n, postings := s.list(l, term); n > 0 {
			if found.old == nil {
				found.old = make([]stretch, 0, len(p.sealed))
			}
			found.n += n
			found.old = append(found.old, stretch{s, postings})
		}
	}
	return found
}
