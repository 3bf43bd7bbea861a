package memory_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/storagetest"
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

// TestStateThatInitMade: a change of a state that Init has made, and that is not stored yet, is
// made on it, whatever others have written beside it; where they have cleared it, on nothing.
func TestStateThatInitMade(t *testing.T) {
	for _, c := range []struct {
		name  string
		other memory.Change[counter]
		want  string
	}{
		{"nobody else", memory.Change[counter]{}, `{"n":8}`},
		{"a record of another run", memory.Change[counter]{}.Put("k", []byte("x")), `{"n":8}`},
		{"a state of another run", add(10), `{"n":18}`},
		{"cleared by another run", memory.Clear[counter](), `{"n":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var change memory.Change[counter]
			layer := memory.Define(memory.Spec{ID: "a", Scope: memory.ScopeResource}, memory.Hooks[counter]{
				Init: func(_ context.Context, in *memory.InitInput[counter]) (counter, error) {
					if !in.Found {
						return counter{7}, nil
					}
					return in.State, nil
				},
				Store: func(context.Context, *memory.StoreInput[counter]) (memory.Change[counter], error) { return change, nil },
			})
			store := mem.New()
			m := newMemory(t, store, nil, layer)
			one, two := begin(t, m, memory.Identity{Thread: "one", Resource: "r"}), begin(t, m, memory.Identity{Thread: "two", Resource: "r"})
			change = c.other
			project(t, two, user("hello"))
			commit(t, two, "hi")
			change = add(1)
			project(t, one, user("hello"))
			commit(t, one, "hi")
			if got := stored(t, store, "a"); got != c.want {
				t.Errorf("state %s, want %s", got, c.want)
			}
			end(t, one)
			end(t, two)
		})
	}
}

// TestLargestState: a state may have as many bytes as a value of the store has beside its
// envelope, which is 64, and no more.
func TestLargestState(t *testing.T) {
	for over, want := range []string{"", "write state: 4033 bytes are over 4032"} {
		store := storagetest.Limited(mem.New(), storagetest.Small)
		text := strings.Repeat("x", storagetest.Small.Value-64-len(`{"texts":[""]}`)+over)
		layer := memory.Define(memory.Spec{ID: "a"}, memory.Hooks[grown]{
			Store: func(context.Context, *memory.StoreInput[grown]) (memory.Change[grown], error) {
				return memory.Update(func(grown) grown { return grown{[]string{text}} }), nil
			},
		})
		run := begin(t, newMemory(t, store, nil, layer), memory.Identity{})
		project(t, run, user("hello"))
		commit(t, run, "hi")
		got := ""
		for _, h := range run.Report().Hooks {
			if h.Error != "" {
				got = h.Error
			}
		}
		if !strings.Contains(got, want) || (want == "") != (stored(t, store, "a") != "") {
			t.Errorf("%d bytes too many: reported %q, want %q", over, got, want)
		}
		end(t, run)
	}
}
