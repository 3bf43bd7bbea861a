package recall_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/bench/locomo"
)

const (
	changes = "testdata/changes.json"
	agents  = "testdata/agents.json"
	held    = "testdata/agents-held.json"
)

// TestChangesLabels pins what the cases of change promise: four kinds, and
// labels that name turns in the order of time.
func TestChangesLabels(t *testing.T) {
	kinds := make(map[string]int)
	for _, c := range load(t, changes) {
		at := positions(t, &c)
		for _, q := range c.Questions {
			kinds[q.Kind]++
			if len(q.Current) == 0 || len(q.Evidence) == 0 {
				t.Errorf("%s: %q says not what is current and what must be shown", c.ID, q.Text)
			}
			for _, list := range [][]string{q.Current, q.Superseded, q.Evidence} {
				known(t, c.ID, q.Text, at, list)
			}
			for _, old := range q.Superseded {
				if at[old] >= at[q.Current[0]] {
					t.Errorf("%s: %q: %s is not before %s", c.ID, q.Text, old, q.Current[0])
				}
			}
			switch q.Expect {
			case "current":
				if len(q.Superseded) == 0 {
					t.Errorf("%s: %q supersedes nothing", c.ID, q.Text)
				}
			case "both":
				if !slices.Contains(q.Evidence, q.Current[0]) || !slices.Contains(q.Evidence, q.Superseded[0]) {
					t.Errorf("%s: %q wants both and does not say so", c.ID, q.Text)
				}
			case "unchanged":
				if len(q.Superseded) > 0 {
					t.Errorf("%s: %q is unchanged and supersedes", c.ID, q.Text)
				}
			default:
				t.Errorf("%s: %q expects %q", c.ID, q.Text, q.Expect)
			}
		}
	}
	for _, kind := range []string{"move", "plan", "number", "decision"} {
		if kinds[kind] < 10 {
			t.Errorf("%d cases are of kind %s, want 10", kinds[kind], kind)
		}
	}
	if len(kinds) != 4 {
		t.Errorf("kinds %v", kinds)
	}
}

// TestAgentsLabels pins what the requests from agent threads promise: enough of
// them, a third of them apart, labels that name what is there, and no request
// that only repeats its evidence.
func TestAgentsLabels(t *testing.T) {
	open, apart := load(t, agents), load(t, held)
	requests, threads := 0, make(map[string]bool)
	kept := 0
	for i, c := range slices.Concat(open, apart) {
		if !c.Complete {
			t.Errorf("%s does not say that its labels are complete", c.ID)
		}
		if i >= len(open) {
			kept += len(c.Questions)
		}
		requests += len(c.Questions)
		at := positions(t, &c)
		texts := make(map[string]string)
		for _, d := range c.Turns {
			texts[d.ID] = d.Text
			a, ok := c.Acts[d.ID]
			if !ok || a.Thread == "" {
				t.Errorf("%s: turn %s has no role or no thread", c.ID, d.ID)
			}
			threads[c.ID+"/"+a.Thread] = true
			if call := c.Acts[a.Call]; a.Role == "tool" && (call.Role != "call" || call.Name != a.Name) {
				t.Errorf("%s: result %s is of no call", c.ID, d.ID)
			}
		}
		for _, q := range c.Questions {
			known(t, c.ID, q.Text, at, q.Evidence)
			known(t, c.ID, q.Text, at, q.Related)
			if (q.Category == 6) != (len(q.Evidence) == 0) {
				t.Errorf("%s: %q is of category %d and has %d turns of evidence", c.ID, q.Text, q.Category, len(q.Evidence))
			}
			var said strings.Builder
			for _, id := range q.Evidence {
				said.WriteString(texts[id] + "\n")
				if len(texts[id]) > 700 && q.Quotes[id] == "" {
					t.Errorf("%s: %q: %s is long and not quoted", c.ID, q.Text, id)
				}
			}
			for id, quote := range q.Quotes {
				if !slices.Contains(q.Evidence, id) || !strings.Contains(texts[id], quote) {
					t.Errorf("%s: %q: %s does not say %q", c.ID, q.Text, id, quote)
				}
			}
			if len(q.Evidence) > 0 && !slices.ContainsFunc(letters.FindAllString(q.Text, -1), func(w string) bool {
				return !strings.Contains(strings.ToLower(said.String()), strings.ToLower(w))
			}) {
				t.Errorf("%s: %q has all its words from its evidence", c.ID, q.Text)
			}
		}
	}
	if requests < 150 || len(threads) < 12 {
		t.Errorf("%d requests from %d threads", requests, len(threads))
	}
	if share := float64(kept) / float64(requests); share < 0.32 || share > 0.35 {
		t.Errorf("%.2f of the requests are kept for the end, want a third", share)
	}
	for _, c := range apart {
		if c.ID != "agent-3" && c.ID != "agent-6" {
			t.Errorf("%s is kept for the end, and every third person is to be", c.ID)
		}
	}
}

var letters = regexp.MustCompile(`\pL{4,}`)

// positions returns where the turns of a conversation stand.
func positions(t *testing.T, c *locomo.Conversation) map[string]int {
	t.Helper()
	at := make(map[string]int)
	for i, d := range c.Turns {
		if d.Time.IsZero() {
			t.Errorf("%s: turn %s has no time", c.ID, d.ID)
		}
		at[d.ID] = i + 1
	}
	return at
}

func known(t *testing.T, conversation, question string, at map[string]int, ids []string) {
	t.Helper()
	for _, id := range ids {
		if at[id] == 0 {
			t.Errorf("%s: %q names %q, which is no turn", conversation, question, id)
		}
	}
}
