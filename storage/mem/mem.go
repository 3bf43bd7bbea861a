// Package mem keeps a store in memory, for tests and throw-away runs.
//
// It is the fake for all other engines: every capability, the same rules, the
// same errors, and nothing left after Close. It is not a cache and has no size
// limit.
//
// The one decision: keys live in a copy-on-write B-tree, so that a loop over
// keys reads a snapshot, holds no lock, and sees the store as it was when the
// loop began.
package mem

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
	"github.com/tidwall/btree"
)

// Store is a store in memory. Its durability is [storage.None]: nothing
// outlives Close or the process.
type Store struct {
	hub    engine.Hub
	opened time.Time

	mu     sync.RWMutex
	now    state
	seq    uint64 // number of the last write
	fence  uint64 // seq when the last snapshot was taken
	shared *state // snapshot of the present state, until the next write
	closed bool
}

// state is the content of a store. A snapshot of it never changes.
type state struct {
	data   *btree.Map[string, *item]
	index  *btree.Map[string, struct{}] // entries of package engine
	fields []string                     // declared; replaced, never changed
	docs   int
	bytes  int64
}

// item is a value with the number of the write that made it. It is replaced in
// place, reusing its memory, unless a snapshot taken since then may show it. So
// an item is read under the lock, or in a snapshot.
type item struct {
	value []byte
	seq   uint64
}

// New returns an empty store.
func New() *Store {
	return &Store{
		opened: time.Now(),
		now:    state{data: new(btree.Map[string, *item]), index: new(btree.Map[string, struct{}])},
	}
}

// Get implements [storage.Adapter].
func (s *Store) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	if err := storage.ValidateKey(key); err != nil {
		return nil, "", err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, "", storage.ErrClosed
	}
	it, ok := s.now.data.Get(key)
	if !ok {
		return nil, "", &storage.KeyError{Op: "get", Key: key, Err: storage.ErrNotFound}
	}
	return clone(it.value), engine.Version(it.seq), nil
}

// Apply implements [storage.Adapter]. Other goroutines see all changes or none.
func (s *Store) Apply(ctx context.Context, ops ...storage.Op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := storage.ValidateOps(ops); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return storage.ErrClosed
	}
	for i := range ops {
		op := &ops[i]
		if !op.Check {
			continue
		}
		var seq uint64
		if it, ok := s.now.data.Get(op.Key); ok {
			seq = it.seq
		}
		if !engine.IsVersion(op.If, seq) {
			return &storage.ConflictError{Key: op.Key}
		}
	}
	s.shared = nil
	watched := s.hub.Watched()
	for i := range ops {
		op := &ops[i]
		kind := storage.EventSet
		if op.Delete {
			if !s.now.remove(op.Key) {
				continue
			}
			kind = storage.EventDelete
		} else {
			s.seq++
			s.put(op.Key, op.Value)
			if op.Made != nil {
				*op.Made = engine.Version(s.seq)
			}
		}
		if watched {
			s.hub.Publish(storage.Event{Kind: kind, Key: op.Key})
		}
	}
	return nil
}

// put sets the value of key, as write s.seq.
func (s *Store) put(key string, value []byte) {
	document := storage.IsDocument(key)
	old, had := s.now.data.Get(key)
	if had && !document && old.seq > s.fence && fits(value, old.value) {
		s.now.bytes += int64(len(value) - len(old.value))
		old.value, old.seq = append(old.value[:0], value...), s.seq
		return
	}
	it := &item{clone(value), s.seq}
	s.now.data.Set(key, it)
	if !had {
		old = &item{}
		s.now.bytes += int64(len(key))
	}
	s.now.bytes += int64(len(value) - len(old.value))
	if !document {
		return
	}
	if !had {
		s.now.docs++
	}
	s.now.reindex(key, old.value, it.value)
}

