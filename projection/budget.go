package projection

import (
	"fmt"
	"math/bits"
)

// Budget says how many tokens a layer may fill. The zero value means a
// ready-made layer's own default, or else automatic.
type Budget struct {
	kind     budgetKind
	min, max int
}

type budgetKind uint8

const (
	unsaid budgetKind = iota
	automatic
	exactly
	between
)

// Automatic returns a budget that is an equal share of what the bounded layers
// leave.
func Automatic() Budget { return Budget{kind: automatic} }

// Exactly returns a budget of n tokens: all of them, or [Allocate] fails. With
// 0 the layer shows nothing.
func Exactly(n int) Budget { return Budget{exactly, n, n} }

// Between returns a budget of at most hi and at least lo tokens, or a share of
// lo if all minimums together do not fit.
func Between(lo, hi int) Budget { return Budget{between, lo, hi} }

// Validate returns an error that says what is wrong with the budget.
func (b Budget) Validate() error {
	switch {
	case b.kind == exactly && b.max < 0:
		return fmt.Errorf("budget of exactly %d tokens is negative", b.max)
	case b.min < 0:
		return fmt.Errorf("budget minimum %d is negative", b.min)
	case b.min > b.max:
		return fmt.Errorf("budget minimum %d is over its maximum %d", b.min, b.max)
	}
	return nil
}

// Allocation is the result of [Allocate].
type Allocation struct {
	Available int   // total − reserve − system, at least 0
	Layers    []int // per layer, in the order given
	History   int   // set aside for history; unused tokens of layers are added
}

// AllocationError means that the exact budgets exceed what is available. Raise
// the total, or ask for less.
type AllocationError struct {
	Index int // of the first layer whose exact budget does not fit, in the order given
	Want  int // tokens that it requires
	Left  int // tokens left by the layers before it
}

func (e *AllocationError) Error() string {
	return fmt.Sprintf("allocate budgets: %v: layer %d is to get exactly %d tokens, and %d are left", ErrBudget, e.Index+1, e.Want, e.Left)
}

// Is reports that the error is [ErrBudget].
func (e *AllocationError) Is(target error) bool { return target == ErrBudget }

// Allocate divides total tokens among layers and history. What is available is
// total − reserve − system. Exact budgets come first; if they exceed what is
// available, the error is an [*AllocationError]. Minimums come next; if they
// exceed what is left, all are scaled by the same factor and history gets
// nothing. Of the rest, 60 % is the layers' pool and 40 % is set aside for
// history. Bounded layers share the pool in proportion to headroom (max −
// given), or half of it if there are automatic layers, and never get more than
// their headroom; automatic layers split the rest of the pool. What no layer
// can use goes to history.
func Allocate(total, system, reserve int, layers []Budget) (Allocation, error) {
	a := Allocation{Layers: make([]int, len(layers))}
	a.Available = max(total-max(reserve, 0)-max(system, 0), 0)
	rest := a.Available
	for i, l := range layers {
		if l.kind == exactly {
			if l.max > rest {
				return Allocation{}, &AllocationError{Index: i, Want: l.max, Left: rest}
			}
			a.Layers[i] = max(l.max, 0)
			rest -= a.Layers[i]
		}
	}
	mins, headroom, unbounded := 0, 0, 0
	for _, l := range layers {
		switch l.kind {
		case between:
			mins = add(mins, max(l.min, 0))
			headroom = add(headroom, l.headroom())
		case unsaid, automatic:
			unbounded++
		}
	}
	if mins > rest {
		for i, l := range layers {
			if l.kind == between {
				a.Layers[i] = mulDiv(rest, max(l.min, 0), mins)
			}
		}
		return a, nil
	}
	rest -= mins
	pool := mulDiv(rest, 6, 10)
	shared := pool
	if unbounded > 0 {
		shared = pool / 2
	}
	left := pool
	for i, l := range layers {
		if l.kind != between {
			continue
		}
		a.Layers[i] = max(l.min, 0)
		if h := l.headroom(); h > 0 {
			n := min(mulDiv(shared, h, headroom), h)
			a.Layers[i] += n
			left -= n
		}
	}
	for i, l := range layers {
		if l.kind == unsaid || l.kind == automatic {
			a.Layers[i] = (left + unbounded - 1) / unbounded // the first ones get the odd tokens
			left -= a.Layers[i]
			unbounded--
		}
	}
	a.History = rest - pool + left
	return a, nil
}

// headroom is what a budget can receive in addition to its minimum.
func (b Budget) headroom() int { return max(b.max-max(b.min, 0), 0) }

// mulDiv returns a × b / c, rounded down, without overflow, for b ≤ c.
func mulDiv(a, b, c int) int {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int(q)
}
