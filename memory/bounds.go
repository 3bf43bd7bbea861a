package memory

import (
	"fmt"

	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/storage"
)

// bounds are what keeps a turn in one batch that the store takes. What is larger is
// refused when it comes in, where it can still be said what to do, so that a Commit
// finds nothing that does not fit. Bytes are those of encodings.
type bounds struct {
	storage.Limits
	item    int            // bytes of one item
	items   int            // of the items of one turn
	outputs int            // of what all layers put out in one turn
	fixed   int            // of Options.System, and of Options.Tail
	state   int            // of a layer's state
	id      int            // of an id, escaped
	slack   int            // that a batch keeps for heads, records of executions and deletions
	change  storage.Limits // what each layer may have of a batch, beside its state
	layers  int            // ops: how many a batch has at most with those of the layers, before it has its head
}

// The least that a memory works with, and the most that some things may have however
// much a store takes.
const (
	leastKey   = 256
	leastValue = 4 << 10
	leastBatch = 16 << 10

	// What is in the prompt, and in the record where that has room for it.
	leastOutputs = 1 << 18
	leastFixed   = 1 << 16

	maxID    = 256 // so that every key that holds one or two of them fits storage.MaxKey
	maxPrune = 32  // ops that delete what is old
)

// boundsOf returns the bounds for a store with limits, or an error if it takes too
// little for the layers.
func boundsOf(l storage.Limits, layers []Layer) (bounds, error) {
	turn, run := 3, 2 // the turn with head and epoch; the execution's record, and its parent's
	for i := range layers {
		turn += 2 // its state, with a base
		if layers[i].spec.Scope == ScopeExecution {
			run += 2 // which go at the end
		}
	}
	whole := min(l.Value, l.Batch)
	b := bounds{
		Limits:  l,
		item:    whole / 2,
		items:   whole / 16 * 9,
		outputs: max(whole/8, leastOutputs),
		fixed:   max(whole/32, leastFixed),
		state:   l.Value - 64, // what of an envelope is no state has less
		id:      min(maxID, (l.Key-len(stored.TurnKey(stored.ChildLineage("", 0, ""), 0)))/2),
		slack:   max(l.Batch/32, min(l.Batch/4, 1<<13)),
		layers:  l.Ops - run - 1 - old,
		change:  l,
	}
	// A batch of the usual size has room for whatever layers come together with.
	n := max(len(layers), 1)
	if l.Ops < storage.MaxBatch {
		b.change.Ops = max((l.Ops-turn-run-old)/n, 1)
	}
	if l.Batch < storage.MaxBatchBytes {
		b.change.Batch = max((l.Batch-2*b.slack-min(l.Value, l.Batch/4))/n, l.Batch/8)
	}
	const advice = "use another store"
	switch {
	case l.Key < leastKey:
		return b, fmt.Errorf("the store takes keys of %d bytes, and memory needs %d: %s", l.Key, leastKey, advice)
	case l.Value < leastValue:
		return b, fmt.Errorf("the store takes values of %d bytes, and memory needs %d: %s", l.Value, leastValue, advice)
	case l.Batch < leastBatch:
		return b, fmt.Errorf("the store takes batches of %d bytes, and memory needs %d: %s", l.Batch, leastBatch, advice)
	case l.Ops < turn+run+old:
		return b, fmt.Errorf("the store takes batches of %d operations, and %d layers need %d: use fewer layers, or another store",
			l.Ops, len(layers), turn+run+old)
	}
	return b, nil
}

// turnFits reports whether the records of a turn and its epoch, as they are stored,
// leave enough of a batch for the rest.
func (b *bounds) turnFits(turn, epoch []byte) bool {
	return len(turn) <= b.Value && len(epoch) <= b.Value && len(turn)+len(epoch) <= b.Batch-2*b.slack
}
