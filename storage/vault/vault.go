// Package vault keeps a store in a directory of Markdown files that people
// read, edit, diff and commit, and that several processes share.
//
// It is neither the fastest engine (storage/badger) nor the smallest
// (storage/bolt), and its files are no place for secrets. Changes that people
// make to the files, with an editor or with git, count as much as those of
// programs.
//
// The one decision: the files are the truth about documents, and a log is the
// truth about what was promised. A commit is one synced write to the log, after
// which the files are put in place without syncing each; whoever finds an
// unfinished commit finishes it.
//
//	vault/
//	  insight/retries.md   the document insight/retries; see name.go, matter.go
//	  Daily Notes/a b.md   a document in a folder that a person made; see layout.go
//	  _governance/a.rec    a record in a namespace of files; see record.go
//	  .gitignore           what version control is not to carry
//	  _vault.json          the version of the format; see format.go
//	  _data/               the log, which also holds the other records; see log.go
//	  _index.json          what is in the files, for a fast start; see index.go
//	  _mutations.jsonl     who changed what; see audit.go
//	  _vault.lock          who is writing; see lock.go
//
// # Version control
//
// Version control carries documents, the records in namespaces of files, and
// _vault.json. It does not carry the rest: threads and states of agents, which
// are records in _data, the audit log, and what can be rebuilt. A vault without
// a .gitignore gets one that says so; an existing one is not touched. A clone
// opens as a vault with the same documents and the same records in files, and
// no others. A namespace is one of files if [Options] Files names it or the
// vault has its directory.
//
// # Who may read it
//
// The umask governs the files of documents. Records, the log, the index, the
// audit log, what is in _data/lost and the lock are private to their owner:
// 0600, in directories of 0700; opening for writing narrows those of ours that
// are not. To share a vault with a group, give its directory to the group and
// make it writable (chgrp team DIR; chmod g+ws DIR). Then the group may read
// and write everything that is created, the lock included, and existing files
// follow when each owner opens the vault next. See access.go.
//
// # Other hands
//
// A file that another program edited, created or removed is seen by the next
// read of its key, by Find, List and Scan, and by Watch. On Linux these read
// the kernel's events first; elsewhere they look at the size and time of every
// file. A plain Set or Delete replaces what it finds, but a text that no caller
// of this store has seen is first kept in _data/lost. Callers that must not
// replace it use a precondition. An edit saved between the check of a commit
// and the moment when its file is put in place is kept there as well: Linux
// exchanges two files in one step. Elsewhere the last microseconds are not
// covered; nor is, anywhere, a program that continues to write to a file it
// opened earlier. A file that cannot be read as a document is logged and left
// out of List, Scan and Find; Unreadable lists it, Get of its key returns a
// [*storage.CorruptError], and Set keeps a copy.
//
// Symbolic links in place of a file or directory in the vault are not followed.
// A write fails if one appears while the store is open; only the microseconds
// between check and write are not covered.
//
// # Durability
//
// [storage.Full] syncs the log (fdatasync on Linux) before a call returns.
// Files are put in place after that, and the whole file system is synced before
// part of the log is dropped (syncfs on Linux, otherwise fsync of each file).
// It survives power loss: the next open restores from the log what did not
// reach the disk.
//
// [storage.Process] does not sync. It survives kill -9. A power loss may undo
// the last changes, or leave their files empty. [storage.None] is the same.
package vault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

// Options configures [Open]. The zero value means the defaults.
type Options struct {
	// Durability is that of writes; see the package comment.
	Durability storage.Durability
	// ReadOnly opens an existing vault without changing any of its files, even on
	// read-only media. It takes no lock, and sees what others write. Writes return
	// [storage.ErrReadOnly].
	ReadOnly bool
	// Actor is who made a change, according to the audit log, if its context has
	// no [storage.WithActor]; "" means "strata".
	Actor string
	// LockWait is how long a write waits for other processes; 0 means 5 s,
	// negative means not at all.
	LockWait time.Duration
	// Files names the namespaces of records that are files, for example
	// "_governance/": small ones that version control should carry and that merge
	// by being added up. Each is _ followed by [a-z][a-z0-9-]*, except _data. A
	// namespace whose directory exists in the vault need not be named; the records
	// of others are in the log.
	Files []string
	// Adopt turns a directory that holds other files, such as notes that people
	// wrote, into a vault, which is refused otherwise; and it takes in folders
	// with notes that were added to a vault since. The notes stay where and as
	// they are: each folder whose name is not a type gets one, which _vault.json
	// records; see [Store.Folders] and [Store.Left].
	Adopt bool
	// Taken are types with a meaning of their own: Adopt gives one only to a
	// folder of that name.
	Taken []string
	// Logger receives what is worth knowing but not an error of a call: unreadable
	// files, texts kept in _data/lost, repairs. nil means [slog.Default].
	Logger *slog.Logger
}

