package memory

import (
	"context"
	"errors"
	"strings"

	"github.com/stratamem/strata/storage"
)

// prune adds the deletion of turns from first up to a number, and of what goes
// with them, a few at a time. It returns the first turn that is kept.
func (b *batch) prune(ctx context.Context, r *Run, first, upTo int) (int, error) {
	if first > upTo {
		return first, nil
	}
	for n := 0; first <= upTo && n < maxPruned; n++ {
		key := turnKey(r.lineage, first)
		data, _, err := r.m.store.Get(ctx, key)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return first, err
		}
		if err == nil {
			b.add(storage.Remove(key))
			if err := b.pruneRun(ctx, r, key, data, first); err != nil {
				return first, err
			}
		}
		first++
	}
	if r.depth > 0 {
		return first, nil
	}
	runs := r.lineage + "runs/"
	for key, err := range r.m.store.List(ctx, runs) {
		if err != nil {
			return first, err
		}
		root, rest, _ := strings.Cut(key[len(runs):], "/")
		if root >= pad(first) || len(b.ops) > 3*maxPruned {
			break
		}
		b.add(storage.Remove(key))
		if segment, _, _ := strings.Cut(rest, "/"); strings.HasSuffix(key, "/head") {
			id, err := storage.UnescapeSegment(segment)
			if err != nil {
				return first, err
			}
			if err := b.pruneExecution(ctx, r, id); err != nil {
				return first, err
			}
		}
	}
	return first, nil
}

// pruneRun adds the deletion of an execution whose last turn goes.
func (b *batch) pruneRun(ctx context.Context, r *Run, key string, data []byte, turn int) error {
	t, err := decodeRecord[Turn](key, data)
	if err != nil {
		return err
	}
	if t.Execution == r.id {
		return nil
	}
	x, err := loadExecution(ctx, r.m.store, t.Execution)
	if errors.Is(err, ErrUnknownExecution) {
		return nil
	}
	if err != nil {
		return err
	}
	if x.LastTurn != turn {
		return nil
	}
	return b.pruneExecution(ctx, r, x.ID)
}

// pruneExecution adds the deletion of an execution's record, and of the states
// that it left if it never ended.
func (b *batch) pruneExecution(ctx context.Context, r *Run, id string) error {
	b.add(storage.Remove(runKey(id)))
	for i := range r.m.layers {
		layer := &r.m.layers[i].spec
		if layer.Scope != ScopeExecution {
			continue
		}
		for key, err := range r.m.store.List(ctx, scopeKey(layer.ID, ScopeExecution, id)) {
			if err != nil {
				return err
			}
			if len(b.ops) > maxOps/2 {
				break
			}
			b.add(storage.Remove(key))
		}
	}
	return nil
}

// maxUnpurged is how many generations back purge looks: one crash leaves one.
const maxUnpurged = 3

// purge deletes records that clears made unreachable.
func (c *cell) purge(ctx context.Context) error {
	for clears := max(c.stored.Clears-maxUnpurged, 0); clears < c.stored.Clears; clears++ {
		if err := c.remove(ctx, recordsPrefix(c.prefix, clears)); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes all keys with a prefix, a batch at a time.
func (c *cell) remove(ctx context.Context, prefix string) error {
	var ops []storage.Op
	for key, err := range c.m.store.List(ctx, prefix) {
		if err != nil {
			return err
		}
		if ops = append(ops, storage.Remove(key)); len(ops) == maxOps {
			if err := c.m.removeAll(ctx, prefix, ops); err != nil {
				return err
			}
			ops = ops[:0]
		}
	}
	return c.m.removeAll(ctx, prefix, ops)
}

func (m *Memory) removeAll(ctx context.Context, prefix string, ops []storage.Op) error {
	if len(ops) == 0 {
		return nil
	}
	ctx, span := m.tracing.operation(ctx, "delete_memory", prefix, "")
	err := m.store.Apply(ctx, ops...)
	span.end(len(ops), err)
	return err
}
