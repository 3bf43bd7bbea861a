// Package levels maintains the segments of an index, which are records of a
// store that never change once written, and the in-memory picture that is built
// from them.
//
//	s/<level>/<name>  a segment; its name ends with a digest of it
//	head              differs after every change
//	deep              differs after every change of a level above 0
//
// Writers put small segments on level 0 and merge them into larger ones above.
// So a reader learns from one record that nothing changed, and nearly always
// from listing level 0 what did. Any number of processes may read and write.
package levels

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/stratamem/strata/storage"
)

// Levels is the number of levels.
const Levels = 3

const (
	headKey  = "head"
	deepKey  = "deep"
	segments = "s/"
)

// Key returns the key of a new segment, relative to the index. On level 0 it
// sorts before all others: what writers add last is all in one place, after
// head, where a store that writes whole pages writes a single one. To that end
// the name begins with four digits that count down and start again when the
// level is empty.
func (s *Set[P]) Key(level int, record []byte) string {
	if level > 0 {
		return prefix(level) + digest(record)
	}
	next := uint16(math.MaxUint16)
	for key := range s.Parts {
		if n, ok := place(key); ok && n <= next {
			next = max(n, 1) - 1
		}
	}
	return fmt.Sprintf("%s%04x-%s", prefix(level), next, digest(record))
}

// place returns the number with which the name of a segment of level 0 begins,
// if it has one: older segments have none.
func place(key string) (uint16, bool) {
	name, ok := strings.CutPrefix(key, prefix(0))
	if !ok || len(name) < 5 || name[4] != '-' {
		return 0, false
	}
	n, err := strconv.ParseUint(name[:4], 16, 16)
	return uint16(n), err == nil
}

func prefix(level int) string { return segments + string(rune('0'+level)) + "/" }

func digest(record []byte) string {
	sum := sha256.Sum256(record)
	return hex.EncodeToString(sum[:12])
}

// IsSegment reports whether a key, relative to the index, is that of a segment.
func IsSegment(key string) bool { return strings.HasPrefix(key, segments) }

// Level returns the level of a segment by its key.
func Level(key string) int { return int(key[len(segments)] - '0') }

// Set is the segments in a picture. Readers of the picture or the set must hold
// its lock, see [Set.View]; the functions are called with the lock held for
// writing.
type Set[P any] struct {
	sync.RWMutex
	Parts map[string]P // by key: the results of Load

	Name  string                                                                           // of the index, for errors
	Load  func(ctx context.Context, r storage.Reader, key string, value []byte) (P, error) // adds a segment to the picture
	Drop  func(P)                                                                          // removes it from the picture
	Ready func() bool                                                                      // ends a change; false asks to rebuild the picture
	Reset func()                                                                           // empties the picture

	head, deep string // as last read
	partial    bool   // whether a read was not finished
}

// View brings the picture up to date with the store and locks it for reading.
// Unless there is an error, the caller must unlock it.
func (s *Set[P]) View(ctx context.Context, r storage.Reader) error {
	for {
		head, err := s.record(ctx, r, headKey)
		if err != nil {
			return err
		}
		s.RLock()
		if s.has(head) {
			return nil
		}
		s.RUnlock()
		if err := s.refresh(ctx, r, head); err != nil {
			return err
		}
		s.RLock()
		if !s.partial { // later changes are for the next call
			return nil
		}
		s.RUnlock() // in between, another goroutine began to read and failed
	}
}

func (s *Set[P]) has(head string) bool { return s.Parts != nil && head == s.head && !s.partial }

func (s *Set[P]) refresh(ctx context.Context, r storage.Reader, head string) (err error) {
	s.Lock()
	defer s.Unlock()
	if s.has(head) { // another goroutine was first
		return nil
	}
	if s.Parts == nil {
		s.reset()
	}
	s.partial = true
	// A writer may be at work: a listed segment may be gone when it is read,
	// merged into one that was not listed. Then try again.
	for range 16 {
		err = s.read(ctx, r)
		if errors.Is(err, storage.ErrNotFound) || errors.Is(err, errMoved) {
			continue
		}
		if err != nil || s.Ready() {
			break
		}
		s.reset()
	}
	s.partial = err != nil
	return err
}

func (s *Set[P]) reset() {
	s.Parts, s.head, s.deep = make(map[string]P), "", ""
	s.Reset()
}

var errMoved = errors.New("others change it all the time")

// record reads a record that may be absent.
func (s *Set[P]) record(ctx context.Context, r storage.Reader, key string) (string, error) {
	value, err := record(ctx, r, key)
	return value, s.failed(err)
}

