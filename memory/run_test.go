package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

func TestNewFaults(t *testing.T) {
	hooks := memory.Hooks[counter]{Dispose: func(context.Context, *memory.DisposeInput[counter]) error { return nil }}
	layer := func(spec memory.Spec) memory.Layer { return memory.Define(spec, hooks) }
	tools := func(names ...string) memory.Hooks[counter] {
		h := hooks
		for _, name := range names {
			h.Tools = append(h.Tools, memory.NewTool(name, "", func(context.Context, *memory.ToolInput[counter], struct{}) (struct{}, memory.Change[counter], error) {
				return struct{}{}, memory.Change[counter]{}, nil
			}))
		}
		return h
	}
	_, err := memory.New(nil, []memory.Layer{
		layer(memory.Spec{}),
		layer(memory.Spec{ID: "Upper Case"}),
		layer(memory.Spec{ID: "twice"}), layer(memory.Spec{ID: "twice"}),
		layer(memory.Spec{ID: "slot", Slot: -1}),
		layer(memory.Spec{ID: "scope", Scope: "galaxy"}),
		layer(memory.Spec{ID: "place", Placement: "roof"}),
		layer(memory.Spec{ID: "minmax", Budget: projection.Between(5, 2)}),
		layer(memory.Spec{ID: "negative", Budget: projection.Exactly(-1)}),
		memory.Define(memory.Spec{ID: "nothing"}, memory.Hooks[counter]{}),
		memory.Define(memory.Spec{ID: "tools"}, tools("a b", "x", "x", strings.Repeat("y", 64))),
		{},
	}, &memory.Options{
		Policy: projection.Policy{Overflow: projection.Summarize, UncachedFactor: math.NaN()}, KeepTurns: -1, Parallel: -1,
		System: []projection.Item{{Kind: "poem"}},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"store is nil", "layer #1: ID is empty", `layer Upper Case: ID "Upper Case"`, "layer twice: ID is used twice",
		"layer slot: slot -1", `layer scope: scope "galaxy"`, `layer place: placement "roof"`, "layer minmax: budget minimum 5 is over its maximum 2",
		"layer negative: budget of exactly -1", "layer nothing: no hooks", `tool "a b"`, `tool "tools_x" is also one of layer tools`, "over 64 bytes",
		"not made by Define", "summarize needs", "uncached factor NaN", "KeepTurns -1", "Parallel -1", `kind "poem"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}

// TestExactBudgets: a layer gets exactly what it is to get, or New says why not.
func TestExactBudgets(t *testing.T) {
	given := make(map[string]int)
	layer := func(id string, budget projection.Budget) memory.Layer {
		return memory.Define(memory.Spec{ID: id, Budget: budget}, memory.Hooks[counter]{
			Recall: func(_ context.Context, in *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
				given[id] = in.Budget
				return memory.Recalled[counter]{Text: id}, nil
			},
		})
	}
	opts := options()
	opts.Policy = projection.Policy{Budget: 700, Reserve: -1}
	opts.System = []projection.Item{projection.Text(projection.System, strings.Repeat("x", 200))} // 50 tokens and 4
	run := begin(t, newMemory(t, mem.New(), opts,
		layer("none", projection.Exactly(0)), layer("fifty", projection.Exactly(50)), layer("much", projection.Between(0, 5000)), layer("auto", projection.Automatic()),
	), memory.Identity{})
	view := project(t, run, user("hello"))
	if want := map[string]int{"none": 0, "fifty": 50, "much": 178, "auto": 179}; !cmp.Equal(given, want) {
		t.Errorf("budgets %v, want %v", given, want)
	}
	for _, text := range texts(view) {
		if strings.Contains(text, "<none>") {
			t.Errorf("a layer that gets nothing shows %q", text)
		}
	}
	end(t, run)
	_, err := memory.New(mem.New(), []memory.Layer{layer("a", projection.Exactly(600)), layer("b", projection.Automatic()), layer("c", projection.Exactly(50))}, opts)
	if want := "layer c: budget of exactly 50 tokens: 46 are left of the policy's: prompt over budget"; err == nil || err.Error() != want || !errors.Is(err, projection.ErrBudget) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestAppend(t *testing.T) {
	var saw []string
	hook := func(id string) memory.Layer {
		return memory.Define(memory.Spec{ID: id}, memory.Hooks[counter]{
			Append: func(_ context.Context, in *memory.AppendInput[counter]) ([]projection.Item, error) {
				out := slices.Clone(in.Items)
				for i := range out {
					saw = append(saw, id+":"+out[i].Text())
				}
				return append(out, user("from "+id)), nil
			},
		})
	}
	m := newMemory(t, mem.New(), nil, hook("a"), hook("b"))
	run := begin(t, m, memory.Identity{})
	view := project(t, run, user("one"), projection.Thought("hm"), projection.Call("c", "f", "{}"), projection.Result("c", "r"))
	want := []string{
		"history: one", "history: from a", "history: from b", "history: hm", "history: f({})", "history: r", "history: from a", "history: from b",
	}
	if diff := cmp.Diff(want, texts(view)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a:one", "b:one", "b:from a", "a:r", "b:r", "b:from a"}, saw); diff != "" {
		t.Error(diff)
	}
	for _, it := range view.Items() {
		if it.ID == "" || it.Time.IsZero() {
			t.Errorf("item %+v is not complete", it)
		}
	}
	end(t, run)
}

// TestAppendNote shows that what an Append hook notes is in the report and in the
// stored turn, and that a turn in which it notes nothing has none.
func TestAppendNote(t *testing.T) {
	layer := memory.Define(memory.Spec{ID: "a"}, memory.Hooks[counter]{
		Append: func(_ context.Context, in *memory.AppendInput[counter]) ([]projection.Item, error) {
			if in.Items[0].Text() == "two" {
				in.Note("not the last")
				in.Note("seen")
			}
			return in.Items, nil
		},
	})
	store := mem.New()
	run := begin(t, newMemory(t, store, nil, layer), memory.Identity{Thread: "t"})
	for i, text := range []string{"one", "two", "three"} {
		project(t, run, user(text))
		want := []string{"", "seen", ""}[i]
		if h := run.Report().Hooks; len(h) == 0 || h[len(h)-1].Note != want {
			t.Errorf("after %q: %+v, want the note %q", text, h, want)
		}
		commit(t, run, "ok")
	}
	end(t, run)
	var notes []string
	for turn, err := range thread.Turns(t.Context(), store, "t", 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range turn.Hooks {
			notes = append(notes, fmt.Sprintf("%d %s %s", turn.Number, h.Hook, h.Note))
		}
	}
	if diff := cmp.Diff([]string{"2 append seen"}, notes); diff != "" {
		t.Error(diff)
	}
}

// TestAppendOfNothing shows that what one Append hook has dropped altogether is
// not offered to the next.
func TestAppendOfNothing(t *testing.T) {
	called := 0
	drops := memory.Define(memory.Spec{ID: "drops", Slot: 1}, memory.Hooks[counter]{
		Append: func(context.Context, *memory.AppendInput[counter]) ([]projection.Item, error) { return nil, nil },
	})
	next := memory.Define(memory.Spec{ID: "next", Slot: 2}, memory.Hooks[counter]{
		Append: func(_ context.Context, in *memory.AppendInput[counter]) ([]projection.Item, error) {
			called++
			return []projection.Item{in.Items[0]}, nil
		},
	})
	run := begin(t, newMemory(t, mem.New(), nil, drops, next), memory.Identity{})
	if got := texts(project(t, run, user("one"), projection.Thought("hm"), user("two"))); !slices.Equal(got, []string{"history: hm"}) {
		t.Errorf("view %q", got)
	}
	if r := run.Report(); called > 0 || r.Degraded() {
		t.Errorf("the next hook was called %d times with nothing: %+v", called, r.Hooks)
	}
	end(t, run)
}

// TestRecallOfMoreThanText shows that what a prompt does not show of recalled items
// is noted.
func TestRecallOfMoreThanText(t *testing.T) {
	text := func(s string) projection.Item { return projection.Text(projection.System, s) }
	image := projection.Part{Type: projection.ImagePart, URL: "https://example.com/cat.png"}
	picture := text("a cat")
	picture.Parts = append(picture.Parts, image)
	named := text("hello")
	named.Name = "ann"
	for _, c := range []struct {
		name, own, want string
		items           []projection.Item
	}{
		{"text", "", "", []projection.Item{text("one"), {Parts: text("two").Parts}}},
		{"text and a note", "nothing new", "nothing new", []projection.Item{text("one")}},
		{"image", "", "only the text is shown of 2 items: 1 with an image or a file", []projection.Item{text("one"), picture}},
		{"nothing but an image", "", "only the text is shown of 1 items: 1 with an image or a file", []projection.Item{{Parts: []projection.Part{image}}}},
		{"name", "", "only the text is shown of 1 items: 1 with a name", []projection.Item{named}},
		{"role", "", "only the text is shown of 2 items: 2 with a role or kind", []projection.Item{user("hi"), projection.Result("1", "r")}},
		{"call", "", "only the text is shown of 1 items: 1 with a role or kind", []projection.Item{projection.Call("1", "f", "{}")}},
		{"all", "3 found", "3 found; only the text is shown of 3 items: 1 with an image or a file, 1 with a name, 1 with a role or kind", []projection.Item{picture, named, user("hi")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			layer := memory.Define(memory.Spec{ID: "a"}, memory.Hooks[counter]{
				Recall: func(context.Context, *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
					return memory.Recalled[counter]{Items: c.items, Note: c.own}, nil
				},
			})
			run := begin(t, newMemory(t, mem.New(), nil, layer), memory.Identity{})
			project(t, run, user("hello"))
			h := run.Report().Hooks[0]
			if h.Note != c.want || h.Status != memory.StatusOK {
				t.Errorf("report %+v, want the note %q", h, c.want)
			}
			end(t, run)
		})
	}
}

func TestBadItems(t *testing.T) {
	m := newMemory(t, mem.New(), nil)
	run := begin(t, m, memory.Identity{})
	year := user("late")
	year.Time = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, bad := range map[string]projection.Item{
		"kind": {Kind: "poem"}, "none": {}, "role": projection.Text("wizard", "hi"), "year": year,
		"size":  user(strings.Repeat("x", 5<<20)),
		"codes": user(strings.Repeat("\x01", 1<<20)),
		"part":  {Kind: projection.Message, Role: projection.User, Parts: []projection.Part{{Type: "smell"}}},
	} {
		var item *memory.ItemError
		if _, err := run.Project(t.Context(), user("good"), bad); !errors.As(err, &item) || item.Index != 1 {
			t.Errorf("%s: %v", name, err)
		}
		if err := run.Commit(t.Context(), memory.Response{Items: []projection.Item{bad}}); !errors.As(err, &item) {
			t.Errorf("%s: %v", name, err)
		}
	}
	given := []projection.Item{user("a\xffb")}
	view := project(t, run, given...)
	if got := texts(view); !slices.Equal(got, []string{"history: a\ufffdb"}) || given[0].Text() != "a\xffb" {
		t.Errorf("view %q, given %q", got, given[0].Text())
	}
	if notes := run.Report().Notes; len(notes) != 1 || !strings.Contains(notes[0], "UTF-8") {
		t.Errorf("notes %q", notes)
	}
	if err := run.Commit(t.Context(), memory.Response{Cost: math.NaN()}); err == nil {
		t.Error("a cost of NaN was taken")
	}
	end(t, run)
}

// TestLargeTurn shows that the items of a turn fit its batch, or are refused.
func TestLargeTurn(t *testing.T) {
	opts := options()
	opts.Policy.Budget = 8 << 20
	store := mem.New()
	m := newMemory(t, store, opts, counting("a", ""))
	run := begin(t, m, memory.Identity{})
	project(t, run, user(strings.Repeat("x", 4<<20-1000)))
	var item *memory.ItemError
	if _, err := run.Project(t.Context(), user(strings.Repeat("y", 1<<20))); !errors.As(err, &item) {
		t.Errorf("got %v", err)
	}
	if got := len(texts(project(t, run, user("small")))); got != 3 {
		t.Errorf("%d items", got)
	}
	commit(t, run, "hi")
	if got := stored(t, store, "a"); got != `{"n":1}` {
		t.Errorf("state %s", got)
	}
	end(t, run)
}

// TestNothingBegun shows that a turn whose begin failed leaves nothing.
func TestNothingBegun(t *testing.T) {
	store := mem.New()
	run := begin(t, newMemory(t, store, nil), memory.Identity{})
	if _, err := run.Project(t.Context(), projection.Item{}); err == nil {
		t.Error("an empty item was taken")
	}
	end(t, run)
	for key, err := range store.List(t.Context(), "") {
		t.Errorf("%s, %v", key, err)
	}
}

func TestOverBudget(t *testing.T) {
	opts := options()
	opts.Policy = projection.Policy{Budget: 100, Reserve: 10}
	store := mem.New()
	m := newMemory(t, store, opts)
	run := begin(t, m, memory.Identity{})
	_, err := run.Project(t.Context(), user(strings.Repeat("word ", 200)))
	var budget *projection.BudgetError
	if !errors.Is(err, memory.ErrBudget) || !errors.As(err, &budget) || budget.User == 0 {
		t.Fatalf("got %v", err)
	}
	if view := project(t, run, user("shorter")); view.Tokens > 90 {
		t.Errorf("%d tokens", view.Tokens)
	}
	end(t, run)
}

func TestEnd(t *testing.T) {
	store := mem.New()
	var outcomes []memory.Outcome
	layer := memory.Define(memory.Spec{ID: "a", Scope: memory.ScopeExecution}, memory.Hooks[counter]{
		Store: func(context.Context, *memory.StoreInput[counter]) (memory.Change[counter], error) {
			return add(1).Put("x", []byte("y")), nil
		},
		OnComplete: func(ctx context.Context, in *memory.CompleteInput[counter]) (memory.Change[counter], error) {
			outcomes = append(outcomes, in.Outcome)
			return add(1), ctx.Err()
		},
	})
	for _, outcome := range []memory.Outcome{memory.Success, memory.Failure, memory.Aborted} {
		m := newMemory(t, store, nil, layer)
		run := begin(t, m, memory.Identity{Thread: string(outcome)})
		project(t, run, user("one"))
		commit(t, run, "two")
		project(t, run, user("three"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 {
			if err := run.End(ctx, outcome); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := run.Project(t.Context()); !errors.Is(err, memory.ErrEnded) {
			t.Errorf("project: %v", err)
		}
		if err := run.Commit(t.Context(), memory.Response{}); !errors.Is(err, memory.ErrEnded) {
			t.Errorf("commit: %v", err)
		}
		if _, err := m.Resume(t.Context(), run.Execution().ID()); !errors.Is(err, memory.ErrEnded) {
			t.Errorf("resume: %v", err)
		}
		items := 0
		for turn, err := range thread.Turns(t.Context(), store, string(outcome), 0) {
			if err != nil {
				t.Fatal(err)
			}
			items += len(turn.Items)
		}
		if items != 3 {
			t.Errorf("%d items are stored", items)
		}
	}
	if diff := cmp.Diff([]memory.Outcome{memory.Success, memory.Failure, memory.Aborted}, outcomes); diff != "" {
		t.Error(diff)
	}
	for key, err := range store.List(t.Context(), "_layers/") {
		t.Errorf("%s is left of an execution, %v", key, err)
	}
	if err := begin(t, newMemory(t, store, nil), memory.Identity{}).End(t.Context(), "victory"); err == nil {
		t.Error("any outcome was taken")
	}
}

func TestResume(t *testing.T) {
	store := mem.New()
	layers := []memory.Layer{counting("e", memory.ScopeExecution), counting("a", "")}
	m := newMemory(t, store, nil, layers...)
	run := begin(t, m, memory.Identity{Resource: "r", Agent: "x"})
	project(t, run, user("one"))
	if err := run.Commit(t.Context(), memory.Response{Usage: memory.Usage{Input: 3}, Cost: 0.5, Model: "big"}); err != nil {
		t.Fatal(err)
	}
	project(t, run, user("lost")) // the process dies here
	opts := options()
	opts.NewID = func() string { return "new" }
	next, err := newMemory(t, store, opts, layers...).Resume(t.Context(), run.Execution().ID())
	if err != nil {
		t.Fatal(err)
	}
	x := next.Execution()
	if x.ID() != run.Execution().ID() || x.Step() != 1 || x.Identity() != run.Execution().Identity() || x.Cost() != 0.5 || x.Usage().Input != 3 || x.Model() != "big" {
		t.Errorf("execution %+v", x)
	}
	if count(t, next, "e") != 1 || count(t, next, "a") != 1 {
		t.Error("states are not those committed")
	}
	view := project(t, next, user("two"))
	if got := strings.Join(texts(view), "|"); strings.Contains(got, "lost") || !strings.Contains(got, "one|history: two") {
		t.Errorf("view %q", got)
	}
	if view.Opened == "first projection" {
		t.Error("the epoch was lost")
	}
	commit(t, next, "ok")
	if rep := next.Report(); rep.Turn != 2 || rep.Step != 2 {
		t.Errorf("report %+v", rep)
	}
	end(t, next)
}

// TestWarmStart shows that a restart keeps the prefix that the provider's cache
// holds.
func TestWarmStart(t *testing.T) {
	store := mem.New()
	still := memory.Define(memory.Spec{ID: "still"}, memory.Hooks[counter]{
		Recall: func(context.Context, *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
			return memory.Recalled[counter]{Text: "it does not move", Refs: []string{"a"}}, nil
		},
	})
	opts := options()
	opts.System = []projection.Item{projection.Text(projection.System, "be brief")}
	m := newMemory(t, store, opts, still)
	before := ""
	for i := range 6 {
		run := begin(t, m, memory.Identity{})
		view := project(t, run, user(fmt.Sprint("question ", i)))
		got := string(view.AppendText(nil))
		if i > 0 && view.Opened != "" || !strings.HasPrefix(got, before) {
			t.Errorf("turn %d: opened %q; before and after:\n%s\n%s", i, view.Opened, before, got)
		}
		before = got
		commit(t, run, "answer")
		end(t, run)
	}
	n := 0
	for turn, err := range thread.Turns(t.Context(), store, "t", 0) {
		if err != nil {
			t.Fatal(err)
		}
		n += len(turn.Texts)
	}
	if n != 2 {
		t.Errorf("%d texts are stored, two were shown", n)
	}
}

// TestTwoRuns shows that two runs on one thread both commit, and that each sees
// the log as at Begin plus its own turns.
func TestTwoRuns(t *testing.T) {
	store := mem.New()
	m := newMemory(t, store, nil)
	zero := begin(t, m, memory.Identity{})
	project(t, zero, user("zero"))
	end(t, zero)
	a, b := begin(t, m, memory.Identity{}), begin(t, m, memory.Identity{})
	views := make(map[*memory.Run]*projection.View)
	for i := range 3 {
		for _, run := range []*memory.Run{a, b} {
			name := map[*memory.Run]string{a: "a", b: "b"}[run]
			views[run] = project(t, run, user(fmt.Sprint(name, i)))
			commit(t, run)
		}
	}
	if got := strings.Join(texts(views[b]), "|"); got != "history: zero|history: b0|history: b1|history: b2" {
		t.Errorf("b sees %q", got)
	}
	if a.Report().Turn != 6 || b.Report().Turn != 7 {
		t.Errorf("turns %d and %d", a.Report().Turn, b.Report().Turn)
	}
	for run, want := range views {
		got, err := thread.Replay(t.Context(), store, run.Execution().ID(), run.Report().Turn)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(itemBytes(t, want)), string(itemBytes(t, got))); diff != "" {
			t.Error(diff)
		}
	}
	again, err := m.Resume(t.Context(), a.Execution().ID())
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(texts(project(t, again)), "|"); got != "history: zero|history: a0|history: a1|history: a2" {
		t.Errorf("a resumed sees %q", got)
	}
	for _, run := range []*memory.Run{again, b} {
		end(t, run)
	}
	c := begin(t, m, memory.Identity{})
	if got := strings.Join(texts(project(t, c)), "|"); got != "history: zero|history: a0|history: b0|history: a1|history: b1|history: a2|history: b2" {
		t.Errorf("c sees %q", got)
	}
	end(t, c)
}

// faulty is a store whose batches fail while err is set.
type faulty struct {
	*mem.Store
	err error
}

func (f *faulty) Apply(ctx context.Context, ops ...storage.Op) error {
	if f.err != nil {
		return f.err
	}
	return f.Store.Apply(ctx, ops...)
}

func TestFullDisk(t *testing.T) {
	store := &faulty{Store: mem.New()}
	stores, completes := 0, 0
	layer := memory.Define(memory.Spec{ID: "a"}, memory.Hooks[counter]{
		Store: func(context.Context, *memory.StoreInput[counter]) (memory.Change[counter], error) {
			stores++
			return add(1), nil
		},
		OnComplete: func(context.Context, *memory.CompleteInput[counter]) (memory.Change[counter], error) {
			completes++
			return add(10), nil
		},
	})
	m := newMemory(t, store, nil, layer)
	run := begin(t, m, memory.Identity{})
	project(t, run, user("hello"))
	store.err = storage.ErrDiskFull
	resp := memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, "hi")}}
	for range 3 {
		if err := run.Commit(t.Context(), resp); !errors.Is(err, storage.ErrDiskFull) {
			t.Fatalf("got %v", err)
		}
	}
	if _, err := run.Project(t.Context(), user("more")); err == nil {
		t.Error("the turn went on although it has its response")
	}
	store.err = nil
	if err := run.Commit(t.Context(), resp); err != nil {
		t.Fatal(err)
	}
	if stores != 1 || stored(t, store, "a") != `{"n":1}` {
		t.Errorf("Store ran %d times, state %s", stores, stored(t, store, "a"))
	}
	store.err = storage.ErrDiskFull
	if err := run.End(t.Context(), memory.Success); !errors.Is(err, storage.ErrDiskFull) {
		t.Fatalf("got %v", err)
	}
	store.err = nil
	end(t, run)
	if completes != 1 || stored(t, store, "a") != `{"n":11}` {
		t.Errorf("OnComplete ran %d times, state %s", completes, stored(t, store, "a"))
	}
	for turn, err := range thread.Turns(t.Context(), store, "t", 0) {
		if err != nil || len(turn.Items) != 2 {
			t.Errorf("turn %+v, %v", turn, err)
		}
	}
}

// TestCancel shows that a cancelled Project or Commit leaves a run that goes on.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		var wait time.Duration
		slow := memory.Define(memory.Spec{ID: "slow"}, memory.Hooks[counter]{
			Append: func(ctx context.Context, in *memory.AppendInput[counter]) ([]projection.Item, error) {
				return in.Items, sleep(ctx, wait)
			},
			Recall: func(ctx context.Context, in *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
				return memory.Recalled[counter]{Text: "ok"}, sleep(ctx, wait)
			},
			Store: func(ctx context.Context, in *memory.StoreInput[counter]) (memory.Change[counter], error) {
				return add(1), sleep(ctx, wait)
			},
		})
		m := newMemory(t, store, nil, slow)
		run := begin(t, m, memory.Identity{})
		cancelled := func(after time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			t.Cleanup(cancel)
			return ctx
		}
		wait = time.Second
		if _, err := run.Project(cancelled(time.Second/2), user("one")); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		if view := project(t, run); len(texts(view)) != 1 {
			t.Errorf("the item was taken: %q", texts(view))
		}
		if _, err := run.Project(cancelled(3*time.Second/2), user("two")); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		if view := project(t, run); len(texts(view)) != 2 {
			t.Errorf("the item was not taken: %q", texts(view))
		}
		if err := run.Commit(cancelled(time.Second/2), memory.Response{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		for range thread.List(t.Context(), store) {
			t.Error("half a turn was written")
		}
		commit(t, run)
		if n := count(t, run, "slow"); n != 1 {
			t.Errorf("state %d", n)
		}
		end(t, run)
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestCacheMiss(t *testing.T) {
	m := newMemory(t, mem.New(), nil)
	run := begin(t, m, memory.Identity{})
	zero, some := 0, 5
	for i, c := range []struct {
		read, write *int
		want        string
	}{
		{&zero, nil, "first projection"}, {&zero, nil, ""}, {&some, nil, ""}, {nil, nil, ""}, {&zero, nil, ""},
		{&some, nil, "the provider's cache missed"}, {&some, nil, ""},
		{&zero, &some, ""}, {&zero, &zero, ""}, // what was written can be read next time
		{&some, &zero, "the provider's cache missed"},
	} {
		view := project(t, run, user("hello"))
		if err := run.Commit(t.Context(), memory.Response{Usage: memory.Usage{CacheRead: c.read, CacheWrite: c.write}}); err != nil {
			t.Fatal(err)
		}
		if view.Opened != c.want {
			t.Errorf("turn %d: opened %q, want %q", i, view.Opened, c.want)
		}
	}
	if u := run.Execution().Usage(); u.CacheRead == nil || *u.CacheRead != 20 || u.CacheWrite == nil || *u.CacheWrite != 5 {
		t.Errorf("usage %+v", u)
	}
	end(t, run)
}

func TestClosed(t *testing.T) {
	m := newMemory(t, mem.New(), nil)
	run := begin(t, m, memory.Identity{})
	if err := m.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "1 runs have not ended") {
		t.Errorf("got %v", err)
	}
	end(t, run)
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := m.Begin(t.Context(), memory.Identity{Thread: "t"}); !errors.Is(err, memory.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
