package levels_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stratamem/strata/internal/levels"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// numbers is a picture: how many segments have a number.
type numbers map[byte]int

func newSet() (*levels.Set[[]byte], *numbers) {
	var n numbers
	return &levels.Set[[]byte]{
		Name: "numbers",
		Load: func(_ context.Context, _ storage.Reader, _ string, value []byte) ([]byte, error) {
			for _, b := range value {
				n[b]++
			}
			return value, nil
		},
		Drop: func(value []byte) {
			for _, b := range value {
				if n[b]--; n[b] == 0 {
					delete(n, b)
				}
			}
		},
		Ready: func() bool { return true },
		Reset: func() { n = numbers{} },
	}, &n
}

// writer adds numbers, one in a segment, and merges ever so often.
type writer struct {
	set   *levels.Set[[]byte]
	scope storage.Scoped
	next  byte
}

func (w *writer) add(t *testing.T) {
	t.Helper()
	if err := w.set.View(t.Context(), w.scope); err != nil {
		t.Fatal(err)
	}
	value, level := []byte{w.next}, 0
	w.next++
	var ops []storage.Op
	for ; level < levels.Levels-1 && len(w.set.Keys(level)) == 3; level++ {
		for _, key := range w.set.Keys(level) {
			value = append(value, w.set.Parts[key]...)
			ops = append(ops, storage.Remove(key))
		}
	}
	ops = w.set.Mark(append(ops, storage.Put(w.set.Key(level, value), value)))
	w.set.RUnlock()
	if err := w.scope.Apply(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
}

// troubled is a store in which reads fail, or others write between them.
type troubled struct {
	storage.Scoped
	before func() error // of each read
}

func (r *troubled) Get(ctx context.Context, key string) ([]byte, error) {
	if err := r.before(); err != nil {
		return nil, err
	}
	return r.Scoped.Get(ctx, key)
}

func (r *troubled) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := r.before(); err != nil {
			yield("", err)
			return
		}
		r.Scoped.List(ctx, prefix)(yield)
	}
}

// TestView reads while others write and the store fails: what a reader has is
// at least what there was when it began, each number once, and what it has after
// an error is of no harm to the next read.
func TestView(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	set, _ := newSet()
	w := &writer{set: set, scope: storage.Scope(mem.New(), "_numbers")}
	reader, got := newSet()
	bad := errors.New("the disk has a bad day")
	failures := 0
	for w.next < 250 {
		w.add(t)
		least := w.next
		err := reader.View(t.Context(), &troubled{w.scope, func() error {
			switch rng.IntN(12) {
			case 0:
				return bad
			case 1:
				if w.next < 250 {
					w.add(t)
				}
			}
			return nil
		}})
		if err != nil {
			if !errors.Is(err, bad) {
				t.Fatal(err)
			}
			failures++
			continue
		}
		for _, n := range slices.Sorted(maps.Keys(*got)) {
			if n >= w.next || (*got)[n] != 1 {
				t.Errorf("%d is there %d times, of %d", n, (*got)[n], w.next)
			}
		}
		if len(*got) < int(least) {
			t.Errorf("there are %d numbers, and were %d before", len(*got), least)
		}
		reader.RUnlock()
	}
	if failures < 10 {
		t.Errorf("only %d reads failed", failures)
	}
	if err := reader.View(t.Context(), w.scope); err != nil || len(*got) != int(w.next) {
		t.Errorf("%d numbers at last, %v; want %d", len(*got), err, w.next)
	}
	reader.RUnlock()
}

// TestCost pins that a read of what did not change is one of a record, and
// that one after a small change does not look at the large segments.
func TestCost(t *testing.T) {
	set, _ := newSet()
	w := &writer{set: set, scope: storage.Scope(mem.New(), "_numbers")}
	for range 100 {
		w.add(t)
	}
	reader, _ := newSet()
	reads := 0
	counted := &troubled{w.scope, func() error { reads++; return nil }}
	for _, want := range []struct {
		what string
		most int
	}{{"nothing", 1}, {"one number", 6}} {
		if err := reader.View(t.Context(), w.scope); err != nil {
			t.Fatal(err)
		}
		reader.RUnlock()
		if want.what != "nothing" {
			w.add(t)
		}
		reads = 0
		if err := reader.View(t.Context(), counted); err != nil {
			t.Fatal(err)
		}
		reader.RUnlock()
		if reads > want.most {
			t.Errorf("after a change of %s: %d reads, want at most %d", want.what, reads, want.most)
		}
	}
}

// TestKey pins that what is added last stands first in the store, behind head.
func TestKey(t *testing.T) {
	scope := storage.Scope(mem.New(), "_numbers")
	set, _ := newSet()
	w := &writer{set: set, scope: scope}
	merges, level0 := 0, 0
	for range 30 {
		w.add(t)
		var keys []string
		for key, err := range scope.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, key)
		}
		first := keys[slices.Index(keys, "head")+1]
		if levels.Level(first) > 0 {
			merges++
			continue
		}
		level0++
		if value, err := scope.Get(t.Context(), first); err != nil || !slices.Equal(value, []byte{w.next - 1}) {
			t.Errorf("after %d: %s is %v, %v", w.next, first, value, err)
		}
	}
	if merges == 0 || level0 == 0 {
		t.Errorf("%d merges and %d additions to level 0", merges, level0)
	}
}

func TestClear(t *testing.T) {
	set, _ := newSet()
	w := &writer{set: set, scope: storage.Scope(mem.New(), "_numbers")}
	for range 100 {
		w.add(t)
	}
	reader, got := newSet()
	for round := range 2 {
		if err := reader.View(t.Context(), w.scope); err != nil {
			t.Fatal(err)
		}
		reader.RUnlock()
		if err := w.scope.Apply(t.Context(), storage.Put(fmt.Sprintf("s/%d/damaged", round), nil)); err != nil {
			t.Fatal(err)
		}
		if err := levels.Clear(t.Context(), w.scope); err != nil {
			t.Fatal(err)
		}
		if err := reader.View(t.Context(), w.scope); err != nil || len(*got) != 0 {
			t.Errorf("%d numbers after Clear, %v", len(*got), err)
		}
		reader.RUnlock()
		w.next = 0
		w.add(t)
	}
}
