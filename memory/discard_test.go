package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// dump returns all that a store holds, by key.
func dump(t *testing.T, store storage.Adapter) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for e, err := range storage.Scan(t.Context(), store, "", nil) {
		if err != nil {
			t.Fatal(err)
		}
		all[e.Key] = string(e.Version) + " " + string(e.Value)
	}
	return all
}

// TestDiscardLeavesNothing: with the ready layers, a tool and a child, in a store
// that is empty and in one that is not, on each engine.
func TestDiscardLeavesNothing(t *testing.T) {
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			store := openEngine(t, engine, storage.Process)
			m, err := memory.New(store, []memory.Layer{
				layers.WorkingMemory(nil), layers.Entity(nil), layers.Observations(nil), layers.Episodic(nil), layers.SemanticRecall(nil),
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			who := memory.Identity{Thread: "t", Resource: "anna"}
			preview := func() *projection.View {
				t.Helper()
				before := dump(t, store)
				run := begin(t, m, who)
				view := project(t, run, user("My name is Anna and I live in Lisbon. What is the deadline?"))
				if _, err := run.Call(t.Context(), "working-memory_update", json.RawMessage(`{"notes":{"a":{"b":"c"}}}`)); err != nil {
					t.Fatal(err)
				}
				children, err := run.Fork(t.Context(), 1)
				if err != nil {
					t.Fatal(err)
				}
				project(t, children[0], user("Look for it."))
				if err := run.Discard(t.Context()); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(before, dump(t, store)); diff != "" {
					t.Errorf("the store (-before +after):\n%s", diff)
				}
				return view
			}
			preview()
			run := begin(t, m, who)
			for _, text := range []string{"My name is Anna.", "The deadline for the report is 2026-03-14."} {
				project(t, run, user(text))
				commit(t, run, "Noted.")
			}
			end(t, run)
			preview()
			run = begin(t, m, who)
			project(t, run, user("I moved to Porto."))
			commit(t, run, "Noted.")
			before := dump(t, store)
			if len(before) == 0 {
				t.Fatal("the store is empty")
			}
			project(t, run, user("Forget that."))
			if err := run.Discard(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, dump(t, store)); diff != "" {
				t.Errorf("the store (-before +after):\n%s", diff)
			}
			run, err = m.Resume(t.Context(), run.Execution().ID())
			if err != nil || run.Execution().Step() != 1 {
				t.Fatalf("Resume: %v", err)
			}
			project(t, run, user("I moved to Faro."))
			commit(t, run, "Noted.")
			end(t, run)
			if err := m.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDiscard: hooks that release run, hooks that learn do not, and the run is over.
func TestDiscard(t *testing.T) {
	var disposed, completed int
	watch := memory.Define(memory.Spec{ID: "watch"}, memory.Hooks[counter]{
		Init: func(_ context.Context, in *memory.InitInput[counter]) (counter, error) { return in.State, nil },
		OnComplete: func(context.Context, *memory.CompleteInput[counter]) (memory.Change[counter], error) {
			completed++
			return memory.Change[counter]{}, nil
		},
		Dispose: func(context.Context, *memory.DisposeInput[counter]) error {
			disposed++
			return nil
		},
	})
	m := newMemory(t, mem.New(), nil, watch)
	run := begin(t, m, memory.Identity{})
	child, err := run.Spawn(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := run.Discard(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	end(t, run)
	if disposed != 2 || completed != 0 {
		t.Errorf("%d Dispose, %d OnComplete", disposed, completed)
	}
	for _, r := range []*memory.Run{run, child} {
		if err := r.Commit(t.Context(), memory.Response{}); !errors.Is(err, memory.ErrEnded) {
			t.Errorf("Commit: %v", err)
		}
	}
	ended := begin(t, m, memory.Identity{})
	end(t, ended)
	if err := ended.Discard(t.Context()); err != nil {
		t.Error(err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestWaysOnFromBudget: the two ways on from ErrBudget that the README names.
func TestWaysOnFromBudget(t *testing.T) {
	opts := options()
	opts.Policy = projection.Policy{Budget: 300, Reserve: -1}
	for name, goOn := range map[string]func(t *testing.T, m *memory.Memory, run *memory.Run) *memory.Run{
		"it is answered": func(t *testing.T, _ *memory.Memory, run *memory.Run) *memory.Run {
			commit(t, run, "That is too long for me.")
			return run
		},
		"it is taken back": func(t *testing.T, m *memory.Memory, run *memory.Run) *memory.Run {
			if err := run.Discard(t.Context()); err != nil {
				t.Fatal(err)
			}
			run, err := m.Resume(t.Context(), run.Execution().ID())
			if err != nil {
				t.Fatal(err)
			}
			return run
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, mem.New(), opts)
			run := begin(t, m, memory.Identity{})
			project(t, run, user("hi"))
			commit(t, run, "hello")
			for range 2 {
				if _, err := run.Project(t.Context(), user(strings.Repeat("x", 2000))); !errors.Is(err, memory.ErrBudget) {
					t.Fatalf("Project: %v", err)
				}
				run = goOn(t, m, run)
			}
			got := texts(project(t, run, user("shorter")))
			if n := len(got); got[n-1] != "history: shorter" || strings.Contains(strings.Join(got, ""), "xx") {
				t.Errorf("the view is %q", got)
			}
			commit(t, run, "now I can")
			end(t, run)
			if err := m.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
