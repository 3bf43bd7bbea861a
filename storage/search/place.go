package search

import (
	"math/bits"
	"slices"
	"sort"
)

// dropTwins removes the documents of the newest sealed segment that the picture
// already has: their segments were merged into it and are about to be removed,
// or two writers merged concurrently.
func (p *picture) dropTwins(l *reading, s *sealed) {
	drop := func(i int) {
		p.refs[s.base+uint32(i)] = 0
		p.twins = true
	}
	if len(p.young) > 0 {
		mask := newMask(len(p.young))
		for id := range p.byID {
			mask.add(hashOf(id))
		}
		for i, h := range s.hashes {
			if !mask.has(h) {
				continue
			}
			id, _ := s.name(l, i)
			if _, ok := p.byID[id]; ok {
				drop(i)
			}
		}
	}
	if len(p.sealed) == 0 {
		return
	}
	of := make(map[uint32][]int, len(s.hashes))
	for i, h := range s.hashes {
		of[h] = append(of[h], i)
	}
	for _, o := range p.sealed {
		for j, h := range o.hashes {
			if !s.mask.has(h) || p.refs[o.base+uint32(j)] == 0 {
				continue
			}
			for _, i := range of[h] {
				a, _ := o.name(l, j)
				if b, _ := s.name(l, i); a == b {
					drop(i)
				}
			}
		}
	}
}

// mask is a set of hashes that recognizes nearly all hashes not in it.
type mask struct {
	bits  []uint64
	shift int // from 64 bits to those of a position
}

const maskProbes = 4

func newMask(n int) mask {
	size := 64
	for size < 8*n {
		size *= 2
	}
	return mask{make([]uint64, size/64), 64 - bits.TrailingZeros(uint(size))}
}

// probe returns the position of a hash in a mask, and the hash for the next
// position.
func (m mask) probe(h uint64) (at, next uint64) {
	h *= 0x9e3779b97f4a7c15
	return h >> m.shift, h
}

func (m mask) add(h uint32) {
	x := uint64(h) + 1
	for range maskProbes {
		var at uint64
		at, x = m.probe(x)
		m.bits[at/64] |= 1 << (at % 64)
	}
}

func (m mask) has(h uint32) bool {
	x := uint64(h) + 1
	for range maskProbes {
		var at uint64
		if at, x = m.probe(x); m.bits[at/64]&(1<<(at%64)) == 0 {
			return false
		}
	}
	return true
}

// placed is a document of a sealed segment.
type placed struct {
	number uint32
	sum    uint32
}

// inSealed returns the places of documents in sealed segments, removed or not.
func (p *picture) inSealed(l *reading, docs []entry) map[string][]placed {
	if len(p.sealed) == 0 {
		return nil
	}
	ids := make([]string, len(docs))
	for i := range docs {
		ids[i] = docs[i].id
	}
	return p.places(l, ids)
}

func (p *picture) places(l *reading, ids []string) map[string][]placed {
	var found map[string][]placed
	mask := newMask(max(len(ids), 128))
	hashes := make([]uint32, len(ids))
	for i, id := range ids {
		hashes[i] = hashOf(id)
		mask.add(hashes[i])
	}
	var wanted map[uint32][]string
	for _, s := range p.sealed {
		if !slices.ContainsFunc(hashes, s.mask.has) {
			continue
		}
		for i, h := range s.hashes {
			if !mask.has(h) {
				continue
			}
			if wanted == nil {
				wanted = make(map[uint32][]string, len(ids))
				for _, id := range ids {
					wanted[hashOf(id)] = append(wanted[hashOf(id)], id)
				}
			}
			if list := wanted[h]; list != nil {
				if id, sum := s.name(l, i); slices.Contains(list, id) {
					if found == nil {
						found = make(map[string][]placed)
					}
					found[id] = append(found[id], placed{s.base + uint32(i), sum})
				}
			}
		}
	}
	return found
}

// find returns the numbers and sums of the documents that exist.
func (p *picture) find(l *reading, ids []string) map[string]placed {
	found := make(map[string]placed)
	for id, list := range p.places(l, ids) {
		for _, o := range list {
			if p.refs[o.number] > 0 {
				found[id] = o
			}
		}
	}
	for _, id := range ids {
		if n, ok := p.byID[id]; ok {
			found[id] = placed{n, p.young[n].sum}
		}
	}
	return found
}

// touched returns all numbers of documents.
func (p *picture) touched(l *reading, ids []string) map[uint32]bool {
	numbers := make(map[uint32]bool)
	if len(ids) == 0 {
		return numbers
	}
	for _, list := range p.places(l, ids) {
		for _, o := range list {
			numbers[o.number] = true
		}
	}
	for _, id := range ids {
		if n, ok := p.byID[id]; ok {
			numbers[n] = true
		}
	}
	return numbers
}

// ids returns the IDs of all documents.
func (p *picture) ids(l *reading) []string {
	list := make([]string, 0, p.live)
	for id := range p.byID {
		list = append(list, id)
	}
	for _, s := range p.sealed {
		n := s.base
		for i := len(s.firsts); i < len(s.sums); i++ {
			for c := l.block(s, i); c.next(); n++ {
				if c.sum(); p.refs[n] > 0 {
					list = append(list, string(c.text))
				}
			}
		}
	}
	return list
}

// id returns the ID of a document.
func (p *picture) id(l *reading, n uint32) string {
	if s := p.sealedOf(n); s != nil {
		id, _ := s.name(l, int(n-s.base))
		return id
	}
	return p.young[n].id
}

// sealedOf returns the sealed segment of a document, if any.
func (p *picture) sealedOf(n uint32) *sealed {
	i := sort.Search(len(p.sealed), func(i int) bool { return p.sealed[i].base > n })
	if i == 0 || n-p.sealed[i-1].base >= uint32(len(p.sealed[i-1].hashes)) {
		return nil
	}
	return p.sealed[i-1]
}
