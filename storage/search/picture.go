package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stratamem/strata/internal/levels"
	"github.com/stratamem/strata/storage"
)

// picture is an index as queries want it: documents are numbers, and what is
// wanted of every one of them stands in columns by number, 18 bytes each. The
// rest, postings and ids, is with the parts, in memory of the small ones and in
// the store of the large ones; what of it was wanted lately is kept.
type picture struct {
	parts   []*part // by base
	columns columns
	free    []span // numbers that are of no part, by from

	sessions  []session // by number; the first is that of documents without one
	sessionOf map[string]uint32
	idle      []uint32 // sessions without a name
	empty     []uint32 // sessions that may have no documents any more
	casts     []cast   // by number
	castOf    map[cast]uint32
	speakers  names               // what casts refer to
	speakerOf []uint32            // by cast
	spoken    map[uint32][]string // the words of a speaker's name, by its number

	live   int
	whole  int   // sessions that have documents
	length int64 // of those that live, in terms

	added, dropped []*part // since the picture was ready
	twice          bool    // documents may be in more than one part: look

	terms levels.Cache[string, []uint32] // number<<8 | count, of all parts
	ids   levels.Cache[idBlock, string]  // of large parts
}

// idBlock names a block of ids.
type idBlock struct {
	part *part
	n    int
}

const (
	maxDocs = 1 << 24 // that fit beside a count in a posting

	// held is how many bytes of columns and caches an index keeps in memory: the
	// caches get what the columns leave, but leastCached at least.
	held        = 10 << 20
	leastCached = 2 << 20
	perCached   = 160 // bytes of an item of a cache beside its value
)

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
	p := &picture{
		sessionOf: make(map[string]uint32),
		castOf:    make(map[cast]uint32),
		speakers:  names{of: make(map[string]uint32)},
		spoken:    make(map[uint32][]string),
	}
	p.terms.Size = func(term string, list []uint32) int { return perCached + len(term) + 4*cap(list) }
	p.ids.Size = func(_ idBlock, data string) int { return perCached + len(data) }
	p.session("")
	return p
}

// roomCached returns how many bytes the caches of postings and of ids may have.
func (p *picture) roomCached() (terms, ids int) {
	all := max(held-columnBytes*cap(p.columns.lengths), leastCached)
	return all - all/6, all / 6
}

// settle makes the changes that were noted. What leaves goes first, so that its
// numbers are free again.
func (p *picture) settle(ctx context.Context, r storage.Reader) error {
	large := slices.ContainsFunc(p.added, (*part).large) || slices.ContainsFunc(p.dropped, (*part).large)
	for _, n := range p.dropped {
		p.twice = p.twice || p.overlapped(n)
		p.displace(n)
	}
	if large {
		p.terms.Clear()
		p.ids.Clear()
	} else if len(p.dropped) > 0 {
		gone := p.columns.flags // where all that is free is flagged
		p.terms.Change(func(_ string, list []uint32) []uint32 {
			return slices.DeleteFunc(list, func(o uint32) bool { return gone[o>>8]&flagGone != 0 })
		})
	}
	p.dropped = nil
	for _, n := range p.added {
		p.twice = p.twice || p.overlapped(n)
		p.place(n)
		if !large {
			p.note(n)
		}
	}
	p.added = nil
	p.forget()
	if !p.twice {
		return nil
	}
	p.terms.Clear()
	err := p.findTwice(ctx, r)
	p.twice = err != nil
	return err
}

// note adds the postings of a small part to the terms that are kept.
func (p *picture) note(n *part) {
	most, _ := p.roomCached()
	t := termReader{blocks: n.terms}
	for t.next() {
		p.terms.Update(string(t.term), func(list []uint32) []uint32 {
			list, _ = appendPostings(list, t.list, t.count, n.base, n.docs)
			return list
		}, most)
	}
}

// appends returns how many there have been, as far as they were counted.
func (p *picture) appends() (most uint64) {
	for _, n := range p.parts {
		most = max(most, n.last)
	}
	return most
}

func (p *picture) overlapped(n *part) bool { return slices.ContainsFunc(p.parts, n.overlaps) }

