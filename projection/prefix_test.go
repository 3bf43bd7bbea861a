package projection_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/projection"
)

func texts(items []projection.Item) (lines []string) {
	for i := range items {
		lines = append(lines, items[i].Text())
	}
	return lines
}

func TestQuery(t *testing.T) {
	l := newLineage(t)
	for _, c := range []struct {
		say  projection.Item
		want string
	}{
		{assistant("hello"), ""},
		{user("first"), "first"},
		{assistant("yes"), "first"},
		{user("second"), "second"},
		{projection.Text(projection.Developer, "be brief"), "second"},
	} {
		l.append(c.say)
		if got := l.prefix.Query(); got != c.want {
			t.Errorf("after %q: query %q, want %q", c.say.Text(), got, c.want)
		}
	}
	l = newLineage(t)
	l.append(user("the very first"))
	if got := l.prefix.Query(); got != "the very first" {
		t.Errorf("query %q", got)
	}
}

// TestSpare: what may be dropped stands before history, before calls that are not spoken
// of yet, and before what fills a view.
func TestSpare(t *testing.T) {
	const a10 = "aaaaaaaaaa"
	for _, c := range []struct {
		name      string
		seen, new string // before a view, and since; five tokens each, of a cap of 50
		to, user  int
	}{
		{"nothing", "", "", 0, -1},
		{"all fits, not shown", "", "uaa", 0, 0},
		{"not shown: what fills a view stays", "", "u" + a10 + a10, 11, 0},
		{"just as many", "", a10, 0, -1},
		{"one more", "", a10 + "a", 1, -1},
		{"shown: history stays", "aa" + a10, "", 2, -1},
		{"shown: so does what is behind", a10 + a10 + "u", "aaa", 14, 20},
		{"what was cut", a10 + a10, a10, 15, -1},
		{"the user alone", "", "uuuuuuuuuuuuuuuuuuuu", 10, 19},
		{"calls without results", "", a10 + "c" + a10, 11, -1},
		{"calls that may go on", "", "cccccccccc" + "uuuuuuuuuuuuuuuuuuuu", 0, 29},
		{"calls, and what fills a view", "", a10 + "cccccccccc" + "uuuuuuuuuuuuuuuuuuuu", 10, 39},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLineage(t)
			l.Policy = projection.Policy{Budget: 50, Reserve: -1}
			l.append(conversation(c.seen)...)
			if c.seen != "" {
				l.step(nil)
			}
			l.append(conversation(c.new)...)
			if to, user := l.prefix.Spare(); to != c.to || user != c.user {
				t.Errorf("to %d, user %d, want %d, %d", to, user, c.to, c.user)
			}
		})
	}
}

// TestDrop: to drop what the last view did not show changes no view to come; to drop more
// opens an epoch.
func TestDrop(t *testing.T) {
	const lost = "history was forgotten"
	// A message of the user, pinned before history that begins at 21.
	items := "u" + strings.Repeat("a", 30)
	for _, c := range []struct {
		name     string
		letters  string
		to       int
		keepUser bool
		opened   string
		pin      int // before it is dropped
		since    []projection.Item
	}{
		{"before history", strings.Repeat("a", 40), 29, false, "", -1, nil},
		{"just before history", strings.Repeat("a", 40), 30, false, "", -1, nil},
		{"of history", strings.Repeat("a", 40), 31, false, lost, -1, nil},
		{"the pinned message", items, 5, false, lost, 0, nil},
		{"all but the pinned message", items, 5, true, "", 0, nil},
		{"up to the pinned message", "aaaa" + items, 4, false, "", 4, nil},
		{"up to the pinned message, kept", "aaaa" + items, 4, true, "", 4, nil},
		{"with the pinned message", "aaaa" + items, 5, false, lost, 4, nil},
		{"all but the pinned message, of history too", items, 25, true, lost, 0, nil},
		{"up to the pinned message, with a newer one", "aaaa" + items, 4, false, "a newer message took the place of the pinned one", 4, conversation("u")},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLineage(t)
			l.Policy = projection.Policy{Budget: 100, Reserve: -1}
			l.step(nil, conversation(c.letters)...)
			if _, pin := l.prefix.History(); pin != c.pin {
				t.Fatalf("pinned %d, want %d", pin, c.pin)
			}
			l.append(c.since...)
			before := l.prefix.Query()
			l.prefix.Drop(c.to, c.keepUser)
			if l.prefix.First() != c.to || l.prefix.Len() != len(c.letters)+len(c.since) {
				t.Errorf("from %d to %d at hand", l.prefix.First(), l.prefix.Len())
			}
			if c.keepUser && l.prefix.Query() != before {
				t.Errorf("query %q, was %q", l.prefix.Query(), before)
			}
			v := l.step(nil)
			if v.Opened != c.opened {
				t.Errorf("opened %q, want %q", v.Opened, c.opened)
			}
			checkBooks(t, v, oddTokenizer(0), l.prefix)
			if again := l.step(nil); again.Opened != "" {
				t.Errorf("the next view opened %q", again.Opened)
			}
		})
	}
}

