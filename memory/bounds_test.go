package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/storagetest"
)

// TestStoreTooSmall: New says what a store takes too little of.
func TestStoreTooSmall(t *testing.T) {
	three := []memory.Layer{counting("a", memory.ScopeThread), counting("b", memory.ScopeResource), counting("c", memory.ScopeExecution)}
	for _, test := range []struct {
		change func(*storage.Limits)
		want   string
	}{
		{func(*storage.Limits) {}, ""},
		{func(l *storage.Limits) { l.Key-- }, "the store takes keys of 255 bytes, and memory needs 256"},
		{func(l *storage.Limits) { l.Value-- }, "the store takes values of 4095 bytes, and memory needs 4096"},
		{func(l *storage.Limits) { l.Batch-- }, "the store takes batches of 16383 bytes, and memory needs 16384"},
		{func(l *storage.Limits) { l.Ops = 15 }, ""},
		{func(l *storage.Limits) { l.Ops = 14 }, "the store takes batches of 14 operations, and 3 layers need 15: use fewer layers"},
	} {
		l := storagetest.Small
		test.change(&l)
		store := storagetest.Limited(mem.New(), l)
		_, err := memory.New(store, three, options())
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("New over a store of %+v: %v, want %q", l, err, test.want)
		}
	}
	opts := options()
	opts.System = []projection.Item{projection.Text(projection.System, strings.Repeat("x", 1<<16))}
	if _, err := memory.New(storagetest.Limited(mem.New(), storagetest.Small), nil, opts); err == nil || !strings.Contains(err.Error(), "are over 65536") {
		t.Errorf("New with a long system item: %v", err)
	}
}

// grown is the state of a layer that keeps texts and records.
type grown struct {
	Texts []string `json:"texts"`
}

// unbounded is a layer whose every hook does as much as it likes: it fails with long
// errors, shows long texts, and keeps states and records that are too large at times.
func unbounded(id string, scope memory.Scope, rng *rand.Rand) memory.Layer {
	text := func(most int) string {
		b := make([]byte, rng.IntN(most))
		for i := range b {
			b[i] = byte('!' + rng.IntN(90)) // which does not pack well
		}
		return string(b)
	}
	return memory.Define(memory.Spec{ID: id, Slot: 100, Scope: scope}, memory.Hooks[grown]{
		Recall: func(_ context.Context, in *memory.RecallInput[grown]) (memory.Recalled[grown], error) {
			if rng.IntN(5) == 0 {
				return memory.Recalled[grown]{}, errors.New(text(3000))
			}
			return memory.Recalled[grown]{Text: text(900), Note: text(200)}, nil
		},
		Store: func(context.Context, *memory.StoreInput[grown]) (memory.Change[grown], error) {
			if rng.IntN(5) == 0 {
				return memory.Change[grown]{}, errors.New(text(3000))
			}
			add, cut := text(1500), rng.IntN(4) == 0
			c := memory.Update(func(g grown) grown {
				if cut {
					g.Texts = nil
				}
				return grown{append(append([]string(nil), g.Texts...), add)}
			})
			for i := range rng.IntN(3) {
				c = c.Put(fmt.Sprintf("r/%d", i), []byte(text(4500)))
			}
			return c, nil
		},
	})
}

