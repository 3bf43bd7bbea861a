package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/bolt"
	"github.com/stratamem/strata/storage/mem"
)

func openBolt(t testing.TB, path string) *bolt.Store {
	t.Helper()
	store, err := bolt.Open(t.Context(), path, &bolt.Options{Durability: storage.Process})
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

// stored returns the state that the store holds of a layer, or "".
func stored(t testing.TB, store storage.Adapter, layer string) string {
	t.Helper()
	for info, err := range thread.States(t.Context(), store, layer) {
		if err != nil {
			t.Fatal(err)
		}
		return string(info.State)
	}
	return ""
}

// TestMerge shows that four concurrent +1 end at 4, in goroutines and through
// several memories, on one thread and on several that share a resource.
func TestMerge(t *testing.T) {
	for _, engine := range []string{"mem", "bolt"} {
		for _, threads := range []int{1, 4} {
			for _, memories := range []int{1, 2} {
				t.Run(fmt.Sprintf("%s/threads=%d/memories=%d", engine, threads, memories), func(t *testing.T) {
					var store storage.Adapter = mem.New()
					if engine == "bolt" {
						store = openBolt(t, filepath.Join(t.TempDir(), "db"))
					}
					var ms []*memory.Memory
					for range memories {
						ms = append(ms, newMemory(t, store, &memory.Options{}, counting("a", memory.ScopeResource)))
					}
					var runs []*memory.Run
					for i := range 4 {
						runs = append(runs, begin(t, ms[i%memories], memory.Identity{Thread: fmt.Sprint("t", i%threads), Resource: "r"}))
					}
					var wg sync.WaitGroup
					for _, run := range runs {
						wg.Go(func() {
							if _, err := run.Project(t.Context(), user("hello")); err != nil {
								t.Error(err)
							}
							if err := run.Commit(t.Context(), memory.Response{}); err != nil {
								t.Error(err)
							}
						})
					}
					wg.Wait()
					if got := stored(t, store, "a"); got != `{"n":4}` {
						t.Errorf("state %s", got)
					}
					for _, run := range runs {
						end(t, run)
					}
					turns := 0
					for info, err := range thread.List(t.Context(), store) {
						if err != nil {
							t.Fatal(err)
						}
						turns += info.Turns
					}
					if turns != 4 {
						t.Errorf("%d turns", turns)
					}
				})
			}
		}
	}
}

// contested is a store in which something changes before every batch.
type contested struct {
	*mem.Store
	before func()
}

func (c *contested) Apply(ctx context.Context, ops ...storage.Op) error {
	if c.before != nil {
		c.before()
	}
	return c.Store.Apply(ctx, ops...)
}

func TestConflictExhausted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &contested{Store: mem.New()}
		stores := 0
		layer := memory.Define(memory.Spec{ID: "a"}, memory.Hooks[counter]{
			Store: func(context.Context, *memory.StoreInput[counter]) (memory.Change[counter], error) {
				stores++
				return add(1), nil
			},
		})
		m := newMemory(t, store, nil, layer)
		run := begin(t, m, memory.Identity{})
		project(t, run, user("hello"))
		tries := 0
		key := "_layers/a/thread/t/state"
		store.before = func() {
			tries++
			if err := storage.Set(t.Context(), store, key, fmt.Appendf(nil, `{"v":1,"state":{"n":%d}}`, 100*tries)); err != nil {
				t.Error(err)
			}
		}
		inner := store.before
		store.before = func() { // Set is a batch too
			before := store.before
			store.before = nil
			inner()
			store.before = before
		}
		err := run.Commit(t.Context(), memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, "hi")}})
		if !errors.Is(err, memory.ErrConflict) {
			t.Fatalf("got %v", err)
		}
		if tries != 10 {
			t.Errorf("%d tries", tries)
		}
		for range thread.List(t.Context(), store) {
			t.Error("something was written")
		}
		store.before = nil
		if err := run.Commit(t.Context(), memory.Response{}); err != nil {
			t.Fatal(err)
		}
		if got := stored(t, store, "a"); got != `{"n":1001}` || stores != 1 {
			t.Errorf("state %s, Store ran %d times", got, stores)
		}
		for turn, err := range thread.Turns(t.Context(), store, "t", 0) {
			if err != nil || len(turn.Items) != 2 || turn.Number != 1 {
				t.Errorf("turn %+v, %v", turn, err)
			}
		}
		if n := run.Report().Conflicts; n != 10 {
			t.Errorf("%d conflicts reported", n)
		}
		end(t, run)
	})
}

