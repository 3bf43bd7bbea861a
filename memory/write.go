package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/storage"
)

const (
	maxTries = 10
	// lookTimeout bounds the search for a batch whose answer was lost.
	lookTimeout = time.Second
)

// writer is what the batches of a run leave for the next one. It belongs to the
// holder of its token, who makes a batch with the run's cells.
type writer struct {
	token
	recorded bool    // whether the store has the run's record
	doubt    *batch  // may have been applied by the store
	landed   *turned // written, but not in the log yet

	// Reused buffers.
	batch                                                              *batch   // the previous one
	keys                                                               []string // of a batch
	states                                                             stateEncoder
	turnBytes, epochBytes, headBytes, stateBytes, runBytes, layerBytes []byte
	turnFrame, epochFrame                                              []byte // as stored
}

// write makes the changes of a run, and of its parent if one is given, durable
// in one atomic batch, or changes nothing. It merges what other executions
// changed meanwhile, in several tries. It is part of an operation of the run,
// and may run during an operation of the parent.
func (m *Memory) write(ctx context.Context, run, parent *Run) error {
	if err := run.writer.acquire(ctx); err != nil {
		return err
	}
	defer run.writer.release()
	if parent != nil {
		if err := parent.writer.acquire(ctx); err != nil {
			return err
		}
		defer parent.writer.release()
	}
	if err := run.resolve(ctx); err != nil {
		return err
	}
	if parent != nil {
		if err := parent.resolve(ctx); err != nil {
			return err
		}
	}
	run.advance()
	if now := run.account.now(); now.sealed || run.turn == nil && now.outcome == "" {
		return nil // it was written before, but the answer was lost
	}
	b := newBatch(m, run, parent)
	if err := b.writeInTurn(ctx); err != nil {
		return err
	}
	run.advance()
	b.purge(ctx)
	if b.deciding == nil {
		b.clear()
		run.writer.batch = b
	}
	return nil
}

// writeInTurn waits for the batch's turn among the runs of the Memory, and
// writes it.
func (b *batch) writeInTurn(ctx context.Context) error {
	keys := b.keys()
	if err := b.m.queues.enter(ctx, keys); err != nil {
		return err
	}
	defer b.m.queues.leave(keys)
	return b.write(ctx)
}

// write applies the batch in several tries, because other Memories, other
// processes and other writers of the store do not queue.
func (b *batch) write(ctx context.Context) error {
	for try := 1; ; try++ {
		if err := b.build(ctx, try > 1); err != nil {
			return err
		}
		err := b.apply(ctx)
		if err == nil {
			b.landed(true)
			for _, r := range b.runs {
				b.settle(r)
			}
			return nil
		}
		b.conflict = errors.Is(err, ErrConflict)
		switch b.doubt(ctx) {
		case fateApplied:
			return nil
		case fateUnknown:
			return err
		}
		if !b.conflict {
			return err
		}
		b.runs[0].conflicted(ctx)
		if try == maxTries {
			return fmt.Errorf("after %d tries: %w", try, err)
		}
		// The first try relies on what was last read or written, which may simply be
		// outdated.
		if try > 1 {
			if err := pause(ctx, try); err != nil {
				return err
			}
		}
	}
}

// landed records that the batch was applied. known says whether the versions
// that it made are known.
func (b *batch) landed(known bool) {
	b.fate = fateApplied
	note := func(s *lastSeen, moved *atomic.Uint64) {
		if !known {
			s.version = ""
		}
		s.current, s.moved = s.version != "", moved.Load()
	}
	for _, d := range b.drafts {
		if len(d.ops) > 0 || !known {
			note(&d.next.lastSeen, d.parts[0].moved)
		}
	}
	if b.turned != nil {
		note(&b.turned.head, b.runs[0].lineage.moved)
	}
}

// fate is what became of a batch passed to the store.
type fate uint8

const (
	fateUnknown fate = iota
	fateApplied
	fateRefused
)

