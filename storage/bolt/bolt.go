// Package bolt keeps a store in one bbolt file, used by one process at a time.
// It is the embedded default.
//
// It is not for several processes at once, nor for the highest write rates (see
// storage/badger). It never keeps a transaction open while a caller's code
// runs.
//
// The one decision: it is a thin driver. Ordering, atomicity and recovery are
// bbolt's; this package adds versions, checksums, index entries, grouped
// commits, and errors that say what to do.
//
// # Durability
//
// [storage.Full] syncs twice in each commit, with fdatasync where the system
// has it: the data before the page that points to it, and that page before the
// call returns. It survives power loss.
//
// [storage.Process] leaves syncing to the system, except when the file grows
// and on Close. It survives kill -9, because what was written already belongs
// to the system. After a power loss or a system crash the whole file may be
// damaged, not just lack its last commits, because the system may have written
// pages in any order. Keep a backup, or use Full, where that matters.
//
// [storage.None] is Process without the sync on Close.
//
// # Speed
//
// The cost of a commit is the pages that it writes: of 4 KiB on most systems,
// and of 2 KiB in a file that was created or compacted without [storage.Full],
// whose promise needs each page to be in a block of its own on the disk. For each
// key changed it writes its leaf and the pages that lead to it, which
// neighbouring keys share, and three more. Twenty small keys that are far apart
// take thirty to forty pages, whatever their size, so keys that are written
// together should sort together, for example by beginning with a time. Setting
// a key to the value that it has writes none of them. A record of more than 992
// bytes, or a document of more than 2,016, is stored separately: changing a
// neighbour does not rewrite it, and setting it takes its own size in pages and
// three or four more.
//
// Concurrent writes share a commit and its syncs. A commit of 15 documents of 1
// KiB with random keys costs bbolt three to four times as much as a commit of
// one, because it writes a page or more for each, which limits what sharing
// gains.
//
// Find reads each document by its key, which in bbolt takes about three times
// as long as stepping to the next document of a scan.
//
// # Format
//
// See format.go for the file's buckets.
package bolt

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Options configures [Open]. The zero value means the defaults.
type Options struct {
	// Durability is that of writes; see the package comment.
	Durability storage.Durability
	// ReadOnly opens an existing store for reading, which several processes may do
	// at once. Writes return [storage.ErrReadOnly].
	ReadOnly bool
	// LockWait is how long to wait for another process to close the file; 0
	// means 5 s, negative means not at all.
	LockWait time.Duration
}

// Store is an open file. It is safe for concurrent use.
type Store struct {
	path   string
	opts   Options
	opened time.Time
	hub    engine.Hub
	group  *engine.Group[[]storage.Op]

	db     atomic.Pointer[bbolt.DB] // replaced by Compact
	fields atomic.Pointer[[]string] // declared; the slice is replaced, never changed
	closed atomic.Bool

	writer            writer // used only by the group
	commits, resident int    // see trim; used only by the writer

	snapshot bool   // whether this is a snapshot of the store at path
	discard  string // a file to remove on Close
}

// Get implements [storage.Adapter].
func (s *Store) Get(ctx context.Context, key string) (value []byte, version storage.Version, err error) {
	if err := storage.ValidateKey(key); err != nil {
		return nil, "", err
	}
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		frame := tx.Bucket(bucketData).Get([]byte(key))
		if frame == nil {
			return &storage.KeyError{Op: "get", Key: key, Err: storage.ErrNotFound}
		}
		seq, v, ok := unseal(tx, key, frame)
		if !ok {
			return s.damaged(key)
		}
		if !hasPieces(frame) {
			v = slices.Clone(v)
		}
		value, version = v, engine.Version(seq)
		return nil
	})
	return value, version, err
}

// Apply implements [storage.Adapter]. Concurrent calls share a commit.
func (s *Store) Apply(ctx context.Context, ops ...storage.Op) error {
	if err := storage.ValidateOps(ops); err != nil {
		return err
	}
	switch {
	case s.closed.Load():
		return storage.ErrClosed
	case s.opts.ReadOnly:
		return fmt.Errorf("write %s: %w", s.path, storage.ErrReadOnly)
	case len(ops) == 0:
		return ctx.Err()
	}
	return s.group.Do(ctx, ops)
}

// List implements [storage.Adapter]. It reads a page at a time.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		span := engine.NewSpan(prefix, nil)
		var p page
		engine.Pages(ctx, 0, func(n int) (keys []string, more bool, err error) {
			err = s.view(ctx, func(tx *bbolt.Tx) error {
				more = p.walk(tx, &span, n)
				keys = p.keys()
				return nil
			})
			return keys, more, err
		})(yield)
	}
}

// Scan implements [storage.Scanner]. It reads a page at a time, so it may see
// writes made meanwhile. The values of a page share memory: keeping one keeps
// up to 64 KiB and a value. A damaged value ends it with a
// [*storage.CorruptError].
func (s *Store) Scan(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		span := engine.NewSpan(prefix, opts)
		var p page
		engine.Pages(ctx, span.Limit, func(n int) (entries []storage.Entry, more bool, err error) {
			err = s.view(ctx, func(tx *bbolt.Tx) error {
				more = p.walk(tx, &span, n)
				entries, err = p.copied(s, tx)
				return err
			})
			return entries, more, err
		})(yield)
	}
}

