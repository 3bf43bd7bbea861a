package storagetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// crowd is a store that can wait for its other users.
type crowd struct {
	*mem.Store
	served atomic.Int64 // calls of it
}

func crowded(s *mem.Store) *crowd { return &crowd{Store: s} }

// letOthersRun gives way until others have done what must not happen in between:
// two, of which the first may have been at it before. It gives up where nobody
// comes.
func (s *crowd) letOthersRun() {
	const mostYields = 1000
	enough := s.served.Load() + 2
	for i := 0; i < mostYields && s.served.Load() < enough; i++ {
		runtime.Gosched()
	}
}

func (s *crowd) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	defer s.served.Add(1)
	return s.Store.Get(ctx, key)
}

func (s *crowd) Scan(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		defer s.served.Add(1)
		s.Store.Scan(ctx, prefix, opts)(yield)
	}
}

func (s *crowd) Apply(ctx context.Context, ops ...storage.Op) error {
	defer s.served.Add(1)
	return s.Store.Apply(ctx, ops...)
}

// Each type here is a store in memory that does one thing wrong.

type getsAgain struct { // every Get returns the same slice
	*mem.Store
	mu   sync.Mutex
	last map[string][]byte
}

func (s *getsAgain) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	value, v, err := s.Store.Get(ctx, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.last[key]) != len(value) {
		s.last[key] = value
	}
	return s.last[key], v, err
}

type keepsValue struct { // a Get returns the slice that was set
	*mem.Store
	mu   sync.Mutex
	last map[string][]byte
}

func (s *keepsValue) Apply(ctx context.Context, ops ...storage.Op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, op := range ops {
		s.last[op.Key] = op.Value
	}
	return s.Store.Apply(ctx, ops...)
}

func (s *keepsValue) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, v, err := s.Store.Get(ctx, key)
	if last, ok := s.last[key]; ok && err == nil {
		value = last
	}
	return slices.Clone(value), v, err
}

type saysMore struct { // states limits that are not its own
	storage.Adapter
	limits storage.Limits
}

func (s saysMore) Limits() storage.Limits { return s.limits }

type listsBackwards struct{ *mem.Store }

func (s listsBackwards) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for entry, err := range s.Scan(ctx, prefix, &storage.ScanOptions{Reverse: true}) {
			if !yield(entry.Key, err) {
				return
			}
		}
	}
}

type listsDirectories struct{ *mem.Store } // a prefix ends with a segment

func (s listsDirectories) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return s.Store.List(ctx, prefix[:strings.LastIndexByte(prefix, '/')+1])
}

type deletesStrictly struct{ *mem.Store } // deleting what is absent is an error

func (s deletesStrictly) Apply(ctx context.Context, ops ...storage.Op) error {
	for _, op := range ops {
		if !op.Delete {
			continue
		}
		if _, _, err := s.Get(ctx, op.Key); err != nil {
			return err
		}
	}
	return s.Store.Apply(ctx, ops...)
}

type roundsNumbers struct{ *mem.Store }

func (s roundsNumbers) Apply(ctx context.Context, ops ...storage.Op) error {
	ops = slices.Clone(ops)
	for i, op := range ops {
		var fields map[string]any
		if storage.IsDocument(op.Key) && json.Unmarshal(op.Value, &fields) == nil {
			ops[i].Value, _ = json.Marshal(fields)
		}
	}
	return s.Store.Apply(ctx, ops...)
}

type takesAnything struct{ *mem.Store } // values that break a rule are mended

func (s takesAnything) Apply(ctx context.Context, ops ...storage.Op) error {
	ops = slices.Clone(ops)
	for i, op := range ops {
		if !op.Delete && storage.ValidateKey(op.Key) == nil && storage.ValidateEntry(op.Key, op.Value) != nil {
			ops[i].Value = []byte(`{}`)
		}
	}
	return s.Store.Apply(ctx, ops...)
}

type appliesHalf struct{ *mem.Store } // one change after the other

func (s appliesHalf) Apply(ctx context.Context, ops ...storage.Op) error {
	if err := storage.ValidateOps(ops); err != nil {
		return err
	}
	for _, op := range ops {
		if err := s.Store.Apply(ctx, op); err != nil {
			return err
		}
	}
	return nil
}

type appliesVisibly struct{ *crowd } // all preconditions, then one change after the other

func (s appliesVisibly) Apply(ctx context.Context, ops ...storage.Op) error {
	if err := storage.ValidateOps(ops); err != nil {
		return err
	}
	for _, op := range ops {
		if err := s.Store.Apply(ctx, storage.Op{Key: op.Key, Delete: op.Delete, Value: op.Value}); err != nil {
			return err
		}
		s.letOthersRun()
	}
	return nil
}

type looksBeforeItWrites struct{ *crowd } // others may write in between

func (s looksBeforeItWrites) Apply(ctx context.Context, ops ...storage.Op) error {
	for i := range ops {
		_, v, _ := s.Get(ctx, ops[i].Key)
		if ops[i].Check && ops[i].If != v {
			return &storage.ConflictError{Key: ops[i].Key}
		}
		ops[i].Check = false
	}
	s.letOthersRun()
	return s.Store.Apply(ctx, ops...)
}

