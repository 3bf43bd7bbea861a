package memory_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/open"
)

// engines are those that runs contend on.
var engines = []string{"mem", "bolt", "badger", "vault"}

func openEngine(t testing.TB, engine string, durability storage.Durability) storage.Adapter {
	t.Helper()
	spec := engine + ":"
	if engine != "mem" {
		spec += filepath.Join(t.TempDir(), "store")
	}
	store, err := open.Open(t.Context(), spec, &open.Options{Durability: durability})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// names is a layer that keeps the names of all turns, in the order in which they
// were committed.
func names(id string, scope memory.Scope) memory.Layer {
	return memory.Define(memory.Spec{ID: id, Scope: scope}, memory.Hooks[[]string]{
		Store: func(_ context.Context, in *memory.StoreInput[[]string]) (memory.Change[[]string], error) {
			name := in.New[0].Text()
			return memory.Update(func(s []string) []string { return append(s, name) }).Put(storage.EscapeSegment(name), nil), nil
		},
	})
}

// TestContention shows that runs of one Memory that write one person's memory
// with the ready layers lose nothing to one another, and meet no conflict.
func TestContention(t *testing.T) {
	const runs = 16
	turns := 15
	if testing.Short() {
		turns = 4
	}
	for _, engine := range engines {
		for _, where := range []string{"threads", "one thread"} {
			t.Run(engine+"/"+where, func(t *testing.T) {
				store := openEngine(t, engine, storage.Process)
				m := newMemory(t, store, &memory.Options{},
					layers.WorkingMemory(nil), layers.Entity(nil), layers.Observations(nil), layers.Episodic(nil), layers.SemanticRecall(nil),
					counting("a", memory.ScopeResource), names("b", memory.ScopeResource), counting("c", memory.ScopeGlobal), counting("d", ""))
				var want []string
				var wg sync.WaitGroup
				for i := range runs {
					who := memory.Identity{Thread: "t", Resource: "anna"}
					if where == "threads" {
						who.Thread = fmt.Sprint("t", i)
					}
					for n := range turns {
						want = append(want, turnText(i, n))
					}
					wg.Go(func() { contend(t, m, who, i, turns) })
				}
				wg.Wait()
				if a, c := stored(t, store, "a"), stored(t, store, "c"); a != fmt.Sprintf(`{"n":%d}`, runs*turns) || c != a {
					t.Errorf("a %s, c %s, want %d", a, c, runs*turns)
				}
				run := begin(t, m, memory.Identity{Thread: "after", Resource: "anna"})
				state, _ := run.Execution().Sibling("b")
				got := state.([]string)
				for i := range runs { // those of one run are in its order
					last := -1
					for n := range turns {
						at := slices.Index(got, turnText(i, n))
						if at <= last {
							t.Errorf("turn %d of run %d is at %d, the one before at %d", n, i, at, last)
						}
						last = at
					}
				}
				slices.Sort(got)
				slices.Sort(want)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				end(t, run)
				if err := m.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func turnText(run, turn int) string {
	return fmt.Sprintf("In turn %d of run %d Maria Lopez moved to Lisbon street %d.", turn, run, 100*run+turn)
}

// contend commits turns of one run, none of which may conflict.
func contend(t *testing.T, m *memory.Memory, who memory.Identity, i, turns int) {
	run, err := m.Begin(t.Context(), who)
	if err != nil {
		t.Error(err)
		return
	}
	for n := range turns {
		if _, err := run.Project(t.Context(), user(turnText(i, n))); err != nil {
			t.Error(err)
		}
		if err := run.Commit(t.Context(), memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, "Noted.")}}); err != nil {
			t.Error(err)
		}
		if rep := run.Report(); rep.Conflicts > 0 || rep.Degraded() {
			t.Errorf("turn %d of run %d: %+v", n, i, rep)
		}
	}
	if err := run.End(t.Context(), memory.Success); err != nil {
		t.Error(err)
	}
}

// gated is a store whose batches wait to be let in.
type gated struct {
	*mem.Store
	gate    chan struct{}
	mu      sync.Mutex
	applied []string // by batch, its first key
}

func (g *gated) Apply(ctx context.Context, ops ...storage.Op) error {
	select {
	case <-g.gate:
	case <-ctx.Done():
		return ctx.Err()
	}
	g.mu.Lock()
	g.applied = append(g.applied, ops[0].Key)
	g.mu.Unlock()
	return g.Store.Apply(ctx, ops...)
}

// TestQueue shows that runs which contest a key write in the order in which they
// came, that one which gives up is left out, and that others never wait.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &gated{Store: mem.New(), gate: make(chan struct{})}
		m := newMemory(t, store, nil, counting("a", memory.ScopeResource))
		errs := make(map[string]error)
		commits := func(ctx context.Context, thread, resource string) *memory.Run {
			run := begin(t, m, memory.Identity{Thread: thread, Resource: resource})
			go func() {
				err := run.Commit(ctx, memory.Response{})
				store.mu.Lock()
				errs[thread] = err
				store.mu.Unlock()
			}()
			synctest.Wait()
			return run
		}
		ctx, cancel := context.WithCancel(t.Context())
		runs := []*memory.Run{commits(t.Context(), "t5", "r"), commits(t.Context(), "t1", "r"), commits(t.Context(), "t4", "r")}
		gaveUp := commits(ctx, "t2", "r")
		runs = append(runs, commits(t.Context(), "t3", "r"))
		other := commits(t.Context(), "other", "s")
		cancel()
		synctest.Wait()
		if err := errs["t2"]; !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up: %v", err)
		}
		if len(errs) != 1 {
			t.Errorf("%v", errs)
		}
		// Two batches are at the gate: that of the first, and the other's.
		store.gate <- struct{}{}
		store.gate <- struct{}{}
		synctest.Wait()
		if errs["t5"] != nil || errs["other"] != nil || len(errs) != 3 {
			t.Errorf("%v", errs)
		}
		for range 3 {
			store.gate <- struct{}{}
			synctest.Wait()
		}
		close(store.gate)
		want := []string{"t5", "t1", "t4", "t3"}
		var got []string
		for _, key := range store.applied {
			var thread string
			var turn int
			if _, err := fmt.Sscanf(key, "_threads/%2s/turns/%d", &thread, &turn); err == nil {
				got = append(got, thread)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		commit(t, gaveUp)
		for _, run := range append(runs, gaveUp, other) {
			if rep := run.Report(); rep.Conflicts > 0 {
				t.Errorf("%d conflicts", rep.Conflicts)
			}
			end(t, run)
		}
		if got := stored(t, store, "a"); got != `{"n":5}` {
			t.Errorf("%s", got)
		}
	})
}

// TestHookCommits shows that no hook runs while its run holds a key: one that
// commits another run's turn to the same state would wait for itself.
func TestHookCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		var inner *memory.Run
		layer := memory.Define(memory.Spec{ID: "a", Scope: memory.ScopeResource}, memory.Hooks[counter]{
			Store: func(ctx context.Context, in *memory.StoreInput[counter]) (memory.Change[counter], error) {
				if in.Execution.Identity().Thread == "outer" {
					if err := inner.Commit(ctx, memory.Response{}); err != nil {
						return memory.Change[counter]{}, err
					}
				}
				return add(1), nil
			},
		})
		m := newMemory(t, store, nil, layer)
		inner = begin(t, m, memory.Identity{Thread: "inner", Resource: "r"})
		outer := begin(t, m, memory.Identity{Thread: "outer", Resource: "r"})
		commit(t, outer)
		commit(t, outer)
		rep := outer.Report()
		if got := stored(t, store, "a"); got != `{"n":4}` || rep.Degraded() || rep.Conflicts > 0 {
			t.Errorf("%s, %+v", got, rep)
		}
		end(t, inner)
		end(t, outer)
	})
}

