package recall_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stratamem/strata/bench/recall"
)

var update = flag.Bool("update", false, "write testdata/demo.tsv anew, with ? for what is not judged")

// judgements are by request and passage of testdata/demo.tsv: a line each, of the
// request's line in the demo's conversation, whether the passage bears on the
// request, and the passage. Lines with # are for the reader.
const judgements = "testdata/demo.tsv"

func judged(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(judgements)
	if err != nil {
		t.Fatal(err)
	}
	verdicts := make(map[string]string)
	for l := range strings.Lines(string(text)) {
		l = strings.TrimSuffix(l, "\n")
		if strings.HasPrefix(l, "#") || l == "" {
			continue
		}
		request, rest, _ := strings.Cut(l, "\t")
		verdict, passage, ok := strings.Cut(rest, "\t")
		if !ok {
			t.Fatalf("%s: no judgement: %q", judgements, l)
		}
		verdicts[request+"\t"+passage] = verdict
	}
	return verdicts
}

// TestDemo holds the share of what the demo recalls that bears on the request.
// What is recalled and not judged fails: run with -update, and judge it.
func TestDemo(t *testing.T) {
	list, err := recall.Demo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	verdicts := judged(t)
	var table strings.Builder
	table.WriteString("# Whether what strata demo recalls bears on the request: see demo_test.go.\n")
	all, bears := 0, 0
	for _, r := range list {
		if len(r.Passages) > 0 {
			fmt.Fprintf(&table, "\n# %s\n", r.Request)
		}
		for _, p := range r.Passages {
			verdict := verdicts[strconv.Itoa(r.Line)+"\t"+p]
			switch verdict {
			case "yes":
				bears++
			case "no":
			default:
				verdict = "?"
				if !*update {
					t.Errorf("not judged: %d: %q", r.Line, p)
				}
			}
			all++
			fmt.Fprintf(&table, "%d\t%s\t%s\n", r.Line, verdict, p)
		}
	}
	if *update {
		if err := os.WriteFile(judgements, []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	share := float64(bears) / float64(all)
	t.Logf("%d of %d passages bear on the request: %.2f", bears, all, share)
	if share < 0.26 {
		t.Errorf("%.2f of what is recalled bears on the request", share)
	}
}