type namesWrongKey struct{ *mem.Store } // in a conflict

func (s namesWrongKey) Apply(ctx context.Context, ops ...storage.Op) error {
	err := s.Store.Apply(ctx, ops...)
	if err != nil && len(ops) > 1 && storage.ValidateOps(ops) == nil {
		return &storage.ConflictError{Key: ops[0].Key}
	}
	return err
}

type versionsBySize struct{ *mem.Store }

func (s versionsBySize) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	value, _, err := s.Store.Get(ctx, key)
	return value, storage.Version(fmt.Sprintf("v%d", len(value))), err
}

type readsTwice struct{ *crowd } // a value, and then its version

func (s readsTwice) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	value, _, err := s.Store.Get(ctx, key)
	if err != nil {
		return nil, "", err
	}
	s.letOthersRun()
	_, v, err := s.Store.Get(ctx, key)
	return value, v, err
}

type indexesLate struct { // Find gives what it gave before
	*mem.Store
	mu    sync.Mutex
	found map[string][]storage.Entry
}

func (s *indexesLate) Find(ctx context.Context, q storage.Query) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		s.mu.Lock()
		name := fmt.Sprint(q.Equal, q.Prefix, q.Limit)
		entries, ok := s.found[name]
		if !ok {
			for entry, err := range s.Store.Find(ctx, q) {
				if err != nil {
					s.mu.Unlock()
					yield(entry, err)
					return
				}
				entries = append(entries, entry)
			}
			s.found[name] = entries
		}
		s.mu.Unlock()
		for _, entry := range entries {
			if !yield(entry, nil) {
				return
			}
		}
	}
}

type findsThenReads struct{ *crowd } // what is found is read later, and not looked at again

func (s findsThenReads) Find(ctx context.Context, q storage.Query) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		var entries []storage.Entry
		for entry, err := range s.Store.Find(ctx, q) {
			if err != nil {
				yield(entry, err)
				return
			}
			entries = append(entries, entry)
		}
		for _, entry := range entries {
			s.letOthersRun()
			value, _, err := s.Get(ctx, entry.Key)
			if !yield(storage.Entry{Key: entry.Key, Value: value, Version: entry.Version}, err) {
				return
			}
		}
	}
}

type indexesStrings struct{ *mem.Store } // and not the elements of a list

func (s indexesStrings) Find(ctx context.Context, q storage.Query) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		for entry, err := range s.Store.Find(ctx, q) {
			if strings.Contains(string(entry.Value), `:[`) && len(q.Equal) > 0 {
				continue
			}
			if !yield(entry, err) {
				return
			}
		}
	}
}

type scansTooFar struct{ *mem.Store } // past the limit

func (s scansTooFar) Scan(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error] {
	if opts != nil && opts.Limit > 1 {
		more := *opts
		more.Limit++
		opts = &more
	}
	return s.Store.Scan(ctx, prefix, opts)
}

type locksTheLoop struct { // a List holds a lock while the body of the loop runs
	*mem.Store
	mu sync.RWMutex
}

func (s *locksTheLoop) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		s.mu.RLock()
		defer s.mu.RUnlock()
		s.Store.List(ctx, prefix)(yield)
	}
}

func (s *locksTheLoop) Apply(ctx context.Context, ops ...storage.Op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Store.Apply(ctx, ops...)
}

type dropsEvents struct{ *mem.Store } // and does not say so

func (s dropsEvents) Watch(ctx context.Context, prefix string) (iter.Seq2[storage.Event, error], error) {
	events, err := s.Store.Watch(ctx, prefix)
	return func(yield func(storage.Event, error) bool) {
		for ev, err := range events {
			if ev.Kind == storage.EventOverflow {
				continue
			}
			if !yield(ev, err) {
				return
			}
		}
	}, err
}

type miscounts struct{ *mem.Store } // what was deleted

func (s miscounts) Stats(ctx context.Context) (storage.Stats, error) {
	st, err := s.Store.Stats(ctx)
	st.Documents = max(st.Documents, 100)
	return st, err
}

type staysOpen struct{ *mem.Store }

func (s staysOpen) Close() error { return nil }

type ignoresTheEnd struct{ *mem.Store } // of a context

func (s ignoresTheEnd) Apply(ctx context.Context, ops ...storage.Op) error {
	return s.Store.Apply(context.WithoutCancel(ctx), ops...)
}

type snapshotsNothing struct{ *mem.Store } // its snapshot goes on with the store

func (s snapshotsNothing) Snapshot(context.Context) (storage.Adapter, error) {
	return staysOpen(s), nil
}

type writesParts struct{ *crowd } // a large value comes in two parts

func (s writesParts) Apply(ctx context.Context, ops ...storage.Op) error {
	if err := s.Store.Apply(ctx, ops...); err != nil || len(ops) > 1 || storage.IsDocument(ops[0].Key) || len(ops[0].Value) < 2000 {
		return err
	}
	key, value := ops[0].Key, ops[0].Value
	if err := storage.Set(ctx, s.Store, key, value[:len(value)/2]); err != nil {
		return err
	}
	s.letOthersRun()
	return storage.Set(ctx, s.Store, key, value)
}
