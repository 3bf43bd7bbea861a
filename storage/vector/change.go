package vector

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stratamem/strata/internal/levels"
	"github.com/stratamem/strata/storage"
)

const (
	perEntry   = 20  // most bytes in addition to a vector and its ID
	perSegment = 600 // most bytes in addition to the entries of a segment
	marks      = 2   // ops that record that the index changed
)

// mostChange is how many bytes of vectors, IDs and their overhead a change may
// have: half of a batch.
func mostChange(l storage.Limits) int { return l.Batch / 2 }

func errLarge(l storage.Limits) error {
	return &storage.InvalidError{Rule: fmt.Sprintf("change of an index has over %d bytes of vectors and ids: make several", mostChange(l))}
}

// checkSize returns an error if points are too many for a change, given the
// limits of the store, or one is too large for a value.
func (ix *Index) checkSize(l storage.Limits, points []Point) error {
	size := 0
	for i := range points {
		n := ix.sizeOf(&points[i])
		if n+perSegment > l.Value {
			return &storage.InvalidError{Rule: fmt.Sprintf("vector of %d dimensions takes %d bytes, and the store takes values of %d: use fewer dimensions", ix.dim, n+perSegment, l.Value)}
		}
		size += n
	}
	if size > mostChange(l) {
		return errLarge(l)
	}
	return nil
}

func (ix *Index) sizeOf(p *Point) int { return 2*ix.dim + len(p.ID) + perEntry }

// Upsert returns the operations that add points, with keys relative to the
// index. A point replaces one with the same ID in the index, and of two points
// with the same ID the last counts. There are two or three operations, or some
// 70 if segments are merged, which adds at most 3 MiB to the size of the
// vectors. The vectors and their IDs may have up to 4 MiB: 5,000 vectors of 384
// dimensions. Points that the index already has are left out; if there are no
// others, there are no operations.
func (ix *Index) Upsert(ctx context.Context, r storage.Reader, points ...Point) ([]storage.Op, error) {
	if err := ix.checkSize(r.Limits(), points); err != nil {
		return nil, err
	}
	list := make([]entry, len(points))
	for i, p := range points {
		if p.ID == "" || len(p.ID) > maxName {
			return nil, &storage.InvalidError{Rule: "id of a vector is empty or over 300 bytes"}
		}
		kept, err := ix.rotation.keep(p.Vector, ix.dim)
		if err != nil {
			return nil, err
		}
		list[i] = entry{id: p.ID, vector: kept, stamp: stamp{time: uint64(i), sum: sumOf(kept)}}
	}
	sortEntries(list) // the last point of an ID first
	list = slices.CompactFunc(list, func(a, b entry) bool { return a.id == b.id })
	return ix.change(ctx, r, func(p *picture) []entry {
		return slices.DeleteFunc(list, func(e entry) bool {
			row, ok := p.find(e.id)
			return ok && slices.Equal(p.vector(row), e.vector)
		})
	})
}

// Delete returns the operations that delete the vectors with these ids, as
// Upsert does. Unknown IDs are ignored. A deleted vector is no longer found;
// its bytes stay in the store until their segment is merged, or until
// [Index.Compact].
func (ix *Index) Delete(ctx context.Context, r storage.Reader, ids ...string) ([]storage.Op, error) {
	size := 0
	for _, id := range ids {
		size += len(id) + perEntry
	}
	if l := r.Limits(); size > mostChange(l) {
		return nil, errLarge(l)
	}
	now := time.Now().Unix()
	return ix.change(ctx, r, func(p *picture) []entry {
		var list []entry
		for _, id := range ids {
			if _, ok := p.find(id); ok {
				list = append(list, entry{id: id, stamp: stamp{sum: gone}, deleted: now})
			}
		}
		sortEntries(list)
		return slices.CompactFunc(list, func(a, b entry) bool { return a.id == b.id })
	})
}

// change returns the operations that add entries to the index, newer than
// everything it has.
func (ix *Index) change(ctx context.Context, r storage.Reader, entries func(*picture) []entry) ([]storage.Op, error) {
	if err := ix.set.View(ctx, r); err != nil {
		return nil, err
	}
	defer ix.set.RUnlock()
	list := entries(ix.picture)
	if len(list) == 0 {
		return nil, nil
	}
	for i := range list {
		list[i].time = ix.picture.time + 1
	}
	var ops []storage.Op
	for len(list) >= 2*ix.most() {
		s := ix.segment(list[:ix.most()])
		ops = ix.put(r, ops, s, ix.level(s.weight()))
		list = list[ix.most():]
	}
	return ix.grow(ctx, r, ops, ix.segment(list))
}

func (ix *Index) segment(entries []entry) *segment {
	return &segment{model: ix.model, dim: ix.dim, entries: entries}
}

const (
	target   = 1 << 20 // bytes of vectors that make a segment of the highest level
	mostRows = 1024    // or this many vectors, if they are smaller
	// grace is how long, in seconds, a deletion is kept at least: longer than any
	// writer takes from reading the index to applying its operations.
	grace = 24 * 60 * 60
)

// most returns how many vectors make a segment of the highest level.
func (ix *Index) most() int { return min(target/(2*ix.dim), mostRows) }

