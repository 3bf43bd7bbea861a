package projection_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/projection"
)

// lineage drives a Prefix as the runtime does. The options may be changed until the
// first step, and afterwards by reframe.
type lineage struct {
	t *testing.T
	projection.FrameOptions
	prefix *projection.Prefix
}

func newLineage(t *testing.T) *lineage {
	return &lineage{t: t, FrameOptions: projection.FrameOptions{Tokenizer: oddTokenizer(0)}} // a token is a byte, no overhead
}

func (l *lineage) frame() *projection.Frame {
	l.t.Helper()
	f, err := projection.NewFrame(&l.FrameOptions)
	if err != nil {
		l.t.Fatal(err)
	}
	return f
}

func (l *lineage) append(items ...projection.Item) {
	if l.prefix == nil {
		l.prefix = l.frame().NewPrefix(0)
	}
	l.prefix.Append(items...)
}

// reframe goes on with what the options are now, as a program does that is begun
// again.
func (l *lineage) reframe() {
	l.t.Helper()
	next, err := restored(l.frame(), l.prefix)
	if err != nil {
		l.t.Fatal(err)
	}
	l.prefix = next
}

// restored returns a prefix that stands in for another in a process to come.
func restored(f *projection.Frame, p *projection.Prefix) (*projection.Prefix, error) {
	items := make([]projection.Item, 1) // numbers need not begin at 0
	state := p.AppendState(nil, func(it *projection.Item, _ int) int {
		items = append(items, *it)
		return len(items) - 1
	})
	next := f.NewPrefix(p.First())
	next.Append(p.Items(p.First(), p.Len())...)
	if state == nil {
		return next, nil
	}
	var pinned *projection.Item
	if _, pin := p.History(); pin >= 0 && pin < p.First() {
		pinned = &p.Items(pin, pin+1)[0]
	}
	return next, next.Restore(state, at(items), pinned)
}

// at returns items by their numbers.
func at(items []projection.Item) func(number int) *projection.Item {
	return func(number int) *projection.Item {
		if number >= len(items) {
			return nil
		}
		return &items[number]
	}
}

func (l *lineage) try(layers []projection.Contribution, items ...projection.Item) (*projection.View, error) {
	l.append(items...)
	return l.prefix.Project(l.t.Context(), layers)
}

func (l *lineage) step(layers []projection.Contribution, items ...projection.Item) *projection.View {
	l.t.Helper()
	v, err := l.try(layers, items...)
	if err != nil {
		l.t.Fatal(err)
	}
	return v
}

func says(layer, text string) projection.Contribution {
	c := projection.Contribution{Layer: layer, Budget: 100_000, Authority: projection.Instruction}
	if text != "" {
		c.Texts = []projection.Passage{{Text: text}}
	}
	return c
}

func user(text string) projection.Item      { return projection.Text(projection.User, text) }
func assistant(text string) projection.Item { return projection.Text(projection.Assistant, text) }

// show renders a view, a line an item.
func show(v *projection.View) []string {
	var lines []string
	for band, it := range v.All() {
		lines = append(lines, string(band)+" "+strings.ReplaceAll(it.Text(), "\n", "~"))
	}
	return lines
}

func check(t *testing.T, v *projection.View, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, show(v)); diff != "" {
		t.Errorf("view (-want +got):\n%s", diff)
	}
}

func TestBandsInOrder(t *testing.T) {
	l := newLineage(t)
	l.System = []projection.Item{projection.Text(projection.System, "be kind")}
	l.Tail = []projection.Item{projection.Text(projection.Developer, "answer in JSON")}
	live := says("b", "now")
	live.Placement = projection.Live
	v := l.step([]projection.Contribution{says("a", "notes"), live}, user("hi"))
	check(t, v,
		"system be kind",
		"anchor <a>~notes~</a>",
		"history hi",
		"live <b>~now~</b>",
		"tail answer in JSON")
	if v.Stable != 3 || !slices.Equal(v.Breakpoints, []int{1, 2, 3}) {
		t.Errorf("stable %d, breakpoints %v", v.Stable, v.Breakpoints)
	}
	if v.Opened != "first projection" {
		t.Errorf("opened %q", v.Opened)
	}
}

