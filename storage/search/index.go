package search

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/stratamem/strata/internal/levels"
	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/storage"
)

// Options are what an index is made with. The zero value is the default.
type Options struct {
	// Language is that of stemming and stop words: "english" (the default),
	// "french", "hungarian", "norwegian", "russian", "spanish", "swedish", or
	// "none" for neither. Scripts without spaces, and Korean, are indexed by
	// pairs of neighbours in every language.
	Language string
	// Ranking says what relevance is made of.
	Ranking Ranking
	// Bundle keeps the texts of documents whose IDs are alike up to the last
	// hyphen in one record: passages of one whole, which take a third less than
	// apart. Of such documents one writer at a time may add or delete any. Who
	// deletes from an index opens it as those do who add to it; any reader finds
	// what is in bundles, and what was added before there were any.
	Bundle bool
}

// Index is a picture in memory of an index in a store. It may be used by
// several goroutines at once, all with the same scope of a store, and by any
// number of processes beside. Every method reads first what changed in the
// store, a record where nothing did; the first one reads the segments (about
// 100 bytes a document) and keeps about 200 bytes a document.
//
// The methods that change an index return operations and do not make them: the
// caller does, alone or with others in one batch, by [storage.Scoped.Apply] or as writes
// of a layer. What they say is in the index when the batch is.
type Index struct {
	analysis *analysis
	ranking  Ranking
	bundled  bool

	set     levels.Set[[]uint32] // the numbers of the documents of each segment
	picture *picture             // under set
	scratch sync.Pool            // of *scratch
}

// MismatchError says that an index was made with another language than it is
// opened with. Rebuild it, or open it as what it is.
type MismatchError struct {
	Stored, Wanted string // languages
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("read index: it is of language %q, not %q: open it as such or rebuild it", e.Stored, e.Wanted)
}

// New returns an index, of which nothing is read yet. nil opts are the
// defaults. An unknown language is an error.
func New(opts *Options) (*Index, error) {
	if opts == nil {
		opts = &Options{}
	}
	a, err := analysisOf(opts.Language)
	if err != nil {
		return nil, err
	}
	ix := &Index{analysis: a, ranking: opts.Ranking.withDefaults(), bundled: opts.Bundle}
	ix.set = levels.Set[[]uint32]{
		Name:  "index",
		Load:  ix.load,
		Drop:  func(numbers []uint32) { ix.picture.release(numbers) },
		Ready: func() bool { return !ix.picture.wasteful() },
		Reset: func() { ix.picture = newPicture() },
	}
	return ix, nil
}

func (ix *Index) load(_ context.Context, _ storage.Reader, key string, value []byte) ([]uint32, error) {
	s, err := decodeSegment(value)
	if err != nil {
		return nil, corrupt(key, err)
	}
	if s.language != ix.analysis.language {
		return nil, &MismatchError{Stored: s.language, Wanted: ix.analysis.language}
	}
	return ix.picture.load(s), nil
}

// fanIn is how many segments of a level are merged into one of the next.
var fanIn = [...]int{64, 16}

// Len returns how many documents the index has.
func (ix *Index) Len(ctx context.Context, r storage.Reader) (int, error) {
	if err := ix.set.View(ctx, r); err != nil {
		return 0, err
	}
	defer ix.set.RUnlock()
	return ix.picture.live, nil
}

// Append returns the operations that add documents, with keys relative to the
// index: one for each document or bundle, and up to 70 more. A document that the index
// has is left out. At most 400 documents fit in a batch.
//
// Two appends that are made before the first of them is in the store both hold,
// whatever their order.
func (ix *Index) Append(ctx context.Context, r storage.Reader, docs ...Doc) ([]storage.Op, error) {
	if err := ix.set.View(ctx, r); err != nil {
		return nil, err
	}
	defer ix.set.RUnlock()
	fresh, err := ix.fresh(docs, nil)
	if err != nil || len(fresh) == 0 {
		return nil, err
	}
	ops, err := ix.texts(ctx, r, nil, fresh)
	if err != nil {
		return nil, err
	}
	return ix.grow(ctx, r, ops, newSegment(ix.analysis, fresh))
}

// fresh returns those of docs that the index has not. None may be among those that
// go.
func (ix *Index) fresh(docs []Doc, gone map[string]bool) (fresh []Doc, err error) {
	had := make(map[string]bool)
	for i := range docs {
		d := &docs[i]
		if err := d.validate(); err != nil {
			return nil, err
		}
		if gone[d.ID] {
			return nil, errors.New("replace: a document is to go and to come: another text has another ID")
		}
		if n, ok := ix.picture.byID[d.ID]; had[d.ID] || ok && ix.picture.sums[n] == sum(d.encode()) {
			continue
		} else if ok {
			return nil, errors.New("append: the index has another document of that id: delete it first")
		}
		had[d.ID] = true
		fresh = append(fresh, *d)
	}
	if ix.picture.live+len(fresh) > maxDocs {
		return nil, fmt.Errorf("append: the index is full: it has %d documents", ix.picture.live)
	}
	return fresh, nil
}

