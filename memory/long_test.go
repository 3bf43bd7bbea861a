package memory_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage/mem"
)

// longBudget is small, so that a run is long after some twenty turns.
const longBudget = 700

// long plays a run beside a prefix that keeps everything, and compares the views.
type long struct {
	t       *testing.T
	rng     *rand.Rand
	m       *memory.Memory
	policy  *projection.Policy
	ids     *int
	run     *memory.Run
	prefix  *projection.Prefix
	layer   projection.Contribution
	pending []string // calls without a result
	views   map[[2]any][]byte
	exact   bool // the views are compared; else only played again
	seen    *seen
}

// seen is what a layer is given.
type seen struct {
	log  []projection.Item // the last
	most int               // items in one
	far  int               // logs that did not have the newest user message
}

// changing shows a text that changes every five turns.
func changing(s *seen) memory.Layer {
	return memory.Define(memory.Spec{ID: "a", Budget: projection.Exactly(60)}, memory.Hooks[counter]{
		Recall: func(_ context.Context, in *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
			s.log, s.most = in.Log, max(s.most, len(in.Log))
			if !slices.ContainsFunc(in.Log, func(it projection.Item) bool { return it.Role == projection.User && it.Text() == in.Query }) {
				s.far++
			}
			return memory.Recalled[counter]{Text: changed(in.Execution.Step())}, nil
		},
	})
}

func changed(step int) string { return fmt.Sprintf("phase %d", step/5) }

func (l *long) words(n int) string {
	var b bytes.Buffer
	for range 1 + l.rng.IntN(n) {
		fmt.Fprintf(&b, "w%d ", l.rng.IntN(100))
	}
	return b.String()
}

func (l *long) item(it projection.Item) projection.Item {
	*l.ids++
	it.ID, it.Time = fmt.Sprint("i", *l.ids), time.Unix(int64(*l.ids), 0).UTC()
	return it
}

// input is what a turn begins with: now and then a user, else results.
func (l *long) input() []projection.Item {
	var items []projection.Item
	for len(l.pending) > 0 && l.rng.IntN(10) > 0 {
		at := l.rng.IntN(len(l.pending))
		items = append(items, l.item(projection.Result(l.pending[at], l.words(20))))
		l.pending = append(l.pending[:at:at], l.pending[at+1:]...)
	}
	if l.rng.IntN(30) == 0 || l.prefix.Len() == 0 {
		items = append(items, l.item(projection.Text(projection.User, l.words(20))))
	}
	return items
}

func (l *long) output() []projection.Item {
	var items []projection.Item
	for range l.rng.IntN(3) {
		id := fmt.Sprint("c", *l.ids)
		items = append(items, l.item(projection.Call(id, "tool", `{"x":1}`)))
		l.pending = append(l.pending, id)
	}
	if len(items) == 0 || l.rng.IntN(10) == 0 {
		items = append(items, l.item(projection.Text(projection.Assistant, l.words(20))))
	}
	return items
}

func (l *long) project(items ...projection.Item) []byte {
	l.t.Helper()
	view := project(l.t, l.run, items...)
	got := itemBytes(l.t, view)
	l.prefix.Append(items...)
	l.layer.Texts = []projection.Passage{{Text: changed(l.run.Execution().Step())}}
	layers := []projection.Contribution{l.layer}
	l.prefix.Shown(layers)
	want, err := l.prefix.Project(l.t.Context(), layers)
	if err != nil {
		l.t.Fatal(err)
	}
	if !l.exact {
		return got
	}
	if w := itemBytes(l.t, want); !bytes.Equal(got, w) {
		l.t.Fatalf("after %d items the view is another than that of the whole log:\n%s", l.prefix.Len(), cmp.Diff(string(w), string(got)))
	}
	type rest struct {
		Tokens, Stable, StableTokens int
		Breakpoints                  []int
		Opened                       string
		History                      projection.HistoryUse
		Layers                       []projection.LayerUse
	}
	of := func(v *projection.View) rest {
		r := rest{v.Tokens, v.Stable, v.StableTokens, v.Breakpoints, v.Opened, v.History, nil}
		for _, u := range v.Layers {
			r.Layers = append(r.Layers, projection.LayerUse{Layer: u.Layer, Placement: u.Placement, Used: u.Used, Carried: u.Carried})
		}
		return r
	}
	if diff := cmp.Diff(of(want), of(view)); diff != "" {
		l.t.Fatalf("after %d items (- of the whole log, + of the run): %s", l.prefix.Len(), diff)
	}
	return got
}

// whole checks that what hooks are given and what they find earlier is all that
// there was.
func (l *long) whole() {
	l.t.Helper()
	all := slices.Clone(l.seen.log)
	slices.Reverse(all)
	for it, err := range l.run.Execution().Earlier(l.t.Context()) {
		if err != nil {
			l.t.Fatal(err)
		}
		all = append(all, it)
	}
	slices.Reverse(all)
	if diff := cmp.Diff(l.prefix.Items(0, l.prefix.Len()), all); diff != "" {
		l.t.Fatalf("log and what is earlier (- want + got): %s", diff)
	}
}

func (l *long) turn() {
	l.t.Helper()
	var view []byte
	for range 1 + l.rng.IntN(2) {
		if items := l.input(); len(items) > 0 || view == nil && l.rng.IntN(2) == 0 {
			view = l.project(items...)
		}
	}
	if view != nil && l.rng.IntN(20) == 0 {
		l.whole()
	}
	items := l.output()
	if err := l.run.Commit(l.t.Context(), memory.Response{Items: items}); err != nil {
		l.t.Fatal(err)
	}
	l.prefix.Append(items...)
	if view != nil {
		l.views[[2]any{l.run.Execution().ID(), l.run.Report().Turn}] = view
	}
}

