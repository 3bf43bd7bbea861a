package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	defaultLockWait = 5 * time.Second
	lockRetry       = 20 * time.Millisecond
)

// Open opens the store in the file at path, creating it if there is none. The
// file's directory must exist. nil opts are the defaults.
//
// Each thing that can be wrong with the file has its own error: a
// [*storage.LockedError] if another process, or this one, has it open; a
// [*storage.FormatError] if it is empty, not a store, or a store of a newer
// version; a [*storage.CorruptError] if it is truncated or damaged;
// [storage.ErrReadOnly] and [storage.ErrDiskFull]. None of them changes the
// file.
func Open(ctx context.Context, path string, opts *Options) (*Store, error) {
	s := &Store{path: filepath.Clean(path), opened: time.Now()}
	if opts != nil {
		s.opts = *opts
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.group = engine.NewGroup(mostGroup, weigh, s.commit)
	if err := s.prepare(); err != nil {
		return nil, err
	}
	db, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	var fields []string
	err = guard(s.path, func() error {
		return db.View(func(tx *bbolt.Tx) (err error) {
			if err := recognize(tx, s.path); err != nil {
				return err
			}
			fields, err = readFields(tx, s.path)
			return err
		})
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if !s.opts.ReadOnly {
		// Left by a Compact that was killed; that we hold the lock shows that none is
		// running.
		_ = os.Remove(s.compactPath())
	}
	s.db.Store(db)
	s.fields.Store(&fields)
	return s, nil
}

// prepare creates the file if there is none, and examines an existing one
// before bbolt maps it into memory.
func (s *Store) prepare() error {
	info, err := os.Stat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if s.opts.ReadOnly {
			return fmt.Errorf("open %s: no such store: %w", s.path, fs.ErrNotExist)
		}
		if err := create(s.path, s.opts.Durability); err != nil {
			return fmt.Errorf("create %s: %w", s.path, diskError(err))
		}
		return nil
	case err != nil:
		return fmt.Errorf("open: %w", diskError(err))
	case !info.Mode().IsRegular():
		return &storage.FormatError{Path: s.path, Reason: "is not a regular file: name a file"}
	}
	return probe(s.path)
}

// pageSize returns that of a new file, 0 for the system's.
func pageSize(d storage.Durability) int {
	if d == storage.Full {
		return 0
	}
	return smallPage
}

// create makes an empty store next to path and links it there when it is
// complete: a crash leaves no file that cannot be opened, and if two processes
// create the same file, one of them wins.
func create(path string, d storage.Durability) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp.*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := f.Close(); err != nil {
		return err
	}
	db, err := bbolt.Open(f.Name(), 0o600, &bbolt.Options{PageSize: pageSize(d)})
	if err != nil {
		return err
	}
	if err := errors.Join(db.Update(initialize), db.Close()); err != nil {
		return err
	}
	err = os.Link(f.Name(), path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = os.Rename(f.Name(), path) // a file system without links
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in a directory durable, if the system can.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	_ = d.Sync() // some systems cannot sync a directory
	return nil
}

// lock opens the file with bbolt, which locks it, waiting while another process
// has the lock.
func (s *Store) lock(ctx context.Context) (*bbolt.DB, error) {
	wait := s.opts.LockWait
	if wait == 0 {
		wait = defaultLockWait
	}
	start := time.Now()
	retry := time.NewTicker(lockRetry)
	defer retry.Stop()
	for {
		db, err := s.openFile(s.path)
		if !errors.Is(err, bolterrors.ErrTimeout) {
			return db, err
		}
		if waited := time.Since(start); waited >= wait {
			return nil, &storage.LockedError{Path: s.path, Holder: holder(s.path), Waited: waited}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-retry.C:
		}
	}
}

// freelistType is how bbolt keeps the numbers of free pages in memory. Each commit
// writes them in order, for which it must sort a map: with 70,000 free pages a small
// commit takes two to five times as long as with an array. The file is the same.
const freelistType = bbolt.FreelistArrayType

// openFile opens a file with bbolt. It does not wait for the lock: if it is
// held, the error is bbolt's ErrTimeout.
func (s *Store) openFile(path string) (*bbolt.DB, error) {
	var file *os.File
	var db *bbolt.DB
	err := guard(path, func() (err error) {
		db, err = bbolt.Open(path, 0o600, &bbolt.Options{
			Timeout:      1, // one attempt
			ReadOnly:     s.opts.ReadOnly,
			NoSync:       s.opts.Durability != storage.Full,
			PageSize:     pageSize(s.opts.Durability), // of the file that Compact makes
			FreelistType: freelistType,                // kept on disk: opening does not scan the file
			NoStatistics: true,
			OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
				file, err = os.OpenFile(name, flag&^os.O_CREATE, mode)
				return file, err
			},
		})
		return err
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, err
	case errors.Is(err, storage.ErrCorrupt):
		if file != nil { // bbolt panicked and released nothing
			unlock(file)
			file.Close()
		}
		return nil, err
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, &storage.CorruptError{Path: path, Reason: err.Error(), Repair: repairFile}
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", path, diskError(err))
	}
	// After waiting, the lock may be that of a file that Compact has replaced.
	mine, err := file.Stat()
	there, statErr := os.Stat(path)
	if err = errors.Join(err, statErr); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), db.Close())
	}
	if !os.SameFile(mine, there) {
		return nil, errors.Join(bolterrors.ErrTimeout, db.Close())
	}
	return db, nil
}

// diskError is [engine.DiskError] for the errors of bbolt, some of which have
// their cause only as text.
func diskError(err error) error {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if !errors.Is(err, full) && strings.HasSuffix(err.Error(), ": "+full.Error()) {
			return fmt.Errorf("%w: %w", storage.ErrDiskFull, err)
		}
	}
	return engine.DiskError(err)
}
