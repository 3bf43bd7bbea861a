package main

import (
	"strings"
	"testing"
)

func TestBenchTokensVerb(t *testing.T) {
	status, out, errs := call(t.Context(), nil, "bench", "tokens", "--rounds", "1", "--json")
	if status != 0 || !strings.Contains(out, `"case": "o200k/letter"`) || !strings.Contains(out, `"metric": "ratio"`) {
		t.Errorf("bench tokens: status %d: %q, %s", status, out, errs)
	}
	for _, args := range [][]string{{"--rounds", "0"}, {"o200k"}} {
		if status, _, _ := call(t.Context(), nil, append([]string{"bench", "tokens"}, args...)...); status != exitUsage {
			t.Errorf("bench tokens %q: status %d, want %d", args, status, exitUsage)
		}
	}
}