// TestClear shows that disabled, never initialised and cleared are three things.
func TestClear(t *testing.T) {
	store := mem.New()
	what := memory.Update(func(c counter) counter { c.N = 7; return c }).Put("x/1", []byte("one")).Put("x/2", []byte("two"))
	var found []bool
	var fail error
	var seen []string
	layer := memory.Define(memory.Spec{ID: "a", OnInitError: memory.InitDisables}, memory.Hooks[counter]{
		Init: func(ctx context.Context, in *memory.InitInput[counter]) (counter, error) {
			found = append(found, in.Found)
			return in.State, fail
		},
		Store: func(ctx context.Context, in *memory.StoreInput[counter]) (memory.Change[counter], error) {
			seen = nil
			for key, err := range in.Records.List(ctx, "") {
				if err != nil {
					return memory.Change[counter]{}, err
				}
				seen = append(seen, key)
			}
			return what, nil
		},
	})
	m := newMemory(t, store, nil, layer)
	turn := func() {
		run := begin(t, m, memory.Identity{})
		project(t, run, user("hello"))
		commit(t, run, "hi")
		end(t, run)
	}
	keys := func() (keys []string) {
		for key, err := range store.List(t.Context(), "_layers/") {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, key)
		}
		return keys
	}
	turn()
	turn()
	if diff := cmp.Diff([]string{"x/1", "x/2"}, seen); diff != "" {
		t.Error(diff)
	}
	fail = errHook
	turn() // disabled: what is stored stays
	if got := stored(t, store, "a"); got != `{"n":7}` {
		t.Errorf("state %s", got)
	}
	fail = nil
	what = memory.Clear[counter]()
	turn()
	if got := keys(); !slices.Equal(got, []string{"_layers/a/thread/t/state"}) || stored(t, store, "a") != "" {
		t.Errorf("keys after clear: %q, state %q", got, stored(t, store, "a"))
	}
	what = memory.Change[counter]{}.Put("x/3", []byte("three"))
	turn()
	turn()
	if diff := cmp.Diff([]string{"x/3"}, seen); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]bool{false, true, true, true, false, false}, found); diff != "" {
		t.Error(diff)
	}
}

