package memory

import (
	"fmt"

	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/storage"
)

// bounds keep a turn within one batch that the store accepts. Anything larger
// is refused when it comes in, where the caller can still do something about
// it, so that everything fits by the time of Commit. Bytes are those of
// encodings.
type bounds struct {
	storage.Limits
	item    int            // bytes of one item
	items   int            // of the items of one turn
	outputs int            // put out by all layers in one turn
	fixed   int            // of Options.System, and likewise of Options.Tail
	state   int            // of a layer's state
	id      int            // of an id, escaped
	slack   int            // reserved in a batch for heads, records of executions and deletions
	change  storage.Limits // what each layer may have of a batch, besides its state
	layers  int            // most ops in a batch with those of the layers, before the head is added
}

// The minimum that a memory needs, and maximums that hold however much a store
// accepts.
const (
	leastKey   = 256
	leastValue = 4 << 10
	leastBatch = 16 << 10

	// What is in the prompt, and in the record if there is room.
	leastOutputs = 1 << 18
	leastFixed   = 1 << 16

	maxID    = 256 // so that every key with one or two of them fits storage.MaxKey
	maxPrune = 32  // ops that delete what is old
	heads    = 2   // ops: writing a lineage's head, and deleting the separate epoch of an older format
)

// boundsOf returns the bounds for a store with these limits, or an error if it
// accepts too little for the layers.
func boundsOf(l storage.Limits, layers []Layer) (bounds, error) {
	turn, run := 1+heads, 2 // turn: its record and head; run: the execution's record, and its parent's
	for i := range layers {
		turn += 2 // its state, with a base
		if layers[i].spec.Scope == ScopeExecution {
			run += 2 // deleted at the end
		}
	}
	whole := min(l.Value, l.Batch)
	b := bounds{
		Limits:  l,
		item:    whole / 2,
		items:   whole / 16 * 9,
		outputs: max(whole/8, leastOutputs),
		fixed:   max(whole/32, leastFixed),
		state:   l.Value - 64, // less the rest of the envelope
		id:      min(maxID, (l.Key-len(stored.TurnKey(stored.ChildLineage("", 0, ""), 0)))/2),
		slack:   max(l.Batch/32, min(l.Batch/4, 1<<13)),
		layers:  l.Ops - run - heads - old,
		change:  l,
	}
	// A batch of the usual size has room for any combination of layers.
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

// turnFits reports whether the stored records of a turn and its head, with these
// sizes in bytes, leave enough of a batch for the rest.
func (b *bounds) turnFits(turn, head int) bool {
	return turn <= b.Value && head <= b.Value && turn+head <= b.Batch-2*b.slack
}
