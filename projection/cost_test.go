package projection_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stratamem/strata/projection"
)

// bought is a conversation in which a token costs 10 to read anew and 1 from the
// cache. In its first 8 turns, a text that is published and carried costs 10 + 8 × 1
// for each token, at every change; one that is sent again costs 10 a turn.
func bought(t *testing.T) *lineage {
	l := newLineage(t)
	l.Policy = projection.Policy{UncachedFactor: 10, CachedFactor: 1}
	return l
}

// large is a layer that, behind another, makes it dear to begin an epoch.
var large = says("large", strings.Repeat("z", 50_000))

// noting returns what takes a layer, and the others behind it, through a turn for
// each letter. At an x its text becomes another of the same length. The last view is
// returned.
func noting(l *lineage, c projection.Contribution, others ...projection.Contribution) func(changes string) *projection.View {
	n := 0
	return func(changes string) (v *projection.View) {
		l.t.Helper()
		for _, letter := range changes {
			if letter == 'x' {
				n++
			}
			c.Texts = []projection.Passage{{Text: fmt.Sprintf("note %03d", n)}}
			v = l.step(append([]projection.Contribution{c}, others...), user("u"))
		}
		return v
	}
}

// TestPublishedWhereCheaper: what share of turns changes decides, once three were
// compared with the one before.
func TestPublishedWhereCheaper(t *testing.T) {
	for _, c := range []struct {
		changes          string
		uncached, cached float64
		want             string
	}{
		{"..x", 10, 1, "sent"},          // two comparisons tell nothing
		{"...x", 10, 1, "published"},    // 1/3 × 18 is 6
		{"..xx", 10, 1, "sent"},         // 2/3 × 18 is 12
		{"..x.x", 10, 1, "published"},   // 1/2 × 18 is 9
		{"..xx", 40, 3, "sent"},         // 2/3 × 64 is 43; drawn towards one half, it would be 3/5 and 38
		{"..x.x", 8, 1, "sent"},         // 1/2 × 16 is 8, and no less
		{"..x.x", 8.01, 1, "published"}, // 1/2 × 16.01

		// As many turns are expected as there were, up to 20.
		{"..x.x..x.x.x", 10, 1, "sent"},                   // 5/11 × (10 + 12)
		{"....x..x.x.x", 10, 1, "published"},              // 4/11 × (10 + 12)
		{"..x..x..x..x..x..x..x..xx", 10, 1, "sent"},      // 9/24 × (10 + 20)
		{"..x....x..x....x..x....xx", 10, 1, "published"}, // 7/24 × (10 + 20)
	} {
		l := bought(t)
		l.Policy.UncachedFactor, l.Policy.CachedFactor = c.uncached, c.cached
		v := noting(l, says("a", ""), large)(c.changes)
		if got := v.Layers[0].Update; got != c.want || v.Opened != "" {
			t.Errorf("%s at %v and %v: %q, opened %q, want %q", c.changes, c.uncached, c.cached, got, v.Opened, c.want)
		}
	}
}

// TestNewHabitsCount: a layer that stopped changing is judged by its newest 12 turns
// alone, once they are three standard deviations off. With one change in them, that
// is so from 12 changes in 23 turns on: (1 − 12 × 12/23)² is 27.7, and
// 9 × 12 × 12/23 × 11/23 is 26.9.
func TestNewHabitsCount(t *testing.T) {
	for changes, want := range map[int]string{
		11: "sent",      // 11/22 × (10 + 20)
		12: "published", // 1/12 × (10 + 20)
	} {
		c := says("a", "")
		c.Placement = projection.Anchor
		v := noting(bought(t), c, large)("." + strings.Repeat("x", changes-1) + strings.Repeat(".", 11) + "x")
		if got := v.Layers[0].Update; got != want {
			t.Errorf("%d changes, the newest after 11 turns without one: %q, want %q", changes, got, want)
		}
	}
}

