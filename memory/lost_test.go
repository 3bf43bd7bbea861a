package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/storage/mem"
)

// twoCounters are two layers that count the turns of a resource.
func twoCounters() []memory.Layer {
	return []memory.Layer{counting("a", memory.ScopeResource), counting("b", memory.ScopeResource)}
}

// TestCommitAfterConflict shows that what others committed while all tries of a
// Commit lost stays when it is called again: nine tries lose to turns that
// change both layers, the tenth to one that changes the second alone.
func TestCommitAfterConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &contested{Store: mem.New()}
		m := newMemory(t, store, nil, twoCounters()...)
		run := begin(t, m, memory.Identity{Thread: "t", Resource: "r"})
		project(t, run, user("hello"))
		other := newMemory(t, store.Store, nil, twoCounters()...)
		only := newMemory(t, store.Store, nil, counting("b", memory.ScopeResource))
		turn := func(m *memory.Memory, thread string) {
			run := begin(t, m, memory.Identity{Thread: thread, Resource: "r"})
			commit(t, run, "hi")
			end(t, run)
		}
		tries := 0
		store.before = func() {
			if tries++; tries < 10 {
				turn(other, fmt.Sprint("both", tries))
			} else {
				turn(only, "second")
			}
		}
		if err := run.Commit(t.Context(), memory.Response{}); !errors.Is(err, memory.ErrConflict) {
			t.Fatalf("got %v", err)
		}
		store.before = nil
		commit(t, run)
		if a, b := stored(t, store, "a"), stored(t, store, "b"); a != `{"n":10}` || b != `{"n":11}` {
			t.Errorf("after 9 turns that changed both, one that changed b, and the one that lost: a %s, b %s", a, b)
		}
		if n := count(t, run, "a"); n != 10 {
			t.Errorf("the run sees a=%d", n)
		}
		end(t, run)
	})
}

// TestEndAfterConflict is the same with End and Return, whose OnComplete and
// OnReturn hooks make the changes.
func TestEndAfterConflict(t *testing.T) {
	counts := func(id string) memory.Layer {
		return memory.Define(memory.Spec{ID: id, Scope: memory.ScopeResource}, memory.Hooks[counter]{
			Store: func(context.Context, *memory.StoreInput[counter]) (memory.Change[counter], error) { return add(1), nil },
			OnComplete: func(context.Context, *memory.CompleteInput[counter]) (memory.Change[counter], error) {
				return add(100), nil
			},
			OnReturn: func(_ context.Context, in *memory.ReturnInput[counter]) (memory.Returned[counter], error) {
				return memory.Returned[counter]{Change: add(1000), Result: in.Result}, nil
			},
		})
	}
	for _, ending := range []string{"end", "return"} {
		t.Run(ending, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &contested{Store: mem.New()}
				m := newMemory(t, store, nil, counts("a"), counts("b"))
				run := begin(t, m, memory.Identity{Thread: "t", Resource: "r"})
				finish := func() error { return run.End(t.Context(), memory.Success) }
				want := 100
				if ending == "return" {
					child, err := run.Spawn(t.Context(), nil)
					if err != nil {
						t.Fatal(err)
					}
					finish = func() error {
						_, err := child.Return(t.Context(), memory.Result{})
						return err
					}
					want = 1100
				}
				other := newMemory(t, store.Store, nil, twoCounters()...)
				only := newMemory(t, store.Store, nil, counting("b", memory.ScopeResource))
				tries := 0
				store.before = func() {
					m := other
					if tries++; tries == 10 {
						m = only
					}
					run := begin(t, m, memory.Identity{Thread: fmt.Sprint("other", tries), Resource: "r"})
					commit(t, run, "hi")
					end(t, run)
				}
				if err := finish(); !errors.Is(err, memory.ErrConflict) {
					t.Fatalf("got %v", err)
				}
				store.before = nil
				if err := finish(); err != nil {
					t.Fatal(err)
				}
				if a, b := stored(t, store, "a"), stored(t, store, "b"); a != fmt.Sprintf(`{"n":%d}`, want+9) || b != fmt.Sprintf(`{"n":%d}`, want+10) {
					t.Errorf("a %s, b %s after %d and 9 or 10 turns of others", a, b, want)
				}
			})
		})
	}
}