func record(ctx context.Context, r storage.Reader, key string) (string, error) {
	value, err := r.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		err = nil
	}
	return string(value), err
}

func (s *Set[P]) failed(err error) error {
	if err != nil {
		return fmt.Errorf("read %s: %w", s.Name, err)
	}
	return nil
}

// read lists the segments of the levels that changed, loads new ones and drops
// those that are gone. What it remembers of the store is older than what it
// reads, so it misses no change. After an error it remembers nothing, and what
// is loaded stays for the next attempt.
func (s *Set[P]) read(ctx context.Context, r storage.Reader) error {
	head, err := s.record(ctx, r, headKey)
	if err != nil {
		return err
	}
	deep, err := s.record(ctx, r, deepKey)
	if err != nil {
		return err
	}
	levels := Levels
	if deep == s.deep {
		levels = 1
	}
	there := make(map[string]bool)
	if len(s.Parts) == 0 && levels > 1 { // all values are needed
		err = s.loadAll(ctx, r, there)
	} else {
		err = s.update(ctx, r, levels, there)
	}
	if err != nil {
		return err
	}
	if again, err := s.record(ctx, r, deepKey); err != nil {
		return err
	} else if again != deep {
		return s.failed(errMoved)
	}
	for key, p := range s.Parts {
		if !there[key] && Level(key) < levels {
			s.Drop(p)
			delete(s.Parts, key)
		}
	}
	s.head, s.deep = head, deep
	return nil
}

// loadAll loads every segment, those of the highest level first: if something
// is also in a lower one, the picture has it from the higher.
func (s *Set[P]) loadAll(ctx context.Context, r storage.Reader, there map[string]bool) error {
	for level := Levels - 1; level >= 0; level-- {
		for e, err := range r.Scan(ctx, prefix(level), nil) {
			if err != nil {
				return s.failed(err)
			}
			there[e.Key] = true
			if err := s.load(ctx, r, e.Key, e.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

// update loads the new segments of the lowest levels and records which exist.
func (s *Set[P]) update(ctx context.Context, r storage.Reader, levels int, there map[string]bool) error {
	var fresh []string
	for level := range levels {
		for key, err := range r.List(ctx, prefix(level)) {
			if err != nil {
				return s.failed(err)
			}
			there[key] = true
			if _, ok := s.Parts[key]; !ok {
				fresh = append(fresh, key)
			}
		}
	}
	for _, key := range fresh {
		value, err := r.Get(ctx, key)
		if err != nil {
			return s.failed(err)
		}
		if err := s.load(ctx, r, key, value); err != nil {
			return err
		}
	}
	return nil
}

func (s *Set[P]) load(ctx context.Context, r storage.Reader, key string, value []byte) error {
	if _, ok := s.Parts[key]; ok {
		return nil
	}
	p, err := s.Load(ctx, r, key, value)
	if err == nil {
		s.Parts[key] = p
	}
	return err
}

// Keys returns the segments of a level, sorted.
func (s *Set[P]) Keys(level int) []string {
	var keys []string
	for key := range s.Parts {
		if Level(key) == level {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Mark adds to operations on segments those that record that something changed.
func (s *Set[P]) Mark(ops []storage.Op) []storage.Op { return mark(ops, s.head, s.deep) }

// mark derives the records from their old values and from the change, so that
// they differ after each change, whoever makes it.
func mark(ops []storage.Op, head, deep string) []storage.Op {
	var change strings.Builder
	isDeep := false
	for i := range ops {
		if key := ops[i].Key; IsSegment(key) {
			change.WriteString("\n" + key)
			isDeep = isDeep || Level(key) > 0
		}
	}
	ops = append(ops, storage.Put(headKey, []byte(digest([]byte(head+change.String())))))
	if isDeep {
		ops = append(ops, storage.Put(deepKey, []byte(digest([]byte(deep+change.String())))))
	}
	return ops
}

// Clear removes every segment of an index, including unreadable ones, in
// batches.
func Clear(ctx context.Context, s storage.Scoped) error {
	var gone []storage.Op
	for key, err := range s.List(ctx, segments) {
		if err != nil {
			return err
		}
		gone = append(gone, storage.Remove(key))
	}
	limits := s.Limits()
	limits.Ops = max(limits.Ops-2, 1) // besides these, head and deep
	for ops := range limits.Batches(gone) {
		head, err := record(ctx, s, headKey)
		if err != nil {
			return err
		}
		deep, err := record(ctx, s, deepKey)
		if err != nil {
			return err
		}
		if err := s.Apply(ctx, mark(slices.Clip(ops), head, deep)...); err != nil {
			return err
		}
	}
	return nil
}
