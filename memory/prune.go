package memory

import (
	"context"
	"errors"
	"strings"

	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/storage"
)

const (
	maxPruned = 8 // turns that one commit deletes
	old       = 2 // ops: a turn, or the head of a child, each with its execution
)

// deletions counts what a batch has besides the deletion of what is old.
type deletions struct {
	b         *batch
	ops, size int // ops and bytes without deletions
}

// fit reports whether the batch can delete n keys more.
func (d *deletions) fit(n int) bool {
	return len(d.b.ops)+n <= d.b.m.bounds.layers+old && d.b.size-d.size <= d.b.m.bounds.slack/2
}

// more reports whether the batch should delete another old object. The rest is
// left to later commits.
func (d *deletions) more() bool { return d.fit(old) && len(d.b.ops)-d.ops+old <= maxPrune }

// prune adds the deletion of turns from first up to a number, and of what
// belongs to them, a few at a time. It returns the first turn that is kept.
func (b *batch) prune(ctx context.Context, r *Run, first, upTo int) (int, error) {
	if first > upTo {
		return first, nil
	}
	d := &deletions{b, len(b.ops), b.size}
	for n := 0; first <= upTo && n < maxPruned && d.more(); n++ {
		key := stored.TurnKey(r.lineage.prefix, first)
		data, _, err := r.m.store.Get(ctx, key)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return first, err
		}
		if err == nil {
			b.add(storage.Remove(key))
			if err := d.pruneRun(ctx, r, key, data, first); err != nil {
				return first, err
			}
		}
		first++
	}
	if r.family.depth > 0 {
		return first, nil
	}
	runs := stored.ChildrenPrefix(r.lineage.prefix)
	for key, err := range r.m.store.List(ctx, runs) {
		if err != nil {
			return first, err
		}
		root, rest, _ := strings.Cut(key[len(runs):], "/")
		if root >= stored.Pad(first) || !d.more() {
			break
		}
		b.add(storage.Remove(key))
		if segment, _, _ := strings.Cut(rest, "/"); strings.HasSuffix(key, "/head") {
			id, err := storage.UnescapeSegment(segment)
			if err != nil {
				return first, err
			}
			if err := d.pruneExecution(ctx, r, id); err != nil {
				return first, err
			}
		}
	}
	return first, nil
}

// pruneRun adds the deletion of an execution whose last turn is deleted.
func (d *deletions) pruneRun(ctx context.Context, r *Run, key string, data []byte, turn int) error {
	t, err := stored.Decode[thread.Turn](key, data)
	if err != nil {
		return err
	}
	if t.Execution == r.id {
		return nil
	}
	x, err := thread.FindRun(ctx, r.m.store, t.Execution)
	if errors.Is(err, ErrUnknownExecution) {
		return nil
	}
	if err != nil {
		return err
	}
	if x.LastTurn != turn {
		return nil
	}
	return d.pruneExecution(ctx, r, x.ID)
}

// pruneExecution adds the deletion of an execution's record, and of the states
// that it left if it never ended.
func (d *deletions) pruneExecution(ctx context.Context, r *Run, id string) error {
	d.b.add(storage.Remove(stored.RunKey(id)))
	for i := range r.m.layers {
		layer := &r.m.layers[i].spec
		if layer.Scope != ScopeExecution {
			continue
		}
		removed, err := r.m.listed(ctx, stored.ScopeKey(layer.ID, string(ScopeExecution), id))
		if err != nil {
			return err
		}
		if !d.fit(len(removed)) { // delete these first: nothing finds them without the record of the execution
			if err := r.m.removeAll(ctx, id, removed); err != nil {
				return err
			}
			continue
		}
		for _, op := range removed {
			d.b.add(op)
		}
	}
	return nil
}

// maxUnpurged is how many generations back purge looks: one crash leaves one.
const maxUnpurged = 3

// purge deletes records that clears made unreachable.
func (c *cell) purge(ctx context.Context) error {
	for clears := max(c.stored.Clears-maxUnpurged, 0); clears < c.stored.Clears; clears++ {
		if err := c.remove(ctx, stored.RecordsPrefix(c.prefix, clears)); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes all keys with a prefix, a batch at a time.
func (c *cell) remove(ctx context.Context, prefix string) error {
	ops, err := c.m.listed(ctx, prefix)
	if err != nil {
		return err
	}
	return c.m.removeAll(ctx, prefix, ops)
}

// listed returns the deletions of all keys with a prefix.
func (m *Memory) listed(ctx context.Context, prefix string) (ops []storage.Op, err error) {
	for key, err := range m.store.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		ops = append(ops, storage.Remove(key))
	}
	return ops, nil
}

// removeAll applies deletions, a batch at a time.
func (m *Memory) removeAll(ctx context.Context, prefix string, ops []storage.Op) error {
	for part := range m.bounds.Batches(ops) {
		ctx, span := m.tracing.operation(ctx, "delete_memory", prefix, "")
		err := m.store.Apply(ctx, part...)
		span.end(len(part), err)
		if err != nil {
			return err
		}
	}
	return nil
}