// setting is a layer whose Store sets its count to what n says.
func setting(n *int) memory.Layer {
	return memory.Define(memory.Spec{ID: "a", Scope: memory.ScopeResource}, memory.Hooks[counter]{
		Store: func(context.Context, *memory.StoreInput[counter]) (memory.Change[counter], error) {
			to := *n
			return memory.Update(func(counter) counter { return counter{to} }), nil
		},
	})
}

// TestUnchangedMeanwhile shows that an update which comes to what the run last
// saw is made all the same when another process has changed that.
func TestUnchangedMeanwhile(t *testing.T) {
	store := mem.New()
	one, two := 1, 2
	mine := begin(t, newMemory(t, store, nil, setting(&one)), memory.Identity{Thread: "mine", Resource: "r"})
	commit(t, mine)
	theirs := begin(t, newMemory(t, store, nil, setting(&two)), memory.Identity{Thread: "theirs", Resource: "r"})
	commit(t, theirs)
	commit(t, mine)
	if got := stored(t, store, "a"); got != `{"n":1}` {
		t.Errorf("the last commit set 1: %s", got)
	}
	end(t, theirs)
	end(t, mine)
}

// TestClearMeanwhile shows that after a Clear updates start from the zero state,
// whether the execution cleared itself or another did, with a conflict or without.
func TestClearMeanwhile(t *testing.T) {
	for _, clears := range []string{"itself", "another"} {
		for _, moved := range []bool{false, true} {
			store := mem.New()
			change := add(1)
			layer := memory.Define(memory.Spec{ID: "a", Scope: memory.ScopeResource}, memory.Hooks[counter]{
				Init: func(_ context.Context, in *memory.InitInput[counter]) (counter, error) {
					if !in.Found {
						in.State.N = 50
					}
					return in.State, nil
				},
				Store: func(context.Context, *memory.StoreInput[counter]) (memory.Change[counter], error) { return change, nil },
			})
			m := newMemory(t, store, nil, layer)
			run := begin(t, m, memory.Identity{Thread: "t", Resource: "r"})
			other := begin(t, newMemory(t, store, nil, layer), memory.Identity{Thread: "other", Resource: "r"})
			commit(t, run)
			if got := stored(t, store, "a"); got != `{"n":51}` {
				t.Errorf("first %s", got)
			}
			change = memory.Clear[counter]()
			if clears == "itself" {
				commit(t, run)
			} else {
				commit(t, other)
			}
			if moved {
				change = memory.Change[counter]{}.Put("record", []byte("x"))
				commit(t, other)
			}
			change = add(1)
			commit(t, run)
			if got := stored(t, store, "a"); got != `{"n":1}` {
				t.Errorf("cleared by %s, moved %v: %s", clears, moved, got)
			}
			end(t, run)
			end(t, other)
		}
	}
}

// TestPrunedMeanwhile shows that an execution goes on, with its state, when its
// thread has forgotten all of its turns meanwhile; so does a child.
func TestPrunedMeanwhile(t *testing.T) {
	store := mem.New()
	opts := options()
	opts.KeepTurns = 2
	m := newMemory(t, store, opts, counting("a", memory.ScopeExecution))
	run := begin(t, m, memory.Identity{})
	commit(t, run)
	child, err := run.Spawn(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	commit(t, child)
	other := begin(t, m, memory.Identity{})
	for range 10 {
		commit(t, other)
	}
	commit(t, run)
	commit(t, child)
	if a, b := count(t, run, "a"), count(t, child, "a"); a != 2 || b != 2 {
		t.Errorf("the run counts %d, the child %d", a, b)
	}
	again, err := m.Resume(t.Context(), run.Execution().ID())
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, again, "a"); n != 2 {
		t.Errorf("resumed, it counts %d", n)
	}
	if _, err := child.Return(t.Context(), memory.Result{}); err != nil {
		t.Error(err)
	}
	end(t, run)
	end(t, other)
}

type list struct {
	Items []int `json:"items"`
	Turns int   `json:"turns"`
}

