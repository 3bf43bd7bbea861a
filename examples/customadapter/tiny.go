//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/stratamem/strata/storage"
)

// Tiny is a storage engine: a map in memory, and a log of all batches that is
// read when the store is opened. It has the four methods that every engine has,
// which are all that the framework needs. Scanning, finding, copying and so on
// still work: the functions of package storage have fallbacks for what an
// engine lacks.
//
// The log never gets shorter. log.go describes its format.
type Tiny struct {
	mu     sync.RWMutex
	values map[string]value
	writes uint64 // number of writes ever made: no version is used twice
	log    *batchLog
	closed bool
}

// limits are what the store accepts, and reports: it holds everything in
// memory, so nothing in it should be large.
var limits = storage.Limits{Value: 1 << 20, Batch: 1 << 20}

// Limits returns what the store takes.
func (s *Tiny) Limits() storage.Limits { return limits }

// value is never modified in place.
type value struct {
	data    []byte
	version storage.Version
}

// Open opens the store in an existing directory, creating it if necessary. With
// [storage.Full], writes are synced before they return. If another process has
// the store open, the error is a [*storage.LockedError], at once.
func Open(dir string, d storage.Durability) (*Tiny, error) {
	log, err := openLog(dir, d == storage.Full)
	if err != nil {
		return nil, err
	}
	s := &Tiny{values: make(map[string]value), log: log}
	if err := log.replay(s.make); err != nil {
		return nil, errors.Join(err, log.close())
	}
	return s, nil
}

// Get returns the value of key and its version.
func (s *Tiny) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	if err := limits.ValidateKey(key); err != nil {
		return nil, "", err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, "", err
	}
	v, ok := s.values[key]
	if !ok {
		return nil, "", &storage.KeyError{Op: "get", Key: key, Err: storage.ErrNotFound}
	}
	return slices.Clone(v.data), v.version, nil
}

// Apply makes all changes or none: one entry of the log is one batch.
func (s *Tiny) Apply(ctx context.Context, ops ...storage.Op) error {
	if err := limits.ValidateOps(ops); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	batch := make([]change, len(ops))
	for i, op := range ops {
		if op.Check && s.values[op.Key].version != op.If { // the version of an absent key is empty
			return &storage.ConflictError{Key: op.Key}
		}
		batch[i] = change{op.Key, slices.Clone(op.Value), op.Delete}
	}
	if len(batch) == 0 {
		return nil
	}
	if err := s.log.append(batch); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	s.make(batch)
	return nil
}

// make applies the changes of a batch that is in the log.
func (s *Tiny) make(batch []change) {
	for _, c := range batch {
		s.writes++
		if c.Delete {
			delete(s.values, c.Key)
			continue
		}
		s.values[c.Key] = value{c.Value, storage.Version(strconv.FormatUint(s.writes, 10))}
	}
}

// List yields the keys with a prefix, in order, as they were when the loop began.
func (s *Tiny) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		keys, err := s.keys(ctx, prefix)
		if err != nil {
			yield("", err)
			return
		}
		for _, key := range keys {
			if err := ctx.Err(); err != nil {
				yield("", err)
				return
			}
			if !yield(key, nil) {
				return
			}
		}
	}
}

func (s *Tiny) keys(ctx context.Context, prefix string) ([]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	var keys []string
	for key := range s.values {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// Close ends the use of the store.
func (s *Tiny) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed, s.values = true, nil
	return s.log.close()
}

// usable returns why the store cannot be used now. The caller holds the lock.
func (s *Tiny) usable(ctx context.Context) error {
	if s.closed {
		return storage.ErrClosed
	}
	return ctx.Err()
}
