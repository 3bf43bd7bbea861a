package projection_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stratamem/strata/projection"
)

// conversation returns an item of five tokens for each letter: of a user, of the
// assistant, a call, its result, a thought.
func conversation(letters string) (items []projection.Item) {
	calls, results := 0, 0
	for _, letter := range letters {
		switch letter {
		case 'u':
			items = append(items, user("user."))
		case 'a':
			items = append(items, assistant("model"))
		case 'c':
			items = append(items, projection.Call(fmt.Sprint(calls), "f", "42"))
			calls++
		case 'r':
			items = append(items, projection.Result(fmt.Sprint(results), "found"))
			results++
		case 't':
			items = append(items, projection.Thought("hmmm."))
		}
	}
	return items
}

// TestWhereTheWindowBegins: at a user message that leaves at least half of the window,
// else at half, with the calls of the results there.
func TestWhereTheWindowBegins(t *testing.T) {
	for _, c := range []struct {
		letters     string
		window      int
		from, shown int
	}{
		{"aaaaaa", 6, 0, 6},  // no more than fit
		{"aaaaaaa", 6, 4, 3}, // half
		{"aaaaaaa", 7, 0, 7},
		{"aaaaaaaa", 7, 4, 4}, // half, rounded up
		{"aaaauaaa", 7, 4, 4}, // a user message at half
		{"auaaaaaa", 7, 1, 7}, // one with which the window is full
		{"uaaaaaaa", 7, 4, 5}, // one too far back is shown before
		{"aaaaauaa", 7, 4, 4}, // one less than half back
		{"uaaaaaa", 7, 0, 7},
		{"uacccrrraa", 8, 3, 7},     // the whole exchange would leave no room for the user message
		{"aacccrrrt", 8, 2, 7},      // half is a result
		{"ucrcrcrcr", 8, 5, 5},      // half is a call
		{"ucrcrcrcra", 8, 5, 6},     // half is the result of the call before
		{"aaacccccrrrrr", 8, 3, 10}, // the newest exchange is whole
		{"aaacccccrrrrra", 8, 6, 5}, // of one that is over and does not fit, what does
	} {
		l := newLineage(t)
		l.Policy = projection.Policy{Overflow: projection.SlidingWindow, Window: c.window}
		v := l.step(nil, conversation(c.letters)...)
		if v.History.From != c.from || v.History.Items != c.shown {
			t.Errorf("%s, window %d: from %d, %d items, want from %d, %d items", c.letters, c.window, v.History.From, v.History.Items, c.from, c.shown)
		}
	}
}

// TestWhereHistoryBegins: a cut keeps at least half of the budget, here 100, and begins
// at a user message that keeps no more than three quarters, else at half.
func TestWhereHistoryBegins(t *testing.T) {
	many := func(letters string) []projection.Item { return conversation(letters) }
	a := func(n int) string { return strings.Repeat("a", n) }
	long := func(letters string, i, size int) []projection.Item {
		items := conversation(letters)
		items[i].Parts = []projection.Part{{Type: projection.TextPart, Text: strings.Repeat("x", size)}}
		return items
	}
	for _, c := range []struct {
		name      string
		items     []projection.Item
		from, pin int
	}{
		{"all fits", many(a(20)), 0, -1},
		{"one token too many", long(a(20), 3, 6), 10, -1},
		{"half", many(a(40)), 30, -1},
		{"half, and not a token less", long(a(40), 39, 4), 29, -1},
		{"a user message at three quarters", many(a(25) + "u" + a(14)), 25, -1},
		{"a user message before that", many(a(24) + "u" + a(15)), 30, 24},
		{"a user message at half", many(a(30) + "u" + a(9)), 30, -1},
		{"a user message behind that", many(a(31) + "u" + a(8)), 30, -1},
		{"a user message just before half", many(a(29) + "u" + a(10)), 29, -1},
		{"the newest of two", many(a(25) + "uau" + a(12)), 27, -1},
		{"half is a result", many(a(28) + "tcr" + a(9)), 28, -1},
		{"half is the second of two results", many(a(27) + "ccrr" + a(9)), 27, -1},
		{"half is one that does not fit", long(a(20), 16, 90), 17, -1},
		{"a user message before what does not fit", long(a(15)+"u"+a(4), 16, 90), 17, 15},
		{"a long first message and half fit", long("u"+a(30), 0, 50), 21, 0},
		{"a long first message and less than half fit", long("u"+a(30), 0, 51), 22, 0},
		{"a long first message and the rest fit", long("u"+a(30), 0, 95), 30, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLineage(t)
			l.Policy = projection.Policy{Budget: 100, Reserve: -1}
			v := l.step(nil, c.items...)
			from, pin := l.prefix.History()
			if from != c.from || pin != c.pin || v.History.From != from {
				t.Errorf("history from %d and %d, want from %d and %d", from, pin, c.from, c.pin)
			}
			if want := v.Len(); pin >= 0 && v.Stable != 0 || pin < 0 && v.Stable != want {
				t.Errorf("%d of %d items are stable, a pinned message is not", v.Stable, want)
			}
			checkBooks(t, v, oddTokenizer(0), l.prefix)
		})
	}
}