// TestSmallStore: whatever comes in is refused where it comes in, or is committed. No
// turn of any size, with whatever layers do, is one that the store does not take.
func TestSmallStore(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		store := storagetest.Limited(mem.New(), storagetest.Small)
		opts := options()
		opts.Parallel, opts.KeepTurns, opts.VerifyStates = 1, rng.IntN(3)*2, false
		opts.System = []projection.Item{projection.Text(projection.System, strings.Repeat("You help. ", rng.IntN(80)))}
		m := newMemory(t, store, opts, unbounded("a", memory.ScopeThread, rng), unbounded("b", memory.ScopeResource, rng), unbounded("c", memory.ScopeExecution, rng))
		log := map[string]bool{} // what was committed
		item := func(role projection.Role) projection.Item {
			return projection.Text(role, strings.Repeat("a", rng.IntN(2500))+fmt.Sprint(rng.Uint64()))
		}
		who := memory.Identity{Thread: strings.Repeat("t", 1+rng.IntN(100)), Resource: strings.Repeat("r", rng.IntN(100)), Agent: strings.Repeat("g", rng.IntN(100))}
		turn := func(run *memory.Run) {
			var refused *memory.ItemError
			in := item(projection.User)
			if _, err := run.Project(t.Context(), in); errors.As(err, &refused) {
				in = user(fmt.Sprint("short ", rng.Uint64()))
				if _, err = run.Project(t.Context(), in); err != nil {
					t.Fatalf("seed %d: Project: %v", seed, err)
				}
			} else if err != nil {
				t.Fatalf("seed %d: Project: %v", seed, err)
			}
			out := item(projection.Assistant)
			err := run.Commit(t.Context(), memory.Response{Items: []projection.Item{out}, Usage: memory.Usage{Input: 10_000, Output: 500}})
			if errors.As(err, &refused) {
				out = projection.Text(projection.Assistant, fmt.Sprint("ok ", rng.Uint64()))
				err = run.Commit(t.Context(), memory.Response{Items: []projection.Item{out}})
			}
			if err != nil {
				t.Fatalf("seed %d: Commit: %v", seed, err)
			}
			if run.Execution().Depth() == 0 {
				log[in.Text()], log[out.Text()] = true, true
			}
		}
		for range 4 {
			run := begin(t, m, who)
			for range 1 + rng.IntN(6) {
				turn(run)
				if rng.IntN(3) == 0 {
					child, err := run.Spawn(t.Context(), &memory.SpawnOptions{Log: rng.IntN(2) == 0})
					if err != nil {
						t.Fatalf("seed %d: Spawn: %v", seed, err)
					}
					turn(child)
					if _, err := child.Return(t.Context(), memory.Result{Text: "done"}); err != nil {
						t.Fatalf("seed %d: Return: %v", seed, err)
					}
				}
			}
			if rng.IntN(3) > 0 { // else it stays as a crash leaves it
				end(t, run)
			}
		}
		run := begin(t, m, who)
		for n, err := range thread.Turns(t.Context(), store, who.Thread, 0) {
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for _, it := range n.Items {
				if !log[it.Text()] {
					t.Errorf("seed %d: a turn has what was not committed", seed)
				}
				delete(log, it.Text())
			}
		}
		if opts.KeepTurns == 0 && len(log) > 0 {
			t.Errorf("seed %d: %d items that were committed are in no turn", seed, len(log))
		}
		end(t, run)
		if opts.KeepTurns > 0 { // what is old goes, a little with each commit
			run := begin(t, m, who)
			for range 60 {
				project(t, run, user("more"))
				commit(t, run, "ok")
			}
			end(t, run)
			keys := 0
			for key, err := range store.List(t.Context(), "") {
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(key, "_threads/") || strings.HasPrefix(key, "_runs/") {
					keys++
				}
			}
			if most := 2*(2*opts.KeepTurns+2) + 10; keys > most {
				t.Errorf("seed %d: %d records of %d turns that are kept", seed, keys, opts.KeepTurns)
			}
		}
	}
}

// TestSmallStorePrunes: what a thread forgets goes in batches that fit, however much
// there is of it at once.
func TestSmallStorePrunes(t *testing.T) {
	store := storagetest.Limited(mem.New(), storagetest.Small)
	scratch := memory.Define(memory.Spec{ID: "scratch", Scope: memory.ScopeExecution}, memory.Hooks[counter]{
		Store: func(_ context.Context, in *memory.StoreInput[counter]) (memory.Change[counter], error) {
			c := memory.Update(func(c counter) counter { c.N++; return c })
			for i := range 2 {
				c = c.Put(fmt.Sprintf("%d-%d", in.Execution.Step(), i), []byte("scratch"))
			}
			return c, nil
		},
	})
	opts := options()
	m := newMemory(t, store, opts, scratch, counting("thread", memory.ScopeThread))
	for range 15 { // none of which ends, as if each had crashed
		run := begin(t, m, memory.Identity{})
		for range 4 {
			project(t, run, user("hello"))
			commit(t, run, "hi")
		}
		child, err := run.Spawn(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		project(t, child, user("task"))
		commit(t, child, "done")
		if _, err := child.Return(t.Context(), memory.Result{Text: "done"}); err != nil {
			t.Fatal(err)
		}
	}
	opts.KeepTurns = 1
	m = newMemory(t, store, opts, scratch, counting("thread", memory.ScopeThread))
	run := begin(t, m, memory.Identity{})
	for range 80 {
		project(t, run, user("hello"))
		commit(t, run, "hi")
	}
	if n := count(t, run, "thread"); n != 15*5+80 {
		t.Errorf("the layer counts %d turns", n)
	}
	end(t, run)
	left := map[string]int{}
	for key, err := range store.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasPrefix(key, "_layers/scratch/"):
			left["records of executions"]++
		case strings.Contains(key, "/runs/"):
			left["records of children"]++
		case strings.Contains(key, "/turns/"):
			left["turns"]++
		case strings.HasPrefix(key, "_runs/"):
			left["executions"]++
		}
	}
	if diff := cmp.Diff(map[string]int{"turns": 2, "executions": 1}, left); diff != "" {
		t.Errorf("what is left: (-want +got)\n%s", diff)
	}
}
