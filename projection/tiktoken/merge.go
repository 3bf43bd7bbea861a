package tiktoken

import (
	"slices"
	"unicode/utf8"
)

// A piece that is not a token is merged: its bytes are the first parts, and of
// all neighbours that together form a token those of the lowest rank are
// joined, the leftmost among equals, until there are none.

// fewParts is the number of parts up to which each pass looks at all of them,
// however few it joins.
const fewParts = 32

// merge returns the number of tokens of the piece s[:n], which is not a token,
// and appends them to ids unless that is nil. It takes n log n steps.
func (v *vocabulary) merge(s string, n int, ids *[]int) int {
	if n <= fewParts {
		var starts [fewParts + 1]int32
		var ranks [fewParts]uint32
		n, low := v.begin(s, starts[:n+1], ranks[:n])
		for low != none {
			n, low = v.pass(s, starts[:n+1], ranks[:n], low)
		}
		return v.end(s, starts[:n+1], ids)
	}
	r := v.rooms.Get().(*room)
	defer v.rooms.Put(r)
	r.starts, r.ranks = grown(r.starts, n+1), grown(r.ranks, n)
	n, low := v.begin(s, r.starts, r.ranks)
	for before := 2 * n; low != none && (n <= fewParts || n <= before-before/8); {
		before = n
		n, low = v.pass(s, r.starts[:n+1], r.ranks[:n], low)
	}
	if low != none {
		n = r.queue.merge(v, s, r.starts[:n+1], r.ranks[:n])
	}
	return v.end(s, r.starts[:n+1], ids)
}

// room is the memory for merging a long piece: up to 30 bytes for each of its
// bytes.
type room struct {
	starts []int32
	ranks  []uint32
	queue  queue
}

// begin splits a piece, which has as many bytes as ranks, into parts: where
// each begins and the end of the last, and the rank of each with the next. It
// returns the number of parts and the lowest rank.
//
// Parts are bytes, or whole characters if that makes no difference: no token
// extends beyond a character of which it has only a part, so that the bytes of
// the character are joined with nothing else before they are one part.
func (v *vocabulary) begin(s string, starts []int32, ranks []uint32) (n int, low uint32) {
	for i := 0; i < len(ranks); n++ {
		starts[n] = int32(i)
		if s[i] < utf8.RuneSelf {
			i++
		} else {
			i += v.whole(s, i, len(ranks))
		}
	}
	starts[n] = int32(len(ranks))
	low = none
	for i := range n - 1 {
		ranks[i] = v.joined(s, int(starts[i]), int(starts[i+2]))
		low = min(low, ranks[i])
	}
	ranks[n-1] = none
	return n, low
}

// pass joins all pairs of the lowest rank, and returns how many parts are left
// and the rank that is now the lowest.
//
// A property of both vocabularies, which generate proves, allows this: the
// bytes of a token become the token by joins of ever higher rank. So a join
// makes no pair of its own rank or a lower one.
func (v *vocabulary) pass(s string, starts []int32, ranks []uint32, rank uint32) (n int, low uint32) {
	low = none
	before := false // whether the previous part was joined
	for i := 0; i < len(ranks); {
		start, of, joined := starts[i], ranks[i], ranks[i] == rank
		i++
		if joined {
			i++
		}
		if n > 0 {
			if joined || before {
				ranks[n-1] = v.joined(s, int(starts[n-1]), int(starts[i]))
			}
			low = min(low, ranks[n-1])
		}
		starts[n], ranks[n], before = start, of, joined
		n++
	}
	starts[n], ranks[n-1] = starts[len(ranks)], none
	return n, low
}

// end appends parts that are tokens to ids, unless that is nil, and returns
// their number.
func (v *vocabulary) end(s string, starts []int32, ids *[]int) int {
	if ids != nil {
		for i, start := range starts[:len(starts)-1] {
			*ids = append(*ids, int(v.id(s, int(start), int(starts[i+1]))))
		}
	}
	return len(starts) - 1
}

// queue has the pairs of a piece in the order in which they are joined. A part
// is identified by its initial number, and keeps it when joined with the next.
type queue struct {
	next, back []int32 // the parts next to each

	// levels[0] has for each part the rank of it with the next, and its number in
	// the lower half; each further level has the lowest of every eight in the
	// level below. The last has eight. What is beyond the last part is idle.
	levels [maxLevels][]uint64
	top    int
}

// maxLevels is enough for 8¹¹ parts, more than an int32 counts.
const maxLevels = 11

const idle = uint64(none) << 32

func key(rank uint32, part int) uint64 { return uint64(rank)<<32 | uint64(part) }

// merge joins parts as long as tokens result, and returns how many are left:
// that many of starts are valid then, and the end of the last.
func (q *queue) merge(v *vocabulary, s string, starts []int32, ranks []uint32) int {
	n := len(ranks)
	q.fill(ranks)
	for {
		low := lowest(q.levels[q.top], 0)
		if low >= idle {
			break
		}
		part := int(uint32(low))
		gone := int(q.next[part])
		after := int(q.next[gone])
		q.next[part] = int32(after)
		q.levels[0][gone] = idle
		q.levels[0][part] = idle
		if after < n {
			q.back[after] = int32(part)
			q.levels[0][part] = key(v.joined(s, int(starts[part]), int(starts[q.next[after]])), part)
		}
		if before := int(q.back[part]); before >= 0 {
			q.levels[0][before] = key(v.joined(s, int(starts[before]), int(starts[after])), before)
			if before/8 != part/8 {
				q.rise(before / 8)
			}
		}
		q.rise(part / 8)
		if gone/8 != part/8 {
			q.rise(gone / 8)
		}
	}
	left := 0
	for part := 0; part < n; part = int(q.next[part]) {
		starts[left] = starts[part]
		left++
	}
	starts[left] = starts[n]
	return left
}

func (q *queue) fill(ranks []uint32) {
	n := len(ranks)
	q.next, q.back = grown(q.next, n), grown(q.back, n)
	for i := range n {
		q.next[i], q.back[i] = int32(i+1), int32(i-1)
	}
	for q.top = 0; ; q.top++ {
		keys := grown(q.levels[q.top], (n+7)/8*8)
		for i := range keys {
			switch {
			case i >= n:
				keys[i] = idle
			case q.top == 0:
				keys[i] = key(ranks[i], i)
			default:
				keys[i] = lowest(q.levels[q.top-1], i)
			}
		}
		q.levels[q.top] = keys
		if n = len(keys) / 8; n == 1 {
			return
		}
	}
}

// rise updates the levels above after a change in a group of parts.
func (q *queue) rise(group int) {
	for level := range q.top {
		low := lowest(q.levels[level], group)
		if q.levels[level+1][group] == low {
			return
		}
		q.levels[level+1][group] = low
		group /= 8
	}
}

// lowest returns the lowest key of a group of eight.
func lowest(keys []uint64, group int) uint64 {
	g := keys[group*8:][:8]
	return min(g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7])
}

// grown returns a slice of n elements with arbitrary values, reusing s if it is
// long enough.
func grown[E any](s []E, n int) []E {
	return slices.Grow(s[:0], n)[:n]
}
