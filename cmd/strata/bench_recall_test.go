package main

import (
	"strings"
	"testing"
)

func TestBenchRecallVerb(t *testing.T) {
	status, out, errs := call(t.Context(), nil, "bench", "recall", "--data", "../../bench/recall/testdata/fixture.json", "--split", "made-1", "--json")
	if status != 0 || !strings.Contains(out, `"case": "default/cat1-4"`) || !strings.Contains(out, `"metric": "recall@1024"`) ||
		!strings.Contains(out, `"case": "layer/cat1-4"`) || !strings.Contains(out, `"metric": "evidence@1500"`) {
		t.Errorf("bench recall: status %d: %s", status, errs)
	}
	for _, args := range [][]string{{}, {"--data", "none.json"}, {"--data", "../../bench/recall/testdata/fixture.json", "--split", "x"}} {
		if status, _, _ := call(t.Context(), nil, append([]string{"bench", "recall"}, args...)...); status == 0 {
			t.Errorf("bench recall %q is accepted", args)
		}
	}
	status, out, errs = call(t.Context(), nil, "bench", "search", "--sizes", "300", "--json")
	if status != 0 || !strings.Contains(out, `"case": "search/300"`) {
		t.Errorf("bench search: status %d: %q, %s", status, out, errs)
	}
	if status, _, _ := call(t.Context(), nil, "bench", "search", "--sizes", "0"); status != exitUsage {
		t.Error("bench search --sizes 0 is accepted")
	}
}
