package memory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

var errLine = errors.New("the line is dead")

// line is the way to a store, on which answers can be lost.
type line struct {
	*mem.Store
	lose error // unless nil: the next batch is made, and this comes back
	dead bool  // after that nothing can be read
	cut  bool
}

func (l *line) Apply(ctx context.Context, ops ...storage.Op) error {
	if l.cut {
		return errLine
	}
	err := l.Store.Apply(ctx, ops...)
	if l.lose != nil && err == nil {
		err, l.lose, l.cut = l.lose, nil, l.dead
	}
	return err
}

func (l *line) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	if l.cut {
		return nil, "", errLine
	}
	return l.Store.Get(ctx, key)
}

// lifelong counts every hook that can change it: 1 a turn, 100 an end, 10,000 a
// returned child.
func lifelong(id string, scope memory.Scope) memory.Layer {
	return memory.Define(memory.Spec{ID: id, Scope: scope}, memory.Hooks[counter]{
		Store: func(context.Context, *memory.StoreInput[counter]) (memory.Change[counter], error) { return add(1), nil },
		OnComplete: func(context.Context, *memory.CompleteInput[counter]) (memory.Change[counter], error) {
			return add(100), nil
		},
		OnReturn: func(_ context.Context, in *memory.ReturnInput[counter]) (memory.Returned[counter], error) {
			return memory.Returned[counter]{Change: add(10_000), Result: in.Result}, nil
		},
	})
}

// checkTurns checks how many turns a thread has, and that each is there once.
func checkTurns(t *testing.T, store storage.Adapter, id string, want int) {
	t.Helper()
	n := 0
	for turn, err := range thread.Turns(t.Context(), store, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; turn.Number != n {
			t.Errorf("turn %d has the number %d", n, turn.Number)
		}
	}
	if n != want {
		t.Errorf("%d turns, want %d", n, want)
	}
}

// TestLostAnswer shows that a batch which was made although an error came back is
// known again, at once or when the store can be read again, and is not made twice:
// whatever others do meanwhile, and whichever call finds out.
func TestLostAnswer(t *testing.T) {
	for _, dead := range []bool{false, true} {
		for _, lost := range []error{errLine, memory.ErrConflict, context.DeadlineExceeded, storage.ErrClosed} {
			for _, meanwhile := range []string{"nothing", "others"} {
				for _, call := range []string{"first commit", "later commit", "commit, then end", "end", "end without turns"} {
					t.Run(fmt.Sprintf("dead=%v/%v/%s/%s", dead, lost, meanwhile, call), func(t *testing.T) {
						testLostAnswer(t, &line{Store: mem.New(), dead: dead}, lost, meanwhile == "others", call)
					})
				}
			}
		}
	}
}

