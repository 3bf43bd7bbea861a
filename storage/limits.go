package storage

import (
	"fmt"
	"iter"
)

// The most that any store takes. Larger things are refused with an
// [*InvalidError] that names the limit. A store that takes less says so; see
// [LimitsOf].
const (
	MaxKey        = 1 << 10 // bytes of a key
	MaxValue      = 8 << 20 // bytes of a value
	MaxBatch      = 1000    // ops of one Apply
	MaxBatchBytes = 8 << 20 // bytes of all keys and values of one Apply
)

// Limits are what a store takes. A field of 0, or one beyond the constant that it is
// named with, stands for that constant.
type Limits struct {
	Ops   int // of one Apply: MaxBatch
	Batch int // bytes of all keys and values of one Apply of several ops: MaxBatchBytes
	Value int // bytes of a value: MaxValue
	Key   int // bytes of a key: MaxKey
}

// Limiter is the capability behind [LimitsOf].
type Limiter interface {
	// Limits returns what the store takes, always the same. The store refuses
	// what is beyond it as [Limits.ValidateOps] does.
	Limits() Limits
}

// LimitsOf returns what a store takes, with no field 0 or beyond its constant. An
// engine that is no [Limiter] takes as much as the constants say. What wraps a store
// that is one passes them on.
//
// Who makes a batch that grows with what it is given splits it by [Limits.Batches],
// or says by what is refused how much is too much.
func LimitsOf(a Adapter) Limits {
	var l Limits
	if s, ok := a.(Limiter); ok {
		l = s.Limits()
	}
	return l.filled()
}

func (l Limits) filled() Limits {
	fill := func(n *int, most int) {
		if *n <= 0 || *n > most {
			*n = most
		}
	}
	fill(&l.Ops, MaxBatch)
	fill(&l.Batch, MaxBatchBytes)
	fill(&l.Value, MaxValue)
	fill(&l.Key, MaxKey)
	return l
}

// Below returns what is left for keys that are relative to a prefix, as those of a
// [Scoped] are: the other limits as they are, where the prefix counts in a batch once
// for each op.
func (l Limits) Below(prefix string) Limits {
	l = l.filled()
	l.Key = max(l.Key-len(prefix), 1)
	return l
}

// ValidateKey is the function of that name for a store with the limits.
func (l Limits) ValidateKey(key string) error {
	if rule := keyRule(key, l.filled().Key); rule != "" {
		return &InvalidError{Key: key, Rule: rule}
	}
	return nil
}

// ValidateEntry is the function of that name for a store with the limits.
func (l Limits) ValidateEntry(key string, value []byte) error {
	l = l.filled()
	if rule := keyRule(key, l.Key); rule != "" {
		return &InvalidError{Key: key, Rule: rule}
	}
	if len(value) > l.Value {
		return &InvalidError{Key: key, Rule: "value is over " + bytesText(l.Value)}
	}
	if !IsDocument(key) {
		return nil
	}
	if rule := documentRule(value); rule != "" {
		return &InvalidError{Key: key, Rule: rule}
	}
	return nil
}

// ValidateOps is the function of that name for a store with the limits.
func (l Limits) ValidateOps(ops []Op) error {
	l = l.filled()
	if len(ops) > l.Ops {
		return &InvalidError{Rule: fmt.Sprintf("batch has over %d ops", l.Ops)}
	}
	for i := range ops {
		op := &ops[i]
		err := error(nil)
		if op.Delete {
			err = l.ValidateKey(op.Key)
		} else {
			err = l.ValidateEntry(op.Key, op.Value)
		}
		if err != nil {
			return err
		}
	}
	if len(ops) > 1 && sizeOf(ops) > l.Batch {
		return &InvalidError{Rule: "batch is over " + bytesText(l.Batch)}
	}
	return nil
}

// Fit reports whether ops are few and small enough together for one Apply. Each by
// itself may still break a rule.
func (l Limits) Fit(ops []Op) bool {
	l = l.filled()
	return len(ops) <= l.Ops && (len(ops) < 2 || sizeOf(ops) <= l.Batch)
}

// Batches yields ops in their order, in parts that fit one Apply each, as long as
// they can be: for what need not be one atomic change. The parts share ops.
func (l Limits) Batches(ops []Op) iter.Seq[[]Op] {
	l = l.filled()
	return func(yield func([]Op) bool) {
		from, size := 0, 0
		for i := range ops {
			n := ops[i].size()
			if i > from && (i-from == l.Ops || size+n > l.Batch) {
				if !yield(ops[from:i:i]) {
					return
				}
				from, size = i, 0
			}
			size += n
		}
		if from < len(ops) {
			yield(ops[from:])
		}
	}
}

func (op *Op) size() int { return len(op.Key) + len(op.Value) }

func sizeOf(ops []Op) (n int) {
	for i := range ops {
		n += ops[i].size()
	}
	return n
}

func bytesText(n int) string {
	switch {
	case n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
