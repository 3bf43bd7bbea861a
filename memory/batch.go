package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/storage"
)

// batch is what one Commit, End or Return makes durable: the changes of a run
// and, when it returns, of its parent. It is built anew for each try.
type batch struct {
	m      *Memory
	runs   []*Run // the run, and its parent when it returns
	both   [2]*Run
	turn   bool // whether it writes the run's current turn
	ends   bool // whether the run ends
	drafts []*draft
	ops    []storage.Op
	size   int
	turned *turned  // nil without turn
	mark   []byte   // the record of the run; nil if applying the batch twice is the same as once
	room   turned   // memory of turned
	over   []*draft // of the previous batch; their memory is reused

	conflict bool // whether the last try met one
	fate     fate
	deciding token // held while looking up fate; nil until needed
}

// turned is the turn that a batch writes.
type turned struct {
	number int
	epoch  []byte   // as stored in the head
	first  int      // first turn that is kept
	head   lastSeen // of the lineage
}

// newBatch returns a batch in the memory of the run's previous one. A batch whose
// answer was lost is not reused: the store may still be working on it.
func newBatch(m *Memory, run, parent *Run) *batch {
	b := run.writer.batch
	if run.writer.batch = nil; b == nil {
		b = new(batch)
	}
	b.m, b.both, b.turn, b.ends = m, [2]*Run{run, parent}, run.turn != nil, run.account.now().outcome != ""
	if b.runs = b.both[:1]; parent != nil {
		b.runs = b.both[:]
	}
	b.gather()
	return b
}

// clear prepares a written batch for reuse.
func (b *batch) clear() {
	for _, d := range slices.Backward(b.drafts) { // so that the first is reused first
		d.clear()
		b.over = append(b.over, d)
	}
	clear(b.ops)
	*b = batch{over: b.over, drafts: b.drafts[:0], ops: b.ops[:0]}
}

// gather collects the pending changes in drafts, one per state key. Where a child
// and its parent share a key, the child's changes come first. A parent's changes are
// only those made by returns: what its current turn changed is written with
// that turn.
func (b *batch) gather() {
	run := b.runs[0]
	for i, c := range run.cells {
		leaves := run.leaves(c)
		if len(b.runs) == 1 {
			if !leaves && c.changed() {
				b.draft(part{run: run, cell: c})
			}
			continue
		}
		parent := b.runs[1]
		switch above := parent.cells[i]; {
		case leaves:
			b.draft(part{run: parent, cell: above, parent: true})
		case above.prefix == c.prefix:
			b.draft(part{run: run, cell: c}, part{run: parent, cell: above, parent: true})
		default:
			b.draft(part{run: run, cell: c})
			b.draft(part{run: parent, cell: above, parent: true})
		}
	}
}

// draft adds a draft of the parts' pending changes, if there are any.
func (b *batch) draft(parts ...part) {
	var d *draft
	if n := len(b.over); n > 0 {
		d, b.over = b.over[n-1], b.over[:n-1]
	} else {
		d = new(draft)
	}
	if d.hold(parts) {
		b.drafts = append(b.drafts, d)
	}
}

// keys returns the keys that the batch changes and that others may change too,
// sorted.
func (b *batch) keys() []string {
	r := b.runs[0]
	keys := r.writer.keys[:0]
	if b.turn {
		keys = append(keys, r.lineage.headKey)
	}
	for _, d := range b.drafts {
		keys = append(keys, d.parts[0].stateKey)
	}
	slices.Sort(keys)
	r.writer.keys = keys
	return keys
}

// leaves reports whether a layer's data is deleted when the run ends.
func (r *Run) leaves(c *cell) bool { return r.account.now().outcome != "" && c.kind == ScopeExecution }