// TestViewsAreLetGo: a prefix lives as long as its run. It holds the texts of its
// last view, not those of all before.
func TestViewsAreLetGo(t *testing.T) {
	l := newLineage(t)
	var before []weak.Pointer[projection.View]
	for i := range 5 {
		v := l.step([]projection.Contribution{says("notes", fmt.Sprint("note ", i))}, user("hello"), assistant("hi"))
		before = append(before, weak.Make(v))
	}
	heap := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	was := heap()
	for i, p := range before {
		if p.Value() != nil {
			t.Errorf("the view of step %d of 5 is still held", i+1)
		}
	}
	for i := range 200 {
		l.step([]projection.Contribution{says("notes", strings.Repeat(fmt.Sprint(i), 20_000))}, user("hello"), assistant("hi"))
	}
	if grown := int64(heap()) - int64(was); grown > 2<<20 {
		t.Errorf("after 200 texts of 40 KB and more the prefix holds %d bytes", grown)
	}
	runtime.KeepAlive(l)
}

func TestNothingAtAll(t *testing.T) {
	v := newLineage(t).step(nil)
	if v.Len() != 0 || v.Tokens != 0 {
		t.Errorf("view of nothing has %d items, %d tokens", v.Len(), v.Tokens)
	}
}

func TestUpdates(t *testing.T) {
	l := newLineage(t)
	big := strings.Repeat("z", 5000)
	turn := 0
	say := func(layers ...projection.Contribution) *projection.View {
		turn++
		v := l.step(layers, user(fmt.Sprint("u", turn)))
		l.append(assistant(fmt.Sprint("a", turn)))
		return v
	}
	say(says("a", "one"), says("b", big))
	check(t, say(says("a", "two"), says("b", big)), // few samples: sent, not published
		"anchor <a>~one~</a>", "anchor <b>~"+big+"~</b>", "history u1", "history a1", "history u2",
		"updates <a replace>~two~</a>")
	check(t, say(says("a", "one"), says("b", big)), // back to what stands in the prefix
		"anchor <a>~one~</a>", "anchor <b>~"+big+"~</b>", "history u1", "history a1", "history u2", "history a2", "history u3")
	for range 9 {
		say(says("a", "one"), says("b", big))
	}
	v := say(says("a", ""), says("b", big)) // changes now and then: published
	if got := v.Layers[0].Update; got != "published" {
		t.Fatalf("update was %q", got)
	}
	lines := show(v)
	if last := lines[len(lines)-1]; last != "history <a retract/>" {
		t.Errorf("last item is %q", last)
	}
	if v.Stable != v.Len() {
		t.Errorf("stable %d of %d: nothing volatile is left", v.Stable, v.Len())
	}
	v = say(says("a", ""), says("b", big))
	lines = show(v)
	if want := []string{"history u13", "history <a retract/>", "history a13", "history u14"}; !cmp.Equal(lines[len(lines)-4:], want) {
		t.Errorf("a published update moved: %q", lines[len(lines)-4:])
	}
	v = say(says("a", "three"), says("b", big))
	lines = show(v)
	if last := lines[len(lines)-1]; last != "history <a add>~three~</a>" {
		t.Errorf("last item is %q", last)
	}
	if v.Opened != "" {
		t.Errorf("an epoch opened: %s", v.Opened)
	}
}

func TestDelta(t *testing.T) {
	l := newLineage(t)
	c := says("a", "a long list of notes")
	l.step([]projection.Contribution{c}, user("u1"))
	c = says("a", "a long list of notes, and one more")
	c.Delta = func(before, now string) (string, bool) { return strings.TrimPrefix(now, before), true }
	lines := show(l.step([]projection.Contribution{c}, user("u2")))
	if last := lines[len(lines)-1]; last != "updates <a add>~, and one more~</a>" {
		t.Errorf("last item is %q", last)
	}
}

func TestWhatAlwaysChangesGoesLive(t *testing.T) {
	l := newLineage(t)
	var v *projection.View
	for i := range 8 {
		v = l.step([]projection.Contribution{says("a", strings.Repeat(fmt.Sprint(i), 2000))}, user("u"))
	}
	if v.Layers[0].Placement != projection.Live {
		t.Errorf("after 8 changes in 8 turns the layer is placed %s", v.Layers[0].Placement)
	}
}

