package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// crossing is a layer whose state crosses into children and back.
func crossing(id string, scope memory.Scope) memory.Layer {
	return memory.Define(memory.Spec{ID: id, Scope: scope}, memory.Hooks[counter]{
		Init:  func(_ context.Context, in *memory.InitInput[counter]) (counter, error) { return in.State, nil },
		Store: func(context.Context, *memory.StoreInput[counter]) (memory.Change[counter], error) { return add(1), nil },
		OnSpawn: func(_ context.Context, in *memory.SpawnInput[counter]) (memory.Spawned[counter], error) {
			state := counter{N: in.State.N + 100}
			return memory.Spawned[counter]{State: &state, Items: []projection.Item{user(id + " says hello")}}, nil
		},
		OnReturn: func(_ context.Context, in *memory.ReturnInput[counter]) (memory.Returned[counter], error) {
			in.Result.Text += fmt.Sprintf(" %s:%d/%d", id, in.ChildState.N, len(in.ChildLog))
			return memory.Returned[counter]{Change: add(in.ChildState.N), Result: in.Result}, nil
		},
	})
}

func TestChild(t *testing.T) {
	store := mem.New()
	m := newMemory(t, store, nil,
		crossing("cross", memory.ScopeExecution), counting("fresh", memory.ScopeExecution), counting("shared", ""), crossing("both", memory.ScopeThread))
	run := begin(t, m, memory.Identity{Agent: "boss"})
	project(t, run, user("hello"))
	commit(t, run, "hi")

	child, err := run.Spawn(t.Context(), &memory.SpawnOptions{Agent: "hand"})
	if err != nil {
		t.Fatal(err)
	}
	x := child.Execution()
	if x.Depth() != 1 || x.Identity().Agent != "hand" || x.Identity().Thread != "t" || x.ID() == run.Execution().ID() {
		t.Errorf("execution %+v", x)
	}
	if c, f, s := count(t, child, "cross"), count(t, child, "fresh"), count(t, child, "shared"); c != 101 || f != 0 || s != 1 {
		t.Errorf("child states %d %d %d", c, f, s)
	}
	view := project(t, child, user("task"))
	if got := strings.Join(texts(view), "|"); !strings.Contains(got, "history: cross says hello|history: both says hello|history: task") || strings.Contains(got, "history: hello") {
		t.Errorf("child view %q", got)
	}
	if err := child.Commit(t.Context(), memory.Response{Usage: memory.Usage{Output: 5}, Cost: 2}); err != nil {
		t.Fatal(err)
	}
	project(t, child, user("uncommitted"))
	result, err := child.Return(t.Context(), memory.Result{Text: "done"})
	if err != nil {
		t.Fatal(err)
	}
	if want := "done cross:103/4 both:103/4"; result.Text != want || result.Outcome != memory.Success {
		t.Errorf("result %+v, want %s", result, want)
	}
	if u := run.Execution().Usage(); u.Output != 5 || run.Execution().Cost() != 2 {
		t.Errorf("usage %+v", u)
	}
	if n := count(t, run, "cross"); n != 104 {
		t.Errorf("parent state %d", n)
	}
	if got := stored(t, store, "shared"); got != `{"n":3}` {
		t.Errorf("shared %s", got)
	}
	// Thread scope: stored 1, the child's two turns on it, and OnReturn's 103.
	if got := stored(t, store, "both"); got != `{"n":106}` {
		t.Errorf("both %s", got)
	}
	if _, err := child.Project(t.Context()); !errors.Is(err, memory.ErrEnded) {
		t.Errorf("got %v", err)
	}
	// What the return merged is durable.
	again, err := m.Resume(t.Context(), run.Execution().ID())
	if err != nil {
		t.Fatal(err)
	}
	if count(t, again, "cross") != 104 || again.Execution().Cost() != 2 {
		t.Errorf("resumed %d", count(t, again, "cross"))
	}
	// The child's turns are its own.
	n := 0
	for turn, err := range thread.RunTurns(t.Context(), store, x.ID()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if _, err := thread.Explain(t.Context(), store, x.ID(), turn.Number); err != nil {
			t.Error(err)
		}
	}
	if n != 2 {
		t.Errorf("%d turns of the child", n)
	}
	for info, err := range thread.List(t.Context(), store) {
		if err != nil || info.Turns != 1 {
			t.Errorf("thread %+v, %v", info, err)
		}
	}
	end(t, run)
}