// Store is an open vault. It is safe for concurrent use.
type Store struct {
	root   string
	who    access
	opts   Options
	opened time.Time
	salt   []byte
	logger *slog.Logger
	hub    engine.Hub
	group  *engine.Group[*request]
	closed atomic.Bool
	layout atomic.Pointer[layout] // immutable; replaced under syncing
	// reading is held by reads, a page at a time; closing files waits for it. It
	// is acquired before syncing, and that before mu.
	reading sync.RWMutex

	// Used by the holder of the vault's lock.
	lock  *lockFile // nil if read-only
	audit auditFile
	end   *os.File // _data/end, which the others only read; nil if read-only and there is none

	// syncing is held to bring the state up to date with log and files.
	syncing  sync.Mutex
	at       position // how much of the log the state has
	indexAt  position // how much of it the documents have, if more
	seq      uint64   // number of the next op
	clock    int64    // the latest time in the log, Unix ns
	cur      *segment // the one at is in; nil if read-only and there is no log
	watch    *watcher // nil if the system has no events
	dirty    map[string]bool
	later    map[string]bool // files that were busy when looked at
	sweeps   map[string]bool // directories to look at
	sweepAll bool
	trusting bool // treat texts as seen: the index is being rebuilt
	unfiled  bool // whether the log has records that are to be files

	mu       sync.RWMutex
	now      state
	shared   *state              // snapshot of the present state, until the next change
	segments map[uint64]*segment // those with records or readers
	aliases  map[string]string   // file → key, if the name does not reveal it
	busy     map[string]bool     // files that a commit is writing
	changes  uint64              // number of changes to the state, ever

	upkeep upkeep
}

// Get implements [storage.Adapter]. It reads the document's file; the version
// is that of the text.
func (s *Store) Get(ctx context.Context, key string) (value []byte, version storage.Version, err error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	if err := storage.ValidateKey(key); err != nil {
		return nil, "", err
	}
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.closed.Load() {
		return nil, "", storage.ErrClosed
	}
	if storage.IsDocument(key) {
		return s.getFile(key)
	}
	if s.filed(key) {
		// If it does not exist, it may still be in the log.
		if value, version, err := s.getFile(key); !errors.Is(err, storage.ErrNotFound) {
			return value, version, err
		}
	}
	if err := s.refreshLog(); err != nil {
		return nil, "", err
	}
	s.mu.RLock()
	it, ok := s.now.items.Get(key)
	s.mu.RUnlock()
	switch {
	case it.doc != nil, !ok && s.appears(space(key)):
		return s.getFile(key)
	case !ok:
		return nil, "", &storage.KeyError{Op: "get", Key: key, Err: storage.ErrNotFound}
	}
	value, err = it.record(key)
	return value, it.version(), err
}

// getFile reads the content of a file.
func (s *Store) getFile(key string) ([]byte, storage.Version, error) {
	d := s.peek(key)
	dir, name, _ := s.layout.Load().fileOf(key)
	if d != nil {
		dir, name = d.dir, d.name
	}
	text, _, err := s.readText(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		// It is gone, or has another name that we do not know yet.
		if err := s.refresh(); err != nil {
			return nil, "", err
		}
		if d = s.peek(key); d == nil {
			return nil, "", &storage.KeyError{Op: "get", Key: key, Err: storage.ErrNotFound}
		}
		dir, name = d.dir, d.name
		text, _, err = s.readText(dir, name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", &storage.KeyError{Op: "get", Key: key, Err: storage.ErrNotFound}
	}
	var value []byte
	if err == nil {
		value, err = valueOf(key, dir, name, text)
	}
	sum := digestOf(text)
	if d == nil || d.digest != sum {
		s.notice(dir, name)
	}
	if err != nil {
		return nil, "", corrupt(key, (&doc{dir: dir, name: name}).path(s.root), err)
	}
	s.seen(key, sum)
	return value, sum.version(), nil
}

// corrupt is the error for a file that is not a document or record.
func corrupt(key, path string, err error) error {
	if alien, ok := errors.AsType[*errNoDocument](err); ok {
		return &storage.CorruptError{Path: path, Key: key, Reason: alien.reason, Repair: repairText}
	}
	return err
}

const repairText = "edit the file, or write the document anew: a copy is kept"

// Apply implements [storage.Adapter]. It is atomic for writers and for crashes;
// a reader may see a batch in progress. Concurrent calls share a commit. A file
// keeps the order of its fields and the lines of unchanged ones.
func (s *Store) Apply(ctx context.Context, ops ...storage.Op) error {
	if err := storage.ValidateOps(ops); err != nil {
		return err
	}
	switch {
	case s.closed.Load():
		return storage.ErrClosed
	case len(ops) == 0:
		return ctx.Err()
	}
	if err := errors.Join(ctx.Err(), s.writable()); err != nil {
		return err
	}
	r := s.request(ctx, ops)
	defer r.discard()
	return s.group.Do(ctx, r)
}

func (s *Store) writable() error {
	if s.opts.ReadOnly {
		return fmt.Errorf("write %s: %w", s.root, storage.ErrReadOnly)
	}
	return nil
}

// List implements [storage.Adapter].
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return listView(ctx, s.with, prefix)
}

