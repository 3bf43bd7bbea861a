package memory_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
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
		return heapNow()
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

func heapNow() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// TestHeapOfLongRun shows that a run which goes on does not come to hold more,
// with a user who speaks in each turn, and with one who gave a task once.
func TestHeapOfLongRun(t *testing.T) {
	text := strings.Repeat("a word ", 60)
	shapes := map[string]func(i int) (input, output projection.Item){
		"talk": func(int) (input, output projection.Item) {
			return user(text), projection.Text(projection.Assistant, text)
		},
		"task": func(i int) (input, output projection.Item) {
			input, output = projection.Result(fmt.Sprint(i-1), text), projection.Call(fmt.Sprint(i), "tool", "{}")
			if i == 0 {
				input = user(text)
			}
			return input, output
		},
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			store := openBolt(t, filepath.Join(t.TempDir(), "db"))
			m := newMemory(t, store, &memory.Options{Policy: projection.Policy{Budget: 4000, Reserve: 500}}, counting("a", memory.ScopeThread))
			run := begin(t, m, memory.Identity{})
			turn := 0
			play := func(n int) uint64 {
				for range n {
					input, output := shape(turn)
					project(t, run, input)
					if err := run.Commit(t.Context(), memory.Response{Items: []projection.Item{output}}); err != nil {
						t.Fatal(err)
					}
					turn++
				}
				return heapNow()
			}
			before := play(1000)
			after := play(2000)
			t.Logf("heap %d KB after 1,000 turns, %d KB after 3,000", before>>10, after>>10)
			if after > before+512<<10 {
				t.Errorf("the heap grew by %d KB", (after-before)>>10)
			}
			end(t, run)
		})
	}
}
