package badger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

const (
	defaultLockWait = 5 * time.Second
	lockRetry       = 20 * time.Millisecond
	defaultMemTable = 32 << 20
	// leastMemTable has room for 1,000 keys of 1 KiB whose values stay just below
	// the value threshold and replace large ones: badger's transactions may use 15
	// % of it.
	leastMemTable   = 28 << 20
	mostMemTable    = 1 << 30
	defaultInterval = 5 * time.Minute
	valueLogFile    = 32 << 20
)

// database is an open directory, shared by a Store and its snapshots.
type database struct {
	*badger.DB
	lock *dirLock
	log  *logger

	mu    sync.RWMutex // read-locked by calls, write-locked to close
	users int          // guarded by mu
}

// release ends one use of the database, or of a snapshot, and closes what is no
// longer in use.
func (db *database) release(still *stillness) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if still != nil {
		if still.users--; still.users == 0 {
			still.txn.Discard()
		}
	}
	if db.users--; db.users > 0 {
		return nil
	}
	return errors.Join(db.Close(), db.lock.release())
}

// Open opens the store in the directory dir, creating it if there is none or
// the directory is empty. The parent directory must exist. nil opts are the
// defaults. Other users have no access to the directory, unless it is writable
// for its group.
//
// Open starts goroutines, badger's own and one that collects the garbage of the
// value log, which end before Close returns.
//
// Each thing that can be wrong with the directory has its own error: a
// [*storage.LockedError] if another process, or this one, has it open; a
// [*storage.FormatError] if it is a file, holds something else, or a store of a
// newer version; a [*storage.CorruptError] if files are missing, truncated or
// damaged; [storage.ErrReadOnly] and [storage.ErrDiskFull]. Open changes no
// existing file before it returns one of them.
func Open(ctx context.Context, dir string, opts *Options) (*Store, error) {
	s := &Store{path: filepath.Clean(dir), opened: time.Now()}
	if opts != nil {
		s.opts = *opts
	}
	s.opts.defaults()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.group = engine.NewGroup(mostGroup, weigh, s.commit)
	if err := s.prepare(); err != nil {
		return nil, err
	}
	lock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	s.db = &database{lock: lock, log: &logger{log: s.opts.Logger}, users: 1}
	if err := s.openLocked(); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	if err := s.restore(); err != nil {
		return nil, errors.Join(err, s.db.release(nil))
	}
	s.narrow()
	s.stop = make(chan struct{})
	if !s.opts.ReadOnly && s.opts.GCInterval > 0 {
		s.background.Go(s.collect)
	}
	return s, nil
}