// Scan implements [storage.Scanner]. It reads a page at a time, so it may see
// writes made meanwhile.
func (s *Store) Scan(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error] {
	return scanView(ctx, s.with, prefix, opts)
}

// Find implements [storage.Finder]. It opens only the files of matching
// documents.
func (s *Store) Find(ctx context.Context, q storage.Query) iter.Seq2[storage.Entry, error] {
	return findView(ctx, s.with, q)
}

// EnsureIndex implements [storage.Finder]. Writes wait while it reads all
// documents.
func (s *Store) EnsureIndex(ctx context.Context, fields ...string) error {
	if err := engine.ValidateFields(fields...); err != nil {
		return err
	}
	if s.closed.Load() {
		return storage.ErrClosed
	}
	return s.group.Exclusive(ctx, func() error {
		declared, added := engine.AddFields(s.declared(), fields)
		if len(added) == 0 {
			return nil
		}
		if err := s.writable(); err != nil {
			return err
		}
		return s.locked(ctx, func() error {
			return s.mark(change{kind: opFields, value: encodeFields(declared)})
		})
	})
}

// declared returns the declared fields, which must not be modified.
func (s *Store) declared() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.now.fields
}

// Watch implements [storage.Watcher]. It sees the changes of all processes and
// of people. The first call starts a goroutine that Close ends.
func (s *Store) Watch(ctx context.Context, prefix string) (iter.Seq2[storage.Event, error], error) {
	if s.closed.Load() {
		return nil, storage.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.refresh(); err != nil { // earlier changes are not reported
		return nil, err
	}
	s.upkeep.watchOnce.Do(s.startWatching)
	return s.hub.Watch(ctx, prefix)
}

// Stats implements [storage.Statter]. Bytes is the size of the documents' files
// and of the log.
func (s *Store) Stats(ctx context.Context) (st storage.Stats, err error) {
	err = s.with(ctx, true, func(v view) error {
		st = storage.Stats{
			Engine: "vault", Documents: int64(v.st.docs), Records: int64(v.st.records),
			Indexes: slices.Clone(v.st.fields), Opened: s.opened,
		}
		v.st.files(func(_ string, d *doc) bool {
			st.Bytes += d.stat.size
			return true
		})
		base, numbers, err := segmentsOf(s.root)
		if base > 0 {
			st.Bytes += fileSize(segmentPath(s.root, base, true))
		}
		for _, no := range numbers {
			st.Bytes += fileSize(segmentPath(s.root, no, false))
		}
		return err
	})
	return st, err
}

func fileSize(path string) int64 {
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// with calls f with the present store. fresh says whether to look at log and
// files first.
func (s *Store) with(ctx context.Context, fresh bool, f func(view) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.closed.Load() {
		return storage.ErrClosed
	}
	if fresh {
		if err := s.refresh(); err != nil {
			return err
		}
	}
	return f(view{st: s.snapshot(), root: s.root, store: s})
}

// snapshot returns the present state.
func (s *Store) snapshot() *state {
	s.mu.RLock()
	shared := s.shared
	s.mu.RUnlock()
	if shared != nil {
		return shared
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared == nil {
		s.shared = s.now.copy()
	}
	return s.shared
}

// refresh brings the state up to date.
func (s *Store) refresh() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	if err := s.absorb(); err != nil {
		return err
	}
	return s.observe()
}

// refreshLog brings the records up to date.
func (s *Store) refreshLog() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	return s.absorb()
}

// Close implements [storage.Adapter]. It waits for the calls in progress and
// for its goroutines, and renews _index.json.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.hub.Close()
	s.stopUpkeep()
	err := s.group.Exclusive(context.Background(), func() error {
		s.reading.Lock()
		defer s.reading.Unlock()
		var err error
		if !s.opts.ReadOnly {
			err = s.writeIndex(s.opts.Durability == storage.Full)
		}
		return errors.Join(err, s.release())
	})
	if err != nil {
		return fmt.Errorf("close %s: %w", s.root, err)
	}
	return nil
}

// release closes the files.
func (s *Store) release() error {
	if s.watch != nil {
		s.watch.close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, g := range s.segments {
		errs = append(errs, g.drop())
	}
	for _, g := range s.upkeep.old {
		errs = append(errs, g.drop())
	}
	s.segments, s.upkeep.old = nil, nil
	if s.lock != nil {
		errs = append(errs, s.lock.f.Close())
	}
	for _, f := range []*os.File{s.audit.f, s.end} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// drop releases a reference to a segment. The caller holds Store.mu.
func (g *segment) drop() error {
	if g.refs--; g.refs > 0 {
		return nil
	}
	return g.f.Close()
}
