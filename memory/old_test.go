package memory_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/storage/backup"
	"github.com/stratamem/strata/storage/mem"
)

// TestOldStore goes on with a store that commit 1e6b860 wrote, before runs queued
// and looked for lost answers: an execution that had not ended, after one that
// had and its child. The file is a backup of it.
func TestOldStore(t *testing.T) {
	file, err := os.Open("testdata/1e6b860.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	store := mem.New()
	if _, err := backup.Restore(t.Context(), store, file, nil); err != nil {
		t.Fatal(err)
	}
	m := newMemory(t, store, nil, counting("resource", memory.ScopeResource), counting("thread", memory.ScopeThread), counting("execution", memory.ScopeExecution))
	run, err := m.Resume(t.Context(), "old-000007")
	if err != nil {
		t.Fatal(err)
	}
	check := func(turns int) {
		t.Helper()
		if r, n, x := count(t, run, "resource"), count(t, run, "thread"), count(t, run, "execution"); r != turns+1 || n != turns+1 || x != turns-1 {
			t.Errorf("after %d turns of the thread, of which one is not ours, and a child's: resource %d, thread %d, execution %d", turns, r, n, x)
		}
		if step := run.Execution().Step(); step != turns-1 {
			t.Errorf("step %d after %d turns", step, turns)
		}
	}
	check(3)
	project(t, run, user("four"))
	commit(t, run, "answer")
	check(4)
	checkTurns(t, store, "t", 4)
	for turn := 2; turn <= 4; turn++ {
		if _, err := thread.Replay(t.Context(), store, "old-000007", turn); err != nil {
			t.Error(err)
		}
	}
	end(t, run)
	for x, err := range thread.Runs(t.Context(), store) {
		if err != nil || x.Outcome != memory.Success {
			t.Errorf("run %+v, %v", x, err)
		}
	}
	run = begin(t, m, memory.Identity{Resource: "r"})
	view := fmt.Sprint(texts(project(t, run, user("five"))))
	for _, want := range []string{"one", "two", "three", "four", "five", "resource=5", "thread=5"} {
		if !strings.Contains(view, want) {
			t.Errorf("%q is not in %s", want, view)
		}
	}
	end(t, run)
}

// TestOldHead goes on with a store that commit b569a40 wrote, where an epoch stands
// beside the head of its lineage: an execution and its child, which have not ended.
func TestOldHead(t *testing.T) {
	file, err := os.Open("testdata/b569a40.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	store := mem.New()
	if _, err := backup.Restore(t.Context(), store, file, nil); err != nil {
		t.Fatal(err)
	}
	epochs := func() (keys []string) {
		for key, err := range store.List(t.Context(), "_threads/") {
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(key, "/epoch") {
				keys = append(keys, key)
			}
		}
		return keys
	}
	if n := len(epochs()); n != 2 {
		t.Fatalf("%d epochs stand beside heads", n)
	}
	m := newMemory(t, store, nil, counting("a", memory.ScopeThread), counting("b", memory.ScopeResource))
	for _, id := range []string{"id-000001", "id-000010"} {
		for _, opened := range []string{"the prompt is another version's", ""} { // as it was, when all layers spoke as the system, and as it is then
			run, err := m.Resume(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			step := run.Execution().Step()
			if v := project(t, run, user("more")); v.Opened != opened {
				t.Errorf("%s, step %d: the prefix went on by %q, not %q", id, step, v.Opened, opened)
			}
			commit(t, run, "yes")
			if _, err := thread.Replay(t.Context(), store, id, run.Report().Turn); err != nil {
				t.Error(err)
			}
			if err := run.Discard(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if keys := epochs(); len(keys) > 0 {
		t.Errorf("beside heads stand %q", keys)
	}
	checkTurns(t, store, "t", 6)
}