// TestDropKeepsTheQuestion: of an earlier conversation nothing is left but what the user
// asked, and what came from outside since goes on with it.
func TestDropKeepsTheQuestion(t *testing.T) {
	l := newLineage(t)
	l.append(user("first"), user("second"), assistant("yes"), projection.Text(projection.Developer, "be brief"))
	l.prefix.Drop(3, true)
	check(t, l.step(nil, projection.Text(projection.Developer, "in English")), "history second", "history be brief", "history in English")
	l.prefix.Drop(4, true)
	check(t, l.step(nil), "history second", "history in English")
	l.prefix.Drop(5, false)
	if v := l.step(nil); v.Len() != 0 || l.prefix.Query() != "" {
		t.Errorf("%q is left, query %q", show(v), l.prefix.Query())
	}
	check(t, l.step(nil, user("third")), "history third")
}

func TestHistoryBeforeTheFirstView(t *testing.T) {
	p := newLineage(t).frame().NewPrefix(7)
	p.Append(user("u"))
	if from, pin := p.History(); from != 7 || pin != -1 {
		t.Errorf("history from %d, pinned %d", from, pin)
	}
}

// TestShownItems: what is told before layers recall is, item by item, what the view shows of
// the log, whether it goes on, opens an epoch or is cut.
func TestShownItems(t *testing.T) {
	call, result := projection.Call, projection.Result
	for name, steps := range map[string][][]projection.Item{
		"a call waits":              {{user("u")}, {call("1", "f", "{}")}, {result("1", "r")}, {user("v")}},
		"two calls wait":            {{user("u"), call("1", "f", "{}"), call("2", "g", "{}")}, {result("1", "r")}, {result("2", "s")}},
		"nobody's result":           {{user("u")}, {result("9", "r")}, {assistant("a")}},
		"pinned first message":      {conversation("u" + strings.Repeat("a", 30)), conversation("aa"), conversation("uaa"), conversation(strings.Repeat("a", 30))},
		"pinned message":            {conversation("au" + strings.Repeat("a", 30)), conversation("aa"), conversation("c"), conversation("r")},
		"just the cap":              {conversation(strings.Repeat("a", 19)), conversation("a"), conversation("a"), conversation("aaaaa")},
		"a large exchange":          {conversation("ua"), {call("1", "f", "{}"), result("1", strings.Repeat("r", 300))}, {assistant("so")}},
		"an exchange to be cut for": {conversation(strings.Repeat("a", 19)), {call("1", "f", "{}"), result("1", strings.Repeat("r", 30))}, conversation("aa")},
		"more than can be shown":    {conversation("ua"), {user(strings.Repeat("u", 101))}, {assistant("so"), user("v")}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLineage(t)
			l.Policy = projection.Policy{Budget: 100, Reserve: -1}
			for i, items := range steps {
				l.append(items...)
				untold, err := restored(l.frame(), l.prefix)
				if err != nil {
					t.Fatal(err)
				}
				told := texts(l.prefix.Shown(nil))
				v, err := l.try(nil)
				if errors.Is(err, projection.ErrBudget) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				var shown []string
				for _, s := range v.Segments {
					if s.Band == projection.BandHistory {
						shown = append(shown, texts(s.Items)...)
					}
				}
				if w, err := untold.Project(t.Context(), nil); err != nil || !slices.Equal(texts(w.Items()), texts(v.Items())) {
					t.Errorf("step %d shows %q where nobody asked, %q where somebody did: %v", i+1, show(w), show(v), err)
				}
				if len(v.Notes) > 0 { // they are told whole
					told, shown = told[:len(told)-1], shown[:len(shown)-1]
				}
				if i > 0 {
					if diff := cmp.Diff(shown, told); diff != "" {
						t.Errorf("step %d, opened %q (-shown +told):\n%s", i+1, v.Opened, diff)
					}
				}
			}
		})
	}
}

