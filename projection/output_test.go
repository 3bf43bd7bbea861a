package projection_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/projection"
)

// TestLayerUse: of a layer it is told what it says, what it said before and is still in the
// prefix, and how many items that is.
func TestLayerUse(t *testing.T) {
	passages := func(texts ...string) (c projection.Contribution) {
		c = projection.Contribution{Layer: "a", Authority: projection.Instruction, Budget: 1000}
		for _, text := range texts {
			c.Texts = append(c.Texts, projection.Passage{Text: text})
		}
		return c
	}
	const wrapped, action = len("<a>\n\n</a>"), len(" replace")
	grows := func(before, now string) (string, bool) { return strings.CutPrefix(now, before) }
	failed := projection.Contribution{Layer: "a", Authority: projection.Instruction, Budget: 1000, Failed: true}
	live := passages("now", "and then")
	live.Placement = projection.Live
	liveFailed := failed
	liveFailed.Placement = projection.Live
	for _, c := range []struct {
		name  string
		steps []projection.Contribution
		want  projection.LayerUse
	}{
		{"anchored", []projection.Contribution{passages("one", "four")}, projection.LayerUse{Used: 2*wrapped + 7, Items: 2}},
		{"nothing to say", []projection.Contribution{passages()}, projection.LayerUse{}},
		{"sent", []projection.Contribution{passages("one"), passages("four")}, projection.LayerUse{Used: wrapped + action + 4, Carried: wrapped + 3, Items: 2, Update: "sent"}},
		{"sent again", []projection.Contribution{passages("one"), passages("four"), passages("seven")}, projection.LayerUse{Used: wrapped + action + 5, Carried: wrapped + 3, Items: 2, Update: "sent"}},
		{"added", []projection.Contribution{passages("one"), {Layer: "a", Authority: projection.Instruction, Budget: 1000, Delta: grows, Texts: passages("one, two").Texts}},
			projection.LayerUse{Used: wrapped + 3 + wrapped + len(" add") + len(", two"), Items: 2, Update: "sent"}},
		{"taken back", []projection.Contribution{passages("one"), passages()}, projection.LayerUse{Used: len("<a retract/>"), Carried: wrapped + 3, Items: 2, Update: "sent"}},
		{"said late", []projection.Contribution{passages(), passages("one")}, projection.LayerUse{Used: wrapped + len(" add") + 3, Items: 1, Update: "sent"}},
		{"published", []projection.Contribution{passages("one"), passages("one"), passages("one"), passages("four"), passages("four")},
			projection.LayerUse{Used: wrapped + action + 4, Carried: wrapped + 3, Items: 2}},
		{"published twice", []projection.Contribution{passages("one"), passages("one"), passages("one"), passages("four"), passages("four"), passages("four"), passages("seven")},
			projection.LayerUse{Used: wrapped + action + 5, Carried: wrapped + 3 + wrapped + action + 4, Items: 3, Update: "published"}},
		{"published, and sent once more", []projection.Contribution{passages("one"), passages("one"), passages("one"), passages("four"), passages("five"), passages("six"), passages("seven")},
			projection.LayerUse{Used: wrapped + action + 5, Carried: wrapped + 3 + 2*(wrapped+action+4), Items: 4, Update: "sent"}},
		{"failed", []projection.Contribution{passages("one"), failed}, projection.LayerUse{Used: wrapped + 3, Items: 1}},
		{"live", []projection.Contribution{live, live}, projection.LayerUse{Used: 2*wrapped + 11, Items: 2, Placement: projection.Live}},
		{"live and failed", []projection.Contribution{live, liveFailed}, projection.LayerUse{Placement: projection.Live}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := bought(t)
			var v *projection.View
			for _, step := range c.steps {
				v = l.step([]projection.Contribution{step, large}, user("u"))
			}
			want := c.want
			want.Layer, want.Authority, want.Allocated, want.Yielded = "a", projection.Instruction, 1000, 1000-want.Used
			if want.Placement == "" {
				want.Placement = projection.Anchor
			}
			if diff := cmp.Diff(want, v.Layers[0]); diff != "" {
				t.Errorf("opened %q (-want +got):\n%s\n%.60q", v.Opened, diff, show(v))
			}
			checkBooks(t, v, oddTokenizer(0), l.prefix)
		})
	}
}

// TestUpdatesOfTwoLayers: each says what changed, in slot order.
func TestUpdatesOfTwoLayers(t *testing.T) {
	l := newLineage(t)
	step := func(a, b, c string) *projection.View {
		return l.step([]projection.Contribution{says("a", a), says("b", b), says("c", c), large}, user("u"))
	}
	step("one", "two", "three")
	v := step("four", "five", "six")
	if got, want := show(v)[6:], []string{"updates <a replace>~four~</a>", "updates <b replace>~five~</b>", "updates <c replace>~six~</c>"}; !slices.Equal(got, want) {
		t.Errorf("updates %q, want %q", got, want)
	}
	checkBooks(t, v, oddTokenizer(0), l.prefix)
}

