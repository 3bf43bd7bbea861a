package search

import "cmp"

// previous returns the neighbour before a document in its session, or -1. It is
// the one with the previous number unless a flag says otherwise.
func (p *picture) previous(n uint32) int32 {
	if p.flags[n]&flagFirst == 0 {
		return int32(n) - 1
	}
	if m, ok := p.before[n]; ok {
		return m
	}
	return -1
}

// next returns the neighbour after a document in its session, or -1.
func (p *picture) next(n uint32) int32 {
	if p.flags[n]&flagLast == 0 {
		return int32(n) + 1
	}
	if m, ok := p.after[n]; ok {
		return m
	}
	return -1
}

// join makes two documents neighbours; one may be missing.
func (p *picture) join(a, b int32) {
	if a >= 0 {
		p.flags[a] &^= flagLast
		delete(p.after, uint32(a))
		if b != a+1 {
			p.flags[a] |= flagLast
			if b >= 0 {
				p.after[uint32(a)] = b
			}
		}
	}
	if b >= 0 {
		p.flags[b] &^= flagFirst
		delete(p.before, uint32(b))
		if a < 0 || a != b-1 {
			p.flags[b] |= flagFirst
			if a >= 0 {
				p.before[uint32(b)] = a
			}
		}
	}
}

// link sets the neighbours of the documents of a session, given in its order.
func (p *picture) link(l *reading, first, last uint32) {
	if p.names.text[p.sessions[first]] == "" {
		return
	}
	s := &p.session[p.sessions[first]]
	if s.docs == 0 {
		p.whole++
	}
	after, before := s.last, int32(-1)
	for n := last; ; n-- {
		s.docs++
		s.length += int(p.lengths[n])
		for after >= 0 && p.order(l, uint32(after), n) > 0 {
			after, before = p.previous(uint32(after)), after
		}
		p.join(after, int32(n))
		p.join(int32(n), before)
		if before < 0 {
			s.last = int32(n)
		}
		if n == first {
			return
		}
		before = int32(n)
	}
}

// order compares the places of two documents of a session.
func (p *picture) order(l *reading, a, b uint32) int {
	if c := cmp.Compare(p.times[a], p.times[b]); c != 0 || a == b {
		return c
	}
	if p.sessions[a] == p.sessions[b] {
		if s := p.sealedOf(a); s != nil && s == p.sealedOf(b) {
			return cmp.Compare(a, b)
		}
	}
	return cmp.Compare(p.id(l, a), p.id(l, b))
}