// TestWhatCalmsDownIsAnchoredAgain: how often a layer changed long ago does not
// hold it after history.
func TestWhatCalmsDownIsAnchoredAgain(t *testing.T) {
	for _, changes := range []int{30, 64, 200} {
		l := newLineage(t)
		var text string
		var v *projection.View
		turn := func() *projection.View {
			l.append(assistant(strings.Repeat("a", 100)))
			return l.step([]projection.Contribution{says("a", text)}, user(strings.Repeat("u", 100)))
		}
		for i := range changes {
			text = fmt.Sprint(i) + strings.Repeat("n", 4000)
			v = turn()
		}
		if v.Layers[0].Placement != projection.Live {
			t.Fatalf("after %d changes in as many turns the layer is placed %s", changes, v.Layers[0].Placement)
		}
		for quiet := 1; v.Layers[0].Placement == projection.Live; quiet++ {
			if v = turn(); quiet > 15 {
				t.Fatalf("after %d changes it is not anchored again in %d quiet turns", changes, quiet)
			}
		}
	}
}

func TestFailedRecallKeepsThePrefix(t *testing.T) {
	l := newLineage(t)
	l.step([]projection.Contribution{says("a", "one")}, user("u1"))
	c := projection.Contribution{Layer: "a", Authority: projection.Instruction, Failed: true}
	check(t, l.step([]projection.Contribution{c}, user("u2")), "anchor <a>~one~</a>", "history u1", "history u2")
}

