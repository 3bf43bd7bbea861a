package tiktoken

import "container/heap"

// merge returns the number of tokens of a piece: the bytes of the piece are
// joined pair by pair, the pair of the lowest rank first, of equal ones the
// leftmost, until no pair is a token. Pairs wait in a heap, so that a piece of
// n bytes takes n log n steps.
func merge(piece string, ranks map[string]int) int {
	n := len(piece)
	next := make([]int, n+2) // start of a part → start of the part after it; n ends the piece
	prev := make([]int, n+1)
	var waiting pairs
	for i := range n {
		next[i], prev[i] = i+1, i-1
		if i+2 <= n {
			if rank, ok := ranks[piece[i:i+2]]; ok {
				waiting = append(waiting, pair{rank, i, i + 2})
			}
		}
	}
	next[n], next[n+1] = n+1, n+1
	heap.Init(&waiting)
	wait := func(start int) {
		if start < 0 || next[start] >= n {
			return
		}
		end := next[next[start]]
		if rank, ok := ranks[piece[start:end]]; ok {
			heap.Push(&waiting, pair{rank, start, end})
		}
	}

	parts := n
	for len(waiting) > 0 {
		p := heap.Pop(&waiting).(pair)
		mid := next[p.start]
		if mid < 0 || mid >= n || next[mid] != p.end {
			continue // one of its parts went into another pair
		}
		next[mid] = -1
		next[p.start] = p.end
		prev[p.end] = p.start
		parts--
		wait(p.start)
		wait(prev[p.start])
	}
	return parts
}

// pair is two neighbouring parts that make a token: piece[start:end].
type pair struct{ rank, start, end int }

// pairs is a heap of pairs.
type pairs []pair

func (p pairs) Len() int { return len(p) }
func (p pairs) Less(i, j int) bool {
	return p[i].rank < p[j].rank || p[i].rank == p[j].rank && p[i].start < p[j].start
}
func (p pairs) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *pairs) Push(x any)   { *p = append(*p, x.(pair)) }
func (p *pairs) Pop() any {
	old := *p
	x := old[len(old)-1]
	*p = old[:len(old)-1]
	return x
}