// build returns the ops of one try. again says that the previous try met a
// conflict.
func (b *batch) build(ctx context.Context, again bool) error {
	for {
		b.ops, b.size, b.turned, b.mark = b.ops[:0], 0, nil, nil
		if b.turn {
			if err := b.addTurn(ctx, again); err != nil {
				return err
			}
		}
		fixed := len(b.ops)
		dropped, err := b.addDrafts(ctx, again)
		if err != nil {
			return err
		}
		if dropped {
			continue // the report has changed, and so has the turn's record
		}
		changed := len(b.ops) > fixed
		if b.turn {
			if err := b.addHead(ctx); err != nil {
				return err
			}
		}
		b.addRun(changed)
		if len(b.runs) > 1 {
			b.addParent()
		}
		return nil
	}
}

func (b *batch) add(op storage.Op) {
	b.ops = append(b.ops, op)
	b.size += len(op.Key) + len(op.Value)
}

// addDrafts adds the layers' changes, as far as there is room, and reports
// whether changes had to be dropped.
func (b *batch) addDrafts(ctx context.Context, again bool) (dropped bool, err error) {
	kept := b.drafts[:0]
	for _, d := range b.drafts {
		fault, err := d.prepare(ctx, again)
		if err != nil {
			return dropped, err
		}
		if room := b.m.bounds.Batch - b.m.bounds.slack - b.size; fault == nil && (d.size > room || len(b.ops)+len(d.ops) > b.m.bounds.layers) {
			fault = fmt.Errorf("change: %d ops with %d bytes do not fit the turn's batch", len(d.ops), d.size)
		}
		if fault != nil {
			d.drop()
			dropped = true
			b.runs[0].changeFailed(d.parts[0].cell, "commit", fault)
			continue
		}
		for _, op := range d.ops {
			b.add(op)
		}
		kept = append(kept, d)
	}
	b.drafts = kept
	return dropped, nil
}

// detail is how much of a turn its record has.
type detail uint8

const (
	whole    detail = iota
	unviewed        // without what was projected
	bare            // also without how the turn went: only its items and their cost
)

// addTurn adds the record of the current turn, and encodes its epoch for the head.
func (b *batch) addTurn(ctx context.Context, again bool) error {
	r := b.runs[0]
	if err := r.lineage.refresh(ctx, again); err != nil {
		return err
	}
	n := r.lineage.next()
	var turn, epoch []byte // as stored
	for d := whole; ; d++ {
		r.texts.startMarking()
		shown := 0
		if r.writer.stateBytes = r.writer.stateBytes[:0]; d == whole {
			shown = r.markTexts()
		}
		r.writer.turnBytes = r.appendRecord(r.writer.turnBytes[:0], n, d)
		r.writer.epochBytes = r.appendEpoch(r.writer.epochBytes[:0], n, shown)
		turn, epoch = pack.Pack(&r.writer.turnFrame, r.writer.turnBytes), pack.Pack(&r.writer.epochFrame, r.writer.epochBytes)
		if r.m.bounds.turnFits(len(turn), stored.HeadSize(len(epoch), len(r.id))) || d == bare {
			break
		}
		if d == whole {
			r.reports.warn("the view was too large to be recorded: this turn cannot be replayed")
		}
	}
	b.add(storage.Put(stored.TurnKey(r.lineage.prefix, n), turn).IfAbsent())
	b.room = turned{number: n, epoch: epoch}
	b.turned = &b.room
	b.size += b.headSize()
	return nil
}

// headSize returns an upper bound of the size of the head's operation, which is
// added last.
func (b *batch) headSize() int {
	r := b.runs[0]
	return len(r.lineage.headKey) + stored.HeadSize(len(b.turned.epoch), len(r.id))
}

// addHead adds the deletion of what is old, as far as what the layers changed leaves
// room, and the lineage's head, which says what is kept.
func (b *batch) addHead(ctx context.Context) error {
	r, w := b.runs[0], b.turned
	w.first = max(r.lineage.first, 1)
	if keep := r.m.opts.KeepTurns; keep > 0 {
		var err error
		if w.first, err = b.prune(ctx, r, w.first, w.number-2*keep); err != nil {
			return err
		}
	}
	b.size -= b.headSize()
	h := stored.Head{Turn: w.number, First: w.first, Execution: r.id, Whole: !r.lineage.gap, Epoch: w.epoch}
	r.writer.headBytes = h.Append(r.writer.headBytes[:0])
	w.head.there = true
	b.add(storage.Put(r.lineage.headKey, r.writer.headBytes).IfVersion(r.lineage.head.version).Making(&w.head.version))
	if r.lineage.parted {
		b.add(storage.Remove(r.lineage.epochKey))
	}
	return nil
}

