package memory_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// TestHeap shows that executions that have ended leave nothing in memory.
func TestHeap(t *testing.T) {
	t.Run("mem", func(t *testing.T) { testHeap(t, &forgetful{mem.New()}, 10_000) })
	t.Run("bolt", func(t *testing.T) {
		if testing.Short() {
			t.Skip("takes long")
		}
		testHeap(t, openBolt(t, filepath.Join(t.TempDir(), "db")), 10_000)
	})
}

// forgetful is a store in memory that is emptied now and then, so that what it
// holds does not count.
type forgetful struct{ *mem.Store }

func (f *forgetful) reset() { f.Store = mem.New() }

func testHeap(t *testing.T, store storage.Adapter, executions int) {
	m := newMemory(t, store, &memory.Options{}, counting("a", memory.ScopeExecution), counting("b", memory.ScopeGlobal))
	heap := func() uint64 {
		if f, ok := store.(*forgetful); ok {
			f.reset()
		}
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	one := func(i int) {
		run := begin(t, m, memory.Identity{Thread: fmt.Sprint("t", i)})
		project(t, run, user("hello"))
		commit(t, run, "hi")
		if i%10 == 0 {
			child, err := run.Spawn(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := child.Return(t.Context(), memory.Result{}); err != nil {
				t.Fatal(err)
			}
		}
		end(t, run)
	}
	for i := range 200 {
		one(i)
	}
	before := heap()
	for i := range executions {
		if one(i); i%500 == 0 {
			heap()
		}
	}
	after := heap()
	t.Logf("heap %d KB before, %d KB after %d executions", before>>10, after>>10, executions)
	if after > before+2<<20 {
		t.Errorf("the heap grew by %d KB", (after-before)>>10)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
