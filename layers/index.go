package layers

import (
	"sync"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

// indexes are the pictures in memory of the search indexes that a layer keeps
// among its records, one for each scope, of those scopes that were used last.
type indexes struct {
	opts search.Options

	mu   sync.Mutex
	open map[memory.Space]*openIndex
	uses int
}

type openIndex struct {
	*search.Index
	used int
}

const maxIndexes = 64

// of returns the index among records. An error says what is wrong with the
// options.
func (x *indexes) of(r *memory.Records) (*search.Index, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.uses++
	if ix, ok := x.open[r.Space()]; ok {
		ix.used = x.uses
		return ix.Index, nil
	}
	ix, err := search.New(&x.opts)
	if err != nil {
		return nil, err
	}
	if len(x.open) == maxIndexes {
		var oldest memory.Space
		for space, ix := range x.open {
			if o := x.open[oldest]; o == nil || ix.used < o.used {
				oldest = space
			}
		}
		delete(x.open, oldest)
	}
	if x.open == nil {
		x.open = make(map[memory.Space]*openIndex)
	}
	x.open[r.Space()] = &openIndex{ix, x.uses}
	return ix, nil
}

// written returns c with the operations of an index.
func written[S any](c memory.Change[S], ops []storage.Op) memory.Change[S] {
	for i := range ops {
		if op := &ops[i]; op.Delete {
			c = c.Delete(op.Key)
		} else {
			c = c.Put(op.Key, op.Value)
		}
	}
	return c
}

// scanAfter asks for at most n entries beyond a key.
func scanAfter(key string, n int) *storage.ScanOptions {
	return &storage.ScanOptions{After: key, Limit: n}
}
