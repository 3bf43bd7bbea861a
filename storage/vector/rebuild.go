package vector

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/stratamem/strata/internal/levels"
	"github.com/stratamem/strata/storage"
)

// Check reads a whole index and yields what is wrong with it: unreadable
// segments, and segments of another model or of other dimensions than the
// first. An error means that it could not look. The index has lost what a
// damaged segment held; rebuild it.
func Check(ctx context.Context, r storage.Reader) iter.Seq2[storage.Fault, error] {
	return func(yield func(storage.Fault, error) bool) {
		var first *segment
		for e, err := range r.Scan(ctx, "s/", nil) {
			if err != nil {
				yield(storage.Fault{}, fmt.Errorf("read vectors: %w", err))
				return
			}
			s, err := decodeSegment(e.Value)
			reason := ""
			switch {
			case err != nil:
				reason = "segment cannot be read: " + err.Error()
			case first == nil:
				first = s
			case s.model != first.model || s.dim != first.dim:
				reason = fmt.Sprintf("segment is of model %q with %d dimensions, others of %q with %d", s.model, s.dim, first.model, first.dim)
			}
			if reason != "" && !yield(storage.Fault{Key: e.Key, Reason: reason, Repair: "run strata index rebuild --vectors"}, nil) {
				return
			}
		}
	}
}

// Rebuild empties an index, whatever its model and state, fills it from source,
// and returns the number of points: after a change of the model, or after
// damage. It works in batches. If source or the store fails, or ctx ends, the
// index has the points so far and is sound: continue with Upsert of those that
// are [Index.Missing]. Nobody else may write the index meanwhile.
func (ix *Index) Rebuild(ctx context.Context, s storage.Scoped, source iter.Seq2[Point, error]) (int, error) {
	if err := levels.Clear(ctx, s); err != nil {
		return 0, fmt.Errorf("rebuild vectors: %w", err)
	}
	most := min(target, mostChange(s.Limits())/2)
	n, size := 0, 0
	var points []Point
	flush := func() error {
		ops, err := ix.Upsert(ctx, s, points...)
		if err == nil {
			err = s.Apply(ctx, ops...)
		}
		if err == nil {
			n += len(points)
		}
		points, size = points[:0], 0
		return err
	}
	for p, err := range source {
		if err != nil {
			if err := flush(); err != nil {
				return n, err
			}
			return n, fmt.Errorf("rebuild vectors: %w", err)
		}
		p.Vector = slices.Clone(p.Vector)
		if next := ix.sizeOf(&p); size > 0 && size+next > most {
			if err := flush(); err != nil {
				return n, err
			}
		}
		points = append(points, p)
		size += ix.sizeOf(&p)
	}
	return n, flush()
}

// Compact rewrites the segments of an index that hold deleted or superseded
// vectors, so that these disappear from the store, and merges small segments.
// It works in batches, each of which leaves the index unchanged to all readers.
// Nobody else may write the index meanwhile.
func (ix *Index) Compact(ctx context.Context, s storage.Scoped) error {
	// Once no deleted vectors are left, deletions can be dropped too.
	for range 2 {
		groups, err := ix.groups(ctx, s)
		if err != nil {
			return err
		}
		for _, keys := range groups {
			if err := ix.rewrite(ctx, s, keys); err != nil {
				return err
			}
		}
	}
	return nil
}

// groups returns the segments that have something to drop or are small, in
// groups that become one segment each.
func (ix *Index) groups(ctx context.Context, r storage.Reader) ([][]string, error) {
	if err := ix.set.View(ctx, r); err != nil {
		return nil, err
	}
	defer ix.set.RUnlock()
	var groups [][]string
	l := r.Limits()
	weight, most := 0, min(ix.full(levels.Levels-1), mostChange(l)/(2*ix.dim+maxName/4+perEntry)*vectorWeight)
	for level := range levels.Levels {
		keys, _ := ix.keys(level)
		for _, key := range keys {
			part := ix.set.Parts[key]
			if part.dead+part.deletions == 0 && level == levels.Levels-1 {
				continue
			}
			if groups == nil || weight+part.weight > most || 2*(len(groups[len(groups)-1])+1)+2*marks > l.Ops {
				groups, weight = append(groups, nil), 0
			}
			weight += part.weight
			groups[len(groups)-1] = append(groups[len(groups)-1], key)
		}
	}
	return groups, nil
}

// rewrite merges segments into one of the highest level.
func (ix *Index) rewrite(ctx context.Context, s storage.Scoped, keys []string) error {
	ops, err := ix.rewritten(ctx, s, keys)
	if err != nil {
		return err
	}
	return s.Apply(ctx, ops...)
}

func (ix *Index) rewritten(ctx context.Context, r storage.Reader, keys []string) ([]storage.Op, error) {
	if err := ix.set.View(ctx, r); err != nil {
		return nil, err
	}
	defer ix.set.RUnlock()
	parts, err := ix.segments(ctx, r, keys)
	if err != nil {
		return nil, err
	}
	var ops []storage.Op
	for _, key := range keys {
		ops = append(ops, storage.Remove(key))
	}
	return ix.set.Mark(ix.put(r, ops, ix.merge(parts, math.MaxInt64), levels.Levels-1)), nil
}