// Find implements [storage.Finder].
func (s *Store) Find(ctx context.Context, q storage.Query) iter.Seq2[storage.Entry, error] {
	return engine.Find(ctx, q, func(plan *engine.Plan, n int) (entries []storage.Entry, more bool, err error) {
		if err := engine.ValidateQuery(q, *s.fields.Load()); err != nil {
			return nil, false, err
		}
		err = s.view(ctx, func(tx *bbolt.Tx) error {
			index, data := tx.Bucket(bucketIndex), reader{c: tx.Bucket(bucketData).Cursor(), rest: 1}
			var p page
			for hit := range plan.Hits(func() engine.Cursor { return cursor{index.Cursor()} }) {
				key, frame := data.read(hit.Key)
				if key != nil && (!hit.Verify || matches(tx, q, hit.Key, frame)) {
					p.add(key, frame, size(key, frame))
				}
				if n--; n == 0 || p.bytes > engine.PageBytes {
					more = true
					break
				}
			}
			entries, err = p.copied(s, tx)
			return err
		})
		return entries, more, err
	}, s.Scan)
}

// matches reports whether a frame's document satisfies q. A damaged document
// matches, so that it is reported rather than missed.
func matches(tx *bbolt.Tx, q storage.Query, key string, frame []byte) bool {
	_, document, ok := unseal(tx, key, frame)
	return !ok || q.Match(key, document)
}

// EnsureIndex implements [storage.Finder]. Writes wait while it reads all
// documents. It is one transaction, so a crash leaves no partial index.
func (s *Store) EnsureIndex(ctx context.Context, fields ...string) error {
	if err := engine.ValidateFields(fields...); err != nil {
		return err
	}
	if s.closed.Load() {
		return storage.ErrClosed
	}
	return s.group.Exclusive(ctx, func() error {
		declared, added := engine.AddFields(*s.fields.Load(), fields)
		if len(added) == 0 {
			return nil
		}
		if s.opts.ReadOnly {
			return fmt.Errorf("index %s: %w", s.path, storage.ErrReadOnly)
		}
		err := s.update("index", func(tx *bbolt.Tx) error { return s.declare(ctx, tx, declared, added) })
		if err == nil {
			s.fields.Store(&declared)
		}
		return err
	})
}

// Watch implements [storage.Watcher]. It sees the changes made through this
// Store, which are all changes, since only one process uses the file.
func (s *Store) Watch(ctx context.Context, prefix string) (iter.Seq2[storage.Event, error], error) {
	return s.hub.Watch(ctx, prefix)
}

// Stats implements [storage.Statter]. Bytes is the size of the file in use.
func (s *Store) Stats(ctx context.Context) (storage.Stats, error) {
	st := storage.Stats{Engine: "bolt", Opened: s.opened}
	err := s.view(ctx, func(tx *bbolt.Tx) error {
		n, err := readCounts(tx)
		st.Documents, st.Records = int64(n.documents), int64(n.records)
		st.Bytes = tx.Size()
		return err
	})
	if err != nil {
		return storage.Stats{}, err
	}
	st.Indexes = slices.Clone(*s.fields.Load())
	return st, nil
}

// Close implements [storage.Adapter]. It waits for the calls in progress. With
// [storage.Process] it syncs the file.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.hub.Close()
	return s.group.Exclusive(context.Background(), func() error {
		db := s.db.Load()
		var err error
		if s.opts.Durability == storage.Process && !s.opts.ReadOnly {
			err = db.Sync()
		}
		err = errors.Join(err, db.Close())
		if s.discard != "" {
			err = errors.Join(err, os.Remove(s.discard))
		}
		if err != nil {
			return fmt.Errorf("close %s: %w", s.path, err)
		}
		return nil
	})
}

// view runs f in a read transaction.
func (s *Store) view(ctx context.Context, f func(tx *bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		db := s.db.Load()
		err := s.guard(func() error { return db.View(f) })
		if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
			if s.db.Load() != db {
				continue // Compact replaced it
			}
			return storage.ErrClosed
		}
		return err
	}
}

// update runs f in a write transaction. Only one runs at a time, because all
// are inside s.group.
func (s *Store) update(op string, f func(tx *bbolt.Tx) error) error {
	db := s.db.Load()
	err := s.guard(func() error { return db.Update(f) })
	switch {
	case err == nil:
		s.trim(db)
		return nil
	case errors.Is(err, bolterrors.ErrDatabaseNotOpen):
		return storage.ErrClosed
	}
	return fmt.Errorf("%s %s: %w", op, s.path, diskError(err))
}

// guard turns bbolt's reaction to damaged pages into an error: it panics, or
// reads beyond the end of a truncated file.
func (s *Store) guard(f func() error) error { return guard(s.path, f) }

func guard(path string, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &storage.CorruptError{Path: path, Reason: fmt.Sprint(r), Repair: repairFile}
		}
	}()
	return f()
}

// damaged is the error for a value with a wrong checksum.
func (s *Store) damaged(key string) error {
	return &storage.CorruptError{Path: s.path, Key: key, Reason: reasonChecksum, Repair: repairValue}
}

const (
	reasonChecksum = "checksum of the value does not agree"
	repairValue    = "check the store for more damage, then replace or delete what has this key, or restore a backup"
	repairFile     = "close the store, keep a copy of the file, and restore a backup"
)
