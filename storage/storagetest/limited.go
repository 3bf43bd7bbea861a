package storagetest

import (
	"context"
	"iter"

	"github.com/stratamem/strata/storage"
)

// Small are limits below those of any existing engine: whatever obeys them
// obeys those of a distributed store.
var Small = storage.Limits{Ops: 16, Batch: 16 << 10, Value: 4 << 10, Key: 256}

// Limited returns a store with the limits l over one that accepts more. It has
// the capabilities Limiter and Scanner, and no other.
func Limited(a storage.Adapter, l storage.Limits) storage.Adapter { return &limited{a, l} }

type limited struct {
	storage.Adapter
	limits storage.Limits
}

func (s *limited) Limits() storage.Limits { return s.limits }

func (s *limited) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	if err := s.limits.ValidateKey(key); err != nil {
		return nil, "", err
	}
	return s.Adapter.Get(ctx, key)
}

func (s *limited) Apply(ctx context.Context, ops ...storage.Op) error {
	if err := s.limits.ValidateOps(ops); err != nil {
		return err
	}
	return s.Adapter.Apply(ctx, ops...)
}

func (s *limited) Scan(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error] {
	return storage.Scan(ctx, s.Adapter, prefix, opts)
}
