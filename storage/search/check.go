package search

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/stratamem/strata/internal/levels"
	"github.com/stratamem/strata/storage"
)

// Check reads a whole index and yields what is wrong with it: unreadable
// segments, blocks of no segment, documents that are in no segment or differ
// from what the segment says, and entries of segments without a document. An
// error means that it could not look.
func Check(ctx context.Context, r storage.Reader) iter.Seq2[storage.Fault, error] {
	return func(yield func(storage.Fault, error) bool) {
		const rebuild = "run strata index rebuild"
		sums := make(map[string]uint32)
		names := make(map[string]bool) // of segments
		for e, err := range r.Scan(ctx, "s/", nil) {
			if err != nil {
				yield(storage.Fault{}, fmt.Errorf("read index: %w", err))
				return
			}
			names[e.Key[strings.LastIndexByte(e.Key, '/')+1:]] = true
			s, _, err := readSegment(ctx, r, e.Key, e.Value)
			if err != nil {
				if !yield(storage.Fault{Key: e.Key, Reason: "segment cannot be read: " + err.Error(), Repair: rebuild}, nil) {
					return
				}
				continue
			}
			for i := range s.docs {
				sums[s.docs[i].id] = s.docs[i].sum
			}
		}
		for key, err := range r.List(ctx, blockPrefix) {
			if err != nil {
				yield(storage.Fault{}, fmt.Errorf("read index: %w", err))
				return
			}
			if name, _, _ := strings.Cut(key[len(blockPrefix):], "/"); !names[name] &&
				!yield(storage.Fault{Key: key, Reason: "block belongs to no segment", Repair: rebuild}, nil) {
				return
			}
		}
		for e, err := range r.Scan(ctx, docPrefix, nil) {
			if err != nil {
				yield(storage.Fault{}, fmt.Errorf("read index: %w", err))
				return
			}
			var docs []Doc
			id, err := storage.UnescapeSegment(e.Key[len(docPrefix):])
			if err == nil {
				docs, err = decodeRecord(id, e.Value)
			}
			reason, repair := "", rebuild
			if err != nil {
				reason, repair = "document cannot be read: "+err.Error(), "delete it and run strata index rebuild"
				delete(sums, id)
				docs = nil
			}
			for i := range docs {
				d := &docs[i]
				if want, ok := sums[d.ID]; !ok {
					reason = "document is in no segment: it is not found"
				} else if want != sum(d.encode()) {
					reason = "document is not what was indexed"
				}
				delete(sums, d.ID)
			}
			if reason != "" && !yield(storage.Fault{Key: e.Key, Reason: reason, Repair: repair}, nil) {
				return
			}
		}
		left := make([]string, 0, len(sums))
		for id := range sums {
			left = append(left, id)
		}
		slices.Sort(left)
		for _, id := range left {
			if !yield(storage.Fault{Key: DocKey(id), Reason: "indexed document is gone", Repair: rebuild}, nil) {
				return
			}
		}
	}
}

// Rebuild rebuilds the segments of an index from its documents, in the language
// of opts, and returns the number of documents. Unreadable ones are left out.
// It works in batches: if it is interrupted, some documents are not found until
// it runs again. Nobody else may write the index meanwhile.
func Rebuild(ctx context.Context, s storage.Scoped, opts *Options) (int, error) {
	ix, err := New(opts)
	if err != nil {
		return 0, err
	}
	err = levels.Clear(ctx, s)
	if err == nil {
		err = clearBlocks(ctx, s)
	}
	if err != nil {
		return 0, fmt.Errorf("rebuild index: %w", err)
	}
	n := 0
	var docs []Doc
	flush := func() error {
		err := ix.enter(ctx, s, docs)
		n += len(docs)
		docs = docs[:0]
		return err
	}
	for e, err := range s.Scan(ctx, docPrefix, nil) {
		if err != nil {
			return n, fmt.Errorf("rebuild index: %w", err)
		}
		id, err := storage.UnescapeSegment(e.Key[len(docPrefix):])
		if err != nil {
			continue
		}
		record, err := decodeRecord(id, e.Value)
		if err != nil {
			continue
		}
		if docs = append(docs, record...); len(docs) >= 1024 {
			if err := flush(); err != nil {
				return n, err
			}
		}
	}
	return n, flush()
}

// clearBlocks removes the blocks of segments that no longer exist.
func clearBlocks(ctx context.Context, s storage.Scoped) error {
	var gone []storage.Op
	for key, err := range s.List(ctx, blockPrefix) {
		if err != nil {
			return err
		}
		gone = append(gone, storage.Remove(key))
	}
	for ops := range s.Limits().Batches(gone) {
		if err := s.Apply(ctx, ops...); err != nil {
			return err
		}
	}
	return nil
}

// enter adds documents only to the segments, in as many batches as the store
// requires.
func (ix *Index) enter(ctx context.Context, s storage.Scoped, docs []Doc) error {
	ops, err := ix.add(ctx, s, docs)
	if err != nil {
		return err
	}
	err = s.Apply(ctx, ops...)
	if n := len(docs) / 2; n > 0 && errors.Is(err, storage.ErrInvalid) { // too much at once
		if err = ix.enter(ctx, s, docs[:n]); err == nil {
			err = ix.enter(ctx, s, docs[n:])
		}
	}
	return err
}

// add returns the operations that add documents only to the segments.
func (ix *Index) add(ctx context.Context, r storage.Reader, docs []Doc) ([]storage.Op, error) {
	if err := ix.set.View(ctx, r); err != nil || len(docs) == 0 {
		return nil, err
	}
	defer ix.set.RUnlock()
	return ix.grow(ctx, r, nil, newSegment(ix.analysis, docs))
}
