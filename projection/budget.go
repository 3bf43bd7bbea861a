package projection

import "math/bits"

// Budget says how many tokens a layer may fill. The zero value is automatic:
// an equal share of what the bounded layers leave.
type Budget struct {
	Min int `json:"min,omitempty"` // given first
	Max int `json:"max,omitempty"` // never exceeded; 0 means unbounded
}

// Exactly returns the budget of n tokens: none guaranteed, never more than n.
func Exactly(n int) Budget { return Budget{Max: n} }

// Between returns the budget that is given at least lo and at most hi tokens.
func Between(lo, hi int) Budget { return Budget{Min: lo, Max: hi} }

// Allocation is what [Allocate] gives.
type Allocation struct {
	Available int   // total − reserve − system, at least 0
	Layers    []int // per layer, in the order given
	History   int   // set aside for history; what layers leave unused comes on top
}

// Allocate divides total tokens among layers and history. What is available is
// total − reserve − system. Minimums come first; if they exceed what is
// available, all are scaled by one factor and history gets nothing. Of the
// rest, 60 % is the layers' pool and 40 % is set aside for history. Bounded
// layers share the pool by headroom (max − given), or half of it where there
// are unbounded layers, never above their headroom; the unbounded ones split
// the rest of the pool. What no layer can take goes to history.
func Allocate(total, system, reserve int, layers []Budget) Allocation {
	a := Allocation{Layers: make([]int, len(layers))}
	a.Available = max(total-max(reserve, 0)-max(system, 0), 0)
	mins := 0
	for _, l := range layers {
		mins = add(mins, max(l.Min, 0))
	}
	if mins > a.Available {
		for i, l := range layers {
			a.Layers[i] = mulDiv(a.Available, max(l.Min, 0), mins)
		}
		return a
	}
	rest := a.Available - mins
	pool := mulDiv(rest, 6, 10)
	headroom, unbounded := 0, 0
	for i, l := range layers {
		a.Layers[i] = max(l.Min, 0)
		if l.Max <= 0 {
			unbounded++
		} else {
			headroom = add(headroom, max(l.Max-a.Layers[i], 0))
		}
	}
	shared := pool
	if unbounded > 0 {
		shared = pool / 2
	}
	left := pool
	for i, l := range layers {
		if h := max(l.Max-a.Layers[i], 0); l.Max > 0 && h > 0 {
			n := min(mulDiv(shared, h, headroom), h)
			a.Layers[i] += n
			left -= n
		}
	}
	for i, l := range layers {
		if l.Max <= 0 {
			n := (left + unbounded - 1) / unbounded // the first ones take the odd tokens
			a.Layers[i] += n
			left -= n
			unbounded--
		}
	}
	a.History = rest - pool + left
	return a
}

// mulDiv returns a × b / c, rounded down, without overflow, for b ≤ c.
func mulDiv(a, b, c int) int {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int(q)
}
