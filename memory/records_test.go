package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// TestRecordsOfOthers: what a run has written does not hide what another writes later, and
// what another has cleared is gone once the run has made its next change.
func TestRecordsOfOthers(t *testing.T) {
	var change memory.Change[counter]
	var read string
	layer := memory.Define(memory.Spec{ID: "a", Scope: memory.ScopeResource}, memory.Hooks[counter]{
		Store: func(ctx context.Context, in *memory.StoreInput[counter]) (memory.Change[counter], error) {
			value, err := in.Records.Get(ctx, "k")
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				return memory.Change[counter]{}, err
			}
			read = string(value)
			return change, nil
		},
	})
	m := newMemory(t, mem.New(), nil, layer)
	one, two := begin(t, m, memory.Identity{Thread: "one", Resource: "r"}), begin(t, m, memory.Identity{Thread: "two", Resource: "r"})
	nothing := memory.Change[counter]{}
	put := func(value string) memory.Change[counter] { return nothing.Put("k", []byte(value)) }
	for i, c := range []struct {
		run    *memory.Run
		change memory.Change[counter]
		reads  string
	}{
		{one, put("1"), ""},
		{one, nothing, "1"},
		{two, put("2"), "1"},
		{one, nothing, "2"},
		{two, memory.Clear[counter]().Put("k", []byte("3")), "2"},
		{two, nothing, "3"},
		{one, nothing.Put("other", []byte("x")), ""},
		{one, nothing, "3"},
		{two, memory.Clear[counter](), "3"},
		{two, nothing, ""},
		{one, put("4"), ""},
		{two, put("5"), "4"},
		{one, nothing, "5"},
	} {
		change = c.change
		project(t, c.run, user("hello"))
		commit(t, c.run, "hi")
		if read != c.reads {
			t.Errorf("turn %d reads %q, want %q", i+1, read, c.reads)
		}
	}
	end(t, one)
	end(t, two)
}

// TestFirstConflictDoesNotWait: what a run knows may simply be outdated, so it tries again at
// once, and only then waits for others to be done.
func TestFirstConflictDoesNotWait(t *testing.T) {
	for conflicts, waits := range map[int]bool{0: false, 1: false, 2: true, 9: true} {
		synctest.Test(t, func(t *testing.T) {
			store := &contested{Store: mem.New()}
			run := begin(t, newMemory(t, store, nil, counting("a", memory.ScopeThread)), memory.Identity{})
			project(t, run, user("hello"))
			left := conflicts
			var before func()
			before = func() {
				if left == 0 {
					return
				}
				left--
				store.before = nil // Set is a batch too
				if err := storage.Set(t.Context(), store, "_layers/a/thread/t/state", []byte(`{"v":1,"state":{"n":`+string(rune('0'+left))+`}}`)); err != nil {
					t.Error(err)
				}
				store.before = before
			}
			store.before = before
			begun := time.Now()
			commit(t, run, "hi")
			store.before = nil
			if waited := time.Since(begun); (waited > 0) != waits || waited > 9*50*time.Millisecond {
				t.Errorf("after %d conflicts it waited %v", conflicts, waited)
			}
			end(t, run)
		})
	}
}