// findTwice marks documents that more than one part has in all of them but one.
func (p *picture) findTwice(ctx context.Context, r storage.Reader) error {
	l := look{ctx: ctx, r: r, p: p, flags: p.columns.flags}
	had := make(map[string]bool)
	parts := slices.Clone(p.parts)
	slices.SortFunc(parts, (*part).compare)
	for _, n := range parts {
		if !p.overlapped(n) {
			continue
		}
		for i := range uint32(n.docs) {
			at := n.base + i
			id := l.id(at)
			if l.err != nil {
				return l.err
			}
			switch gone := p.columns.flags[at]&flagGone != 0; {
			case had[id] && !gone:
				p.columns.flags[at] |= flagGone
				p.uncount(at)
			case !had[id] && gone:
				p.columns.flags[at] &^= flagGone
				p.count(at)
			}
			had[id] = true
		}
	}
	return nil
}

// look is a reading of the picture that may read the store. After the first error
// it says nothing more.
type look struct {
	ctx context.Context
	r   storage.Reader
	p   *picture
	err error

	flags []uint8 // of the picture's columns
	texts shelf
}

// id returns the id of a document.
func (l *look) id(n uint32) string {
	part := l.p.of(n)
	i := int(n - part.base)
	b := &part.ids[i/blockIDs]
	data := b.data
	if data == "" {
		key := idBlock{part, i / blockIDs}
		var ok bool
		if data, ok = l.p.ids.Get(key); !ok {
			if data = l.block(b, blockKey(part.key, "i", key.n)); l.err != nil {
				return ""
			}
			_, most := l.p.roomCached()
			l.p.ids.Put(key, data, most)
		}
	}
	id, err := idAt(data, i%blockIDs)
	if err != nil && l.err == nil {
		l.err = corrupt(part.key, err)
	}
	return id
}

func (l *look) block(b *block, key string) string {
	if l.err != nil {
		return ""
	}
	data, err := b.read(l.ctx, l.r, key)
	if err != nil && l.err == nil {
		if l.err = err; !errors.Is(err, errShort) {
			l.err = fmt.Errorf("read index: %w", err)
		}
	}
	return data
}

// list returns the postings of a term.
func (l *look) list(term string) []uint32 {
	list, ok := l.p.terms.Get(term)
	if ok {
		return list
	}
	total := 0
	type found struct {
		part  *part
		list  string
		count int
	}
	var in []found
	hash := hashTerm(term)
	for _, part := range l.p.parts {
		if !part.filter.may(hash) {
			continue
		}
		at, ok := slices.BinarySearchFunc(part.terms, term, func(b block, term string) int { return cmp.Compare(b.first, term) })
		if !ok {
			at--
		}
		if at < 0 {
			continue
		}
		data := l.block(&part.terms[at], blockKey(part.key, "t", at))
		postings, count, err := findTerm(data, term)
		if err != nil && l.err == nil {
			l.err = corrupt(part.key, err)
		}
		if l.err != nil {
			return nil
		}
		if count > 0 {
			in = append(in, found{part, postings, count})
			total += count
		}
	}
	list = make([]uint32, 0, total)
	for _, f := range in {
		var err error
		if list, err = appendPostings(list, f.list, f.count, f.part.base, f.part.docs); err != nil {
			l.err = corrupt(f.part.key, err)
			return nil
		}
	}
	if total > 0 { // that there are none is soon told
		most, _ := l.p.roomCached()
		l.p.terms.Put(term, list, most)
	}
	return list
}

// alike is how many documents of one session may have one time until their order
// is that in which they came, and not that of their ids, which are in the store.
const alike = 4096

// order compares the places of two documents of a session.
func (l *look) order(a, b uint32) int {
	c := &l.p.columns
	if c.times[a] != c.times[b] {
		return cmp.Compare(c.times[a], c.times[b])
	}
	pa, pb := l.p.of(a), l.p.of(b)
	switch {
	case pa == pb:
		return cmp.Compare(a, b)
	case l.p.sessions[c.sessions[a]].docs > alike:
		return pa.compare(pb)
	}
	return cmp.Compare(l.id(a), l.id(b))
}

