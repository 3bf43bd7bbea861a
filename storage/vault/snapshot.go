package vault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

// Snapshot implements [storage.Snapshotter]. It copies the documents' texts to
// a temporary file in the vault, or in [os.TempDir] if the vault is read only,
// which is deleted when the snapshot is closed; writes wait only while it
// copies what changed meanwhile. Records are read from the log, which keeps
// them until then.
func (s *Store) Snapshot(ctx context.Context) (storage.Adapter, error) {
	if s.closed.Load() {
		return nil, storage.ErrClosed
	}
	dir := filepath.Join(s.root, tempDir)
	if s.opts.ReadOnly {
		dir = os.TempDir()
	}
	path := filepath.Join(dir, filepath.Base(s.tempName()))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", engine.DiskError(err))
	}
	still := &snapshot{opened: time.Now(), of: s, spool: spool{f: f, has: map[digest]span{}}}
	// A process that opens the vault may have removed it, and some systems cannot
	// delete open files.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		still.discard = path
	}
	err = s.with(ctx, true, func(v view) error { return still.spool.add(ctx, s, v.st) })
	if err == nil {
		err = s.group.Exclusive(ctx, func() error {
			return s.locked(ctx, func() error { return still.freeze(ctx, s) })
		})
	}
	if err != nil {
		err = errors.Join(err, f.Close())
		if still.discard != "" {
			err = errors.Join(err, os.Remove(still.discard))
		}
		if errors.Is(err, storage.ErrClosed) || ctx.Err() != nil {
			return nil, err
		}
		return nil, fmt.Errorf("snapshot: %w", engine.DiskError(err))
	}
	return still, nil
}

// spool is a file of texts.
type spool struct {
	f    *os.File
	size int64
	has  map[digest]span
}

// add copies the texts that the spool does not have.
func (p *spool) add(ctx context.Context, s *Store, st *state) (err error) {
	st.files(func(_ string, d *doc) bool {
		if _, ok := p.has[d.digest]; ok || d.bad != "" {
			return true
		}
		if err = ctx.Err(); err != nil {
			return false
		}
		var alien *errNoDocument
		text, _, readErr := s.readText(d.dir, d.name)
		if errors.Is(readErr, fs.ErrNotExist) || errors.As(readErr, &alien) {
			return true
		}
		if err = readErr; err == nil {
			_, err = p.f.WriteAt(text, p.size)
		}
		p.has[digestOf(text)] = span{p.size, int64(len(text))}
		p.size += int64(len(text))
		return err == nil
	})
	return err
}

// snapshot is a store as it was at a moment.
type snapshot struct {
	opened   time.Time
	of       *Store
	st       *state
	spool    spool
	segments []*segment
	discard  string

	mu     sync.RWMutex
	closed bool
}

// freeze takes the present state. The caller holds the lock.
func (n *snapshot) freeze(ctx context.Context, s *Store) error {
	st := s.snapshot().copy()
	if err := n.spool.add(ctx, s, st); err != nil {
		return err
	}
	docs := map[string]*doc{}
	st.files(func(key string, d *doc) bool {
		docs[key] = d
		return true
	})
	for key, d := range docs {
		text, ok := n.spool.has[d.digest]
		if d.bad != "" && !storage.IsDocument(key) {
			continue // its readers get an error
		}
		if !ok { // unreadable, or being changed by another hand
			st.remove(key)
			continue
		}
		copied := *d
		copied.text = text
		st.items.Set(key, item{doc: &copied})
	}
	n.st = st
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.segments {
		g.refs++
		n.segments = append(n.segments, g)
	}
	return nil
}

// with calls f with the snapshot.
func (n *snapshot) with(ctx context.Context, _ bool, f func(view) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.closed {
		return storage.ErrClosed
	}
	return f(view{st: n.st, root: n.of.root, spool: n.spool.f})
}

func (n *snapshot) Get(ctx context.Context, key string) (value []byte, version storage.Version, err error) {
	if err := storage.ValidateKey(key); err != nil {
		return nil, "", err
	}
	err = n.with(ctx, false, func(v view) error {
		it, ok := v.st.items.Get(key)
		var e storage.Entry
		if ok {
			e, ok, err = v.entry(key, it)
		}
		if err == nil && !ok {
			err = &storage.KeyError{Op: "get", Key: key, Err: storage.ErrNotFound}
		}
		value, version = e.Value, e.Version
		return err
	})
	return value, version, err
}

func (n *snapshot) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return listView(ctx, n.with, prefix)
}

func (n *snapshot) Scan(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error] {
	return scanView(ctx, n.with, prefix, opts)
}

func (n *snapshot) Find(ctx context.Context, q storage.Query) iter.Seq2[storage.Entry, error] {
	return findView(ctx, n.with, q)
}

func (n *snapshot) EnsureIndex(ctx context.Context, fields ...string) error {
	return n.with(ctx, false, func(v view) error {
		if _, added := engine.AddFields(v.st.fields, fields); len(added) > 0 {
			return errStill
		}
		return nil
	})
}

var errStill = fmt.Errorf("write snapshot: %w", storage.ErrReadOnly)

func (n *snapshot) Apply(context.Context, ...storage.Op) error { return errStill }

func (n *snapshot) Stats(ctx context.Context) (st storage.Stats, err error) {
	err = n.with(ctx, false, func(v view) error {
		st = storage.Stats{
			Engine: "vault", Documents: int64(v.st.docs), Records: int64(v.st.records),
			Bytes: n.spool.size, Indexes: slices.Clone(v.st.fields), Opened: n.opened,
		}
		return nil
	})
	return st, err
}

func (n *snapshot) Check(ctx context.Context) iter.Seq2[storage.Fault, error] {
	return func(yield func(storage.Fault, error) bool) {
		var faults []storage.Fault
		err := n.with(ctx, false, func(v view) error {
			faults = checkState(v)
			return nil
		})
		yieldAll(faults, err, yield)
	}
}

func (n *snapshot) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	errs := []error{n.spool.f.Close()}
	if n.discard != "" {
		errs = append(errs, os.Remove(n.discard))
	}
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	for _, g := range n.segments {
		errs = append(errs, g.drop())
	}
	return errors.Join(errs...)
}
