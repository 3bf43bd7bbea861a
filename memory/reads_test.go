package memory_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// read is a store that counts how often it is read.
type read struct {
	*mem.Store
	reads int
}

func (s *read) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	s.reads++
	return s.Store.Get(ctx, key)
}

func (s *read) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	s.reads++
	return s.Store.List(ctx, prefix)
}

// TestTurnReadsNothing: a run knows what it has read or written. It reads again what other
// runs of the Memory have changed since, once.
func TestTurnReadsNothing(t *testing.T) {
	store := &read{Store: mem.New()}
	m := newMemory(t, store, nil, counting("own", memory.ScopeThread), counting("shared", memory.ScopeResource))
	turn := func(run *memory.Run) (reads int) {
		t.Helper()
		store.reads = 0
		project(t, run, user("hello"))
		commit(t, run, "hi")
		return store.reads
	}
	a := begin(t, m, memory.Identity{Thread: "a", Resource: "r"})
	b := begin(t, m, memory.Identity{Thread: "b", Resource: "r"})
	for i, c := range []struct {
		name string
		run  *memory.Run
		want int
	}{
		{"the first", a, 0}, {"the second", a, 0},
		{"after another run's turns", b, 1}, {"and the next", b, 0},
		{"after that", a, 1}, {"and the next", a, 0},
	} {
		if got := turn(c.run); got != c.want {
			t.Errorf("turn %d, %s: %d reads, want %d", i+1, c.name, got, c.want)
		}
	}
	if n := count(t, a, "shared"); n != 6 {
		t.Errorf("6 turns were counted as %d", n)
	}
	end(t, a)
	end(t, b)

	// A turn that changes nothing looks at nothing either.
	quiet := memory.Define(memory.Spec{ID: "quiet"}, memory.Hooks[counter]{
		Recall: func(context.Context, *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
			return memory.Recalled[counter]{Text: "always the same"}, nil
		},
	})
	run := begin(t, newMemory(t, store, nil, quiet), memory.Identity{Thread: "c"})
	for i := range 3 {
		if got := turn(run); got != 0 {
			t.Errorf("turn %d of a layer that changes nothing: %d reads", i+1, got)
		}
	}
	end(t, run)
}

// TestParentEndsItsOtherChildren: a child that has returned is none of those that its
// parent's end ends.
func TestParentEndsItsOtherChildren(t *testing.T) {
	run := begin(t, newMemory(t, mem.New(), nil), memory.Identity{})
	var children []*memory.Run
	for range 3 {
		child, err := run.Spawn(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, child)
	}
	if _, err := children[1].Return(t.Context(), memory.Result{}); err != nil {
		t.Fatal(err)
	}
	for i, child := range children {
		if _, err := child.Project(t.Context(), user("hello")); errors.Is(err, memory.ErrEnded) != (i == 1) {
			t.Errorf("child %d, before the parent's end: %v", i, err)
		}
	}
	end(t, run)
	for i, child := range children {
		if _, err := child.Project(t.Context(), user("hello")); !errors.Is(err, memory.ErrEnded) {
			t.Errorf("child %d, after the parent's end: %v", i, err)
		}
	}
}