// fork plays turns in a child that has the log.
func (l *long) fork(turns int) {
	l.t.Helper()
	children, err := l.run.Fork(l.t.Context(), 1)
	if err != nil {
		l.t.Fatal(err)
	}
	child := *l
	child.run, child.prefix, child.pending = children[0], l.prefix.Fork(), append([]string(nil), l.pending...)
	if l.policy.Overflow == projection.Summarize {
		child.exact = false // its summary is of the log that its parent held
	}
	for range turns {
		child.turn()
	}
	if child.prefix.AppendState(nil, func(*projection.Item, int) int { return 0 }) != nil { // else nothing says where the newest user message is
		child.resume()
		child.turn()
	}
	end(l.t, child.run)
}

func (l *long) resume() {
	l.t.Helper()
	run, err := l.m.Resume(l.t.Context(), l.run.Execution().ID())
	if err != nil {
		l.t.Fatal(err)
	}
	l.run = run
}

// TestLongRun shows that a run which holds only the end of its log makes the
// views of one that holds all, and that all of them can be played again.
func TestLongRun(t *testing.T) {
	policies := map[string]projection.Policy{
		"truncate": {Overflow: projection.Truncate},
		"window":   {Overflow: projection.SlidingWindow, Window: 9},
		"wide":     {Overflow: projection.SlidingWindow, Window: 10_000},
		"summarize": {Overflow: projection.Summarize, Summarize: func(_ context.Context, items []projection.Item, _ int) (string, error) {
			return fmt.Sprintf("%d items from %s to %s", len(items), items[0].ID, items[len(items)-1].ID), nil
		}},
	}
	for name, policy := range policies {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(name, "/", seed), func(t *testing.T) { testLongRun(t, policy, seed) })
		}
	}
}

func testLongRun(t *testing.T, policy projection.Policy, seed uint64) {
	policy.Budget, policy.Reserve = longBudget, 50
	opts := options()
	opts.Policy = policy
	frame, err := projection.NewFrame(&projection.FrameOptions{Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	store, ids, s := mem.New(), 0, new(seen)
	m := newMemory(t, store, opts, changing(s))
	l := &long{
		t: t, rng: rand.New(rand.NewPCG(seed, 7)), m: m, policy: &policy, ids: &ids, exact: true,
		run: begin(t, m, memory.Identity{Thread: "a"}), prefix: frame.NewPrefix(0),
		views: make(map[[2]any][]byte), seen: s,
	}
	l.layer = projection.Contribution{Layer: "a", Budget: 60}
	for i := range 250 {
		l.turn()
		switch {
		case i%100 == 60:
			l.fork(30)
		case i%100 == 90:
			l.fork(1)
		case i%50 == 20:
			l.resume()
		}
	}
	if s.most > 200 || s.far == 0 {
		t.Errorf("hooks were given a log of %d items, of %d; %d had no user message", s.most, l.prefix.Len(), s.far)
	}
	if len(l.views) < 250 {
		t.Fatalf("%d views to play again", len(l.views))
	}
	for key, want := range l.views {
		view, err := thread.Replay(t.Context(), store, key[0].(string), key[1].(int))
		if err != nil {
			t.Fatal(err)
		}
		if got := itemBytes(t, view); !bytes.Equal(got, want) {
			t.Fatalf("turn %d of %s differs:\n%s", key[1], key[0], cmp.Diff(string(want), string(got)))
		}
	}
	end(t, l.run)
}

// TestBeginReadsTheTail shows that what Begin and Resume read does not grow with
// the thread, be it of items of one word or of a task that a user gave once.
func TestBeginReadsTheTail(t *testing.T) {
	shapes := map[string]func(i int) []projection.Item{
		"words": func(i int) []projection.Item {
			items := make([]projection.Item, 100)
			for j := range items {
				items[j] = user(fmt.Sprint("word", i))
			}
			return items
		},
		"task": func(i int) []projection.Item {
			if i == 0 {
				return []projection.Item{user("Do it all.")}
			}
			return []projection.Item{projection.Result(fmt.Sprint(i-1), strings.Repeat("done ", 30))}
		},
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			store := &counted{Store: mem.New()}
			opts := options()
			opts.VerifyStates, opts.Policy = false, projection.Policy{Budget: 3000, Reserve: 100}
			m := newMemory(t, store, opts, counting("a", memory.ScopeThread))
			run := begin(t, m, memory.Identity{})
			turn := 0
			play := func(n int) (resumed, begun int) {
				for range n {
					project(t, run, shape(turn)...)
					if err := run.Commit(t.Context(), memory.Response{Items: []projection.Item{projection.Call(fmt.Sprint(turn), "tool", "{}")}}); err != nil {
						t.Fatal(err)
					}
					turn++
				}
				before := store.n
				again, err := m.Resume(t.Context(), run.Execution().ID())
				if err != nil {
					t.Fatal(err)
				}
				resumed, before = store.n-before, store.n
				begin(t, m, memory.Identity{})
				run = again
				return resumed, store.n - before
			}
			play(200)
			resumed, begun := play(800)
			t.Logf("of %d turns Resume reads %d entries, Begin %d", turn, resumed, begun)
			if resumed > 120 || begun > 120 {
				t.Errorf("of %d turns Resume reads %d entries, Begin %d", turn, resumed, begun)
			}
		})
	}
}