func TestEpochOpens(t *testing.T) {
	zero, some := 0, 5
	for _, c := range []struct {
		name, want string
		change     func(l *lineage, layers []projection.Contribution) []projection.Contribution
	}{
		{"nothing", "", nil},
		{"another process", "", func(l *lineage, ls []projection.Contribution) []projection.Contribution {
			l.reframe()
			return ls
		}},
		{"system", "system text or tools changed", func(l *lineage, ls []projection.Contribution) []projection.Contribution {
			l.System = []projection.Item{projection.Text(projection.System, "new")}
			l.reframe()
			return ls
		}},
		{"tools", "system text or tools changed", func(l *lineage, ls []projection.Contribution) []projection.Contribution {
			l.Tools = "search"
			l.reframe()
			return ls
		}},
		{"layers", "layers changed", func(_ *lineage, ls []projection.Contribution) []projection.Contribution {
			return append(ls, says("z", "new"))
		}},
		{"placement", "layers changed", func(_ *lineage, ls []projection.Contribution) []projection.Contribution {
			ls[0].Placement = projection.Live
			return ls
		}},
		{"cache miss", "the provider's cache missed", func(l *lineage, ls []projection.Contribution) []projection.Contribution {
			l.prefix.Observe(&zero, nil)
			return ls
		}},
		{"cache hit", "", func(l *lineage, ls []projection.Contribution) []projection.Contribution {
			l.prefix.Observe(&some, nil)
			return ls
		}},
		{"no word on the cache", "", func(l *lineage, ls []projection.Contribution) []projection.Contribution {
			l.prefix.Observe(nil, nil)
			return ls
		}},
		{"over budget", "history is over its budget", func(l *lineage, ls []projection.Contribution) []projection.Contribution {
			l.append(assistant(strings.Repeat("x", 990)))
			return ls
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLineage(t)
			l.Policy = projection.Policy{Budget: 1000, Reserve: -1}
			layers := []projection.Contribution{says("a", "one")}
			for range 3 {
				l.step(layers, user("u"))
			}
			if c.change != nil {
				layers = c.change(l, layers)
			}
			if v := l.step(layers, user("u")); v.Opened != c.want {
				t.Errorf("opened %q, want %q", v.Opened, c.want)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	zero, some := 0, 1
	const missed = "the provider's cache missed"
	l := newLineage(t)
	// turn projects as often as no miss is believed, then once more, hears of the
	// cache, and reports why the next view opened an epoch.
	turn := func(quiet int, read, written *int) string {
		for range quiet {
			l.step(nil, user("u"))
			l.prefix.Observe(&zero, nil)
		}
		l.step(nil, user("u"))
		l.prefix.Observe(read, written)
		return l.step(nil, user("u")).Opened
	}
	l.append()
	l.prefix.Observe(&zero, nil) // nothing was sent yet
	if got := turn(1, nil, nil); got != "" {
		t.Errorf("misses in the first two projections count: %q", got)
	}
	for i, want := range []string{missed, missed, "", ""} {
		if i > 0 {
			l.step(nil, user("u")) // the second of the epoch
		}
		if got := turn(0, &zero, nil); got != want {
			t.Errorf("miss %d in a row: opened %q, want %q", i+1, got, want)
		}
	}
	turn(0, &some, nil)
	if got := turn(0, &zero, nil); got != missed {
		t.Errorf("after a hit: a miss opened %q", got)
	}
	l.step(nil, user("u"))
	for _, written := range []int{900, 0} {
		want := ""
		if written == 0 {
			want = missed
		}
		if got := turn(0, &zero, &written); got != want {
			t.Errorf("nothing read and %d written: opened %q, want %q", written, got, want)
		}
	}
}

func TestToolPairs(t *testing.T) {
	call, result := projection.Call, projection.Result
	t.Run("halves are left out", func(t *testing.T) {
		l := newLineage(t)
		v := l.step(nil, user("u1"), call("1", "f", "{}"), result("nobody", "r"), user("u2"))
		check(t, v, "history u1", "history u2")
		if v.History.Unpaired != 2 {
			t.Errorf("%d unpaired", v.History.Unpaired)
		}
	})
	t.Run("a late result opens an epoch", func(t *testing.T) {
		l := newLineage(t)
		l.step(nil, user("u1"), call("1", "f", "{}"), call("2", "g", "{}"), result("2", "r2"))
		v := l.step(nil, result("1", "r1"))
		check(t, v, "history u1", "history f({})", "history g({})", "history r2", "history r1")
		if v.Opened != "a tool result came late" {
			t.Errorf("opened %q", v.Opened)
		}
	})
	t.Run("ids may come again", func(t *testing.T) {
		l := newLineage(t)
		v := l.step(nil, call("1", "f", "1"), result("1", "r1"), call("1", "f", "2"), result("1", "r2"))
		check(t, v, "history f(1)", "history r1", "history f(2)", "history r2")
	})
	t.Run("a cut does not part them", func(t *testing.T) {
		l := newLineage(t)
		l.Policy = projection.Policy{Budget: 100, Reserve: -1}
		l.append(user("u1"), call("1", "f", strings.Repeat("x", 60)), result("1", strings.Repeat("r", 45)), assistant("a"))
		check(t, l.step(nil, user("u2")), "history a", "history u2")
	})
}

func TestCutInBlocks(t *testing.T) {
	l := newLineage(t)
	l.Policy = projection.Policy{Budget: 10_000, Reserve: -1}
	cuts, turns := 0, 0
	for i := range 200 {
		v := l.step(nil, user(fmt.Sprintf("u%03d%s", i, strings.Repeat("u", 196))))
		l.append(assistant(strings.Repeat("a", 300)))
		if v.History.Cut {
			cuts++
			if first := show(v)[0]; !strings.HasPrefix(first, "history u") {
				t.Errorf("history was cut at %.12q, not at a user message", first)
			}
		}
		if v.History.Dropped > 0 {
			turns++
			if 2*v.History.Tokens < v.History.Budget {
				t.Errorf("turn %d: history has %d of %d", i, v.History.Tokens, v.History.Budget)
			}
		}
	}
	if cuts == 0 || turns/cuts < 8 {
		t.Errorf("%d cuts in %d turns over budget", cuts, turns)
	}
}

func TestSlidingWindow(t *testing.T) {
	l := newLineage(t)
	l.Policy = projection.Policy{Overflow: projection.SlidingWindow, Window: 6}
	for i := range 20 {
		v := l.step(nil, user(fmt.Sprint("u", i)))
		if n := v.History.Items; n > 6 || i > 6 && n < 3 {
			t.Errorf("turn %d: %d items in a window of 6", i, n)
		}
		if lines := show(v); lines[len(lines)-1] != fmt.Sprint("history u", i) {
			t.Errorf("turn %d ends with %q", i, lines[len(lines)-1])
		}
		l.append(assistant(fmt.Sprint("a", i)))
	}
}

// In a turn of many tool calls the window holds too, with the user's message that stays
// in front of it, and is cut in blocks: the prefix stands for about half a window.
func TestSlidingWindowOfOneTurn(t *testing.T) {
	for window := 2; window <= 24; window++ {
		l := newLineage(t)
		l.Policy = projection.Policy{Overflow: projection.SlidingWindow, Window: window}
		l.step(nil, user("go"))
		cuts := 0
		for i := range 200 {
			id := fmt.Sprint(i)
			v := l.step(nil, projection.Call(id, "f", "{}"), projection.Result(id, "r"))
			if v.Opened != "" {
				cuts++
			}
			if lines := show(v); lines[0] != "history go" {
				t.Fatalf("window %d, call %d: the view begins with %q", window, i, lines[0])
			}
			n, last := v.History.Items, 3 // the user's message, the call and its result
			if n > max(window, last) || i > window && n < window/2 {
				t.Fatalf("window %d, call %d: %d items", window, i, n)
			}
		}
		if most := 400/max(1, (window-1)/2-1) + 1; cuts > most {
			t.Errorf("window %d: %d cuts in 400 items, want at most %d", window, cuts, most)
		}
	}
}

// What must be shown is shown, even if it is more than the window, which is no reason
// to open an epoch each time.
func TestSlidingWindowUnderOneExchange(t *testing.T) {
	l := newLineage(t)
	l.Policy = projection.Policy{Overflow: projection.SlidingWindow, Window: 4}
	items := []projection.Item{user("go")}
	for i := range 6 {
		items = append(items, projection.Call(fmt.Sprint(i), "f", "{}"))
	}
	for i := range 6 {
		items = append(items, projection.Result(fmt.Sprint(i), "r"))
	}
	if v := l.step(nil, items...); v.History.Items != 13 {
		t.Errorf("%d of 13 items", v.History.Items)
	}
	if v := l.step(nil); v.Opened != "" || v.History.Items != 13 {
		t.Errorf("again: %d of 13 items, opened %q", v.History.Items, v.Opened)
	}
	l.append(assistant("done"))
	if v := l.step(nil, user("thanks")); v.History.Items > 4 {
		t.Errorf("later: %d items in a window of 4", v.History.Items)
	}
}

func TestSummarize(t *testing.T) {
	var asked [][]string
	var fail error
	l := newLineage(t)
	l.Policy = projection.Policy{
		Budget: 1000, Reserve: -1, Overflow: projection.Summarize,
		Summarize: func(_ context.Context, items []projection.Item, limit int) (string, error) {
			var heard []string
			for i := range items {
				heard = append(heard, items[i].Text()[:4])
			}
			asked = append(asked, heard)
			if fail == nil && limit != 125 {
				t.Errorf("limit %d", limit)
			}
			return fmt.Sprint("until ", len(asked)), fail
		},
	}
	var v *projection.View
	say := func(i int) { v = l.step(nil, user(fmt.Sprintf("u%03d%s", i, strings.Repeat(".", 196)))) }
	for i := range 6 {
		say(i)
	}
	if want := "history <summary data>~until 1~</summary>"; show(v)[0] != want {
		t.Fatalf("view begins with %q, want %q", show(v)[0], want)
	}
	if len(asked) != 1 || asked[0][0] != "u000" {
		t.Fatalf("asked to summarise %v", asked)
	}
	for i := 6; len(asked) < 2; i++ {
		say(i)
	}
	if asked[1][0] != "<sum" {
		t.Errorf("the previous summary is not part of the next: %v", asked[1])
	}
	fail = errors.New("model is down")
	for i := 20; len(asked) < 3; i++ {
		say(i)
	}
	if want := "history <summary data>~until 2~</summary>"; show(v)[0] != want {
		t.Errorf("view begins with %q, want %q", show(v)[0], want)
	}
	if want := []string{"history was truncated, the summariser failed: model is down"}; !cmp.Equal(v.Notes, want) {
		t.Errorf("notes %q", v.Notes)
	}
}

func TestRequiredLayers(t *testing.T) {
	canon := says("canon", strings.Repeat("c", 500))
	canon.Required, canon.Budget = true, 10
	l := newLineage(t)
	l.Policy = projection.Policy{Budget: 600, Reserve: -1}
	v := l.step([]projection.Contribution{says("a", strings.Repeat("a", 300)), canon}, user("hi"))
	check(t, v, "anchor <canon>~"+strings.Repeat("c", 500)+"~</canon>", "history hi")
	if v.Layers[0].Skipped != 1 {
		t.Errorf("the layer that did not fit is reported as %+v", v.Layers[0])
	}
	l.Policy.Budget = 400
	l.reframe()
	_, err := l.try([]projection.Contribution{canon}, user("hello"))
	var over *projection.BudgetError
	if !errors.As(err, &over) || !errors.Is(err, projection.ErrBudget) || over.Required != 517 || over.User != 5 {
		t.Errorf("error %v", err)
	}
}

func TestOutputOverItsBudget(t *testing.T) {
	c := projection.Contribution{Layer: "a", Budget: 80}
	for i := range 4 {
		c.Texts = append(c.Texts, projection.Passage{Text: fmt.Sprintf("item %02d", i)})
	}
	l := newLineage(t)
	v := l.step([]projection.Contribution{c}, user("hi"))
	check(t, v, "anchor <a data>~item 00~</a>", "anchor <a data>~item 01~</a>", "anchor <a data>~item 02~</a>", "history hi")
	want := projection.LayerUse{Layer: "a", Placement: projection.Anchor, Allocated: 80, Used: 63, Yielded: 17, Items: 3, Trimmed: 1}
	if diff := cmp.Diff(want, v.Layers[0]); diff != "" {
		t.Error(diff)
	}
	huge := says("a", strings.Repeat("x", 50<<20))
	huge.Budget = 1000
	if v = newLineage(t).step([]projection.Contribution{huge}, user("hi")); v.Layers[0].Trimmed != 1 {
		t.Errorf("50 MB in a budget of 1,000: %+v", v.Layers[0])
	}
}

func TestNewestExchangeIsShortened(t *testing.T) {
	l := newLineage(t)
	l.Policy = projection.Policy{Budget: 300, Reserve: -1}
	v := l.step(nil, user("read both"), projection.Call("1", "read", "a"), projection.Call("2", "read", "b"),
		projection.Result("1", strings.Repeat("1", 5000)), projection.Result("2", strings.Repeat("2", 100)))
	lines := show(v)
	if len(lines) != 5 || lines[0] != "history read both" {
		t.Fatalf("view %.40q", lines)
	}
	for _, line := range lines[3:] {
		if !strings.HasSuffix(line, "[shortened to fit]") {
			t.Errorf("result %q has no mark", line)
		}
	}
	if len(v.Notes) != 1 || v.Tokens > 300 {
		t.Errorf("%d tokens, notes %q", v.Tokens, v.Notes)
	}
	_, err := l.try(nil, user(strings.Repeat("u", 400)))
	if !errors.Is(err, projection.ErrBudget) {
		t.Errorf("a user message over the cap: %v", err)
	}
}

// TestNewestExchangeWithMessages: what came with the results does not part them
// from their calls.
func TestNewestExchangeWithMessages(t *testing.T) {
	large := strings.Repeat("x", 2000)
	call, result := projection.Call("1", "read", "{}"), projection.Result("1", large)
	for _, c := range []struct {
		name  string
		items []projection.Item
		want  []string
	}{
		{"a message behind", []projection.Item{result, user("and be brief")}, []string{"read({})", "x", "and be brief"}},
		{"two messages behind", []projection.Item{result, user("wait"), user("and be brief")}, []string{"read({})", "x", "wait", "and be brief"}},
		{"a message before", []projection.Item{user("wait"), result}, []string{"read({})", "wait", "x"}},
		{"a word of the host behind", []projection.Item{result, projection.Text(projection.Developer, "be brief")}, []string{"read({})", "x", "be brief"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLineage(t)
			l.Policy = projection.Policy{Budget: 300, Reserve: -1}
			l.step(nil, user("old"))
			l.step(nil, assistant("older"), call)
			v := l.step(nil, c.items...)
			var got []string
			for _, it := range v.All() {
				text := it.Text()
				if it.Kind == projection.ToolResult {
					if !strings.HasSuffix(text, "[shortened to fit]") {
						t.Errorf("the result has no mark: %.50q", text)
					}
					text = text[:1]
				}
				got = append(got, text)
			}
			if n := len(got) - len(c.want); n < 0 || !slices.Equal(got[n:], c.want) {
				t.Errorf("the view ends in %.50q, want %q", got, c.want)
			}
			if len(v.Notes) != 1 || v.Tokens > 300 {
				t.Errorf("%d tokens, notes %q", v.Tokens, v.Notes)
			}
		})
	}
}

// TestAnsweredExchangeIsHistory: what the model has spoken of since need not be
// shown.
func TestAnsweredExchangeIsHistory(t *testing.T) {
	l := newLineage(t)
	l.Policy = projection.Policy{Budget: 300, Reserve: -1}
	l.step(nil, user("old"))
	l.step(nil, projection.Call("1", "read", "{}"), projection.Result("1", strings.Repeat("x", 2000)))
	v := l.step(nil, assistant("read it"), user("thanks"))
	check(t, v, "history read it", "history thanks")
}

// TestShown: what is told before layers recall is what the view shows, cut or not,
// while they say what they said.
func TestShown(t *testing.T) {
	for _, policy := range []projection.Policy{
		{Budget: 900, Reserve: -1},
		{Budget: 900, Reserve: -1, NoAnchors: true},
		{Budget: 900, Reserve: -1, Overflow: projection.SlidingWindow, Window: 7},
		{Budget: 900, Reserve: -1, Overflow: projection.Summarize, Summarize: func(context.Context, []projection.Item, int) (string, error) {
			return "long ago", nil
		}},
	} {
		l := newLineage(t)
		l.Policy, l.Tail = policy, []projection.Item{user("the end")}
		layers := []projection.Contribution{says("a", strings.Repeat("n", 100)), says("b", strings.Repeat("m", 50))}
		layers[1].Placement = projection.Live
		cuts := 0
		for i := range 60 {
			items := []projection.Item{user(fmt.Sprint("q", i, strings.Repeat("u", i%7*10)))}
			if i%5 == 4 { // an exchange that pushes the question out
				items = append(items, projection.Call("1", "f", "{}"), projection.Result("1", strings.Repeat("r", i*10)))
			}
			l.append(items...)
			told := l.prefix.Shown(layers)
			v := l.step(layers)
			if i > 0 && (v.History.Items != len(told) || !told[len(told)-1].Equal(&items[len(items)-1])) {
				t.Errorf("%s, step %d (%q): told %d items, shown %d", policy.Overflow, i, v.Opened, len(told), v.History.Items)
			}
			if v.History.Cut {
				cuts++
			}
			l.append(assistant(strings.Repeat("a", i%11*10)))
		}
		if cuts < 5 {
			t.Errorf("%s: %d cuts", policy.Overflow, cuts)
		}
	}
}

func TestNoAnchors(t *testing.T) {
	l := newLineage(t)
	l.Policy.NoAnchors = true
	check(t, l.step([]projection.Contribution{says("a", "notes")}, user("hi")), "history hi", "live <a>~notes~</a>")
}

func BenchmarkProject(b *testing.B) {
	for _, n := range []int{200, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f, err := projection.NewFrame(nil)
			if err != nil {
				b.Fatal(err)
			}
			prefix := f.NewPrefix(0)
			for range n / 2 {
				prefix.Append(user(strings.Repeat("u", 400)), assistant(strings.Repeat("a", 400)))
			}
			var layers []projection.Contribution
			for i := range 5 {
				layers = append(layers, says(fmt.Sprint("l", i), strings.Repeat("x", 1200)))
			}
			b.ReportAllocs()
			for b.Loop() {
				prefix.Append(user("u"))
				if _, err := prefix.Project(b.Context(), layers); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestCutKeepsTheWholeExchange(t *testing.T) {
	l := newLineage(t)
	l.Policy = projection.Policy{Budget: 2000, Reserve: -1}
	for i := range 12 {
		l.append(user(fmt.Sprintf("u%02d%s", i, strings.Repeat(".", 96))))
	}
	l.append(user("compare"), projection.Call("1", "compare", "{}"), projection.Result("1", strings.Repeat("r", 1600)))
	v := l.step(nil, user("and now"))
	if !v.History.Cut || v.History.Unpaired > 0 || 2*v.History.Tokens < v.History.Budget {
		t.Errorf("history %+v", v.History)
	}
}