// TestFamily shows that children which return while parents, siblings and
// strangers commit never wait for one another in a circle, and lose nothing.
func TestFamily(t *testing.T) {
	const strangers, children, rounds = 3, 4, 6
	store := mem.New()
	m := newMemory(t, store, &memory.Options{}, lifelong("a", memory.ScopeResource), lifelong("z", memory.ScopeExecution), lifelong("c", memory.ScopeGlobal))
	check := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	var wg sync.WaitGroup
	for i := range strangers {
		run := begin(t, m, memory.Identity{Thread: fmt.Sprint("t", i%2), Resource: "r"})
		wg.Go(func() {
			for range rounds {
				var family sync.WaitGroup
				for range children {
					child, err := run.Spawn(t.Context(), nil)
					check(err)
					grandchild, err := child.Spawn(t.Context(), nil)
					check(err)
					family.Go(func() {
						var both sync.WaitGroup
						both.Go(func() { check(child.Commit(t.Context(), memory.Response{})) })
						both.Go(func() {
							_, err := grandchild.Return(t.Context(), memory.Result{})
							check(err)
						})
						both.Wait()
						_, err := child.Return(t.Context(), memory.Result{})
						check(err)
						if n := child.Report().Conflicts + grandchild.Report().Conflicts; n > 0 {
							t.Errorf("%d conflicts", n)
						}
					})
				}
				check(run.Commit(t.Context(), memory.Response{}))
				family.Wait()
				if n := run.Report().Conflicts; n > 0 {
					t.Errorf("%d conflicts", n)
				}
			}
			check(run.End(t.Context(), memory.Success))
		})
	}
	wg.Wait()
	// A turn each, and for a child one of its own, two ends and two returns.
	want := strangers * (rounds*(1+children*(1+2*100+2*10_000)) + 100)
	for _, layer := range []string{"a", "c"} {
		if got := stored(t, store, layer); got != fmt.Sprintf(`{"n":%d}`, want) {
			t.Errorf("layer %s: %s, want %d", layer, got, want)
		}
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