// TestClearCrash shows that the records of a clear whose purge never ran are
// not seen, and go at the next Begin.
func TestClearCrash(t *testing.T) {
	store := mem.New()
	for key, value := range map[string]string{
		"_layers/a/thread/t/state": `{"v":1,"clears":1}`, "_layers/a/thread/t/r0/old": "x", "_layers/a/thread/t/r1/new": "y",
	} {
		if err := storage.Set(t.Context(), store, key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	end(t, begin(t, newMemory(t, store, nil, counting("a", "")), memory.Identity{}))
	if _, _, err := store.Get(t.Context(), "_layers/a/thread/t/r0/old"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if _, _, err := store.Get(t.Context(), "_layers/a/thread/t/r1/new"); err != nil {
		t.Error(err)
	}
}

// TestUnchanged shows that an update which comes to the same is not written.
func TestUnchanged(t *testing.T) {
	store := mem.New()
	layer := memory.Define(memory.Spec{ID: "a"}, memory.Hooks[counter]{
		Store: func(context.Context, *memory.StoreInput[counter]) (memory.Change[counter], error) {
			return memory.Update(func(c counter) counter { c.N = 1; return c }), nil
		},
	})
	m := newMemory(t, store, nil, layer)
	run := begin(t, m, memory.Identity{})
	commit(t, run, "one")
	_, before, err := store.Get(t.Context(), "_layers/a/thread/t/state")
	if err != nil {
		t.Fatal(err)
	}
	commit(t, run, "two")
	if _, after, err := store.Get(t.Context(), "_layers/a/thread/t/state"); err != nil || after != before {
		t.Errorf("the state was written again: %v", err)
	}
	end(t, run)
}

func TestFormats(t *testing.T) {
	store := mem.New()
	key := "_layers/a/thread/t/state"
	set := func(value string) {
		if err := storage.Set(t.Context(), store, key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	layer := memory.Define(memory.Spec{ID: "a", Format: 2}, memory.Hooks[counter]{
		Migrate: func(format int, data []byte) (counter, error) {
			var n int
			err := json.Unmarshal(data, &n)
			return counter{N: n}, err
		},
		Store: func(context.Context, *memory.StoreInput[counter]) (memory.Change[counter], error) { return add(1), nil },
	})
	m := newMemory(t, store, nil, layer)
	set(`{"v":1,"format":1,"state":41}`)
	run := begin(t, m, memory.Identity{})
	commit(t, run, "hi")
	end(t, run)
	if data, _, err := store.Get(t.Context(), key); err != nil || string(data) != `{"v":1,"format":2,"state":{"n":42}}` {
		t.Errorf("got %s, %v", data, err)
	}
	for _, newer := range []string{`{"v":1,"format":3,"state":{}}`, `{"v":3,"state":{}}`} {
		set(newer)
		var format *memory.FormatError
		if _, err := m.Begin(t.Context(), memory.Identity{Thread: "t"}); !errors.As(err, &format) || format.Key != key {
			t.Errorf("got %v", err)
		}
		if data, _, err := store.Get(t.Context(), key); err != nil || string(data) != newer {
			t.Errorf("it was overwritten: %s, %v", data, err)
		}
	}
	// A newer version that appears while the execution runs.
	set(`{"v":1,"format":2,"state":{"n":1}}`)
	run = begin(t, m, memory.Identity{})
	commit(t, run, "one")
	newer := `{"v":1,"format":3,"state":{"other":true}}`
	set(newer)
	commit(t, run, "two")
	if data, _, err := store.Get(t.Context(), key); err != nil || string(data) != newer {
		t.Errorf("it was overwritten: %s, %v", data, err)
	}
	if rep := run.Report(); !rep.Degraded() {
		t.Errorf("report %+v", rep)
	}
	end(t, run)
}

// TestTooLarge shows that a change that does not fit the batch fails its layer,
// not the turn.
func TestTooLarge(t *testing.T) {
	for name, change := range map[string]memory.Change[counter]{
		"bytes": add(1).Put("a", make([]byte, 5<<20)).Put("b", make([]byte, 5<<20)),
		"ops": func() memory.Change[counter] {
			c := add(1)
			for i := range 1200 {
				c = c.Put(fmt.Sprint(i), nil)
			}
			return c
		}(),
		"key":    add(1).Put("a//b", nil),
		"escape": add(1).Put("../b", nil),
		"empty":  add(1).Put("", nil),
		"value":  add(1).Put("a", make([]byte, 9<<20)),
		"panic":  memory.Update(func(counter) counter { panic("boom") }),
	} {
		t.Run(name, func(t *testing.T) {
			store := mem.New()
			layer := memory.Define(memory.Spec{ID: "faulty"}, memory.Hooks[counter]{
				Store: func(context.Context, *memory.StoreInput[counter]) (memory.Change[counter], error) { return change, nil },
			})
			m := newMemory(t, store, nil, layer, counting("well", ""))
			run := begin(t, m, memory.Identity{})
			project(t, run, user("hello"))
			commit(t, run, "hi")
			rep := run.Report()
			if !rep.Degraded() || rep.Turn != 1 {
				t.Errorf("report %+v", rep)
			}
			if count(t, run, "faulty") != 0 || count(t, run, "well") != 1 || stored(t, store, "faulty") != "" || stored(t, store, "well") != `{"n":1}` {
				t.Error("not what it was")
			}
			end(t, run)
		})
	}
}

// TestScopes shows that two different (layer, kind, id) never share or list each
// other's keys, whatever the ids are.
func TestScopes(t *testing.T) {
	ids := []string{
		"a", "b", "a/b", "a%2Fb", "%", "%25", ".", "..", "_a", "__global__", "all", "global", "\u00e9", "e\u0301", "a\x00b", "a b", "r0", "state", "\u202e", strings.Repeat("x", 200),
	}
	store := mem.New()
	scopes := []memory.Scope{memory.ScopeThread, memory.ScopeResource, memory.ScopeGlobal, memory.ScopeExecution}
	var layers []memory.Layer
	seen := make(map[string]string)
	for _, scope := range scopes {
		id := "l-" + string(scope)
		layers = append(layers, memory.Define(memory.Spec{ID: id, Scope: scope}, memory.Hooks[counter]{
			Store: func(ctx context.Context, in *memory.StoreInput[counter]) (memory.Change[counter], error) {
				who := in.Execution.Identity()
				owner := map[memory.Scope]string{
					memory.ScopeThread: "thread " + who.Thread, memory.ScopeResource: "resource " + who.Resource,
					memory.ScopeGlobal: "all", memory.ScopeExecution: in.Execution.ID(),
				}[scope]
				if scope == memory.ScopeResource && who.Resource == "" {
					owner = "thread " + who.Thread
				}
				for e, err := range in.Records.Scan(ctx, "", nil) {
					if err != nil {
						return memory.Change[counter]{}, err
					}
					if string(e.Value) != owner {
						t.Errorf("%s of %+v sees a record of %q", id, who, e.Value)
					}
				}
				prefix := in.Records.Key("")
				if other, ok := seen[prefix]; ok && other != owner {
					t.Errorf("prefix %q belongs to %q and %q", prefix, other, owner)
				}
				seen[prefix] = owner
				return add(1).Put(storage.EscapeSegment(who.Thread), []byte(owner)), nil
			},
		}))
	}
	opts := options()
	opts.Parallel = 1
	m := newMemory(t, store, opts, layers...)
	for _, thread := range ids {
		for _, resource := range append(ids, "") {
			run := begin(t, m, memory.Identity{Thread: thread, Resource: resource})
			commit(t, run, "hi")
			if rep := run.Report(); rep.Degraded() {
				t.Fatalf("%+v", rep)
			}
			end(t, run)
		}
	}
	prefixes := make([]string, 0, len(seen))
	for p := range seen {
		prefixes = append(prefixes, p)
	}
	slices.Sort(prefixes)
	for i := 1; i < len(prefixes); i++ {
		if strings.HasPrefix(prefixes[i], prefixes[i-1]) {
			t.Errorf("%q lies in %q", prefixes[i], prefixes[i-1])
		}
	}
	for info, err := range thread.States(t.Context(), store, "l-execution") {
		t.Errorf("%+v is left of an execution, %v", info, err)
	}
	threads := 0
	for info, err := range thread.List(t.Context(), store) {
		if err != nil || info.Turns != len(ids)+1 || !slices.Contains(ids, info.Thread) {
			t.Errorf("thread %+v, %v", info, err)
		}
		threads++
	}
	if threads != len(ids) {
		t.Errorf("%d threads of %d", threads, len(ids))
	}
}

func TestIdentity(t *testing.T) {
	m := newMemory(t, mem.New(), nil)
	for _, who := range []memory.Identity{{}, {Thread: "\xff"}, {Thread: strings.Repeat("x", 300)}, {Thread: "t", Resource: "a\xffb"}} {
		var bad *memory.IdentityError
		if _, err := m.Begin(t.Context(), who); !errors.As(err, &bad) {
			t.Errorf("%+v: %v", who, err)
		}
	}
}

// TestPendingRecords shows that a layer reads what it wrote in the same turn.
func TestPendingRecords(t *testing.T) {
	store := mem.New()
	var got []string
	layer := memory.Define(memory.Spec{ID: "a"}, memory.Hooks[counter]{
		Recall: func(context.Context, *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
			return memory.Recalled[counter]{Change: memory.Change[counter]{}.Put("k/2", []byte("new")).Put("k/4", []byte("new")).Delete("k/3")}, nil
		},
		Store: func(ctx context.Context, in *memory.StoreInput[counter]) (memory.Change[counter], error) {
			got = nil
			for _, opts := range []*storage.ScanOptions{nil, {Reverse: true}, {After: "k/1", Limit: 2}, {After: "k/4", Reverse: true}} {
				var line strings.Builder
				for e, err := range in.Records.Scan(ctx, "k/", opts) {
					if err != nil {
						return memory.Change[counter]{}, err
					}
					line.WriteString(" " + e.Key + "=" + string(e.Value))
				}
				got = append(got, strings.TrimSpace(line.String()))
			}
			if _, err := in.Records.Get(ctx, "k/3"); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("got %v", err)
			}
			return memory.Change[counter]{}, nil
		},
	})
	for _, key := range []string{"k/1", "k/2", "k/3", "k/5"} {
		if err := storage.Set(t.Context(), store, "_layers/a/thread/t/r0/"+key, []byte("old")); err != nil {
			t.Fatal(err)
		}
	}
	m := newMemory(t, store, nil, layer)
	run := begin(t, m, memory.Identity{})
	project(t, run, user("hello"))
	commit(t, run, "hi")
	end(t, run)
	want := []string{
		"k/1=old k/2=new k/4=new k/5=old", "k/5=old k/4=new k/2=new k/1=old", "k/2=new k/4=new", "k/2=new k/1=old",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, _, err := store.Get(t.Context(), "_layers/a/thread/t/r0/k/3"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
