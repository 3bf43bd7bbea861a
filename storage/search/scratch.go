package search

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// scratch is the working memory of a search. Between searches all scores are
// zero.
type scratch struct {
	words    []float32   // by number: the score of its words
	blocks   []bool      // by number / scoreBlock: whether one of them has such a score
	chosen   []uint32    // see choose
	dates    []float32   // by number; nil unless the query names a date
	room     []float32   // buffer for dates
	sessions []float32   // by session
	counts   []uint32    // by session: of the current term
	visited  []uint32    // sessions that have a score
	seen     []uint32    // sessions that have the current term
	list     []candidate // best first
	marks    bitmap      // numbers that were considered
}

// scoreBlock is how many documents are scanned, or skipped, together.
const scoreBlock = 64

// bitmap is a set of numbers.
type bitmap []uint64

func (b bitmap) has(n uint32) bool { return b[n/64]&(1<<(n%64)) != 0 }

func (b bitmap) add(n uint32) { b[n/64] |= 1 << (n % 64) }

// candidate is a document that may be a hit.
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
		s.blocks, s.marks = make([]bool, n/scoreBlock), make(bitmap, n/64)
	}
	if n := len(ix.picture.session); len(s.sessions) < n {
		s.sessions = make([]float32, n+n/4)
		s.counts = make([]uint32, n+n/4)
	}
	return s
}

func (ix *Index) give(s *scratch) {
	for i, scored := range s.blocks {
		if scored {
			clear(s.block(i))
		}
	}
	for _, n := range s.visited {
		s.sessions[n] = 0
	}
	clear(s.blocks)
	clear(s.marks)
	clear(s.dates)
	s.visited, s.list, s.dates = s.visited[:0], s.list[:0], nil
	ix.scratch.Put(s)
}

// datesOf returns the scores of the dates of n documents.
func (s *scratch) datesOf(n int) []float32 {
	if len(s.room) < n {
		s.room = make([]float32, len(s.words))
	}
	return s.room[:n]
}

// block returns the scores of a block.
func (s *scratch) block(i int) []float32 { return s.words[i*scoreBlock:][:scoreBlock] }

// gains is how much documents gain by having a term.
type gains struct {
	gain     float32
	discount *[256]float32 // of a document by its length
	once     [256]float32  // by length: the gain of having it once
}

func gainsOf(gain float32, discount *[256]float32) *gains {
	g := &gains{gain: gain, discount: discount}
	for i := range g.once {
		g.once[i] = g.of(1, uint8(i))
	}
	return g
}

// of returns how much a document of a given length gains by having the term
// count times.
func (g *gains) of(count uint32, length uint8) float32 {
	f := float32(count)
	return g.gain * f / (f + g.discount[length])
}

// addStretch adds the gains of a term to the documents of a sealed segment. A
// search of many documents spends nearly all of its time here. Neighbours
// mostly belong to one session, and most have the term once, so the most
// frequent case is a single byte for the next document.
func (s *scratch) addStretch(p *picture, part stretch, g *gains) {
	base, docs := part.of.base, len(part.of.hashes)
	refs := p.refs[base:][:docs]
	lengths := p.lengths[base:][:docs]
	sessions := p.sessions[base:][:docs]
	words := s.words[base:][:docs]
	session, times := uint32(math.MaxUint32), uint32(0)
	doc := 0
	data := part.postings
	for at := 0; at < len(data); {
		count := uint32(1)
		if b := data[at]; b&0x81 == 0 {
			at++
			doc += int(b >> 1)
		} else {
			gap, n := binary.Uvarint(data[at:])
			if n <= 0 {
				break
			}
			at += n
			doc += int(uint32(gap >> 1))
			if gap&1 != 0 {
				many, n := binary.Uvarint(data[at:])
				if n <= 0 {
					break
				}
				at += n
				count = uint32(many)
			}
		}
		if doc >= len(words) {
			break
		}
		if refs[doc] == 0 {
			continue
		}
		s.blocks[(base+uint32(doc))/scoreBlock] = true
		if count == 1 {
			words[doc] += g.once[lengths[doc]]
		} else {
			words[doc] += g.of(count, lengths[doc])
		}
		if at := sessions[doc]; at != session {
			s.count(session, times)
			session, times = at, 0
		}
		times += count
	}
	s.count(session, times)
}

// count adds to how often a session has the current term.
func (s *scratch) count(session, times uint32) {
	if times == 0 {
		return
	}
	if s.counts[session] == 0 {
		s.seen = append(s.seen, session)
	}
	s.counts[session] += times
}

// best returns the sessions with the highest scores, best first.
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

// offer inserts a candidate among the best, newest first among equals.
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

// choose lists, in ascending order, the documents whose words score at least
// least.
func (s *scratch) choose(least float32) []uint32 {
	s.chosen = s.chosen[:0]
	for i, scored := range s.blocks {
		if !scored {
			continue
		}
		for j, w := range s.block(i) {
			if w >= least && w > 0 {
				s.chosen = append(s.chosen, uint32(i*scoreBlock+j))
			}
		}
	}
	return s.chosen
}

// chooseDated lists the documents with a requested date.
func (s *scratch) chooseDated() []uint32 {
	for n, d := range s.dates {
		if d > 0 {
			s.chosen = append(s.chosen, uint32(n))
		}
	}
	return s.chosen
}

// least returns the score of words from which a document is scored closely.
func (s *scratch) least() float32 {
	const bins = 512
	const top = 3
	var count [bins]int
	scored := 0
	for i, some := range s.blocks {
		if !some {
			continue
		}
		for _, w := range s.block(i) {
			count[min(int(w*(bins/top)), bins-1)]++
			if w > 0 {
				scored++
			}
		}
	}
	if scored <= 2*wide {
		return 0
	}
	sum := 0
	for i := bins - 1; i >= 0; i-- {
		if sum += count[i]; sum >= wide {
			return float32(i) * top / bins
		}
	}
	return 0
}
