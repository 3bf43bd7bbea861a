// Package levels keeps the segments of an index, records of a store that never
// change once they are written, and the picture that is made of them in memory.
//
//	s/<level>/<name>  a segment; its name ends with a digest of it
//	head              differs after every change
//	deep              differs after every change of a level above 0
//
// Writers put small segments on level 0 and merge them to larger ones above. So
// a reader finds out by one record that nothing changed, and by listing level 0
// what did, nearly always. Any number of processes read and write.
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

// Levels is how many there are.
const Levels = 3

const (
	headKey  = "head"
	deepKey  = "deep"
	segments = "s/"
)

// Key returns the key that a new segment is given, relative to the index. That of
// level 0 sorts before all others there: what writers add last stands at one place,
// behind head, where a store that writes whole pages writes one. The name begins
// with four digits that count down, then, and starts anew when the level is empty.
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

// place returns the number that the name of a segment of level 0 begins with, if it
// has one: those written before there were any have none.
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

// Set is the segments that a picture has. Who reads the picture or the set holds
// its lock, see [Set.View]; the functions are called with the lock held for
// writing.
type Set[P any] struct {
	sync.RWMutex
	Parts map[string]P // by key: what Load returned

	Name  string                                                                           // of the index, for errors
	Load  func(ctx context.Context, r storage.Reader, key string, value []byte) (P, error) // adds a segment to the picture
	Drop  func(P)                                                                          // takes it out
	Ready func() bool                                                                      // ends a change; false asks for a picture that is made anew
	Reset func()                                                                           // empties the picture

	head, deep string // as last read
	partial    bool   // a read was not finished
}

// View brings the picture up to date with the store and locks it for reading:
// without an error, the caller unlocks it.
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
		if !s.partial { // what changed since is for the next call
			return nil
		}
		s.RUnlock() // between the two another goroutine began to read, and failed
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
	// A writer may be at work: a segment that a list shows may be gone when it
	// is read, merged into one that the list has not. Then look again.
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

// read lists the segments of the levels that changed, loads those that are new
// and drops those that are gone. What it notes of the store is older than what
// it reads of it, so that it misses no change; after an error it notes nothing,
// and what is loaded stays for the next attempt.
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
	if len(s.Parts) == 0 && levels > 1 { // values are wanted of all
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

// loadAll loads every segment, those of the highest level first: what is in one of
// those and below as well, a picture has there.
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

// update loads the new segments of the lowest levels and notes which are there.
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

// Mark adds to operations on segments those that say that something changed.
func (s *Set[P]) Mark(ops []storage.Op) []storage.Op { return mark(ops, s.head, s.deep) }

// mark has the records follow from what they were and from the change, so that
// they differ after each, whoever makes it.
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

// Clear removes every segment of an index, also those that cannot be read, in
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
	limits.Ops = max(limits.Ops-2, 1) // beside them head and deep
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
