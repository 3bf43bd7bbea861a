package search

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// scratch is what a search works in. Between searches all scores are zero.
type scratch struct {
	words    []float32   // by number: the score of its words
	touched  bitmap      // numbers that have one
	scored   int         // how many these are
	dates    []float32   // by number; nil unless the query names a date
	sessions []float32   // by session
	counts   []uint32    // by session: of the term at hand
	visited  []uint32    // sessions that have a score
	seen     []uint32    // sessions that have the term at hand
	list     []candidate // best first
	marks    bitmap      // numbers that were considered
}

// bitmap is a set of numbers.
type bitmap []uint64

func (b bitmap) has(n uint32) bool { return b[n/64]&(1<<(n%64)) != 0 }

func (b bitmap) add(n uint32) { b[n/64] |= 1 << (n % 64) }

// all yields the numbers, ascending.
func (b bitmap) all(yield func(n uint32) bool) {
	for i, word := range b {
		for ; word != 0; word &= word - 1 {
			if !yield(uint32(i*64 + bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}

// candidate is a document that may be what is wanted.
type candidate struct {
	score  float64
	number uint32
}

func (ix *Index) take() *scratch {
	s, _ := ix.scratch.Get().(*scratch)
	if s == nil {
		s = new(scratch)
	}
	if n := len(ix.picture.refs); len(s.words) < n {
		n = (n + n/16 + 1024) / 64 * 64
		s.words = make([]float32, n)
		s.touched, s.marks = make(bitmap, n/64), make(bitmap, n/64)
	}
	if n := len(ix.picture.session); len(s.sessions) < n {
		s.sessions = make([]float32, n+n/4)
		s.counts = make([]uint32, n+n/4)
	}
	return s
}

func (ix *Index) give(s *scratch) {
	for n := range s.touched.all {
		s.words[n] = 0
	}
	for _, n := range s.visited {
		s.sessions[n] = 0
	}
	clear(s.touched)
	clear(s.marks)
	s.scored, s.visited, s.list, s.dates = 0, s.visited[:0], s.list[:0], nil
	ix.scratch.Put(s)
}

// addStretch adds what a term gives the documents of a sealed segment. Nearly all
// time of a search of many documents is spent here: neighbours are of one session
// mostly, and most have the term once.
func (s *scratch) addStretch(p *picture, part stretch, gain float32, discount *[256]float32) {
	docs := uint32(len(part.of.hashes))
	refs := p.refs[part.of.base:][:docs]
	lengths := p.lengths[part.of.base:][:docs]
	sessions := p.sessions[part.of.base:][:docs]
	words := s.words[part.of.base:][:docs]
	session, times := uint32(math.MaxUint32), uint32(0)
	doc := uint32(0)
	for data := part.postings; len(data) > 0; {
		gap, n := uint64(data[0]), 1
		if gap >= 0x80 {
			gap, n = binary.Uvarint(data)
		}
		count := uint64(1)
		if gap&1 != 0 && n > 0 && n < len(data) {
			if count = uint64(data[n]); count < 0x80 {
				n++
			} else {
				var more int
				if count, more = binary.Uvarint(data[n:]); more <= 0 {
					return
				}
				n += more
			}
		}
		if doc += uint32(gap >> 1); n <= 0 || doc >= docs {
			break
		}
		data = data[n:]
		if refs[doc] == 0 {
			continue
		}
		if words[doc] == 0 {
			s.touch(part.of.base + doc)
		}
		f := float32(count)
		words[doc] += gain * f / (f + discount[lengths[doc]])
		if at := sessions[doc]; at != session {
			s.count(session, times)
			session, times = at, 0
		}
		times += uint32(count)
	}
	s.count(session, times)
}

func (s *scratch) touch(n uint32) {
	s.touched.add(n)
	s.scored++
}

// count adds to how often a session has the term at hand.
func (s *scratch) count(session, times uint32) {
	if times == 0 {
		return
	}
	if s.counts[session] == 0 {
		s.seen = append(s.seen, session)
	}
	s.counts[session] += times
}

// best returns the sessions with the highest scores, the best first.
func (s *scratch) best() []uint32 {
	const most = 32
	top := s.seen[:0]
	for _, at := range s.visited {
		score := s.sessions[at]
		if len(top) == most && score <= s.sessions[top[most-1]] {
			continue
		}
		i, _ := slices.BinarySearchFunc(top, score, func(b uint32, score float32) int { return cmp.Compare(score, s.sessions[b]) })
		top = slices.Insert(top[:min(len(top), most-1)], i, at)
	}
	s.seen = top[:0]
	return top
}

// offer puts a candidate in its place among the best, of equals the newest
// first.
func (s *scratch) offer(l *reading, p *picture, c candidate, want int) {
	if n := len(s.list); n == want && c.score < s.list[n-1].score {
		return
	}
	at, _ := slices.BinarySearchFunc(s.list, c, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), p.order(l, b.number, a.number))
	})
	if at == want {
		return
	}
	if len(s.list) == want {
		s.list = s.list[:want-1]
	}
	s.list = slices.Insert(s.list, at, c)
}

// least returns the score of words from which a document is looked at closely.
func (s *scratch) least() float32 {
	if s.scored <= 2*wide {
		return 0
	}
	const bins = 512
	const top = 3
	var count [bins]int
	for n := range s.touched.all {
		count[min(int(s.words[n]*(bins/top)), bins-1)]++
	}
	sum := 0
	for i := bins - 1; i >= 0; i-- {
		if sum += count[i]; sum >= wide {
			return float32(i) * top / bins
		}
	}
	return 0
}