// TestRoomForSeveralTurns: where a view was over its cap, history gets three quarters of
// what is its own, although all of it may be free.
func TestRoomForSeveralTurns(t *testing.T) {
	for size, from := range map[int]int{300: 0, 301: 20} { // of 400, of which half stays
		l := newLineage(t)
		l.Policy = projection.Policy{Budget: 1000, Reserve: -1}
		l.append(conversation(strings.Repeat("a", 60))...)
		l.step([]projection.Contribution{says("a", strings.Repeat("n", 100-9))})
		v := l.step([]projection.Contribution{says("a", strings.Repeat("n", 600-9))}, assistant(strings.Repeat("a", size-300)))
		if v.Opened != "history is over its budget" || v.History.Budget != 400 || v.History.From != from {
			t.Errorf("history of %d tokens: opened %q, %+v", size, v.Opened, v.History)
		}
	}
}

// TestCapReached: a view may have as many tokens as its cap, and history as many items as
// its window, and no more.
func TestCapReached(t *testing.T) {
	for name, c := range map[string]struct {
		policy projection.Policy
		opened string
	}{
		"cap":    {projection.Policy{Budget: 100, Reserve: -1}, "history is over its budget"},
		"window": {projection.Policy{Overflow: projection.SlidingWindow, Window: 20}, "history is over its window"},
	} {
		l := newLineage(t)
		l.Policy = c.policy
		l.step(nil, conversation(strings.Repeat("a", 19))...)
		if v := l.step(nil, conversation("a")...); v.Opened != "" || v.History.Items != 20 {
			t.Errorf("%s: reached, opened %q with %d items", name, v.Opened, v.History.Items)
		}
		if v := l.step(nil, conversation("a")...); v.Opened != c.opened {
			t.Errorf("%s: exceeded, opened %q", name, v.Opened)
		}
	}
}

// TestRoomForASummary: a summary may fill an eighth of what history has, and is left out
// where what must be shown leaves it no room.
func TestRoomForASummary(t *testing.T) {
	wrapped := len("<summary data>\n\n</summary>")
	for _, c := range []struct {
		name     string
		summary  string
		question int // tokens of the user's message, pinned before history
		from     int
		tokens   int // of the summary in the view
		note     string
	}{
		{"short", "long ago", 5, 30, wrapped + len("long ago"), ""},
		{"an eighth", strings.Repeat("s", 125-wrapped), 5, 30, 125, ""},
		{"more than that", strings.Repeat("s", 126-wrapped), 5, 30, -1, "the summary was shortened to its budget"},
		{"nothing", "", 5, 30, 0, ""},
		{"beside a question of three eighths", strings.Repeat("s", 125-wrapped), 375, 30, 125, ""},
		{"a token more", strings.Repeat("s", 125-wrapped), 376, 31, 125, ""},
		{"beside a question that leaves half an eighth", strings.Repeat("s", 62-wrapped), 938, 40, 62, ""},
		{"and less than the summary has", strings.Repeat("s", 63-wrapped), 938, 40, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLineage(t)
			l.Policy = projection.Policy{
				Budget: 1000, Reserve: -1, Overflow: projection.Summarize,
				Summarize: func(context.Context, []projection.Item, int) (string, error) { return c.summary, nil },
			}
			items := conversation("u" + strings.Repeat("a", 39))
			for i := range items {
				items[i].Parts[0].Text = strings.Repeat("x", 50)
			}
			items[0].Parts[0].Text = strings.Repeat("?", c.question)
			v := l.step(nil, items...)
			tokens := v.Tokens - c.question - 50*(40-v.History.From)
			if v.History.From != c.from || strings.Join(v.Notes, "") != c.note || c.tokens >= 0 && tokens != c.tokens {
				t.Errorf("history from %d with a summary of %d, want from %d with %d; notes %q", v.History.From, tokens, c.from, c.tokens, v.Notes)
			}
			if c.tokens < 0 && (tokens > 125 || tokens < 100) {
				t.Errorf("the summary was shortened to %d tokens", tokens)
			}
			checkBooks(t, v, oddTokenizer(0), l.prefix)
		})
	}
}