// TestDeltaWithinBudget: a change is told alone where that is shorter, and where the layer's
// budget holds it beside what stands already.
func TestDeltaWithinBudget(t *testing.T) {
	const before, now, delta = "a list of notes", "a list of notes, and one more", ", and one more"
	stands, added := len("<a>\n"+before+"\n</a>"), len("<a add>\n"+delta+"\n</a>")
	for _, c := range []struct {
		name   string
		budget int
		delta  string
		want   string
	}{
		{"fits", stands + added, delta, "updates <a add>~" + delta + "~</a>"},
		{"a token too many", stands + added - 1, delta, "updates <a replace>~" + now + "~</a>"},
		{"a byte shorter", 1000, now[1:], "updates <a add>~" + now[1:] + "~</a>"},
		{"no shorter", 1000, strings.ToUpper(now), "updates <a replace>~" + now + "~</a>"},
	} {
		l := newLineage(t)
		say := projection.Contribution{Layer: "a", Authority: projection.Instruction, Budget: c.budget, Texts: []projection.Passage{{Text: before}}}
		l.step([]projection.Contribution{say, large}, user("u"))
		say.Texts = []projection.Passage{{Text: now}}
		say.Delta = func(string, string) (string, bool) { return c.delta, true }
		lines := show(l.step([]projection.Contribution{say, large}, user("u")))
		if got := lines[len(lines)-1]; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestBudgetChanges: a layer that says the same is trimmed to what it may say now.
func TestBudgetChanges(t *testing.T) {
	l := newLineage(t)
	say := projection.Contribution{Layer: "a", Authority: projection.Instruction, Placement: projection.Live, Texts: []projection.Passage{{Text: "one"}, {Text: "two"}}}
	size := len("<a>\none\n</a>")
	for _, c := range []struct{ budget, items, trimmed int }{
		{2 * size, 2, 0},
		{2*size - 1, 1, 1},
		{size - 1, 0, 2},
		{size, 1, 1},
		{2 * size, 2, 0},
	} {
		say.Budget = c.budget
		v := l.step([]projection.Contribution{say}, user("u"))
		if use := v.Layers[0]; use.Items != c.items || use.Trimmed != c.trimmed {
			t.Errorf("budget %d: %+v, want %d items and %d trimmed", c.budget, use, c.items, c.trimmed)
		}
	}
}

// TestCapLeavesRoom: what a layer says is left out, item by item, where the cap does not
// leave room for it beside what must be shown.
func TestCapLeavesRoom(t *testing.T) {
	size := len("<a>\n...\n</a>")
	say := projection.Contribution{Layer: "a", Authority: projection.Instruction, Budget: 1000, Texts: []projection.Passage{{Text: "one"}, {Text: "sixteen, or more"}, {Text: "two"}}}
	for room, items := range map[int]int{0: 0, size - 1: 0, size: 1, 2*size - 1: 1, 2 * size: 2, 3*size + 13: 3} {
		l := newLineage(t)
		l.System, l.Tail = []projection.Item{projection.Text(projection.System, strings.Repeat("s", 100))}, []projection.Item{user("now")}
		l.Policy = projection.Policy{Budget: 100 + len("now"+"hi") + room, Reserve: -1}
		v := l.step([]projection.Contribution{say}, user("hi"))
		if use := v.Layers[0]; use.Items != items || use.Skipped != 3-items {
			t.Errorf("room for %d tokens: %+v, want %d items", room, use, items)
		}
		checkBooks(t, v, oddTokenizer(0), l.prefix)
	}
}

// TestSameIsNotCountedAgain: what a layer gives again, in the same text, is neither made nor
// counted again.
func TestSameIsNotCountedAgain(t *testing.T) {
	counted := 0
	l := newLineage(t)
	l.Tokenizer = counting{&counted}
	layers := []projection.Contribution{says("a", "one"), says("b", "two")}
	l.step(layers, user("u"))
	counted = 0
	layers[0].Texts = slices.Clone(layers[0].Texts)
	if l.step(layers); counted != 0 {
		t.Errorf("nothing is new, and %d texts were counted", counted)
	}
	layers[0] = says("a", "three")
	if l.step(layers); counted == 0 {
		t.Error("a new text was not counted")
	}
}

// TestBreakpoints: a provider's cache is marked after the system text, the anchored layers,
// what the last view had in common with this one, and what the next will.
func TestBreakpoints(t *testing.T) {
	l := newLineage(t)
	l.System = []projection.Item{projection.Text(projection.System, "be kind")}
	layers := []projection.Contribution{says("a", "notes")}
	for i, want := range [][]int{{1, 2, 3}, {1, 2, 3, 5}, {1, 2, 5, 7}, {1, 2, 7}} {
		var items []projection.Item
		if i > 0 && i < 3 {
			items = append(items, assistant("so"))
		}
		if i < 3 {
			items = append(items, user("u"))
		}
		if v := l.step(layers, items...); !slices.Equal(v.Breakpoints, want) {
			t.Errorf("view %d: breakpoints %v, want %v", i+1, v.Breakpoints, want)
		}
	}
}
