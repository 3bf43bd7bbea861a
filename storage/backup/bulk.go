package backup

import (
	"context"

	"github.com/stratamem/strata/storage"
)

// bulk writes many entries to a store, in batches of at most bulkOps and
// bulkBytes, or less if the store accepts less.
type bulk struct {
	ctx   context.Context
	a     storage.Adapter
	most  storage.Limits
	ops   []storage.Op
	bytes int
}

const (
	bulkOps   = 500
	bulkBytes = 4 << 20
)

func newBulk(ctx context.Context, a storage.Adapter) *bulk {
	most := storage.LimitsOf(a)
	most.Ops, most.Batch = min(most.Ops, bulkOps), min(most.Batch, bulkBytes)
	return &bulk{ctx: ctx, a: a, most: most}
}

// put writes an entry, now or with the next flush.
func (b *bulk) put(key string, value []byte) error {
	size := len(key) + len(value)
	if len(b.ops) == b.most.Ops || len(b.ops) > 0 && b.bytes+size > b.most.Batch {
		if err := b.flush(); err != nil {
			return err
		}
	}
	b.ops = append(b.ops, storage.Put(key, value))
	b.bytes += size
	return nil
}

// flush writes the entries that are waiting.
func (b *bulk) flush() error {
	ops := b.ops
	b.ops, b.bytes = b.ops[:0], 0
	return b.a.Apply(b.ctx, ops...)
}
