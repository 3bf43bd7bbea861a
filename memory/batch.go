package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stratamem/strata/storage"
)

// job is what one batch writes of one run: its states, its record, and, if turn
// is set, its turn at work. A run whose outcome is set ends with it.
type job struct {
	run  *Run
	turn bool
}

const (
	maxTries = 10
	// batchSlack is what a batch holds beside turn records and layers: heads,
	// records of executions, deletions.
	batchSlack = 1 << 18
	maxOps     = storage.MaxBatch - 4*maxPruned
	// maxPruned is how many turns, and keys of children, one commit deletes.
	maxPruned = 8
)

// batch is one try to write jobs.
type batch struct {
	m      *Memory
	jobs   []job
	drafts []*draft
	ops    []storage.Op
	size   int
	turns  []*written // of jobs that write a turn
}

// written is a turn that a batch writes.
type written struct {
	run    *Run
	number int
	first  int  // turn kept from then on
	head   kept // of the lineage
}

// write makes the jobs durable in one atomic batch, or changes nothing. What
// other executions changed meanwhile is merged, in several tries.
func (m *Memory) write(ctx context.Context, jobs ...job) error {
	for i := range jobs {
		token := jobs[i].run.writing
		if err := take(ctx, token); err != nil {
			return err
		}
		defer func() { <-token }()
	}
	b := &batch{m: m, jobs: jobs, drafts: newDrafts(jobs), ops: make([]storage.Op, 0, 8)}
	for try := 1; ; try++ {
		if err := b.build(ctx, try > 1); err != nil {
			return err
		}
		err := b.apply(ctx)
		if err == nil {
			b.settle(ctx)
			return nil
		}
		if !errors.Is(err, ErrConflict) {
			return err
		}
		jobs[0].run.conflicted(ctx)
		if try == maxTries {
			b.distrust()
			return fmt.Errorf("after %d tries: %w", try, err)
		}
		// The first try goes by what was last read or written, which may just be
		// out of date.
		if try > 1 {
			if err := pause(ctx, try); err != nil {
				return err
			}
		}
	}
}

// distrust makes the next batch read again what this one knew.
func (b *batch) distrust() {
	for _, j := range b.jobs {
		j.run.where.current = false
	}
	for _, d := range b.drafts {
		for i := range d.parts {
			p := &d.parts[i]
			p.mu.Lock()
			p.stored.current = false
			p.mu.Unlock()
		}
	}
}

// pause waits a random time that grows with the tries.
func pause(ctx context.Context, try int) error {
	most := min(250*time.Microsecond<<try, 50*time.Millisecond)
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Run) conflicted(ctx context.Context) {
	r.mu.Lock()
	r.report.Conflicts++
	r.mu.Unlock()
	if r.m.tracing.conflicts.Enabled(ctx) {
		r.m.tracing.conflicts.Add(ctx, 1)
	}
}

// newDrafts gathers the pending changes by state key. Where a child and its
// parent share one, the child's changes come first.
func newDrafts(jobs []job) []*draft {
	var drafts []*draft
	add := func(cells ...*cell) {
		if d := newDraft(cells...); d != nil {
			drafts = append(drafts, d)
		}
	}
	for i, c := range jobs[0].run.cells {
		leaves := jobs[0].run.leaves(c)
		if len(jobs) == 1 {
			if !leaves && c.changed() {
				add(c)
			}
			continue
		}
		switch other := jobs[1].run.cells[i]; {
		case leaves:
			add(other)
		case other.prefix == c.prefix:
			add(c, other)
		default:
			add(c)
			add(other)
		}
	}
	return drafts
}

// leaves says whether a layer's data goes when the run ends.
func (r *Run) leaves(c *cell) bool { return r.outcome != "" && c.kind == ScopeExecution }

// build makes the ops of one try. again says that the one before met a conflict.
func (b *batch) build(ctx context.Context, again bool) error {
	b.ops, b.size, b.turns = b.ops[:0], 0, b.turns[:0]
	for _, j := range b.jobs {
		if j.turn {
			if err := j.run.refreshHead(ctx, again); err != nil {
				return err
			}
			if err := b.addTurn(ctx, j.run); err != nil {
				return err
			}
		}
		b.addRun(j)
	}
	fixed := len(b.ops)
	dropped, err := b.addDrafts(ctx, again)
	if err != nil || !dropped {
		return err
	}
	// The reports changed, and the records with them.
	layers := append([]storage.Op(nil), b.ops[fixed:]...)
	b.ops, b.turns = b.ops[:0], b.turns[:0]
	for _, j := range b.jobs {
		if j.turn {
			if err := b.addTurn(ctx, j.run); err != nil {
				return err
			}
		}
		b.addRun(j)
	}
	b.ops = append(b.ops, layers...)
	return nil
}

func (b *batch) add(op storage.Op) {
	b.ops = append(b.ops, op)
	b.size += len(op.Key) + len(op.Value)
}