// TestPlacedWhereCheaper: a layer goes live if 10 a turn is less than what it costs to
// hold it still, 1 a turn, and to publish its changes. Placement waits for an epoch.
func TestPlacedWhereCheaper(t *testing.T) {
	zero := 0
	for changes, want := range map[string]projection.Placement{
		"...x":    projection.Anchor, // 1 + 1/3 × 18
		"..xx":    projection.Live,   // 1 + 2/3 × 18
		"..x.x":   projection.Anchor, // 1 + 1/2 × 18 is 10, and no less
		"..x.xx":  projection.Live,   // 1 + 3/5 × 18
		"...xx.x": projection.Anchor,
	} {
		l := bought(t)
		say := noting(l, says("a", ""), large)
		say(changes[:len(changes)-1])
		l.prefix.Observe(&zero, nil)
		v := say(changes[len(changes)-1:])
		if got := v.Layers[0].Placement; got != want || v.Opened == "" {
			t.Errorf("%s: placed %s, opened %q, want %s", changes, got, v.Opened, want)
		}
	}
	for changes, want := range map[string]projection.Placement{
		".xx":  projection.Anchor, // two comparisons tell nothing
		".xxx": projection.Live,
	} {
		l := bought(t)
		say := noting(l, says("a", ""), large)
		say(changes[:len(changes)-1])
		l.Tools = "search"
		l.reframe()
		if got := say(changes[len(changes)-1:]).Layers[0].Placement; got != want {
			t.Errorf("%s: placed %s, want %s", changes, got, want)
		}
	}
}

// TestEpochOpensWhereCheaper: a view goes on as long as that is billed no more, over
// 8 turns, than to begin anew. A text of n tokens that changed stands in the prefix
// twice when it is published, which with its tag of 8 more costs
//
//	10 × (n+8) for the update, and 8 × (n+8) to carry it
//	 1 × (n+h) for the old text and the history h behind it, from the cache
//
// and anew n and h are read at 10 each. So it is cheaper where 9 h < 9 n + 144. What
// is sent after history, and what stands before the text, is the same in both.
func TestEpochOpensWhereCheaper(t *testing.T) {
	const n = 100 // tokens of the layer's text, tags included
	text := func(i int) string { return fmt.Sprintf("%0*d", n-len("<a>\n\n</a>"), i) }
	anew := "cheaper to start anew"
	live := says("live", "now")
	live.Placement = projection.Live
	for _, c := range []struct {
		name    string
		texts   []int // of the layer, turn by turn
		before  []projection.Contribution
		behind  []projection.Contribution
		history int // tokens in the last view but one
		want    string
	}{
		{"published", []int{0, 0, 0, 1}, nil, nil, n + 15, anew},
		{"published, and the same", []int{0, 0, 0, 1}, nil, nil, n + 16, ""},
		{"behind others", []int{0, 0, 0, 1}, []projection.Contribution{live, says("b", "notes")}, nil, n + 15, anew},
		{"behind others, and the same", []int{0, 0, 0, 1}, []projection.Contribution{live, says("b", "notes")}, nil, n + 16, ""},

		// An anchored text behind is read anew too, as history is.
		{"before others", []int{0, 0, 0, 1}, nil, []projection.Contribution{says("b", strings.Repeat("b", 31))}, n + 15 - 40, anew},
		{"before others, and the same", []int{0, 0, 0, 1}, nil, []projection.Contribution{says("b", strings.Repeat("b", 31))}, n + 16 - 40, ""},

		// Sent again, the text costs 10 n a turn; anew it is expected to cost half of 18 n,
		// for of two comparisons one found a change: 9 h < 9 n + 80.
		{"sent", []int{0, 0, 1}, nil, nil, n + 8, anew},
		{"sent, and dearer", []int{0, 0, 1}, nil, nil, n + 9, ""},

		// It changes always, so it is sent again in both, but the old one is carried no
		// more: 9 h < 9 n + 80, too.
		{"to go live", []int{0, 1, 2, 3}, nil, nil, n + 8, anew},
		{"to go live, and dearer", []int{0, 1, 2, 3}, nil, nil, n + 9, ""},

		// It was published, and what stood before is published again: both are carried,
		// though anew all before history would come from the cache: 9 h < 27 (n+8).
		{"taken back", []int{0, 0, 0, 1, 0}, nil, nil, 3*(n+8) - 1, anew},
		{"taken back, and the same", []int{0, 0, 0, 1, 0}, nil, nil, 3 * (n + 8), ""},
		{"nothing changed", []int{0, 0, 0, 0}, nil, nil, 3, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := bought(t)
			l.System, l.Tail = []projection.Item{projection.Text(projection.System, "be kind")}, []projection.Item{projection.Text(projection.System, "in short")}
			var v *projection.View
			for i, x := range c.texts {
				said := user("?")
				if i == 0 {
					said = user(strings.Repeat("h", c.history-(len(c.texts)-2)))
				}
				v = l.step(append(append(c.before[:len(c.before):len(c.before)], says("a", text(x))), c.behind...), said)
				if i > 0 && i < len(c.texts)-1 && v.Opened != "" {
					t.Fatalf("turn %d opened %q", i+1, v.Opened)
				}
			}
			if v.Opened != c.want {
				t.Errorf("opened %q, want %q", v.Opened, c.want)
			}
		})
	}
}