// doubt determines what became of a batch after an error: the answer may have
// been lost, and a conflict may be one of the batch with itself, if something
// below tried twice. If that cannot be determined now, the runs remember the
// batch, and none of them writes until it can.
func (b *batch) doubt(ctx context.Context) fate {
	b.fate, b.deciding = fateUnknown, newToken()
	for _, r := range b.runs {
		r.writer.doubt = b
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	for _, r := range b.runs {
		if err := r.resolve(ctx); err != nil {
			return fateUnknown
		}
	}
	return b.fate
}

// resolve settles the batch whose fate was unknown.
func (r *Run) resolve(ctx context.Context) error {
	b := r.writer.doubt
	if b == nil {
		return nil
	}
	fate, err := b.decide(ctx)
	if err != nil {
		return fmt.Errorf("find out whether the last try was written: %w", err)
	}
	r.writer.doubt = nil
	if fate == fateApplied {
		b.settle(r)
	}
	return nil
}

// decide returns the batch's fate. Its runs may call it concurrently.
func (b *batch) decide(ctx context.Context) (fate, error) {
	if err := b.deciding.acquire(ctx); err != nil {
		return fateUnknown, err
	}
	defer b.deciding.release()
	if b.fate != fateUnknown {
		return b.fate, nil
	}
	applied, err := b.stands(ctx)
	switch {
	case err != nil:
		return fateUnknown, err
	case applied:
		b.landed(false)
	default:
		b.fate = fateRefused
	}
	return b.fate, nil
}

// stands reports whether the batch is in the store. Each batch writes the run's
// record, and no two write the same bytes: those of one execution differ in its
// step or its end, or, if it continues in two places, in Resumed.
func (b *batch) stands(ctx context.Context) (bool, error) {
	if b.mark == nil {
		return false, nil
	}
	run := b.runs[0]
	record, _, err := b.m.store.Get(ctx, run.runKey)
	gone := errors.Is(err, storage.ErrNotFound)
	switch {
	case err == nil && bytes.Equal(record, b.mark):
		return true, nil
	case err != nil && !gone:
		return false, err
	case b.conflict || b.turned == nil && !gone:
		return false, nil
	}
	// The record may have been rewritten by a resumed execution, or pruned. The
	// turn answers too.
	if b.turned != nil {
		data, _, err := b.m.store.Get(ctx, stored.TurnKey(run.lineage.prefix, b.turned.number))
		if err == nil {
			data, err = pack.Unpack(data)
		}
		if err == nil || !errors.Is(err, storage.ErrNotFound) {
			return err == nil && bytes.Equal(data, run.writer.turnBytes), err
		}
	}
	pruned, err := b.pruned(ctx)
	if err != nil || !pruned {
		return false, err
	}
	if untouched, err := b.untouched(ctx); err != nil || untouched {
		return false, err
	}
	return false, ErrPruned
}

// pruned reports whether the thread may have forgotten what the batch wrote, the
// record of the execution among it.
func (b *batch) pruned(ctx context.Context) (bool, error) {
	run := b.runs[0]
	newest := run.account.now().latest
	if b.turned != nil {
		newest = b.turned.number
	}
	first, err := b.m.firstKept(ctx, run.lineage.prefix)
	if errors.Is(err, storage.ErrNotFound) && run.family.depth > 0 { // a child's lineage is deleted with the turn at which it was spawned
		newest = run.lineage.root
		first, err = b.m.firstKept(ctx, stored.ThreadLineage(run.who.Thread))
	}
	if errors.Is(err, storage.ErrNotFound) {
		return run.lineage.head.there, nil
	}
	return first > newest, err
}

// firstKept returns the first turn of a lineage that is kept.
func (m *Memory) firstKept(ctx context.Context, lineage string) (int, error) {
	key := stored.HeadKey(lineage)
	raw, _, err := m.store.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	h, err := stored.Decode[stored.Head](key, raw)
	if err != nil {
		return 0, err
	}
	return h.First, nil
}

// untouched reports whether a batch of which nothing is kept certainly was not
// applied, or can be applied twice without harm: a state that it was to change
// is still the same.
func (b *batch) untouched(ctx context.Context) (bool, error) {
	shared := false
	for _, d := range b.drafts {
		c := d.parts[0].cell
		if len(d.ops) == 0 || c.kind == ScopeExecution { // its state is pruned too
			continue
		}
		shared = true
		_, version, err := b.m.store.Get(ctx, c.stateKey)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return false, err
		}
		if version == d.base.version {
			return true, nil
		}
	}
	return !shared && b.turned == nil, nil
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
	r.reports.conflicted()
	if r.m.tracing.conflicts.Enabled(ctx) {
		r.m.tracing.conflicts.Add(ctx, 1)
	}
}
