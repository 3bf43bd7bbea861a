package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

func TestExplain(t *testing.T) {
	store := mem.New()
	opts := options()
	opts.System = []projection.Item{projection.Text(projection.System, "be brief")}
	opts.Policy = projection.Policy{Budget: 300, Reserve: 50}
	from := "the-first"
	layer := memory.Define(memory.Spec{ID: "facts", Scope: memory.ScopeResource, Budget: projection.Exactly(60)}, memory.Hooks[counter]{
		Recall: func(_ context.Context, in *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
			out := memory.Recalled[counter]{Items: []projection.Item{user("a fact"), user(strings.Repeat("long ", 100))}}
			out.Items[0].Refs = []string{from, in.Records.Key("fact/1"), "gone"}
			return out, nil
		},
		Store: func(context.Context, *memory.StoreInput[counter]) (memory.Change[counter], error) {
			return add(1).Put("fact/1", []byte("x")), nil
		},
	})
	silent := memory.Define(memory.Spec{ID: "silent"}, memory.Hooks[counter]{
		Recall: func(context.Context, *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
			return memory.Recalled[counter]{Note: "nothing relevant"}, nil
		},
	})
	broken := memory.Define(memory.Spec{ID: "broken"}, memory.Hooks[counter]{
		Recall: func(context.Context, *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
			return memory.Recalled[counter]{}, errHook
		},
	})
	m := newMemory(t, store, opts, layer, silent, broken)
	run := begin(t, m, memory.Identity{Resource: "r"})
	for i := range 6 {
		it := user(fmt.Sprint("question ", i, strings.Repeat(" word", 40)))
		if i == 0 {
			it.ID = from
		}
		project(t, run, it)
		commit(t, run, "answer")
	}
	end(t, run)
	x, err := thread.Explain(t.Context(), store, run.Execution().ID(), 6)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, it := range x.Items {
		var line strings.Builder
		line.WriteString(fmt.Sprintf("%s %s%s", it.Band, it.Layer, it.State))
		if it.Event != nil {
			line.WriteString(fmt.Sprintf("event %d.%d", it.Event.Turn, it.Event.Item))
		}
		for _, s := range it.Sources {
			line.WriteString(" [" + s.Key)
			if s.Event != nil {
				line.WriteString(fmt.Sprintf(" %d.%d", s.Event.Turn, s.Event.Item))
			}
			line.WriteString("]")
		}
		got = append(got, line.String())
	}
	want := []string{
		"system ",
		"anchor facts_layers/facts/resource/r/state [_threads/t/turns/000000000001 1.0] [_layers/facts/resource/r/r0/fact/1] []",
	}
	if len(got) < 3 || !cmp.Equal(want, got[:2]) {
		t.Error(cmp.Diff(want, got))
	}
	if last := x.Items[len(x.Items)-1]; last.Event == nil || last.Event.Turn != 6 || last.Event.Item != 0 || last.Event.Time.IsZero() || last.Tokens == 0 {
		t.Errorf("last item %+v", last)
	}
	out := fmt.Sprintf("%+v", x.LeftOut)
	for _, want := range []string{"{Layer:silent Items:0 Reason:nothing relevant}", "{Layer:broken Items:0 Reason:recall error: it broke}", "{Layer:facts Items:1 Reason:over the layer's budget", "{Layer: Items:"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %s", want, out)
		}
	}
	if _, err := thread.Explain(t.Context(), store, run.Execution().ID(), 7); err == nil {
		t.Error("a turn that is not there was explained")
	}
	if _, err := json.Marshal(x); err != nil {
		t.Error(err)
	}
}

