package memory_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage/mem"
)

var errHook = errors.New("it broke")

// failing returns what makes a hook fail in one of the ways there are.
func failing(how string, release <-chan struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		switch how {
		case "error":
			return errHook
		case "panic":
			panic("boom")
		case "timeout": // heeds its context
			<-ctx.Done()
			return ctx.Err()
		case "hang": // does not
			<-release
			return errHook
		case "exit":
			runtime.Goexit()
		}
		return nil
	}
}

// TestHookFailures is the table of section 3 of the contract: each hook, each
// way to fail, what becomes of the turn, and the default timeout.
func TestHookFailures(t *testing.T) {
	table := []struct {
		hook    string
		timeout time.Duration
		layer   func(fail func(context.Context) error) memory.Hooks[counter]
		check   func(t *testing.T, m *memory.Memory)
	}{
		{"init", 10 * time.Second, func(fail func(context.Context) error) memory.Hooks[counter] {
			return memory.Hooks[counter]{Init: func(ctx context.Context, in *memory.InitInput[counter]) (counter, error) {
				return in.State, fail(ctx)
			}}
		}, nil},
		{"append", 5 * time.Second, func(fail func(context.Context) error) memory.Hooks[counter] {
			return memory.Hooks[counter]{Append: func(ctx context.Context, in *memory.AppendInput[counter]) ([]projection.Item, error) {
				return []projection.Item{user("changed")}, fail(ctx)
			}}
		}, func(t *testing.T, m *memory.Memory) {
			run := begin(t, m, memory.Identity{})
			if got := texts(project(t, run, user("hello"))); !slices.Equal(got, []string{"history: hello"}) {
				t.Errorf("items did not pass unchanged: %q", got)
			}
			degraded(t, run, "append")
			end(t, run)
		}},
		{"recall", 5 * time.Second, func(fail func(context.Context) error) memory.Hooks[counter] {
			return memory.Hooks[counter]{Recall: func(ctx context.Context, in *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
				return memory.Recalled[counter]{Text: "noise", Change: add(1)}, fail(ctx)
			}}
		}, func(t *testing.T, m *memory.Memory) {
			run := begin(t, m, memory.Identity{})
			if got := texts(project(t, run, user("hello"))); !slices.Equal(got, []string{"history: hello"}) {
				t.Errorf("the layer contributed: %q", got)
			}
			degraded(t, run, "recall")
			if count(t, run, "faulty") != 0 {
				t.Error("the layer changed its state")
			}
			end(t, run)
		}},
		{"delta", 5 * time.Second, func(fail func(context.Context) error) memory.Hooks[counter] {
			step := 0
			return memory.Hooks[counter]{
				Recall: func(context.Context, *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
					step++
					return memory.Recalled[counter]{Text: fmt.Sprint("the notes as of step ", step)}, nil
				},
				Delta: func(_, now string) (string, bool) {
					ctx, cancel := context.WithTimeout(context.Background(), 5500*time.Millisecond)
					defer cancel()
					_ = fail(ctx)
					return now[len(now)-1:], true
				},
			}
		}, func(t *testing.T, m *memory.Memory) {
			run := begin(t, m, memory.Identity{})
			project(t, run, user("hello"))
			commit(t, run, "hi")
			want := []string{
				"anchor: <faulty data>\nthe notes as of step 1\n</faulty>", "history: hello", "history: hi", "history: again",
				"updates: <faulty data replace>\nthe notes as of step 2\n</faulty>",
			}
			if diff := cmp.Diff(want, texts(project(t, run, user("again")))); diff != "" {
				t.Error(diff)
			}
			degraded(t, run, "delta")
			commit(t, run, "hi")
			end(t, run)
		}},
		{"store", 30 * time.Second, func(fail func(context.Context) error) memory.Hooks[counter] {
			return memory.Hooks[counter]{Store: func(ctx context.Context, in *memory.StoreInput[counter]) (memory.Change[counter], error) {
				return add(1), fail(ctx)
			}}
		}, func(t *testing.T, m *memory.Memory) {
			run := begin(t, m, memory.Identity{})
			project(t, run, user("hello"))
			commit(t, run, "hi")
			degraded(t, run, "store")
			if count(t, run, "faulty") != 0 || count(t, run, "well") != 1 {
				t.Error("the layer changed its state, or the other did not")
			}
			end(t, run)
		}},
		{"on-spawn", 10 * time.Second, func(fail func(context.Context) error) memory.Hooks[counter] {
			return memory.Hooks[counter]{OnSpawn: func(ctx context.Context, in *memory.SpawnInput[counter]) (memory.Spawned[counter], error) {
				return memory.Spawned[counter]{}, fail(ctx)
			}}
		}, func(t *testing.T, m *memory.Memory) {
			run := begin(t, m, memory.Identity{})
			child, err := run.Spawn(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := child.Execution().Sibling("faulty"); ok {
				t.Error("the layer is in the child")
			}
			degraded(t, run, "on-spawn")
			end(t, run)
		}},
		{"on-return", 10 * time.Second, func(fail func(context.Context) error) memory.Hooks[counter] {
			return memory.Hooks[counter]{OnReturn: func(ctx context.Context, in *memory.ReturnInput[counter]) (memory.Returned[counter], error) {
				return memory.Returned[counter]{Change: add(1), Result: memory.Result{Text: "changed"}}, fail(ctx)
			}}
		}, func(t *testing.T, m *memory.Memory) {
			run := begin(t, m, memory.Identity{})
			child, err := run.Spawn(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			result, err := child.Return(t.Context(), memory.Result{Text: "done"})
			if err != nil || result.Text != "done" {
				t.Errorf("got %+v, %v", result, err)
			}
			degraded(t, run, "on-return")
			if count(t, run, "faulty") != 0 {
				t.Error("the layer changed its state")
			}
			end(t, run)
		}},
		{"on-complete", 30 * time.Second, func(fail func(context.Context) error) memory.Hooks[counter] {
			return memory.Hooks[counter]{OnComplete: func(ctx context.Context, in *memory.CompleteInput[counter]) (memory.Change[counter], error) {
				return add(1), fail(ctx)
			}}
		}, func(t *testing.T, m *memory.Memory) {
			run := begin(t, m, memory.Identity{})
			end(t, run)
			degraded(t, run, "on-complete")
			if count(t, run, "faulty") != 0 {
				t.Error("the layer changed its state")
			}
		}},
		{"dispose", 5 * time.Second, func(fail func(context.Context) error) memory.Hooks[counter] {
			return memory.Hooks[counter]{Dispose: func(ctx context.Context, in *memory.DisposeInput[counter]) error { return fail(ctx) }}
		}, func(t *testing.T, m *memory.Memory) {
			run := begin(t, m, memory.Identity{})
			end(t, run)
			degraded(t, run, "dispose")
			hooks := run.Report().Hooks
			if last := hooks[len(hooks)-1]; last.Layer != "well" || last.Hook != "dispose" {
				t.Errorf("the rest was not disposed: %+v", hooks)
			}
		}},
	}
	for _, row := range table {
		for _, how := range []string{"error", "panic", "timeout", "hang", "exit"} {
			if row.hook == "delta" && how == "error" {
				continue // which it has no way to return
			}
			t.Run(row.hook+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					release := make(chan struct{})
					began := time.Now()
					well := memory.Define(memory.Spec{ID: "well", Slot: 1}, memory.Hooks[counter]{
						Store:   func(context.Context, *memory.StoreInput[counter]) (memory.Change[counter], error) { return add(1), nil },
						Dispose: func(context.Context, *memory.DisposeInput[counter]) error { return nil },
					})
					faulty := memory.Define(memory.Spec{ID: "faulty", Slot: 2}, row.layer(failing(how, release)))
					m := newMemory(t, mem.New(), nil, well, faulty)
					if row.hook == "init" {
						_, err := m.Begin(t.Context(), memory.Identity{Thread: "t"})
						checkError(t, how, err)
					} else {
						row.check(t, m)
					}
					took := time.Since(began)
					if how == "timeout" || how == "hang" {
						if took < row.timeout || took > row.timeout+time.Millisecond {
							t.Errorf("took %s, the timeout is %s", took, row.timeout)
						}
					} else if took > time.Millisecond {
						t.Errorf("took %s", took)
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					err := m.Close(ctx)
					if how == "hang" {
						if err == nil || !strings.Contains(err.Error(), row.hook+" faulty") {
							t.Errorf("close said %v, a hook is running", err)
						}
					} else if err != nil {
						t.Error(err)
					}
					close(release)
					if err := m.Close(t.Context()); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

func add(n int) memory.Change[counter] {
	return memory.Update(func(c counter) counter { c.N += n; return c })
}

// degraded checks that the report says which hook failed.
func degraded(t *testing.T, run *memory.Run, hook string) {
	t.Helper()
	for _, h := range run.Report().Hooks {
		if h.Hook == hook && h.Layer == "faulty" {
			how := t.Name()[strings.LastIndexByte(t.Name(), '/')+1:]
			checkError(t, how, h.Err)
			want := memory.StatusError
			if how == "timeout" || how == "hang" {
				want = memory.StatusTimeout
			}
			if h.Status != want {
				t.Errorf("status %s, want %s", h.Status, want)
			}
			return
		}
	}
	t.Errorf("no report of %s: %+v", hook, run.Report().Hooks)
}

func checkError(t *testing.T, how string, err error) {
	t.Helper()
	var panicked *memory.PanicError
	var late *memory.TimeoutError
	ok := false
	switch how {
	case "error":
		ok = errors.Is(err, errHook)
	case "panic":
		ok = errors.As(err, &panicked) && panicked.Value == "boom" && strings.Contains(string(panicked.Stack), "hook_test.go")
	case "timeout", "hang":
		ok = errors.As(err, &late)
	case "exit":
		ok = err != nil
	}
	if !ok {
		t.Errorf("%s: got error %v", how, err)
	}
}

func TestInitFailureDisposes(t *testing.T) {
	var order []string
	layer := func(id string, err error, on memory.InitErrorPolicy) memory.Layer {
		return memory.Define(memory.Spec{ID: id, OnInitError: on}, memory.Hooks[counter]{
			Init: func(context.Context, *memory.InitInput[counter]) (counter, error) {
				order = append(order, "init "+id)
				return counter{}, err
			},
			Dispose: func(context.Context, *memory.DisposeInput[counter]) error {
				order = append(order, "dispose "+id)
				return nil
			},
		})
	}
	m := newMemory(t, mem.New(), nil, layer("a", nil, 0), layer("off", errHook, memory.InitDisables), layer("b", nil, 0), layer("c", errHook, 0), layer("d", nil, 0))
	for range 2 { // a later Begin starts afresh
		order = nil
		_, err := m.Begin(t.Context(), memory.Identity{Thread: "t"})
		var hook *memory.HookError
		if !errors.As(err, &hook) || hook.Layer != "c" || !errors.Is(err, errHook) {
			t.Fatalf("got %v", err)
		}
		want := []string{"init a", "init off", "init b", "init c", "dispose b", "dispose a"}
		if diff := cmp.Diff(want, order); diff != "" {
			t.Error(diff)
		}
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestInitDisables(t *testing.T) {
	layer := memory.Define(memory.Spec{ID: "faulty", OnInitError: memory.InitDisables}, memory.Hooks[counter]{
		Init:    func(context.Context, *memory.InitInput[counter]) (counter, error) { return counter{}, errHook },
		Recall:  func(context.Context, *memory.RecallInput[counter]) (memory.Recalled[counter], error) { panic("called") },
		Dispose: func(context.Context, *memory.DisposeInput[counter]) error { panic("called") },
	})
	m := newMemory(t, mem.New(), nil, layer, counting("well", ""))
	run := begin(t, m, memory.Identity{})
	if got := texts(project(t, run, user("hello"))); len(got) != 2 {
		t.Errorf("view: %q", got)
	}
	var statuses []string
	for _, h := range run.Report().Hooks {
		if h.Layer == "faulty" {
			statuses = append(statuses, h.Hook+" "+string(h.Status))
		}
	}
	if diff := cmp.Diff([]string{"init error", "recall skipped"}, statuses); diff != "" {
		t.Error(diff)
	}
	end(t, run)
}

// TestSideBySide shows that Recall hooks run at once, at most Parallel, and with
// 1 in slot order.
func TestSideBySide(t *testing.T) {
	for _, parallel := range []int{0, 1, 3} {
		t.Run(fmt.Sprint(parallel), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var running, most atomic.Int32
				var mu sync.Mutex
				var order []string
				var layers []memory.Layer
				for i := range 8 {
					id := fmt.Sprintf("l%d", i)
					layers = append(layers, memory.Define(memory.Spec{ID: id, Slot: 100 - i}, memory.Hooks[counter]{
						Recall: func(context.Context, *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
							most.Store(max(most.Load(), running.Add(1)))
							mu.Lock()
							order = append(order, id)
							mu.Unlock()
							time.Sleep(time.Duration(8-i) * time.Second / 8)
							running.Add(-1)
							return memory.Recalled[counter]{Text: id}, nil
						},
					}))
				}
				opts := options()
				opts.Parallel = parallel
				m := newMemory(t, mem.New(), opts, layers...)
				run := begin(t, m, memory.Identity{})
				var want []string
				for i := range 8 {
					want = append(want, fmt.Sprintf("anchor: <l%[1]d data>\nl%[1]d\n</l%[1]d>", 7-i))
				}
				if diff := cmp.Diff(append(want, "history: hello"), texts(project(t, run, user("hello")))); diff != "" {
					t.Error(diff)
				}
				limit := int32(parallel)
				if parallel == 0 {
					limit = 8
				}
				if most.Load() != limit {
					t.Errorf("%d hooks ran at once, want %d", most.Load(), limit)
				}
				if parallel == 1 && !slices.Equal(order, []string{"l7", "l6", "l5", "l4", "l3", "l2", "l1", "l0"}) {
					t.Errorf("order %q", order)
				}
				end(t, run)
			})
		})
	}
}

// TestLongCalls shows that hooks that took long begin together the next time,
// and those that did not begin one after another again.
func TestLongCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := time.Second
		begun := make(chan time.Time, 3)
		var layers []memory.Layer
		for i := range cap(begun) {
			layers = append(layers, memory.Define(memory.Spec{ID: fmt.Sprintf("l%d", i)}, memory.Hooks[counter]{
				Recall: func(context.Context, *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
					begun <- time.Now()
					time.Sleep(takes)
					return memory.Recalled[counter]{}, nil
				},
			}))
		}
		m := newMemory(t, mem.New(), options(), layers...)
		run := begin(t, m, memory.Identity{})
		for turn, together := range []bool{false, true, true, false} {
			if turn == 2 {
				takes = time.Microsecond
			}
			project(t, run, user("hello"))
			first := <-begun
			<-begun
			if last := <-begun; last.Equal(first) != together {
				t.Errorf("turn %d: the last hook began %v after the first", turn, last.Sub(first))
			}
			commit(t, run, "hi")
		}
		end(t, run)
	})
}

// TestHangingManyLayers shows that hanging hooks do not keep others from
// running, also when there are more of them than places.
func TestHangingManyLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var layers []memory.Layer
		for i := range 12 {
			layers = append(layers, memory.Define(memory.Spec{ID: fmt.Sprintf("l%d", i)}, memory.Hooks[counter]{
				Recall: func(context.Context, *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
					if i < 6 {
						<-release
					}
					return memory.Recalled[counter]{Text: "ok"}, nil
				},
			}))
		}
		opts := options()
		opts.Parallel = 3
		m := newMemory(t, mem.New(), opts, layers...)
		run := begin(t, m, memory.Identity{})
		began := time.Now()
		if n := project(t, run, user("hello")).Len(); n != 7 {
			t.Errorf("%d items", n)
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("took %s", took)
		}
		end(t, run)
		close(release)
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestModifiedState(t *testing.T) {
	type box struct{ M map[string]int }
	layer := memory.Define(memory.Spec{ID: "faulty"}, memory.Hooks[box]{
		Init: func(context.Context, *memory.InitInput[box]) (box, error) { return box{map[string]int{}}, nil },
		Recall: func(_ context.Context, in *memory.RecallInput[box]) (memory.Recalled[box], error) {
			in.State.M["x"]++
			return memory.Recalled[box]{Text: "ok"}, nil
		},
	})
	m := newMemory(t, mem.New(), nil, layer)
	run := begin(t, m, memory.Identity{})
	project(t, run, user("hello"))
	hooks := run.Report().Hooks
	if h := hooks[len(hooks)-1]; !errors.Is(h.Err, memory.ErrStateModified) {
		t.Errorf("report %+v", h)
	}
	end(t, run)
}

// TestModifiedStateOfFailure shows that a hook which modifies its state is caught
// also where it does not get to its end.
func TestModifiedStateOfFailure(t *testing.T) {
	type box struct{ M map[string]int }
	for _, how := range []string{"error", "panic", "exit"} {
		t.Run(how, func(t *testing.T) {
			fail := failing(how, nil)
			layer := memory.Define(memory.Spec{ID: "faulty"}, memory.Hooks[box]{
				Init: func(context.Context, *memory.InitInput[box]) (box, error) { return box{map[string]int{}}, nil },
				Recall: func(ctx context.Context, in *memory.RecallInput[box]) (memory.Recalled[box], error) {
					in.State.M["x"]++
					return memory.Recalled[box]{}, fail(ctx)
				},
			})
			run := begin(t, newMemory(t, mem.New(), nil, layer), memory.Identity{})
			project(t, run, user("hello"))
			hooks := run.Report().Hooks
			h := hooks[len(hooks)-1]
			if !errors.Is(h.Err, memory.ErrStateModified) {
				t.Errorf("report %+v", h)
			}
			checkError(t, how, h.Err) // what it failed with is said too
			end(t, run)
		})
	}
}

// TestLargeOutput shows that 50 MB are cut and do not reach the store.
func TestLargeOutput(t *testing.T) {
	store := mem.New()
	layer := memory.Define(memory.Spec{ID: "faulty"}, memory.Hooks[counter]{
		Recall: func(context.Context, *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
			return memory.Recalled[counter]{Text: strings.Repeat("x", 50<<20)}, nil
		},
	})
	m := newMemory(t, store, nil, layer)
	run := begin(t, m, memory.Identity{})
	if got := texts(project(t, run, user("hello"))); !slices.Equal(got, []string{"history: hello"}) {
		t.Errorf("%d items", len(got))
	}
	if !strings.Contains(run.Report().Hooks[0].Error, "52428") {
		t.Errorf("report %+v", run.Report().Hooks)
	}
	commit(t, run, "hi")
	if stats, err := store.Stats(t.Context()); err != nil || stats.Bytes > 10_000 {
		t.Errorf("the store holds %d bytes, %v", stats.Bytes, err)
	}
	end(t, run)
}