// newer compares documents of any sessions by when they are of, and where that
// is the same by when they came.
func (p *picture) newer(a, b uint32) int {
	if c := cmp.Compare(p.columns.times[a], p.columns.times[b]); c != 0 {
		return c
	}
	pa, pb := p.of(a), p.of(b)
	if pa == pb {
		return cmp.Compare(a, b)
	}
	return pa.compare(pb)
}

// previous returns the neighbour before a document in its session, or -1.
func (l *look) previous(n uint32) int32 {
	if l.flags[n]&flagPrevious != 0 {
		return int32(n - 1)
	}
	return l.previousRun(n)
}

// previousRun is previous where the number before does not tell.
func (l *look) previousRun(n uint32) int32 {
	c := &l.p.columns
	s := &l.p.sessions[c.sessions[n]]
	if s.name == "" {
		return -1
	}
	best := int32(-1)
	for _, r := range s.runs {
		if c.times[r.from] > c.times[n] {
			break
		}
		m := r.to // those before m come before n
		switch {
		case n >= r.from && n < r.to:
			m = n
		case c.times[r.to-1] >= c.times[n]:
			m = l.search(r, func(m uint32) bool { return l.order(m, n) >= 0 })
		}
		for m > r.from && c.flags[m-1]&flagGone != 0 {
			m--
		}
		if m > r.from && (best < 0 || l.order(m-1, uint32(best)) > 0) {
			best = int32(m - 1)
		}
	}
	return best
}

// next returns the neighbour after a document in its session, or -1.
func (l *look) next(n uint32) int32 {
	if l.flags[n]&flagNext != 0 {
		return int32(n + 1)
	}
	return l.nextRun(n)
}

// nextRun is next where the number after does not tell.
func (l *look) nextRun(n uint32) int32 {
	c := &l.p.columns
	s := &l.p.sessions[c.sessions[n]]
	if s.name == "" {
		return -1
	}
	best := int32(-1)
	for _, r := range s.runs {
		m := r.from // the first that comes after n
		switch {
		case n >= r.from && n < r.to:
			m = n + 1
		case c.times[r.to-1] < c.times[n]:
			continue
		case c.times[r.from] <= c.times[n]:
			m = l.search(r, func(m uint32) bool { return l.order(m, n) > 0 })
		}
		for m < r.to && c.flags[m]&flagGone != 0 {
			m++
		}
		if m < r.to && (best < 0 || l.order(m, uint32(best)) < 0) {
			best = int32(m)
		}
		if best >= 0 && c.times[r.from] > c.times[best] {
			break
		}
	}
	return best
}

// newest returns the last document of a session, or -1.
func (l *look) newest(s *session) int32 {
	best := int32(-1)
	for _, r := range s.runs {
		m := r.to
		for m > r.from && l.p.columns.flags[m-1]&flagGone != 0 {
			m--
		}
		if m > r.from && (best < 0 || l.order(m-1, uint32(best)) > 0) {
			best = int32(m - 1)
		}
	}
	return best
}

// search returns the first document of a run for which f holds, or its end.
func (l *look) search(r run, f func(n uint32) bool) uint32 {
	lo, hi := r.from, r.to
	for lo < hi {
		if mid := lo + (hi-lo)/2; f(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// number returns that of a document.
func (l *look) number(id string) (uint32, bool) {
	d, err := l.texts.read(l.ctx, id)
	if errors.Is(err, storage.ErrNotFound) {
		return 0, false
	}
	if err != nil {
		l.err = cmp.Or(l.err, err)
		return 0, false
	}
	for _, n := range l.find(&d) {
		if l.p.columns.flags[n]&flagGone == 0 {
			return n, true
		}
	}
	return 0, false
}

// find returns the numbers of a document, by what its record says: one for each
// part that has it.
func (l *look) find(d *Doc) []uint32 {
	at, ok := l.p.sessionOf[d.Session]
	if !ok {
		return nil
	}
	ms := int64(0)
	if !d.Time.IsZero() {
		ms = d.Time.UnixMilli()
	}
	var list []uint32
	for _, r := range l.p.sessions[at].runs {
		times := l.p.columns.times
		for n := l.search(r, func(n uint32) bool { return times[n] >= ms }); n < r.to && times[n] == ms; n++ {
			if l.id(n) == d.ID {
				list = append(list, n)
				break
			}
		}
	}
	return list
}