// TestBounded shows that a thread with KeepTurns keeps a bounded number of
// keys, with its executions, its children, and those that never ended.
func TestBounded(t *testing.T) {
	store := mem.New()
	opts := options()
	opts.KeepTurns = 5
	m := newMemory(t, store, opts, counting("a", memory.ScopeExecution), counting("b", ""))
	keys := func() (n int) {
		for key, err := range store.List(t.Context(), "_") {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n > 400 {
				t.Fatal(key)
			}
		}
		return n
	}
	most := 0
	for i := range 120 {
		run := begin(t, m, memory.Identity{})
		project(t, run, user(fmt.Sprint("question ", i)))
		commit(t, run, "answer")
		child, err := run.Spawn(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		project(t, child, user("task"))
		commit(t, child, "done")
		if i%3 > 0 { // the others crash
			if _, err := child.Return(t.Context(), memory.Result{}); err != nil {
				t.Fatal(err)
			}
			end(t, run)
		}
		if n := keys(); i < 40 {
			most = max(most, n)
		} else if n > most+10 {
			t.Fatalf("%d keys after %d turns, %d before", n, i, most)
		}
	}
	// One run that goes on for long.
	run := begin(t, m, memory.Identity{})
	for i := range 60 {
		view := project(t, run, user(fmt.Sprint("more ", i)))
		if view.Len() > 2*2*opts.KeepTurns+4 {
			t.Fatalf("%d items in the view", view.Len())
		}
		commit(t, run, "answer")
		got, err := thread.Replay(t.Context(), store, run.Execution().ID(), run.Report().Turn)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(itemBytes(t, view)), string(itemBytes(t, got))); diff != "" {
			t.Fatal(diff)
		}
	}
	if n := keys(); n > most+10 {
		t.Errorf("%d keys, %d before", n, most)
	}
	if _, err := thread.Replay(t.Context(), store, run.Execution().ID(), run.Report().Turn-40); !errors.Is(err, memory.ErrPruned) {
		t.Errorf("got %v", err)
	}
	end(t, run)
}

// counted is a store that counts the entries that scans yield.
type counted struct {
	*mem.Store
	n int
}

func (c *counted) Scan(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		for e, err := range c.Store.Scan(ctx, prefix, opts) {
			c.n++
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestTail shows that Begin reads no more than the policy can use, and that the
// record of a turn does not grow with the thread.
func TestTail(t *testing.T) {
	store := &counted{Store: mem.New()}
	opts := options()
	opts.Policy = projection.Policy{Budget: 2000, Reserve: 100}
	m := newMemory(t, store, opts, counting("a", ""))
	run := begin(t, m, memory.Identity{})
	var sizes []int
	for i := range 1000 {
		project(t, run, user(fmt.Sprintf("question %04d %s", i, strings.Repeat("word ", 20))))
		commit(t, run, "answer")
		data, _, err := store.Get(t.Context(), fmt.Sprintf("_threads/t/turns/%012d", i+1))
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(data))
	}
	end(t, run)
	largest := 0
	for _, n := range sizes[:200] {
		largest = max(largest, n)
	}
	for i, n := range sizes {
		if n > largest+64 {
			t.Errorf("record %d has %d bytes, none of the first 200 over %d", i, n, largest)
		}
	}
	store.n = 0
	end(t, begin(t, m, memory.Identity{}))
	if store.n > 100 {
		t.Errorf("Begin read %d turns of 1,000 for a budget of 2,000 tokens", store.n)
	}
}

// FuzzItem shows that items decode from the store to what they were, whatever is
// in them.
func FuzzItem(f *testing.F) {
	f.Add("text", "name", "args", []byte{1, 2}, "ref")
	f.Add("\x00\x1f\"\\\u2028<>&\xff\n\t\r", "é\x7f", "{}", []byte{}, "")
	f.Fuzz(func(t *testing.T, text, name, args string, data []byte, ref string) {
		store := mem.New()
		m := newMemory(t, store, nil)
		run := begin(t, m, memory.Identity{})
		it := projection.Item{
			Kind: projection.Message, Role: projection.User, Name: name, Refs: []string{ref, name},
			Parts: []projection.Part{{Type: projection.TextPart, Text: text}, {Type: projection.FilePart, Data: data, MediaType: name, Name: ref, URL: text}},
		}
		if _, err := run.Project(t.Context(), it, projection.Call(name, name, args)); err != nil {
			var item *memory.ItemError
			if errors.As(err, &item) || errors.Is(err, memory.ErrBudget) {
				return
			}
			t.Fatal(err)
		}
		want := project(t, run).Items()
		commit(t, run)
		view, err := thread.Replay(t.Context(), store, run.Execution().ID(), 1)
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range view.Items() {
			a, err := json.Marshal(want[i])
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if string(a) != string(b) {
				t.Errorf("was %s, is %s", a, b)
			}
		}
		end(t, run)
	})
}
