package docs

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

// Check reads the whole collection and yields what is wrong with it: faults of
// its index, see search.Check, and documents with missing or surplus passages.
// An error means that it could not look.
func (c *Collection) Check(ctx context.Context) iter.Seq2[storage.Fault, error] {
	return func(yield func(storage.Fault, error) bool) {
		for f, err := range search.Check(ctx, c.index) {
			if f.Key = c.index.Key(f.Key); !yield(f, err) || err != nil {
				return
			}
		}
		const repair = "add the document again, or remove it"
		passages := make(map[string]int) // by file
		for key, err := range c.index.List(ctx, "") {
			if err != nil {
				yield(storage.Fault{}, fmt.Errorf("check collection: %w", err))
				return
			}
			if id, ok := search.DocID(key); ok {
				file, _, _ := strings.Cut(id, "-")
				passages[file]++
			}
		}
		for e, err := range c.space.Scan(ctx, filePrefix, nil) {
			if err != nil {
				yield(storage.Fault{}, fmt.Errorf("check collection: %w", err))
				return
			}
			var f File
			reason := ""
			id := strings.TrimPrefix(e.Key, filePrefix)
			switch err := json.Unmarshal(e.Value, &f); {
			case err != nil || fileID(f.Name) != id:
				reason = "record of a document is damaged"
			case f.Partial:
				reason = "document is not whole"
			case passages[id] != f.Passages:
				reason = fmt.Sprintf("document has %d of %d passages", passages[id], f.Passages)
			}
			delete(passages, id)
			if reason != "" && !yield(storage.Fault{Key: c.space.Key(e.Key), Reason: reason, Repair: repair}, nil) {
				return
			}
		}
		for _, id := range slices.Sorted(maps.Keys(passages)) {
			reason := fmt.Sprintf("%d passages belong to no document", passages[id])
			fault := storage.Fault{Key: c.space.Key(filePrefix + id), Reason: reason, Repair: repair}
			if !yield(fault, nil) {
				return
			}
		}
	}
}

// Rebuild rebuilds the postings of the collection from its passages and returns
// the number of passages; see search.Rebuild. Nobody else may write the
// collection meanwhile.
func (c *Collection) Rebuild(ctx context.Context) (int, error) {
	h, _, err := c.read(ctx)
	if err != nil || h.Format == 0 {
		return 0, err
	}
	return search.Rebuild(ctx, c.index, &search.Options{Language: h.Language})
}
