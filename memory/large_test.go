package memory_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage/mem"
)

// largeResults begins a run with three calls committed, and returns their results,
// which are too much for one turn.
func largeResults(t *testing.T, store *mem.Store) (*memory.Run, []projection.Item) {
	run := begin(t, newMemory(t, store, nil), memory.Identity{})
	project(t, run, user("read all"))
	answer := memory.Response{}
	var results []projection.Item
	for _, id := range []string{"a", "b", "c"} {
		answer.Items = append(answer.Items, projection.Call(id, "read", "{}"))
		results = append(results, projection.Result(id, strings.Repeat(id, 3_900_000)))
	}
	if err := run.Commit(t.Context(), answer); err != nil {
		t.Fatal(err)
	}
	_, err := run.Project(t.Context(), results...)
	var refused *memory.ItemError
	if !errors.As(err, &refused) || refused.Index != 1 || !strings.Contains(err.Error(), "shorten it, or commit what comes before it first") {
		t.Fatalf("Project: %v", err)
	}
	return run, results
}

// inView counts the results in the view by the letter that they are of.
func inView(view *projection.View) map[string]int {
	seen := make(map[string]int)
	for _, it := range view.All() {
		if it.Kind == projection.ToolResult {
			seen[it.Text()[:1]]++
		}
	}
	return seen
}

// TestTurnTooLarge: what the documentation of Project says to do about it.
func TestTurnTooLarge(t *testing.T) {
	all := func(t *testing.T, view *projection.View) {
		t.Helper()
		if seen := inView(view); len(seen) != 3 || view.History.Unpaired != 0 {
			t.Errorf("the view has results %v, %d unpaired", seen, view.History.Unpaired)
		}
	}
	t.Run("shortened", func(t *testing.T) {
		run, results := largeResults(t, mem.New())
		for {
			view, err := run.Project(t.Context(), results...)
			var refused *memory.ItemError
			if errors.As(err, &refused) {
				text := results[refused.Index].Text()
				results[refused.Index] = projection.Result(results[refused.Index].CallID, text[:len(text)/2])
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			all(t, view)
			break
		}
		commit(t, run, "read")
		end(t, run)
	})
	t.Run("one by one", func(t *testing.T) {
		store := mem.New()
		run, results := largeResults(t, store)
		for i, it := range results {
			view := project(t, run, it)
			if i == len(results)-1 {
				all(t, view)
				commit(t, run, "read")
			} else {
				commit(t, run)
			}
		}
		end(t, run)
		stored := 0
		for turn, err := range thread.Turns(t.Context(), store, "t", 0) {
			if err != nil {
				t.Fatal(err)
			}
			for i := range turn.Items {
				stored += len(turn.Items[i].Text())
			}
		}
		if stored < 3*3_900_000 {
			t.Errorf("%d bytes are stored", stored)
		}
	})
	t.Run("given up", func(t *testing.T) {
		store := mem.New()
		run, _ := largeResults(t, store)
		if err := run.End(t.Context(), memory.Failure); err != nil {
			t.Fatal(err)
		}
		run = begin(t, newMemory(t, store, &memory.Options{}), memory.Identity{})
		view := project(t, run, user("go on"))
		if got := texts(view); len(got) != 2 || got[1] != "history: go on" || view.History.Unpaired != 3 {
			t.Errorf("the thread goes on with %q", got)
		}
		commit(t, run, "yes")
		end(t, run)
	})
	t.Run("after a crash", func(t *testing.T) {
		store := mem.New()
		run, results := largeResults(t, store)
		run, err := newMemory(t, store, nil).Resume(t.Context(), run.Execution().ID())
		if err != nil {
			t.Fatal(err)
		}
		for i := range results {
			results[i] = projection.Result(results[i].CallID, results[i].Text()[:1000])
		}
		all(t, project(t, run, results...))
		commit(t, run, "read")
		end(t, run)
	})
}