// TestLateOrNot: a result may come behind its call as long as nothing stands between them in
// a view.
func TestLateOrNot(t *testing.T) {
	const late = "a tool result came late"
	call, result := projection.Call, projection.Result
	for _, c := range []struct {
		name   string
		shown  []projection.Item
		then   []projection.Item
		opened string
		want   []string
	}{
		{"the last one waits", []projection.Item{user("u"), call("1", "f", "{}")}, []projection.Item{result("1", "r")}, "", []string{"u", "f({})", "r"}},
		{"the last two wait", []projection.Item{user("u"), call("1", "f", "{}"), call("2", "g", "{}")}, []projection.Item{result("2", "s"), result("1", "r")}, "", []string{"u", "f({})", "g({})", "s", "r"}},
		{"one of the last two", []projection.Item{user("u"), call("1", "f", "{}"), call("2", "g", "{}")}, []projection.Item{result("1", "r")}, "", []string{"u", "f({})", "r"}},
		{"nothing else was shown", []projection.Item{call("1", "f", "{}")}, []projection.Item{result("1", "r")}, "", []string{"f({})", "r"}},
		{"something was", []projection.Item{call("1", "f", "{}"), user("u")}, []projection.Item{result("1", "r")}, late, []string{"f({})", "u", "r"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLineage(t)
			l.step(nil, c.shown...)
			v := l.step(nil, c.then...)
			if got := texts(v.Items()); v.Opened != c.opened || !slices.Equal(got, c.want) {
				t.Errorf("opened %q: %q, want %q: %q", v.Opened, got, c.opened, c.want)
			}
		})
	}
}

// TestEpochGoesOnWithTheExchange: the newest exchange may be all of history.
func TestEpochGoesOnWithTheExchange(t *testing.T) {
	l := newLineage(t)
	l.Policy = projection.Policy{Budget: 60, Reserve: -1}
	l.append(conversation(strings.Repeat("a", 8) + "ccccrrrr")...)
	if v := l.step(nil); v.History.From != 8 {
		t.Fatalf("history %+v", v.History)
	}
	if v := l.step(nil); v.Opened != "" {
		t.Errorf("opened %q", v.Opened)
	}
}

// TestMissOfTheFirstTwoViews: a provider has nothing in its cache for the first view of an
// epoch, and perhaps not yet for the second.
func TestMissOfTheFirstTwoViews(t *testing.T) {
	zero := 0
	for views, want := range map[int]string{1: "", 2: "", 3: "the provider's cache missed"} {
		l := newLineage(t)
		for range views {
			l.step(nil, user("u"))
		}
		l.prefix.Observe(&zero, nil)
		if got := l.step(nil, user("u")).Opened; got != want {
			t.Errorf("a miss of view %d: opened %q, want %q", views, got, want)
		}
	}
}

// TestLayersChangePlaces: what is known of a layer stays with its name.
func TestLayersChangePlaces(t *testing.T) {
	l := newLineage(t)
	calm := says("calm", "always the same")
	restless := func(i int) projection.Contribution { return says("restless", fmt.Sprint("now ", i)) }
	for i := range 5 {
		l.step([]projection.Contribution{calm, restless(i)}, user("u"))
	}
	v := l.step([]projection.Contribution{restless(6), calm}, user("u"))
	if v.Opened != "layers changed" || v.Layers[0].Placement != projection.Live || v.Layers[1].Placement != projection.Anchor {
		t.Errorf("opened %q, layers %+v", v.Opened, v.Layers)
	}
}
