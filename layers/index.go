package layers

import (
	"context"
	"iter"
	"strings"
	"sync"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

// indexes caches the indexes that a layer keeps among its records, one for each
// of the scopes used last.
type indexes[I any] struct {
	make func() (*I, error)

	mu   sync.Mutex
	open map[memory.Space]*openIndex[I]
	uses int
}

type openIndex[I any] struct {
	index *I
	used  int
}

const maxIndexes = 64

// of returns the index among records. An error means that the options are
// wrong.
func (x *indexes[I]) of(r *memory.Records) (*I, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.uses++
	if o, ok := x.open[r.Space()]; ok {
		o.used = x.uses
		return o.index, nil
	}
	index, err := x.make()
	if err != nil {
		return nil, err
	}
	if len(x.open) == maxIndexes {
		var oldest memory.Space
		for space, o := range x.open {
			if last := x.open[oldest]; last == nil || o.used < last.used {
				oldest = space
			}
		}
		delete(x.open, oldest)
	}
	if x.open == nil {
		x.open = make(map[memory.Space]*openIndex[I])
	}
	x.open[r.Space()] = &openIndex[I]{index, x.uses}
	return index, nil
}

// newIndexes returns indexes of package search.
func newIndexes(opts search.Options) indexes[search.Index] {
	return indexes[search.Index]{make: func() (*search.Index, error) { return search.New(&opts) }}
}

// written returns c with the operations of an index stored below a prefix.
func written[S any](c memory.Change[S], prefix string, ops []storage.Op) memory.Change[S] {
	for i := range ops {
		if op := &ops[i]; op.Delete {
			c = c.Delete(prefix + op.Key)
		} else {
			c = c.Put(prefix+op.Key, op.Value)
		}
	}
	return c
}

// below are the records below a prefix, with keys relative to it.
type below struct {
	records *memory.Records
	prefix  string
}

func (b below) Limits() storage.Limits { return b.records.Limits().Below(b.prefix) }

func (b below) Get(ctx context.Context, key string) ([]byte, error) {
	return b.records.Get(ctx, b.prefix+key)
}

func (b below) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for key, err := range b.records.List(ctx, b.prefix+prefix) {
			if !yield(strings.TrimPrefix(key, b.prefix), err) {
				return
			}
		}
	}
}

func (b below) Scan(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error] {
	var o storage.ScanOptions
	if opts != nil {
		o = *opts
	}
	if o.After != "" {
		o.After = b.prefix + o.After
	}
	return func(yield func(storage.Entry, error) bool) {
		for e, err := range b.records.Scan(ctx, b.prefix+prefix, &o) {
			e.Key = strings.TrimPrefix(e.Key, b.prefix)
			if !yield(e, err) {
				return
			}
		}
	}
}

// scanAfter returns options for at most n entries after a key.
func scanAfter(key string, n int) *storage.ScanOptions {
	return &storage.ScanOptions{After: key, Limit: n}
}