func testLostAnswer(t *testing.T, store *line, lost error, others bool, call string) {
	m := newMemory(t, store, nil, lifelong("a", memory.ScopeResource), lifelong("b", memory.ScopeThread), lifelong("c", memory.ScopeExecution))
	who := memory.Identity{Thread: "t", Resource: "r"}
	run := begin(t, m, who)
	turns, want := 0, 0
	if call == "later commit" || call == "end" {
		commit(t, run, "one")
		turns++
	}
	write := func() error { return run.Commit(t.Context(), memory.Response{}) }
	again := write
	ends := func() error { return run.End(t.Context(), memory.Success) }
	switch call {
	case "end", "end without turns":
		write, again = ends, ends
	case "commit, then end":
		again = ends
		fallthrough
	default:
		project(t, run, user("hello"))
		turns++
	}
	store.lose = lost
	err := write()
	if dead := store.cut; dead != (err != nil) || dead && !errors.Is(err, lost) {
		t.Errorf("got %v, the store is dead: %v", err, dead)
	}
	store.cut = false
	if others {
		other := begin(t, newMemory(t, store, &memory.Options{}, lifelong("a", memory.ScopeResource), lifelong("b", memory.ScopeThread)), who)
		commit(t, other)
		commit(t, other)
		end(t, other)
		turns += 2
		want += 100
	}
	if err != nil {
		if err := again(); err != nil {
			t.Fatal(err)
		}
	}
	if call == "first commit" || call == "later commit" {
		commit(t, run, "next")
		turns++
	}
	end(t, run)
	want += turns + 100
	checkTurns(t, store, "t", turns)
	for _, layer := range []string{"a", "b"} {
		if got := stored(t, store, layer); got != fmt.Sprintf(`{"n":%d}`, want) {
			t.Errorf("layer %s: %s, want %d", layer, got, want)
		}
	}
	runs := 0
	for x, err := range thread.Runs(t.Context(), store) {
		if err != nil || x.Outcome == "" || x.FirstTurn == 0 {
			t.Errorf("run %+v, %v", x, err)
		}
		runs++
	}
	if want := btoi(call != "end without turns") + btoi(others); runs != want {
		t.Errorf("%d runs are recorded, want %d", runs, want)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestLostReturn is the same with a child's Return, which changes its parent too.
func TestLostReturn(t *testing.T) {
	for _, dead := range []bool{false, true} {
		for _, turn := range []bool{false, true} {
			for _, meanwhile := range []string{"nothing", "parent commits", "parent ends", "child ends"} {
				t.Run(fmt.Sprintf("dead=%v/turn=%v/%s", dead, turn, meanwhile), func(t *testing.T) {
					store := &line{Store: mem.New(), dead: dead}
					m := newMemory(t, store, nil, lifelong("a", memory.ScopeResource), lifelong("c", memory.ScopeExecution))
					run := begin(t, m, memory.Identity{Thread: "t", Resource: "r"})
					commit(t, run)
					child, err := run.Spawn(t.Context(), nil)
					if err != nil {
						t.Fatal(err)
					}
					if turn {
						project(t, child, user("task"))
					}
					store.lose = errLine
					_, err = child.Return(t.Context(), memory.Result{})
					if dead != (err != nil) {
						t.Fatalf("got %v", err)
					}
					store.cut = false
					turns, over := 1, false
					switch meanwhile {
					case "parent commits":
						commit(t, run)
						turns++
					case "parent ends":
						end(t, run)
						over = true
					case "child ends":
						end(t, child)
						over = true
					}
					if _, err := child.Return(t.Context(), memory.Result{}); (err == nil) == (over || !dead) {
						t.Errorf("got %v", err)
					}
					if n := count(t, run, "c"); meanwhile != "parent ends" && n != turns+10_000 {
						t.Errorf("the parent's own count is %d", n)
					}
					end(t, run)
					checkTurns(t, store, "t", turns)
					want := turns + btoi(turn) + 200 + 10_000
					if got := stored(t, store, "a"); got != fmt.Sprintf(`{"n":%d}`, want) {
						t.Errorf("%s, want %d", got, want)
					}
					if err := m.Close(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// TestLostBeforeReturn shows that a child may return to a parent that does not
// know whether its last turn was written.
func TestLostBeforeReturn(t *testing.T) {
	store := &line{Store: mem.New(), dead: true}
	m := newMemory(t, store, nil, lifelong("a", memory.ScopeResource), lifelong("c", memory.ScopeExecution))
	run := begin(t, m, memory.Identity{Thread: "t", Resource: "r"})
	child, err := run.Spawn(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	store.lose = errLine
	if err := run.Commit(t.Context(), memory.Response{}); !errors.Is(err, errLine) {
		t.Fatalf("got %v", err)
	}
	store.cut = false
	if _, err := child.Return(t.Context(), memory.Result{}); err != nil {
		t.Fatal(err)
	}
	again, err := newMemory(t, store, nil, lifelong("c", memory.ScopeExecution)).Resume(t.Context(), run.Execution().ID())
	if err != nil {
		t.Fatal(err)
	}
	if step, n := again.Execution().Step(), count(t, again, "c"); step != 1 || n != 10_001 {
		t.Errorf("resumed at step %d with %d", step, n)
	}
	commit(t, run)
	commit(t, run)
	end(t, run)
	checkTurns(t, store, "t", 2)
	if got := stored(t, store, "a"); got != `{"n":10202}` {
		t.Errorf("got %s", got)
	}
}

// TestLostAndResumed shows that each of two that go on with one execution knows
// its own turns, and takes none of the other's for them.
func TestLostAndResumed(t *testing.T) {
	layers := []memory.Layer{lifelong("a", memory.ScopeResource), lifelong("c", memory.ScopeExecution)}
	start := func(t *testing.T) (*line, *memory.Run, func() *memory.Run) {
		store := &line{Store: mem.New(), dead: true}
		run := begin(t, newMemory(t, store, nil, layers...), memory.Identity{Thread: "t", Resource: "r"})
		commit(t, run)
		return store, run, func() *memory.Run {
			again, err := newMemory(t, store, &memory.Options{}, layers...).Resume(t.Context(), run.Execution().ID())
			if err != nil {
				t.Fatal(err)
			}
			return again
		}
	}
	check := func(t *testing.T, store *line, turns int) {
		t.Helper()
		checkTurns(t, store, "t", turns)
		for _, layer := range []string{"a", "c"} {
			if got := stored(t, store, layer); got != fmt.Sprintf(`{"n":%d}`, turns) {
				t.Errorf("layer %s: %s, want %d", layer, got, turns)
			}
		}
	}
	t.Run("resumed after", func(t *testing.T) {
		store, run, resume := start(t)
		store.lose = errLine
		if err := run.Commit(t.Context(), memory.Response{}); !errors.Is(err, errLine) {
			t.Fatalf("got %v", err)
		}
		store.cut = false
		again := resume()
		if n := again.Execution().Step(); n != 2 {
			t.Errorf("resumed at step %d", n)
		}
		commit(t, again)
		commit(t, run) // is done
		check(t, store, 3)
		commit(t, run)
		check(t, store, 4)
	})
	t.Run("resumed before", func(t *testing.T) {
		store, run, resume := start(t)
		again := resume()
		commit(t, again)
		commit(t, run) // meets the other's turn, with a record that says the same
		check(t, store, 3)
	})
	t.Run("resumed before, and lost", func(t *testing.T) {
		store, run, resume := start(t)
		again := resume()
		store.cut = true
		if err := run.Commit(t.Context(), memory.Response{}); !errors.Is(err, errLine) {
			t.Fatalf("got %v", err)
		}
		store.cut = false
		commit(t, again)
		commit(t, run)
		check(t, store, 3)
	})
}

// TestLostAndPruned shows that where the thread has forgotten a batch before it
// could be known again, nothing is made twice, and nothing acknowledged either; and
// that what was not made is made then, where that can be told.
func TestLostAndPruned(t *testing.T) {
	who := memory.Identity{Thread: "t", Resource: "r"}
	last := func(t *testing.T, run *memory.Run) func() error {
		return func() error { return run.Commit(t.Context(), memory.Response{}) }
	}
	for _, c := range []struct {
		name string
		call func(t *testing.T, run *memory.Run) func() error // what is lost
		want string                                           // the state, once it is made
	}{
		{"commit", last, `{"n":2}`},
		{"end", func(t *testing.T, run *memory.Run) func() error {
			return func() error { return run.End(t.Context(), memory.Success) }
		}, `{"n":101}`},
		{"first commit of a child", func(t *testing.T, run *memory.Run) func() error {
			child, err := run.Spawn(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return last(t, child)
		}, `{"n":2}`},
		{"second commit of a child", func(t *testing.T, run *memory.Run) func() error {
			child, err := run.Spawn(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			commit(t, child)
			return last(t, child)
		}, `{"n":3}`},
		{"end of a child", func(t *testing.T, run *memory.Run) func() error {
			child, err := run.Spawn(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			commit(t, child)
			return func() error { return child.End(t.Context(), memory.Success) }
		}, `{"n":102}`},
	} {
		start := func(t *testing.T) (store *line, call func() error, others func(layers ...memory.Layer)) {
			opts := options()
			opts.KeepTurns = 2
			store = &line{Store: mem.New(), dead: true}
			run := begin(t, newMemory(t, store, opts, lifelong("a", memory.ScopeResource)), who)
			commit(t, run)
			return store, c.call(t, run), func(layers ...memory.Layer) {
				other := begin(t, newMemory(t, store.Store, opts, layers...), who)
				for range 12 {
					commit(t, other)
				}
			}
		}
		t.Run(c.name+"/made", func(t *testing.T) {
			store, call, others := start(t)
			store.lose = errLine
			if err := call(); !errors.Is(err, errLine) {
				t.Fatalf("got %v", err)
			}
			store.cut = false
			if got := stored(t, store, "a"); got != c.want {
				t.Fatalf("made, it is %s", got)
			}
			others(counting("a", memory.ScopeResource))
			before := stored(t, store, "a")
			for range 2 {
				if err := call(); !errors.Is(err, memory.ErrPruned) {
					t.Errorf("got %v", err)
				}
			}
			if got := stored(t, store, "a"); got != before {
				t.Errorf("it is %s, was %s", got, before)
			}
		})
		t.Run(c.name+"/not made", func(t *testing.T) {
			store, call, others := start(t)
			store.cut = true
			if err := call(); !errors.Is(err, errLine) {
				t.Fatalf("got %v", err)
			}
			store.cut = false
			others()
			if err := call(); err != nil {
				t.Fatal(err)
			}
			if got := stored(t, store, "a"); got != c.want {
				t.Errorf("it is %s, want %s", got, c.want)
			}
		})
	}
}