// addRun adds the record of the execution as of this batch, by which the batch
// is recognized. An execution that leaves nothing to explain has no record once
// it has ended; if layers changed with its end, a record is written all the
// same and removed once the end is known to be durable.
func (b *batch) addRun(layersChanged bool) {
	r := b.runs[0]
	x := r.record()
	if b.turn {
		n := r.lineage.next()
		x.Step++
		x.LastTurn = n
		if x.FirstTurn == 0 {
			x.FirstTurn = n
		}
	}
	switch {
	case x.FirstTurn > 0 || x.Outcome == "" || layersChanged:
		r.writer.runBytes = appendRun(r.writer.runBytes[:0], &x)
		b.mark = r.writer.runBytes
		b.add(storage.Put(r.runKey, r.writer.runBytes))
	case r.writer.recorded:
		b.add(storage.Remove(r.runKey))
	}
	if x.Outcome == "" {
		return
	}
	for _, c := range r.cells {
		if c.kind == ScopeExecution && c.stored.raw != nil {
			b.add(storage.Remove(c.stateKey))
			if c.stored.Base != "" {
				b.add(storage.Remove(stored.BaseKey(c.stateKey)))
			}
		}
	}
}

// addParent adds the record of the parent, including the child's usage.
func (b *batch) addParent() {
	p := b.runs[1]
	x := p.record()
	p.writer.runBytes = appendRun(p.writer.runBytes[:0], &x)
	b.add(storage.Put(p.runKey, p.writer.runBytes))
}

// apply applies the batch.
func (b *batch) apply(ctx context.Context) error {
	ctx, span := b.m.tracing.operation(ctx, "upsert_memory", b.runs[0].lineage.prefix, "")
	var err error
	if len(b.ops) > 0 {
		err = b.m.store.Apply(ctx, b.ops...)
		b.move()
	}
	span.end(len(b.ops), err)
	return err
}

// move records that the batch may have changed the keys that it holds.
func (b *batch) move() {
	if b.turned != nil {
		b.runs[0].lineage.moved.Add(1)
	}
	for _, d := range b.drafts {
		if len(d.ops) > 0 {
			d.parts[0].moved.Add(1)
		}
	}
}

// settle updates one of the runs after the batch was applied. Its log follows
// with [Run.advance], in a separate operation.
func (b *batch) settle(r *Run) {
	if r == b.runs[0] {
		b.settleTurn(r)
	} else {
		r.writer.recorded = true
	}
	for _, d := range b.drafts {
		for i := range d.parts {
			if p := &d.parts[i]; p.run == r {
				d.settle(p)
			}
		}
	}
}

// settleTurn is settle for the batch's own run.
func (b *batch) settleTurn(r *Run) {
	r.writer.recorded = b.mark != nil
	r.account.seal(b.ends)
	if w := b.turned; w != nil {
		r.writer.landed = w
		r.account.committed(w.number)
		r.reports.committed(w.number)
	}
}

// purge deletes what the batch made unreachable.
func (b *batch) purge(ctx context.Context) {
	for _, d := range b.drafts {
		if d.next.Clears > d.base.Clears {
			_ = d.parts[0].purge(context.WithoutCancel(ctx)) // the next Begin tries again
		}
	}
}

// advance turns the current turn into a committed one, if it is known to be.
func (r *Run) advance() {
	w := r.writer.landed
	if w == nil {
		return
	}
	r.writer.landed = nil
	r.log.committed(w.number)
	r.lineage.committed(w)
	r.texts.stored(w.number)
	r.turn, r.room = nil, turn{encoded: r.room.encoded[:0]}
	if r.log.trim(r.m.opts.KeepTurns) {
		x := r.record()
		r.account.reach(r.log.older(x.Log()))
	}
}