// grow adds to ops those that add a segment, and merge others where there are
// many.
func (ix *Index) grow(ctx context.Context, r storage.Reader, ops []storage.Op, s *segment) ([]storage.Op, error) {
	for level, most := range fanIn {
		if s.level() > level {
			continue
		}
		keys := ix.set.Keys(level)
		if len(keys) < most-1 {
			break
		}
		parts, err := readSegments(ctx, r, keys, maxMerged)
		if errors.Is(err, storage.ErrNotFound) {
			break // another writer merges them at this moment
		}
		if err != nil {
			return nil, err
		}
		for _, key := range keys[:len(parts)] {
			ops = append(ops, storage.Remove(key))
		}
		s = merge(append(parts, s), nil)
		if s.level() <= level { // many have been deleted
			break
		}
	}
	return ix.set.Mark(ix.put(ops, s)), nil
}

// put adds to ops the one that stores a segment, unless it is empty.
func (ix *Index) put(ops []storage.Op, s *segment) []storage.Op {
	if len(s.docs) == 0 {
		return ops
	}
	record := s.encode()
	return append(ops, storage.Put(ix.set.Key(s.level(), record), pack.Pack(new([]byte), record)))
}

// Delete returns the operations that take documents out, text and postings, in
// one batch: the segments that hold them are written anew, each at most 1,024
// appends. IDs that the index has not are left out.
func (ix *Index) Delete(ctx context.Context, r storage.Reader, ids ...string) ([]storage.Op, error) {
	return ix.Replace(ctx, r, ids)
}

// Replace returns the operations that take documents out, as Delete does, and
// add others, as Append does, in one batch. No ID may be in both.
func (ix *Index) Replace(ctx context.Context, r storage.Reader, gone []string, docs ...Doc) (ops []storage.Op, err error) {
	for range 8 {
		ops, err = ix.replace(ctx, r, gone, docs)
		if !errors.Is(err, storage.ErrNotFound) { // another writer merged
			break
		}
	}
	return ops, err
}

func (ix *Index) replace(ctx context.Context, r storage.Reader, ids []string, docs []Doc) ([]storage.Op, error) {
	if err := ix.set.View(ctx, r); err != nil {
		return nil, err
	}
	defer ix.set.RUnlock()
	gone := make(map[string]bool)
	touched := make(map[uint32]bool)
	var list []string
	for _, id := range ids {
		if n, ok := ix.picture.byID[id]; ok && !gone[id] {
			gone[id], touched[n] = true, true
			list = append(list, id)
		}
	}
	fresh, err := ix.fresh(docs, gone)
	if err != nil || len(gone)+len(fresh) == 0 {
		return nil, err
	}
	ops, err := ix.texts(ctx, r, list, fresh)
	if err != nil {
		return nil, err
	}
	if len(gone) == 0 {
		return ix.grow(ctx, r, ops, newSegment(ix.analysis, fresh))
	}
	drop := func(id string) bool { return gone[id] }
	// The smallest segments that are touched become one with what is new; all of
	// them do where there are many.
	many := len(ix.set.Keys(0)) >= fanIn[0]-1
	var small []*segment
	var rest []string
	for _, key := range slices.Sorted(maps.Keys(ix.set.Parts)) {
		level := levels.Level(key)
		if !slices.ContainsFunc(ix.set.Parts[key], func(n uint32) bool { return touched[n] }) {
			if many && level == 0 {
				rest = append(rest, key)
			}
			continue
		}
		parts, err := readSegments(ctx, r, []string{key}, maxMerged)
		if err != nil {
			return nil, err
		}
		ops = append(ops, storage.Remove(key))
		if level == 0 {
			small = append(small, parts[0])
			continue
		}
		ops = ix.put(ops, merge(parts, drop))
	}
	more, err := readSegments(ctx, r, rest, maxMerged)
	if err != nil {
		return nil, err
	}
	for _, key := range rest[:len(more)] {
		ops = append(ops, storage.Remove(key))
	}
	small = append(small, more...)
	s := newSegment(ix.analysis, fresh)
	if len(small) > 0 {
		s = merge(append([]*segment{merge(small, drop)}, s), nil)
	}
	return ix.set.Mark(ix.put(ops, s)), nil
}

// Has tells whether the index has a document.
func (ix *Index) Has(ctx context.Context, r storage.Reader, id string) (bool, error) {
	if err := ix.set.View(ctx, r); err != nil {
		return false, err
	}
	defer ix.set.RUnlock()
	_, ok := ix.picture.byID[id]
	return ok, nil
}

// IDs returns the IDs of all documents, in no order.
func (ix *Index) IDs(ctx context.Context, r storage.Reader) ([]string, error) {
	if err := ix.set.View(ctx, r); err != nil {
		return nil, err
	}
	defer ix.set.RUnlock()
	return slices.Collect(maps.Keys(ix.picture.byID)), nil
}

// maxMerged is how many bytes of segments become one: half of what a batch
// holds, beside what else is in it.
const maxMerged = storage.MaxBatchBytes / 2

// readSegments reads segments of at most limit bytes together, or the first.
func readSegments(ctx context.Context, r storage.Reader, keys []string, limit int) ([]*segment, error) {
	var list []*segment
	size := 0
	for _, key := range keys {
		value, err := r.Get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("read index: %w", err)
		}
		if size += len(value); size > limit && len(list) > 0 {
			break
		}
		s, err := decodeSegment(value)
		if err != nil {
			return nil, corrupt(key, err)
		}
		list = append(list, s)
	}
	return list, nil
}

func corrupt(key string, err error) error {
	if errors.Is(err, errShort) {
		return &storage.CorruptError{Key: key, Reason: "segment of an index is damaged", Repair: "run strata index rebuild"}
	}
	return err
}
