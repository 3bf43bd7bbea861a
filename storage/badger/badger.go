// Package badger keeps a store in a directory of Badger files, used by one
// process at a time. It is for high write rates and for more data than fits in
// memory.
//
// It is not for several processes at once, and it is not the default
// (storage/bolt is one file and needs less memory). It never keeps a
// transaction open while a caller's code runs.
//
// The one decision: it is a thin driver. Ordering, atomicity and recovery are
// badger's; this package adds versions, checksums, index entries, grouped
// commits, and a guard against each of badger's ways to end the process or to
// lose data silently: it holds the lock, inspects the files before badger does,
// and keeps disk space in reserve.
//
// # Durability
//
// [storage.Full] makes badger sync the value log and then its write-ahead log
// with msync in each commit, before the call returns. If files were added
// since, the directory is synced too, with fsync. It survives power loss.
//
// [storage.Process] leaves syncing to the system, except when a table is
// written and on Close. Commits are copied into memory-mapped files, which
// belong to the system, so they survive kill -9. After a power loss the last
// commits may be missing, and the files of a store that was being written may
// be damaged. Keep a backup, or use Full, where that matters.
//
// [storage.None] is the same as Process: badger has nothing cheaper.
//
// A disk error in the middle of a commit leaves its outcome open, and badger
// may show what it could not sync. The store then refuses further writes;
// reopened, it has the whole batch or none of it.
//
// # Memory
//
// A memtable takes four thirds of [Options.MemTable]. There is one, and up to
// two more while they are written out: 45 MiB, at most 130 MiB, with the
// defaults. There is no block cache: tables are uncompressed and mapped into
// memory, and the system keeps in memory what is used.
//
// Under sustained load badger keeps up to eight of the buffers with which it
// writes tables. Each grows to about three times MemTable, and an idle badger
// frees one every few seconds. Only MemTable limits them: close to 1 GiB of
// heap was seen while 600 MiB were stored, with a MemTable of 28 MiB.
//
// # Speed
//
// Find reads each document by its key. In badger that takes three to four times
// as long as stepping to the next document of a scan; Find itself adds little.
//
// # Damage
//
// Every read verifies the checksum of the value. Open verifies that tables can
// be read at all; Check verifies everything else in them. The write-ahead log
// of a process that was killed is read up to the first torn entry; badger
// cannot tell a torn entry from one that was damaged later, with others after
// it. If a file is truncated while the store is open, a call that reads it
// returns an error, but the process ends if badger reads it in the background.
//
// # Format
//
// See format.go for the directory and its keys.
package badger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

// ErrNotClosed means that a store cannot be opened for reading only because its
// last writer was killed: its writes are in a log, which only Open for writing
// can process. Nothing is lost.
var ErrNotClosed = errors.New("was not closed")

// Options configures [Open]. The zero value means the defaults.
type Options struct {
	// Durability is that of writes; see the package comment.
	Durability storage.Durability
	// ReadOnly opens an existing store for reading, which several processes may do
	// at once. Writes return [storage.ErrReadOnly]. A store whose last writer was
	// killed must be opened for writing once: [ErrNotClosed].
	ReadOnly bool
	// LockWait is how long to wait for another process to close the store; 0
	// means 5 s, negative means not at all.
	LockWait time.Duration
	// MemTable is how many bytes are gathered in memory before they are written to
	// a table; 0 means 32 MiB. The minimum is 28 MiB, which the largest batch
	// needs. More is faster under sustained load.
	MemTable int64
	// Reserve is how many bytes must be free on the disk for a write, or for Open
	// without ReadOnly: badger writes to mapped files, and the system ends a
	// process that does so on a full disk. 0 means four times MemTable, negative
	// means no check.
	Reserve int64
	// GCInterval is how often the value log is searched for files that are mostly
	// garbage; 0 means every 5 minutes, negative means that only Compact does so.
	// Writes wait while a file, of up to 40 MiB, is rewritten.
	GCInterval time.Duration
	// Logger receives what badger and the garbage collection report: errors and
	// warnings as such, the rest as debug. nil means [slog.Default].
	Logger *slog.Logger
}

// Store is an open directory, or a snapshot of one. It is safe for concurrent
// use.
type Store struct {
	path   string
	opts   Options
	opened time.Time
	hub    engine.Hub
	group  *engine.Group[[]storage.Op]

	db     *database
	fields atomic.Pointer[[]string] // declared; the slice is replaced, never changed
	state  atomic.Pointer[state]    // of the last commit; replaced inside group
	// loose is odd while the index may have entries without a document, and
	// increases whenever that begins or ends.
	loose  atomic.Uint64
	failed error // of a commit whose outcome is unknown; inside group
	synced time.Time
	closed atomic.Bool

	still *stillness // set if s is a snapshot

	stop       chan struct{}
	background sync.WaitGroup
}

// Get implements [storage.Adapter].
func (s *Store) Get(ctx context.Context, key string) (value []byte, version storage.Version, err error) {
	if err := storage.ValidateKey(key); err != nil {
		return nil, "", err
	}
	err = s.view(ctx, func(txn *badger.Txn) error {
		frame, err := getFrame(txn, key)
		if err != nil {
			return err
		}
		if frame == nil {
			return &storage.KeyError{Op: "get", Key: key, Err: storage.ErrNotFound}
		}
		seq, v, ok := engine.Unseal(key, frame)
		if !ok {
			return s.damaged(key)
		}
		value, version = v, engine.Version(seq)
		return nil
	})
	return value, version, err
}

