package badger

import (
	"context"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

// stillness is the transaction in which a snapshot and its own snapshots read.
type stillness struct {
	mu    sync.Mutex // a transaction is not safe for concurrent use
	txn   *badger.Txn
	users int // guarded by the mutex of the database
}

// Snapshot implements [storage.Snapshotter]. It copies nothing: badger keeps
// the values that it shows, and the directory stays open, until the snapshot is
// closed. The calls of a snapshot take turns.
func (s *Store) Snapshot(ctx context.Context) (storage.Adapter, error) {
	still, err := s.snapshot(ctx)
	if err != nil {
		return nil, err // not an Adapter that holds a nil store
	}
	return still, nil
}

func (s *Store) snapshot(ctx context.Context) (still *Store, err error) {
	// Between commits, so that state and fields are from the same moment.
	err = s.group.Exclusive(ctx, func() error {
		s.db.mu.Lock()
		defer s.db.mu.Unlock()
		if s.closed.Load() {
			return storage.ErrClosed
		}
		still = &Store{path: s.path, opts: s.opts, opened: s.opened, db: s.db, still: s.still}
		still.opts.ReadOnly = true
		still.group = engine.NewGroup(mostGroup, weigh, still.commit)
		still.fields.Store(s.fields.Load())
		still.state.Store(s.state.Load())
		still.loose.Store(s.loose.Load())
		if still.still == nil {
			still.still = &stillness{txn: s.db.NewTransaction(false)}
		}
		still.still.users++
		s.db.users++
		return nil
	})
	if err != nil {
		return nil, err
	}
	return still, nil
}