// fits reports whether a value can reuse the memory of another without wasting
// most of it.
func fits(value, old []byte) bool {
	return len(value) <= cap(old) && len(value) >= cap(old)/2
}

// remove removes key and reports whether it existed.
func (st *state) remove(key string) bool {
	old, had := st.data.Delete(key)
	if !had {
		return false
	}
	st.bytes -= int64(len(key) + len(old.value))
	if storage.IsDocument(key) {
		st.docs--
		st.reindex(key, old.value, nil)
	}
	return true
}

// reindex replaces the index entries of a document; nil stands for no document.
func (st *state) reindex(key string, before, after []byte) {
	if len(st.fields) == 0 {
		return
	}
	removed, added := engine.Diff(engine.Entries(key, before, st.fields), engine.Entries(key, after, st.fields))
	for _, entry := range removed {
		st.index.Delete(entry)
	}
	for _, entry := range added {
		st.index.Set(entry, struct{}{})
	}
}

// EnsureIndex implements [storage.Finder].
func (s *Store) EnsureIndex(ctx context.Context, fields ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := engine.ValidateFields(fields...); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return storage.ErrClosed
	}
	declared, added := engine.AddFields(s.now.fields, fields)
	if len(added) == 0 {
		return nil
	}
	s.shared = nil
	s.now.fields = declared
	s.now.data.Scan(func(key string, it *item) bool {
		if storage.IsDocument(key) {
			for _, entry := range engine.Entries(key, it.value, added) {
				s.now.index.Set(entry, struct{}{})
			}
		}
		return true
	})
	return nil
}

// snapshot returns the present state.
func (s *Store) snapshot(ctx context.Context) (*state, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	shared, closed := s.shared, s.closed
	s.mu.RUnlock()
	if closed {
		return nil, storage.ErrClosed
	}
	if shared != nil {
		return shared, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, storage.ErrClosed
	}
	if s.shared == nil {
		st := s.now
		st.data, st.index = s.now.data.Copy(), s.now.index.Copy()
		s.shared, s.fence = &st, s.seq
	}
	return s.shared, nil
}

// List implements [storage.Adapter].
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for key, it := range s.items(ctx, prefix, nil) {
			if it.err != nil {
				yield("", it.err)
				return
			}
			if !yield(key, nil) {
				return
			}
		}
	}
}

// Scan implements [storage.Scanner]. It yields the store as it was when the
// loop began.
func (s *Store) Scan(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		for key, it := range s.items(ctx, prefix, opts) {
			if it.err != nil {
				yield(storage.Entry{}, it.err)
				return
			}
			if !yield(it.entry(key), nil) {
				return
			}
		}
	}
}

// result is an item or an error.
type result struct {
	*item
	err error
}

func (it *item) entry(key string) storage.Entry {
	return storage.Entry{Key: key, Value: clone(it.value), Version: engine.Version(it.seq)}
}