// addDrafts adds what layers changed, as far as there is room. It says whether
// changes had to be dropped.
func (b *batch) addDrafts(ctx context.Context, again bool) (dropped bool, err error) {
	kept := b.drafts[:0]
	for _, d := range b.drafts {
		fault, err := d.prepare(ctx, again)
		if err != nil {
			return dropped, err
		}
		if room := storage.MaxBatchBytes - batchSlack - b.size; fault == nil && (d.size > room || len(b.ops)+len(d.ops) > maxOps) {
			fault = fmt.Errorf("change: %d ops with %d bytes do not fit the turn's batch", len(d.ops), d.size)
		}
		if fault != nil {
			d.drop()
			dropped = true
			b.jobs[0].run.changeFailed(d.parts[0].cell, "commit", fault)
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

// refreshHead finds out where the lineage stands, if others may have moved it.
func (r *Run) refreshHead(ctx context.Context, again bool) error {
	if r.where.current && !again {
		return nil
	}
	raw, version, err := storage.GetVersion(ctx, r.m.store, r.headKey)
	if errors.Is(err, storage.ErrNotFound) {
		raw, version = nil, ""
	} else if err != nil {
		return err
	}
	switch {
	case string(raw) == string(r.where.raw):
	case raw == nil: // the thread has forgotten the lineage: its turns are numbered on
		r.first = r.last + 1
	default:
		h, err := decodeRecord[head](r.headKey, raw)
		if err != nil {
			return err
		}
		r.last, r.first = h.Turn, h.First
		r.gap = r.last-r.base != r.own
	}
	r.where = kept{raw: raw, version: version, current: true}
	return nil
}

// addTurn adds the record of the turn at work and the lineage's head.
func (b *batch) addTurn(ctx context.Context, r *Run) error {
	n := r.last + 1
	first := max(r.first, 1)
	if keep := r.m.opts.KeepTurns; keep > 0 {
		var err error
		if first, err = b.prune(ctx, r, first, n-2*keep); err != nil {
			return err
		}
	}
	for _, bare := range []bool{false, true} {
		r.texts.begin()
		r.epochBytes = r.appendEpochRecord(r.epochBytes[:0], n, bare)
		r.turnBytes = r.appendRecord(r.turnBytes[:0], n, bare)
		if len(r.turnBytes)+len(r.epochBytes) <= storage.MaxBatchBytes-2*batchSlack {
			break
		}
		if !bare {
			r.warn("the view was too large to be recorded: this turn cannot be replayed")
		}
	}
	w := &written{run: r, number: n, first: first}
	w.head.raw = r.appendHead(make([]byte, 0, 160), n, first)
	b.turns = append(b.turns, w)
	b.add(storage.Put(turnKey(r.lineage, n), r.turnBytes).IfAbsent())
	b.add(storage.Put(r.headKey, w.head.raw).IfVersion(r.where.version).Making(&w.head.version))
	b.add(storage.Put(r.epochKey, r.epochBytes))
	return nil
}

// addRun adds the record of an execution as the batch leaves it.
func (b *batch) addRun(j job) {
	x := j.run.record()
	if j.turn {
		n := j.run.last + 1
		x.Step++
		x.LastTurn = n
		if x.FirstTurn == 0 {
			x.FirstTurn = n
		}
	}
	switch {
	case x.FirstTurn > 0 || x.Outcome == "":
		j.run.runBytes = x.append(j.run.runBytes[:0])
		b.add(storage.Put(j.run.runKey, j.run.runBytes))
	case j.run.recorded: // it leaves nothing to explain
		b.add(storage.Remove(runKey(x.ID)))
	}
	if x.Outcome == "" {
		return
	}
	for _, c := range j.run.cells {
		if c.kind == ScopeExecution && c.stored.raw != nil {
			b.add(storage.Remove(c.stateKey))
		}
	}
}

// apply writes the batch.
func (b *batch) apply(ctx context.Context) error {
	ctx, span := b.m.tracing.operation(ctx, "upsert_memory", b.jobs[0].run.lineage, "")
	var err error
	if len(b.ops) > 0 {
		err = storage.Apply(ctx, b.m.store, b.ops...)
	}
	span.end(len(b.ops), err)
	return err
}

// settle takes note that the batch was applied, and purges what it made
// unreachable.
func (b *batch) settle(ctx context.Context) {
	for _, d := range b.drafts {
		d.settle()
		if d.next.Clears > d.base.Clears {
			_ = d.parts[0].purge(context.WithoutCancel(ctx)) // the next Begin tries again
		}
	}
	for _, w := range b.turns {
		w.run.advance(w)
	}
	for _, j := range b.jobs {
		j.run.recorded = true
	}
}

// advance makes the turn at work a committed one.
func (r *Run) advance(w *written) {
	n := w.number
	r.places = append(r.places, place{start: r.start, turn: n})
	r.start = r.log.Len()
	r.last, r.first = n, w.first
	r.own++
	r.where = w.head
	r.where.current = r.where.version != ""
	r.texts.stored(n)
	r.turn, r.itemBytes = nil, r.turn.encoded[:0]
	r.mu.Lock()
	r.step++
	r.latest = n
	if r.from == 0 {
		r.from = n
	}
	r.report.Turn = n
	r.mu.Unlock()
	if keep := r.m.opts.KeepTurns; keep > 0 && len(r.places) > keep {
		r.forget(len(r.places) - max(keep/2, 1))
	}
}
