package badger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

// A file of the value log is rewritten when this share of it is known to be
// garbage. badger learns of garbage when it merges tables.
const (
	garbageSeldom  = 0.5
	garbageCompact = 0.1
)

// collect collects the garbage of the value log, at once for what the last
// process left, and then at intervals. It is the goroutine started by Open.
func (s *Store) collect() {
	tick := time.NewTicker(s.opts.GCInterval)
	defer tick.Stop()
	for {
		if err := s.collectGarbage(); err != nil {
			s.opts.Logger.Warn("garbage collection of the value log stopped", "store", s.path, "error", err)
		}
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
	}
}

// collectGarbage rewrites files of the value log as long as one is worth it and
// the store is open. Each is rewritten between commits, because badger's own
// locking is insufficient for a rewrite during a commit (the race detector
// reports MaxVersion); writes wait for at most one file.
func (s *Store) collectGarbage() error {
	for files := 0; ; files++ {
		done := true
		err := s.group.Exclusive(context.Background(), func() (err error) {
			if s.closed.Load() || s.failed != nil {
				return nil
			}
			done, err = s.collectFile(garbageSeldom)
			return err
		})
		if err == nil && done && files > 0 {
			err = s.sweep(func(f func() error) error { return s.group.Exclusive(context.Background(), f) })
		}
		if err != nil || done {
			if files > 0 {
				s.opts.Logger.Debug("collected garbage of the value log", "store", s.path, "files", files)
			}
			return err
		}
	}
}

// collectFile rewrites a file of the value log whose garbage is at least the
// share. It reports done if there is none.
func (s *Store) collectFile(share float64) (done bool, err error) {
	err = guard(s.path, func() error { return s.db.RunValueLogGC(share) })
	if errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected) {
		return true, nil
	}
	return err != nil, err
}

// Compact implements [storage.Compacter]. It makes badger write out what is in
// memory, merge its tables, and rewrite the files of the value log that are at
// least a tenth garbage. Writes wait meanwhile, and reads wait while memory is
// written out. Values stay if a snapshot still shows them, or if they are in
// the current file of the value log.
func (s *Store) Compact(ctx context.Context) error {
	return s.group.Exclusive(ctx, func() error {
		if err := s.writable("compact", 0); err != nil {
			return err
		}
		for _, step := range []func() error{
			func() error { return s.sweep(func(f func() error) error { return f() }) },
			s.flush,
			func() error { return s.db.Flatten(1) },
			func() error {
				for done := false; !done; {
					var err error
					if done, err = s.collectFile(garbageCompact); err != nil {
						return err
					}
				}
				return nil
			},
		} {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := guard(s.path, step); err != nil {
				return fmt.Errorf("compact %s: %w", s.path, diskError(err))
			}
		}
		return nil
	})
}

// flush makes badger write its memtable to a table. badger does so when keys
// are dropped by a prefix, and a key with the prefix must exist.
func (s *Store) flush() error {
	txn := s.db.NewTransaction(true)
	defer txn.Discard()
	if err := txn.Set(keyFlush, nil); err != nil {
		return err
	}
	if err := s.send(txn); err != nil {
		return err
	}
	return s.db.DropPrefix(keyFlush)
}

// sweep deletes large values that no key names, which garbage collection
// brought back. As their keys are never reused, nothing will name them later.
// exclusive runs the deletion.
func (s *Store) sweep(exclusive func(func() error) error) error {
	swept := 0
	for from := []byte{spaceLarge}; from != nil; {
		var orphans [][]byte
		err := s.view(context.Background(), func(txn *badger.Txn) (err error) {
			orphans, from, err = orphansFrom(txn, from)
			return err
		})
		if errors.Is(err, storage.ErrClosed) {
			return nil
		}
		if err == nil && len(orphans) > 0 {
			swept += len(orphans)
			err = exclusive(func() error { return s.remove(orphans) })
		}
		if err != nil {
			return err
		}
	}
	if swept > 0 {
		s.opts.Logger.Debug("deleted values that came back", "store", s.path, "values", swept)
	}
	return nil
}

func (s *Store) remove(keys [][]byte) error {
	if s.closed.Load() || s.failed != nil {
		return nil
	}
	l := s.newLoader()
	for _, key := range keys {
		l.put(key, true)
	}
	return l.finish()
}

// orphansFrom examines some large values, starting at a key, and returns the
// keys of those that no key names, and where to continue.
func orphansFrom(txn *badger.Txn, from []byte) (orphans [][]byte, next []byte, err error) {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceLarge}})
	defer it.Close()
	n := 0
	for it.Seek(from); it.Valid(); it.Next() {
		key := it.Item().KeyCopy(nil)
		if n++; n > 1000 {
			return orphans, key, nil
		}
		if len(key) > 9 {
			frame, isLarge, err := head(txn, string(key[9:]))
			if err != nil {
				return nil, nil, err
			}
			if isLarge && engine.Seq(frame) == binary.BigEndian.Uint64(key[1:]) {
				continue
			}
		}
		orphans = append(orphans, key)
	}
	return orphans, nil, nil
}
