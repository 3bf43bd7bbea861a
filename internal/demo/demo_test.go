package demo_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/internal/demo"
	"github.com/stratamem/strata/internal/transcript"
	"github.com/stratamem/strata/projection"
)

func turns(t *testing.T) []transcript.Turn {
	t.Helper()
	all, err := demo.Turns()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What the demo is there to show, it must contain.
func TestConversation(t *testing.T) {
	asked, long := 0, 0
	threads, days, open := map[string]int{}, map[string]bool{}, map[string]bool{}
	var last transcript.Turn
	for _, turn := range turns(t) {
		if turn.Time.Before(last.Time) {
			t.Errorf("line %d is older than line %d", turn.Line, last.Line)
		}
		last = turn
		if len(turn.Input) == 0 || len(turn.Output) == 0 {
			t.Errorf("line %d: a turn with %d items in and %d out", turn.Line, len(turn.Input), len(turn.Output))
		}
		threads[turn.Thread]++
		days[turn.Time.UTC().Format("2006-01-02")] = true
		for _, it := range slices.Concat(turn.Input, turn.Output) {
			switch it.Kind {
			case projection.Message:
				if it.Role == projection.User {
					asked++
				}
			case projection.ToolCall:
				open[it.CallID] = true
			case projection.ToolResult:
				delete(open, it.CallID)
				if len(it.Text()) > 1500 {
					long++
				}
			}
		}
	}
	if asked < 44 || len(days) < 8 || long < 5 || len(open) > 0 {
		t.Errorf("%d questions on %d days, %d long tool results, %d calls without one; want 44, 8, 5 and 0",
			asked, len(days), long, len(open))
	}
	if len(threads) != 2 || threads[demo.Migration] < 20 || threads[demo.Talk] < 10 {
		t.Errorf("turns by thread: %v", threads)
	}
}

// The recall moments: what is asked in the one thread was said in the other,
// days before.
func TestAnswersLieElsewhere(t *testing.T) {
	for _, test := range []struct{ question, in, fact, from string }{
		{"What did we decide about them last week", demo.Talk, "1,309", demo.Migration},
		{"Slide 12 wants the copy in numbers", demo.Talk, "15 min 20 s", demo.Migration},
		{"how many zero dates did we have", demo.Talk, "18,442", demo.Migration},
		{"The deadline moved to Saturday 21 March, 05:00 UTC", demo.Migration, "10:24 from Ghent", demo.Talk},
	} {
		said, found := false, false
		for _, turn := range turns(t) {
			if turn.Thread == test.from && strings.Contains(text(turn), test.fact) && !found {
				said = true
			}
			if turn.Thread == test.in && strings.Contains(text(turn), test.question) {
				found = said
			}
		}
		if !found {
			t.Errorf("%q is asked, but %q was not said in %s before", test.question, test.fact, test.from)
		}
	}
}

func text(turn transcript.Turn) string {
	var b strings.Builder
	for _, it := range slices.Concat(turn.Input, turn.Output) {
		b.WriteString(it.Text() + "\n")
	}
	return b.String()
}
