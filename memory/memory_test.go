package memory_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// clock returns a clock that moves a second at every reading, and ids in order,
// both safe for concurrent use.
func clock() (now func() time.Time, id func() string) {
	var mu sync.Mutex
	at, n := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), 0
	now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		at = at.Add(time.Second)
		return at
	}
	id = func() string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return fmt.Sprintf("id-%06d", n)
	}
	return now, id
}

func options() *memory.Options {
	now, id := clock()
	return &memory.Options{Clock: now, NewID: id, VerifyStates: true}
}

func newMemory(t testing.TB, store storage.Adapter, opts *memory.Options, layers ...memory.Layer) *memory.Memory {
	t.Helper()
	if opts == nil {
		opts = options()
	}
	m, err := memory.New(store, layers, opts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func begin(t testing.TB, m *memory.Memory, who memory.Identity) *memory.Run {
	t.Helper()
	if who.Thread == "" {
		who.Thread = "t"
	}
	run, err := m.Begin(t.Context(), who)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func project(t testing.TB, run *memory.Run, items ...projection.Item) *projection.View {
	t.Helper()
	view, err := run.Project(t.Context(), items...)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

func commit(t testing.TB, run *memory.Run, texts ...string) {
	t.Helper()
	var resp memory.Response
	for _, text := range texts {
		resp.Items = append(resp.Items, projection.Text(projection.Assistant, text))
	}
	if err := run.Commit(t.Context(), resp); err != nil {
		t.Fatal(err)
	}
}

func end(t testing.TB, run *memory.Run) {
	t.Helper()
	if err := run.End(t.Context(), memory.Success); err != nil {
		t.Fatal(err)
	}
}

func user(text string) projection.Item { return projection.Text(projection.User, text) }

// counter is a layer that counts its turns and shows the count.
type counter struct {
	N int `json:"n"`
}

func counting(id string, scope memory.Scope) memory.Layer {
	return memory.Define(memory.Spec{ID: id, Slot: 100, Scope: scope}, memory.Hooks[counter]{
		Recall: func(_ context.Context, in *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
			return memory.Recalled[counter]{Text: fmt.Sprintf("%s=%d", id, in.State.N)}, nil
		},
		Store: func(context.Context, *memory.StoreInput[counter]) (memory.Change[counter], error) {
			return memory.Update(func(c counter) counter { c.N++; return c }), nil
		},
	})
}

// count returns the state of a counting layer.
func count(t testing.TB, run *memory.Run, id string) int {
	t.Helper()
	s, ok := run.Execution().Sibling(id)
	if !ok {
		t.Fatalf("layer %s is not active", id)
	}
	return s.(counter).N
}

func texts(view *projection.View) []string {
	var out []string
	for band, it := range view.All() {
		out = append(out, fmt.Sprintf("%s: %s", band, it.Text()))
	}
	return out
}

func TestTurn(t *testing.T) {
	store := mem.New()
	m := newMemory(t, store, nil, counting("a", ""))
	run := begin(t, m, memory.Identity{})
	view := project(t, run, user("hello"))
	want := []string{"anchor: <a data>\na=0\n</a>", "history: hello"}
	if diff := cmp.Diff(want, texts(view)); diff != "" {
		t.Error(diff)
	}
	if again := project(t, run); again != view {
		t.Error("projecting again without items gave another view")
	}
	commit(t, run, "hi")
	rep := run.Report()
	if rep.Turn != 1 || rep.Step != 1 || len(rep.Hooks) != 2 || rep.Degraded() {
		t.Errorf("report: %+v", rep)
	}
	view = project(t, run, user("more"))
	if got := texts(view); got[len(got)-1] != "updates: <a data replace>\na=1\n</a>" && got[len(got)-1] != "history: more" {
		t.Errorf("view: %q", got)
	}
	end(t, run)

	run = begin(t, m, memory.Identity{})
	if n := count(t, run, "a"); n != 2 {
		t.Errorf("count is %d, want 2: End stores what is uncommitted", n)
	}
	view = project(t, run)
	if got := strings.Join(texts(view), "|"); !strings.Contains(got, "hello|history: hi|history: more") {
		t.Errorf("view: %q", got)
	}
	end(t, run)
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// session drives a run with random items, resuming it and beginning anew now
// and then, and returns the bytes of every committed view.
func session(t *testing.T, rng *rand.Rand, m *memory.Memory, turns int) map[[2]any][]byte {
	views := make(map[[2]any][]byte)
	who := memory.Identity{Thread: "a/b", Resource: "r"}
	run := begin(t, m, who)
	for i := range turns {
		switch rng.IntN(8) {
		case 0:
			end(t, run)
			run = begin(t, m, who)
		case 1:
			if run.Report().Turn > 0 {
				next, err := m.Resume(t.Context(), run.Execution().ID())
				if err != nil {
					t.Fatal(err)
				}
				run = next
			}
		}
		view := project(t, run, user(fmt.Sprintf("question %d %s \x01\"é", i, strings.Repeat("word ", rng.IntN(60)))))
		resp := memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, fmt.Sprintf("answer %d", i))}}
		if rng.IntN(3) == 0 {
			call := fmt.Sprintf("call-%d", i)
			if rng.IntN(2) == 0 { // the turn goes on without a commit
				view = project(t, run, projection.Call(call, "look", `{"at":"it"}`), projection.Result(call, "seen"))
			} else {
				resp.Items = append(resp.Items, projection.Call(call, "look", `{}`))
			}
		}
		if err := run.Commit(t.Context(), resp); err != nil {
			t.Fatal(err)
		}
		views[[2]any{run.Execution().ID(), run.Report().Turn}] = itemBytes(t, view)
	}
	end(t, run)
	return views
}

func itemBytes(t *testing.T, view *projection.View) []byte {
	t.Helper()
	var b []byte
	for band, it := range view.All() {
		data, err := json.Marshal(it)
		if err != nil {
			t.Fatal(err)
		}
		b = append(append(append(b, band...), data...), '\n')
	}
	return view.AppendText(b)
}

func TestReplay(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			opts := options()
			opts.System = []projection.Item{projection.Text(projection.System, "be brief")}
			opts.Tail = []projection.Item{projection.Text(projection.System, "the end")}
			opts.Policy.Budget = []int{1200, 6000, 128000}[seed%3]
			opts.Policy.Reserve = 100
			if seed%2 == 1 {
				opts.KeepTurns = 6
			}
			store := mem.New()
			rarely := memory.Define(memory.Spec{ID: "rarely", Slot: 50}, memory.Hooks[counter]{
				Recall: func(_ context.Context, in *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
					return memory.Recalled[counter]{Text: fmt.Sprintf("rarely=%d", in.State.N/5), Refs: []string{"x"}}, nil
				},
				Store: func(context.Context, *memory.StoreInput[counter]) (memory.Change[counter], error) {
					return memory.Update(func(c counter) counter { c.N++; return c }), nil
				},
			})
			m := newMemory(t, store, opts, counting("a", memory.ScopeResource), rarely)
			views := session(t, rng, m, 40)
			kept := 0
			last := 0
			for info, err := range thread.List(t.Context(), store) {
				if err != nil {
					t.Fatal(err)
				}
				last = info.Turns
			}
			for key, want := range views {
				execution, turn := key[0].(string), key[1].(int)
				view, err := thread.Replay(t.Context(), store, execution, turn)
				if opts.KeepTurns > 0 && turn <= last-opts.KeepTurns {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				kept++
				if got := itemBytes(t, view); !bytes.Equal(got, want) {
					t.Fatalf("turn %d differs:\n%s", turn, cmp.Diff(string(want), string(got)))
				}
				x, err := thread.Explain(t.Context(), store, execution, turn)
				if err != nil {
					t.Fatal(err)
				}
				if len(x.Items) != view.Len() {
					t.Errorf("turn %d: %d items explained of %d", turn, len(x.Items), view.Len())
				}
				for _, it := range x.Items {
					if it.Event == nil && it.Digest == "" || it.Key == "" {
						t.Errorf("turn %d: item %+v comes from nowhere", turn, it)
					}
				}
			}
			if kept == 0 {
				t.Error("nothing was replayed")
			}
			if opts.KeepTurns > 0 {
				n := 0
				for _, err := range thread.Turns(t.Context(), store, "a/b", 0) {
					if err != nil {
						t.Fatal(err)
					}
					n++
				}
				if n > 2*opts.KeepTurns+1 {
					t.Errorf("%d turns are kept, KeepTurns is %d", n, opts.KeepTurns)
				}
			}
		})
	}
}

func TestUnknownExecution(t *testing.T) {
	m := newMemory(t, mem.New(), nil)
	if _, err := m.Resume(t.Context(), "nobody"); !errors.Is(err, memory.ErrUnknownExecution) {
		t.Errorf("got %v", err)
	}
}