// A child may commit before its parent does: its turns are of a thread that has
// none of its own yet.
func TestChildIsFirst(t *testing.T) {
	store := mem.New()
	run := begin(t, newMemory(t, store, nil), memory.Identity{Thread: "a"})
	child, err := run.Spawn(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	project(t, child, user("one"))
	commit(t, child, "two")
	later := begin(t, newMemory(t, store, nil), memory.Identity{Thread: "b"})
	project(t, later, user("one"))
	commit(t, later, "two")
	var got []thread.Info
	for info, err := range thread.List(t.Context(), store) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info)
	}
	want := []thread.Info{{Thread: "a", First: 1}, {Thread: "b", Turns: 1, First: 1, Execution: later.Execution().ID()}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestReturnFailed shows that a child whose Return failed can only return, or end:
// another turn would be one after its end.
func TestReturnFailed(t *testing.T) {
	store := &line{Store: mem.New()}
	m := newMemory(t, store, nil, lifelong("a", memory.ScopeExecution))
	run := begin(t, m, memory.Identity{})
	child, err := run.Spawn(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	commit(t, child)
	store.cut = true
	if _, err := child.Return(t.Context(), memory.Result{}); !errors.Is(err, errLine) {
		t.Fatalf("got %v", err)
	}
	store.cut = false
	if _, err := child.Project(t.Context(), user("more")); !errors.Is(err, memory.ErrEnded) {
		t.Errorf("project: %v", err)
	}
	if err := child.Commit(t.Context(), memory.Response{}); !errors.Is(err, memory.ErrEnded) {
		t.Errorf("commit: %v", err)
	}
	if _, err := child.Spawn(t.Context(), nil); !errors.Is(err, memory.ErrEnded) {
		t.Errorf("spawn: %v", err)
	}
	if _, err := child.Return(t.Context(), memory.Result{}); err != nil {
		t.Fatal(err)
	}
	if got := stored(t, store, "a"); got != `{"n":10000}` {
		t.Errorf("the parent's state: %s", got)
	}
	end(t, run)
}

// TestReturnCancelled shows that no hook runs twice, and none is left out, when a
// Return whose context ended between the hooks is called again.
func TestReturnCancelled(t *testing.T) {
	for _, at := range []string{"store a", "complete a", "complete b", "return a", "return b"} {
		t.Run(at, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			hook := func(name string) error {
				if name == at {
					cancel() // again when it runs again, to no effect
				}
				return nil
			}
			counts := func(id string) memory.Layer {
				return memory.Define(memory.Spec{ID: id}, memory.Hooks[counter]{
					Store: func(_ context.Context, in *memory.StoreInput[counter]) (memory.Change[counter], error) {
						return add(1), hook("store " + id)
					},
					OnComplete: func(_ context.Context, in *memory.CompleteInput[counter]) (memory.Change[counter], error) {
						if in.Execution.Depth() == 0 {
							return memory.Change[counter]{}, nil
						}
						return add(10), hook("complete " + id)
					},
					OnReturn: func(_ context.Context, in *memory.ReturnInput[counter]) (memory.Returned[counter], error) {
						in.Result.Text += id
						return memory.Returned[counter]{Change: add(100), Result: in.Result}, hook("return " + id)
					},
				})
			}
			store := mem.New()
			opts := options()
			opts.Parallel = 1
			m := newMemory(t, store, opts, counts("a"), counts("b"))
			run := begin(t, m, memory.Identity{})
			child, err := run.Spawn(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			project(t, child, user("task"))
			if _, err := child.Return(ctx, memory.Result{}); !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v", err)
			}
			result, err := child.Return(t.Context(), memory.Result{})
			if err != nil {
				t.Fatal(err)
			}
			end(t, run)
			for info, err := range thread.States(t.Context(), store, "") {
				if err != nil || string(info.State) != `{"n":111}` {
					t.Errorf("layer %s: %s, %v", info.Layer, info.State, err)
				}
			}
			if result.Text != "ab" {
				t.Errorf("result %q", result.Text)
			}
		})
	}
}

func TestFailedChild(t *testing.T) {
	m := newMemory(t, mem.New(), nil, crossing("cross", memory.ScopeExecution))
	run := begin(t, m, memory.Identity{})
	child, err := run.Spawn(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Commit(t.Context(), memory.Response{Cost: 1}); err != nil {
		t.Fatal(err)
	}
	result, err := child.Return(t.Context(), memory.Result{Outcome: memory.Failure, Text: "no"})
	if err != nil || result.Text != "no" {
		t.Errorf("got %+v, %v", result, err)
	}
	if count(t, run, "cross") != 0 || run.Execution().Cost() != 1 {
		t.Errorf("state %d, cost %v", count(t, run, "cross"), run.Execution().Cost())
	}
	end(t, run)
}

func TestFork(t *testing.T) {
	store := mem.New()
	m := newMemory(t, store, nil, crossing("cross", memory.ScopeExecution), counting("a", ""))
	run := begin(t, m, memory.Identity{})
	project(t, run, user("one"))
	commit(t, run, "two")
	project(t, run, user("three")) // not committed
	children, err := run.Fork(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	views := make([]*projection.View, len(children))
	var wg sync.WaitGroup
	for i, child := range children {
		wg.Go(func() {
			view, err := child.Project(t.Context(), user(fmt.Sprint("task ", i)))
			if err != nil {
				t.Error(err)
				return
			}
			views[i] = view
			grand, err := child.Fork(t.Context(), 1)
			if err != nil {
				t.Error(err)
				return
			}
			if err := child.Commit(t.Context(), memory.Response{}); err != nil {
				t.Error(err)
			}
			deep, err := grand[0].Project(t.Context(), user("deep"))
			if err != nil {
				t.Error(err)
				return
			}
			if err := grand[0].Commit(t.Context(), memory.Response{}); err != nil {
				t.Error(err)
			}
			checkReplay(t, store, grand[0], deep)
			if _, err := child.Return(t.Context(), memory.Result{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, child := range children {
		got := strings.Join(texts(views[i]), "|")
		if want := fmt.Sprintf("history: one|history: two|history: three|history: cross says hello|history: task %d", i); !strings.Contains(got, want) {
			t.Errorf("child %d sees %q", i, got)
		}
		checkReplay(t, store, child, views[i])
	}
	// 1 + four times 101 + 1 turn: the grandchildren were aborted.
	if n := count(t, run, "cross"); n != 1+4*(1+100+1) {
		t.Errorf("parent state %d", n)
	}
	commit(t, run, "four")
	end(t, run)
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestParentTurnAtWork: a child that begins with the parent's log sees what the
// parent has not committed yet, and only the parent learns from it.
func TestParentTurnAtWork(t *testing.T) {
	store := mem.New()
	var mu sync.Mutex
	learned := make(map[string]int)
	learner := memory.Define(memory.Spec{ID: "learner"}, memory.Hooks[counter]{
		Store: func(_ context.Context, in *memory.StoreInput[counter]) (memory.Change[counter], error) {
			mu.Lock()
			defer mu.Unlock()
			for i := range in.New {
				learned[in.New[i].Text()]++
			}
			return memory.Change[counter]{}, nil
		},
	})
	m := newMemory(t, store, nil, learner)
	run := begin(t, m, memory.Identity{})
	question := user("question")
	question.ID = "q"
	project(t, run, question)
	children, err := run.Fork(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	child, idle := children[0], children[1]
	view := project(t, child, question) // it has that already
	if got := texts(view); !slices.Equal(got, []string{"history: question"}) {
		t.Errorf("the child sees %q", got)
	}
	commit(t, child, "draft")
	checkReplay(t, store, child, view)
	id := child.Execution().ID()
	for turn, err := range thread.RunTurns(t.Context(), store, id) {
		if err != nil || turn.Given != 1 || len(turn.Items) != 2 {
			t.Errorf("the child's turn: %+v, %v", turn, err)
		}
	}
	again, err := newMemory(t, store, nil, learner).Resume(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if got := texts(project(t, again, user("more"))); !slices.Equal(got, []string{"history: question", "history: draft", "history: more"}) {
		t.Errorf("resumed, the child sees %q", got)
	}
	for _, c := range []*memory.Run{child, idle} {
		if _, err := c.Return(t.Context(), memory.Result{}); err != nil {
			t.Fatal(err)
		}
	}
	for turn := range thread.RunTurns(t.Context(), store, idle.Execution().ID()) {
		if turn != nil {
			t.Errorf("a child that did nothing has a turn: %+v", turn)
		}
	}
	commit(t, run, "answer")
	end(t, run)
	if diff := cmp.Diff(map[string]int{"question": 1, "draft": 1, "answer": 1}, learned); diff != "" {
		t.Errorf("learned (-want +got):\n%s", diff)
	}
}

func checkReplay(t *testing.T, store *mem.Store, run *memory.Run, want *projection.View) {
	t.Helper()
	view, err := thread.Replay(t.Context(), store, run.Execution().ID(), 1)
	if err != nil {
		t.Error(err)
		return
	}
	if diff := cmp.Diff(string(itemBytes(t, want)), string(itemBytes(t, view))); diff != "" {
		t.Error(diff)
	}
}

func TestParentEnds(t *testing.T) {
	var mu sync.Mutex
	outcomes := make(map[int]memory.Outcome)
	blocked := make(chan struct{})
	layer := memory.Define(memory.Spec{ID: "a"}, memory.Hooks[counter]{
		Recall: func(ctx context.Context, in *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
			if in.Execution.Depth() == 2 {
				close(blocked)
				<-ctx.Done()
			}
			return memory.Recalled[counter]{}, ctx.Err()
		},
		OnComplete: func(_ context.Context, in *memory.CompleteInput[counter]) (memory.Change[counter], error) {
			mu.Lock()
			defer mu.Unlock()
			if _, ok := outcomes[in.Execution.Depth()+1]; in.Execution.Depth() < 2 && !ok {
				t.Error("the parent ended before its child")
			}
			outcomes[in.Execution.Depth()] = in.Outcome
			return memory.Change[counter]{}, nil
		},
	})
	m := newMemory(t, mem.New(), nil, layer)
	run := begin(t, m, memory.Identity{})
	child, err := run.Spawn(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := child.Spawn(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := grandchild.Project(t.Context(), user("busy"))
		done <- err
	}()
	<-blocked
	end(t, run)
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the grandchild's Project: %v", err)
	}
	if diff := cmp.Diff(map[int]memory.Outcome{0: memory.Success, 1: memory.Aborted, 2: memory.Aborted}, outcomes); diff != "" {
		t.Error(diff)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A child that returns while its parent's turn is not written takes what its return
// changed, and nothing of that turn: a crash leaves a whole turn or none.
func TestReturnBesideATurn(t *testing.T) {
	for _, scope := range []memory.Scope{memory.ScopeThread, memory.ScopeExecution} {
		t.Run(string(scope), func(t *testing.T) {
			store := &line{Store: mem.New()}
			m := newMemory(t, store, nil, lifelong("a", scope))
			who := memory.Identity{Thread: "t"}
			run := begin(t, m, who)
			project(t, run, user("one"))
			commit(t, run, "ok") // 1
			child, err := run.Spawn(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			project(t, run, user("two"))
			store.cut = true
			if err := run.Commit(t.Context(), memory.Response{}); err == nil { // 1 more, not written
				t.Fatal("a commit to a dead store succeeds")
			}
			store.cut = false
			if _, err := child.Return(t.Context(), memory.Result{}); err != nil { // 10,000, and of the child 100
				t.Fatal(err)
			}
			want := 10_001
			if scope == memory.ScopeThread {
				want += 100
			}
			checkState(t, store, scope, want)
			checkTurns(t, store, "t", 1)
			if err := run.Commit(t.Context(), memory.Response{}); err != nil {
				t.Fatal(err)
			}
			checkState(t, store, scope, want+1)
			checkTurns(t, store, "t", 2)
		})
	}
}

// checkState checks the one state of a scope that a store has.
func checkState(t *testing.T, store storage.Adapter, scope memory.Scope, want int) {
	t.Helper()
	for s, err := range thread.States(t.Context(), store, "a") {
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf(`{"N":%d}`, want); s.Kind == scope && !strings.EqualFold(string(s.State), got) {
			t.Errorf("the state is %s, want %s", s.State, got)
		}
	}
}
