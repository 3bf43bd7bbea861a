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
	// leastMemTable has room for 1,000 keys of 1 KiB whose values stay just
	// below the value threshold and replace large ones: badger's transactions
	// take 15 % of it.
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

	mu    sync.RWMutex // held for reading by those who read, for writing by who closes
	users int          // under mu
}

// release gives up one use of the database, and of a snapshot, and closes what
// nobody uses any more.
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

// Open opens the store in the directory dir, and makes one where there is
// none, or an empty directory. The directory around it must exist. nil opts
// are the defaults. Other users are kept out of it, unless it is writable for
// its group.
//
// It starts goroutines, of badger and one that collects the garbage of the
// value log, which end before Close returns.
//
// What can be wrong with the directory has an error each: a
// [*storage.LockedError] if another process, or this one, has it open; a
// [*storage.FormatError] if it is a file, holds something else, or a store of a
// newer version; a [*storage.CorruptError] if files are missing, cut short or
// damaged; [storage.ErrReadOnly] and [storage.ErrDiskFull]. None of them
// changes a file that is there.
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

// badger returns badger's options. What is not set here is its default.
func (s *Store) badger() badger.Options {
	o := badger.DefaultOptions(s.path)
	o.SyncWrites = s.opts.Durability == storage.Full
	o.ReadOnly = s.opts.ReadOnly
	o.Logger = s.db.log
	o.ExternalMagicVersion = formatMagic | formatVersion
	o.BypassLockGuard = locks // it has no words for who holds the lock
	o.DetectConflicts = false // writers take turns
	o.MetricsEnabled = false  // they are global

	o.MemTableSize = s.opts.MemTable
	o.NumMemtables = 1 // besides the one that is written to and the one that is written out
	o.NumCompactors = 2
	o.Compression = options.None
	o.BlockCacheSize = 0 // tables are mapped into memory
	// Values have a checksum of their own. A checksum of badger's that did not
	// agree would only make an iterator end early, without an error.
	o.ChecksumVerificationMode = options.NoVerification

	o.ValueThreshold = valueThreshold
	o.ValueLogFileSize = valueLogFile
	return o
}

// prepare makes the directory if there is none.
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

// narrow keeps others out of a directory that is ours, unless its group may write
// to it, for badger makes its files as the umask says. What is told to agents is
// for who runs them.
func (s *Store) narrow() {
	info, err := os.Stat(s.path)
	if err == nil && !s.opts.ReadOnly && info.Mode()&0o020 == 0 && info.Mode()&0o077 != 0 {
		_ = os.Chmod(s.path, info.Mode()&^0o077) // of another user: theirs to say
	}
}

// lock locks the directory, and waits while another has the lock.
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

// openLocked looks at the files, so that badger does not have to, and has it
// open them.
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
	case strings.Contains(err.Error(), "Another process is using this Badger database"): // where we have no lock
		return &storage.LockedError{Path: s.path}
	}
	if full := diskError(err); errors.Is(full, storage.ErrDiskFull) || errors.Is(full, storage.ErrReadOnly) || errors.Is(full, fs.ErrPermission) {
		return fmt.Errorf("open %s: %w", s.path, full)
	}
	return &storage.CorruptError{Path: s.path, Reason: err.Error(), Repair: repairStore}
}

// restore reads what the store knows of itself, and cleans up after a crash.
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

// diskError is [engine.DiskError] for what comes out of badger, which puts the
// cause of most errors into words only.
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