// fanIn returns how many vectors, or segments, of level 0 make one of level 1.
func (ix *Index) fanIn() int { return int(math.Sqrt(float64(ix.most()))) }

// full returns the weight from which the segments of a level are merged.
func (ix *Index) full(level int) int {
	if level == 0 {
		return ix.fanIn() * vectorWeight
	}
	return ix.most() * vectorWeight
}

// level returns the level of a segment of a given weight.
func (ix *Index) level(weight int) int {
	level := 0
	for level < levels.Levels-1 && weight >= ix.full(level) {
		level++
	}
	return level
}

// grow adds to ops those that add a segment, and those that merge others if
// there are enough, or else rewrite one that is mostly superseded.
func (ix *Index) grow(ctx context.Context, r storage.Reader, ops []storage.Op, s *segment) ([]storage.Op, error) {
	level := ix.level(s.weight())
	before := time.Now().Unix() - grace
	merged := false
	for level < levels.Levels-1 {
		keys, weight := ix.keys(level)
		if len(keys)+1 < ix.fanIn() && weight+s.weight() < ix.full(level) {
			break
		}
		keys = keys[:min(len(keys), 4*ix.fanIn())] // other writers may have added more
		if keys = ix.mergeable(r.Limits(), keys, len(ops), s); keys == nil {
			break
		}
		parts, err := ix.segments(ctx, r, keys)
		if errors.Is(err, storage.ErrNotFound) {
			break // another writer is merging them
		}
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			ops = append(ops, storage.Remove(key))
		}
		s = ix.merge(append(parts, s), before)
		level = max(level+1, ix.level(s.weight()))
		merged = true
	}
	ops = ix.put(r, ops, s, level)
	if key := ix.wasteful(); key != "" && !merged && len(ops)+2+marks <= r.Limits().Ops {
		parts, err := ix.segments(ctx, r, []string{key})
		if err == nil {
			s := ix.merge(parts, before)
			ops = ix.put(r, append(ops, storage.Remove(key)), s, ix.level(s.weight()))
		} else if !errors.Is(err, storage.ErrNotFound) {
			return nil, err
		}
	}
	return ix.set.Mark(ops), nil
}

// mergeable returns those of keys that can be merged with s in a change that
// has some ops already: each needs an op to remove it and one to store as much
// again. It returns nil if there is not enough room.
func (ix *Index) mergeable(l storage.Limits, keys []string, ops int, s *segment) []string {
	perVector := 2*ix.dim + maxName/4 + perEntry
	left := l.Batch/2 - s.weight()/vectorWeight*perVector
	n := 0
	for n < len(keys) && ops+2*n+2+s.weight()/vectorWeight*perVector/l.Value+2*marks <= l.Ops {
		if left -= ix.set.Parts[keys[n]].weight * perVector / vectorWeight; left < 0 {
			break
		}
		n++
	}
	if n < min(2, len(keys)) {
		return nil
	}
	return keys[:n]
}

// put adds to ops the op that stores a segment, unless it is empty; several if
// the store accepts only smaller values.
func (ix *Index) put(r storage.Reader, ops []storage.Op, s *segment, level int) []storage.Op {
	if len(s.entries) == 0 {
		return ops
	}
	record := s.encode()
	if n := len(s.entries) / 2; n > 0 && len(record) > r.Limits().Value {
		return ix.put(r, ix.put(r, ops, ix.segment(s.entries[:n]), level), ix.segment(s.entries[n:]), level)
	}
	return append(ops, storage.Put(ix.set.Key(level, record), record))
}

// keys returns the segments of a level, sorted, and their weight.
func (ix *Index) keys(level int) (keys []string, weight int) {
	keys = ix.set.Keys(level)
	for _, key := range keys {
		weight += ix.set.Parts[key].weight
	}
	return keys, weight
}

// wasteful returns the segment of the highest level with the largest superseded
// share, if that is over half.
func (ix *Index) wasteful() string {
	worst, most := "", 0
	for key, l := range ix.set.Parts {
		if levels.Level(key) == levels.Levels-1 && 2*l.dead > l.vectors && (l.dead > most || l.dead == most && key < worst) {
			worst, most = key, l.dead
		}
	}
	return worst
}

// segments reads segments.
func (ix *Index) segments(ctx context.Context, r storage.Reader, keys []string) ([]*segment, error) {
	var list []*segment
	for _, key := range keys {
		value, err := r.Get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("read vectors: %w", err)
		}
		s, err := ix.decode(key, value)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// merge returns the entries of segments as one segment: the newest of each ID,
// unless the index has a newer one elsewhere. A deletion older than before is
// left out if no other segment has an entry for its ID.
func (ix *Index) merge(list []*segment, before int64) *segment {
	var all []entry
	for _, s := range list {
		all = append(all, s.entries...)
	}
	sortEntries(all)
	kept := all[:0]
	for i, n := 0, 0; i < len(all); i += n {
		e := all[i]
		for n = 1; i+n < len(all) && all[i+n].id == e.id; n++ {
		}
		if at, ok := ix.picture.byID[e.id]; ok {
			t := &ix.picture.slots[at]
			if e.compare(t.newest) < 0 || e.sum == gone && e.deleted < before && int(t.refs+t.older) <= n {
				continue
			}
		}
		kept = append(kept, e)
	}
	return ix.segment(kept)
}
