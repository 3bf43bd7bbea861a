package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stratamem/strata/storage"
	"go.etcd.io/bbolt"
)

// Snapshot implements [storage.Snapshotter]. It copies the file to another one
// next to it, which is deleted when the snapshot is closed, so that a slow
// reader delays nobody; the disk must have space for both. A store that is open
// read-only cannot change, so it copies nothing.
func (s *Store) Snapshot(ctx context.Context) (storage.Adapter, error) {
	if s.closed.Load() {
		return nil, storage.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	read := &Options{ReadOnly: true}
	if s.opts.ReadOnly && !s.snapshot {
		same, err := Open(ctx, s.path, read)
		if err != nil {
			return nil, fmt.Errorf("snapshot: %w", err)
		}
		return same, nil
	}
	f, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+".snapshot.*")
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", diskError(err))
	}
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(f)
		return err
	})
	if err = errors.Join(err, f.Close()); err != nil {
		err = fmt.Errorf("snapshot: %w", diskError(err))
		return nil, errors.Join(err, os.Remove(f.Name()))
	}
	still, err := Open(ctx, f.Name(), read)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("snapshot: %w", err), os.Remove(f.Name()))
	}
	// Where an open file can be unlinked, a crash leaves nothing behind.
	if os.Remove(f.Name()) != nil {
		still.discard = f.Name()
	}
	still.path, still.snapshot = s.path, true // as its errors name it
	return still, nil
}
