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