// items yields a snapshot's items under prefix.
func (s *Store) items(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[string, result] {
	return func(yield func(string, result) bool) {
		st, err := s.snapshot(ctx)
		if err != nil {
			yield("", result{err: err})
			return
		}
		span := engine.NewSpan(prefix, opts)
		left := span.Limit
		walk := func(key string, it *item) bool {
			if span.Skips(key) {
				return true
			}
			if !span.Holds(key) {
				return false
			}
			if err := ctx.Err(); err != nil {
				yield("", result{err: err})
				return false
			}
			left--
			return yield(key, result{item: it}) && left != 0
		}
		switch {
		case !span.Reverse:
			st.data.Ascend(span.From, walk)
		case span.From == "":
			st.data.Reverse(walk)
		default:
			st.data.Descend(span.From, walk)
		}
	}
}

// Find implements [storage.Finder].
func (s *Store) Find(ctx context.Context, q storage.Query) iter.Seq2[storage.Entry, error] {
	return engine.Find(ctx, q, func(p *engine.Plan, n int) ([]storage.Entry, bool, error) {
		st, err := s.snapshot(ctx)
		if err != nil {
			return nil, false, err
		}
		if err := engine.ValidateQuery(q, st.fields); err != nil {
			return nil, false, err
		}
		var entries []storage.Entry
		bytes := 0
		for hit := range p.Hits(func() engine.Cursor { return &cursor{at: st.index.Iter()} }) {
			if it, ok := st.data.Get(hit.Key); ok && (!hit.Verify || q.Match(hit.Key, it.value)) {
				entries = append(entries, it.entry(hit.Key))
				bytes += len(it.value)
			}
			if n--; n == 0 || bytes > engine.PageBytes {
				return entries, true, nil
			}
		}
		return entries, false, nil
	}, s.Scan)
}

// cursor walks over the index of a snapshot.
type cursor struct {
	at  btree.MapIter[string, struct{}]
	buf []byte
}

func (c *cursor) Seek(from []byte) []byte { return c.entry(c.at.Seek(string(from))) }
func (c *cursor) Next() []byte            { return c.entry(c.at.Next()) }

func (c *cursor) entry(ok bool) []byte {
	if !ok {
		return nil
	}
	c.buf = append(c.buf[:0], c.at.Key()...)
	return c.buf
}

// Watch implements [storage.Watcher].
func (s *Store) Watch(ctx context.Context, prefix string) (iter.Seq2[storage.Event, error], error) {
	return s.hub.Watch(ctx, prefix)
}

// Stats implements [storage.Statter]. Bytes is the sum of all keys and values.
func (s *Store) Stats(ctx context.Context) (storage.Stats, error) {
	if err := ctx.Err(); err != nil {
		return storage.Stats{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return storage.Stats{}, storage.ErrClosed
	}
	return storage.Stats{
		Engine:    "mem",
		Documents: int64(s.now.docs),
		Records:   int64(s.now.data.Len() - s.now.docs),
		Bytes:     s.now.bytes,
		Indexes:   slices.Clone(s.now.fields),
		Opened:    s.opened,
	}, nil
}

// Check implements [storage.Checker]: it compares the index with the documents.
func (s *Store) Check(ctx context.Context) iter.Seq2[storage.Fault, error] {
	return func(yield func(storage.Fault, error) bool) {
		st, err := s.snapshot(ctx)
		if err != nil {
			yield(storage.Fault{}, err)
			return
		}
		entries, more := 0, true
		st.data.Scan(func(key string, it *item) bool {
			if !storage.IsDocument(key) {
				return true
			}
			for _, entry := range engine.Entries(key, it.value, st.fields) {
				entries++
				if _, ok := st.index.Get(entry); !ok {
					more = more && yield(storage.Fault{Key: key, Reason: "document is missing from the index"}, nil)
				}
			}
			return more
		})
		if extra := st.index.Len() - entries; more && extra > 0 {
			yield(storage.Fault{Reason: fmt.Sprintf("index has %d entries without a document", extra)}, nil)
		}
	}
}

// Compact implements [storage.Compacter]. There is nothing to do: replaced
// values are garbage at once.
func (s *Store) Compact(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return storage.ErrClosed
	}
	return nil
}

// Snapshot implements [storage.Snapshotter]. The snapshot is a [Store] like any
// other; the two share what neither has changed.
func (s *Store) Snapshot(ctx context.Context) (storage.Adapter, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, storage.ErrClosed
	}
	copied := s.now
	copied.data, copied.index = s.now.data.Copy(), s.now.index.Copy()
	s.fence = s.seq
	return &Store{opened: s.opened, now: copied, seq: s.seq, fence: s.seq}, nil
}

// Close implements [storage.Adapter] and forgets everything.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.now, s.shared = state{}, nil
	s.hub.Close()
	return nil
}

// clone copies a value. It never returns nil, so that an empty value does not
// look absent.
func clone(value []byte) []byte { return append([]byte{}, value...) }