func (o *Options) defaults() {
	if o.LockWait == 0 {
		o.LockWait = defaultLockWait
	}
	if o.MemTable == 0 {
		o.MemTable = defaultMemTable
	}
	o.MemTable = min(max(o.MemTable, leastMemTable), mostMemTable)
	if o.Reserve == 0 {
		o.Reserve = 4 * o.MemTable
	}
	if o.GCInterval == 0 {
		o.GCInterval = defaultInterval
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// badger returns badger's options. Whatever is not set here keeps its default.
func (s *Store) badger() badger.Options {
	o := badger.DefaultOptions(s.path)
	o.SyncWrites = s.opts.Durability == storage.Full
	o.ReadOnly = s.opts.ReadOnly
	o.Logger = s.db.log
	o.ExternalMagicVersion = formatMagic | formatVersion
	o.BypassLockGuard = locks // it cannot say who holds the lock
	o.DetectConflicts = false // writers take turns
	o.MetricsEnabled = false  // they are global

	o.MemTableSize = s.opts.MemTable
	o.NumMemtables = 1 // besides the one that is written to and the one that is written out
	o.NumCompactors = 2
	o.Compression = options.None
	o.BlockCacheSize = 0 // tables are mapped into memory
	// Values have a checksum of their own. A wrong checksum of badger's would only
	// end an iterator early, without an error.
	o.ChecksumVerificationMode = options.NoVerification

	o.ValueThreshold = valueThreshold
	o.ValueLogFileSize = valueLogFile
	return o
}

// prepare creates the directory if there is none.
func (s *Store) prepare() error {
	info, err := os.Stat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if s.opts.ReadOnly {
			return fmt.Errorf("open %s: no such store: %w", s.path, fs.ErrNotExist)
		}
		if err := os.Mkdir(s.path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("create %s: %w", s.path, diskError(err))
		}
		return syncDir(filepath.Dir(s.path))
	case err != nil:
		return fmt.Errorf("open: %w", diskError(err))
	case !info.IsDir():
		return &storage.FormatError{Path: s.path, Reason: "is not a directory: name a directory"}
	}
	return nil
}

// narrow denies others access to our directory, unless its group may write to
// it, because badger creates its files with the umask. What agents are told
// concerns only those who run them.
func (s *Store) narrow() {
	info, err := os.Stat(s.path)
	if err == nil && !s.opts.ReadOnly && info.Mode()&0o020 == 0 && info.Mode()&0o077 != 0 {
		_ = os.Chmod(s.path, info.Mode()&^0o077) // fails on another user's directory, which is theirs to decide
	}
}

// lock locks the directory, waiting while another process has the lock.
func (s *Store) lock(ctx context.Context) (*dirLock, error) {
	start := time.Now()
	retry := time.NewTicker(lockRetry)
	defer retry.Stop()
	for {
		lock, err := lockDir(s.path, s.opts.ReadOnly)
		if err == nil {
			return lock, nil
		}
		if !errors.Is(err, errHeld) {
			return nil, fmt.Errorf("lock %s: %w", s.path, diskError(err))
		}
		if waited := time.Since(start); waited >= s.opts.LockWait {
			return nil, &storage.LockedError{Path: s.path, Holder: holder(s.path), Waited: waited}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-retry.C:
		}
	}
}

// openLocked inspects the files, because badger would not survive damage, and
// then opens them with badger.
func (s *Store) openLocked() error {
	if err := s.recognize(); err != nil {
		return err
	}
	if !s.opts.ReadOnly {
		if err := s.room("open", 0); err != nil {
			return err
		}
		if err := s.repair(); err != nil {
			return fmt.Errorf("open %s: %w", s.path, diskError(err))
		}
		if err := s.db.lock.sign(); err != nil {
			return fmt.Errorf("open %s: %w", s.path, diskError(err))
		}
	}
	if err := s.probe(); err != nil {
		return err
	}
	err := guard(s.path, func() (err error) {
		s.db.DB, err = badger.Open(s.badger())
		return err
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, storage.ErrCorrupt):
		return err
	case strings.Contains(err.Error(), "Another process is using this Badger database"): // where locks is false
		return &storage.LockedError{Path: s.path}
	}
	if full := diskError(err); errors.Is(full, storage.ErrDiskFull) || errors.Is(full, storage.ErrReadOnly) || errors.Is(full, fs.ErrPermission) {
		return fmt.Errorf("open %s: %w", s.path, full)
	}
	return &storage.CorruptError{Path: s.path, Reason: err.Error(), Repair: repairStore}
}

// restore reads the state of the store and cleans up after a crash.
func (s *Store) restore() error {
	var j *journal
	err := s.view(context.Background(), func(txn *badger.Txn) error {
		now, fields, err := readState(txn, s.path)
		if err != nil {
			return err
		}
		s.state.Store(&now)
		s.fields.Store(&fields)
		j, err = s.readJournal(txn)
		return err
	})
	if err != nil || j == nil {
		return err
	}
	if s.opts.ReadOnly {
		s.loose.Store(1)
		return nil
	}
	return guard(s.path, s.recover)
}

// diskError is [engine.DiskError] for the errors of badger, most of which have
// their cause only as text.
func diskError(err error) error {
	if engine.Unreadable(err) {
		return err
	}
	text := err.Error()
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if strings.Contains(text, full.Error()) {
			return fmt.Errorf("%w: %w", storage.ErrDiskFull, err)
		}
	}
	for _, refused := range []error{syscall.EACCES, syscall.EPERM, syscall.EROFS} {
		if strings.Contains(text, refused.Error()) {
			return fmt.Errorf("%w: %w", storage.ErrReadOnly, err)
		}
	}
	return engine.DiskError(err)
}