// listing has a list: a tool fills it, another raises its first number, which there
// must be, and what a child returns empties it.
func listing() memory.Layer {
	tool := func(name string, f func(list) list) memory.Tool[list] {
		return memory.NewTool(name, "", func(context.Context, *memory.ToolInput[list], struct{}) (struct{}, memory.Change[list], error) {
			return struct{}{}, memory.Update(f), nil
		})
	}
	empty := func(l list) list { l.Items = nil; return l }
	return memory.Define(memory.Spec{ID: "list", Scope: memory.ScopeResource}, memory.Hooks[list]{
		Store: func(context.Context, *memory.StoreInput[list]) (memory.Change[list], error) {
			return memory.Update(func(l list) list { l.Turns++; return l }), nil
		},
		OnReturn: func(_ context.Context, in *memory.ReturnInput[list]) (memory.Returned[list], error) {
			return memory.Returned[list]{Change: memory.Update(empty), Result: in.Result}, nil
		},
		Tools: []memory.Tool[list]{
			tool("fill", func(l list) list { l.Items = []int{1}; return l }),
			tool("empty", empty),
			tool("raise", func(l list) list { l.Items[0]++; return l }),
		},
	})
}

func callTool(t *testing.T, run *memory.Run, name string) {
	t.Helper()
	if _, err := run.Call(t.Context(), "list_"+name, json.RawMessage(`{}`)); err != nil {
		t.Fatal(err)
	}
}

// cannot returns what a report says of changes that could not be made.
func cannot(hooks []memory.HookReport) (errs []string) {
	for _, h := range hooks {
		if h.Status == memory.StatusError {
			errs = append(errs, h.Layer+" "+h.Hook+": "+h.Error)
		}
	}
	return errs
}

// TestChangeThatCannotBeMadeAgain shows that a change which can no longer be made
// on what others committed meanwhile is reported, with the commit that drops it
// and in the record of the next turn.
func TestChangeThatCannotBeMadeAgain(t *testing.T) {
	store := &contested{Store: mem.New()}
	who := memory.Identity{Thread: "t", Resource: "r"}
	run := begin(t, newMemory(t, store, nil, listing()), who)
	callTool(t, run, "fill")
	commit(t, run, "one")
	tries := 0
	store.before = func() {
		switch tries++; tries {
		case 1: // somebody else empties the list
			other := begin(t, newMemory(t, store.Store, nil, listing()), memory.Identity{Thread: "other", Resource: "r"})
			callTool(t, other, "empty")
			commit(t, other)
			end(t, other)
		case 2: // before the run has seen that
			callTool(t, run, "raise")
		}
	}
	commit(t, run, "two")
	store.before = nil
	want := []string{"list commit: make change again: panic: runtime error: index out of range [0] with length 0"}
	if diff := cmp.Diff(want, cannot(run.Report().Hooks)); diff != "" {
		t.Error(diff)
	}
	if got := stored(t, store, "list"); got != `{"items":null,"turns":3}` {
		t.Errorf("the list is %s", got)
	}
	commit(t, run, "three")
	commit(t, run, "four")
	x := run.Execution().ID()
	for turn, want := range map[int][]string{2: nil, 3: want, 4: nil} {
		e, err := thread.Explain(t.Context(), store, x, turn)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, cannot(e.Hooks)); diff != "" {
			t.Errorf("turn %d: %s", turn, diff)
		}
	}
	end(t, run)
}

// TestChangeThatAReturnForbids is the same for a change of the parent's turn, before
// which a child returns with one that is written first.
func TestChangeThatAReturnForbids(t *testing.T) {
	store := mem.New()
	run := begin(t, newMemory(t, store, nil, listing()), memory.Identity{Thread: "t", Resource: "r"})
	callTool(t, run, "fill")
	commit(t, run, "one")
	project(t, run, user("go on"))
	callTool(t, run, "raise")
	child, err := run.Spawn(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := child.Return(t.Context(), memory.Result{}); err != nil {
		t.Fatal(err)
	}
	want := []string{"list commit: make change again: panic: runtime error: index out of range [0] with length 0"}
	if diff := cmp.Diff(want, cannot(run.Report().Hooks)); diff != "" {
		t.Error(diff)
	}
	commit(t, run, "two")
	e, err := thread.Explain(t.Context(), store, run.Execution().ID(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, cannot(e.Hooks)); diff != "" {
		t.Error(diff)
	}
	if got := stored(t, store, "list"); got != `{"items":null,"turns":2}` {
		t.Errorf("the list is %s", got)
	}
	end(t, run)
}