// Apply implements [storage.Adapter]. Concurrent calls share a commit. If a
// batch changes a key several times, watchers see the last change.
func (s *Store) Apply(ctx context.Context, ops ...storage.Op) error {
	if err := storage.ValidateOps(ops); err != nil {
		return err
	}
	switch {
	case s.closed.Load():
		return storage.ErrClosed
	case s.opts.ReadOnly:
		return s.readOnly("write")
	case len(ops) == 0:
		return ctx.Err()
	}
	return s.group.Do(ctx, ops)
}

// List implements [storage.Adapter]. It reads a page at a time.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		span := engine.NewSpan(prefix, nil)
		engine.Pages(ctx, 0, func(n int) (keys []string, more bool, err error) {
			err = s.view(ctx, func(txn *badger.Txn) (err error) {
				keys = make([]string, 0, n)
				more, err = walk(txn, prefix, &span, n, func(key string, _ *badger.Item) (int, error) {
					keys = append(keys, key)
					return 0, nil
				})
				return err
			})
			return keys, more, err
		})(yield)
	}
}

// Scan implements [storage.Scanner]. It reads a page at a time, so it may see
// writes made meanwhile. The values of a page share memory: keeping one keeps
// up to 256 KiB and a value. A damaged value ends it with a
// [*storage.CorruptError].
func (s *Store) Scan(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		span := engine.NewSpan(prefix, opts)
		engine.Pages(ctx, span.Limit, func(n int) (entries []storage.Entry, more bool, err error) {
			err = s.view(ctx, func(txn *badger.Txn) (err error) {
				p := page{s: s, txn: txn, n: n}
				more, err = walk(txn, prefix, &span, n, p.addItem)
				entries = p.entries
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
		loose := s.loose.Load()
		err = s.view(ctx, func(txn *badger.Txn) error {
			// Entries without a document may be visible if they existed when the
			// transaction began, some time after loose was read.
			verify := loose%2 == 1 || s.loose.Load() != loose
			var cursors cursors
			defer cursors.close()
			p := page{s: s, txn: txn, n: n}
			for hit := range plan.Hits(func() engine.Cursor { return cursors.open(txn) }) {
				if err := p.addHit(q, hit.Key, verify || hit.Verify); err != nil {
					return err
				}
				if n--; n == 0 || p.bytes > pageBytes {
					more = true
					break
				}
			}
			entries = p.entries
			return nil
		})
		return entries, more, err
	}, s.Scan)
}

// Watch implements [storage.Watcher]. It sees the changes made through this
// Store, which are all changes, since only one process uses the directory.
func (s *Store) Watch(ctx context.Context, prefix string) (iter.Seq2[storage.Event, error], error) {
	if s.closed.Load() {
		return nil, storage.ErrClosed
	}
	return s.hub.Watch(ctx, prefix)
}

// Stats implements [storage.Statter]. Bytes is what the files occupy on disk,
// which is less than their sizes: badger makes them longer than needed.
func (s *Store) Stats(ctx context.Context) (storage.Stats, error) {
	var bytes int64
	err := s.view(ctx, func(*badger.Txn) (err error) {
		bytes, err = diskUsage(s.path)
		return err
	})
	if err != nil {
		return storage.Stats{}, err
	}
	now := s.state.Load()
	return storage.Stats{
		Engine: "badger", Opened: s.opened, Bytes: bytes,
		Documents: int64(now.documents), Records: int64(now.records),
		Indexes: slices.Clone(*s.fields.Load()),
	}, nil
}

// Close implements [storage.Adapter]. It waits for the calls in progress and
// for the garbage collection, and writes out what is in memory. The directory
// stays open and locked until the last snapshot is closed too; then the error
// of closing is returned there.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if s.stop != nil {
		close(s.stop)
		s.background.Wait()
	}
	s.hub.Close()
	return s.group.Exclusive(context.Background(), func() error {
		if err := s.db.release(s.still); err != nil {
			return fmt.Errorf("close %s: %w", s.path, diskError(err))
		}
		return nil
	})
}

// view runs f in a read transaction, which is the snapshot's if s is one.
func (s *Store) view(ctx context.Context, f func(txn *badger.Txn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.db.mu.RLock()
	defer s.db.mu.RUnlock()
	if s.closed.Load() {
		return storage.ErrClosed
	}
	if s.still != nil {
		s.still.mu.Lock()
		defer s.still.mu.Unlock()
		return guard(s.path, func() error { return f(s.still.txn) })
	}
	return guard(s.path, func() error {
		txn := s.db.NewTransaction(false)
		defer txn.Discard()
		return f(txn)
	})
}

// guard turns badger's reaction to damaged files into an error: it panics, or
// reads beyond the end of a truncated file.
func guard(path string, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &storage.CorruptError{Path: path, Reason: fmt.Sprint(r), Repair: repairStore}
		}
	}()
	return f()
}

// damaged is the error for a value with a wrong checksum.
func (s *Store) damaged(key string) error {
	return &storage.CorruptError{Path: s.path, Key: key, Reason: reasonChecksum, Repair: repairValue}
}

func (s *Store) readOnly(op string) error {
	return fmt.Errorf("%s %s: %w", op, s.path, storage.ErrReadOnly)
}

const (
	reasonChecksum = "checksum of the value does not agree"
	repairValue    = "check the store for more damage, then replace or delete what has this key, or restore a backup"
	repairStore    = "close the store, keep a copy of the directory, and restore a backup"
)
