package bench_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/bench"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/projection/tiktoken"
)

// The tool's own test has the library in the place of a tokenizer beside itself.
func TestTokens(t *testing.T) {
	same, err := tiktoken.New(tiktoken.O200K)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	r, err := bench.Tokens(t.Context(), same, &bench.TokensOptions{Rounds: 1, Progress: func(name string) { told = append(told, name) }})
	if err != nil {
		t.Fatal(err)
	}
	cases := []string{"o200k/start", "o200k/english", "o200k/code", "o200k/cjk", "o200k/mixed", "o200k/letter"}
	if !slices.Equal(told, cases) {
		t.Errorf("told of %q, want %q", told, cases)
	}
	for _, name := range cases[1:] {
		for _, metric := range []string{"MB/s", "ratio", "ms"} {
			if v, ok := r.Value(name, metric); !ok || v <= 0 {
				t.Errorf("%s %s is %v", name, metric, v)
			}
		}
		rate, _ := r.Value(name, "MB/s")
		if ms, _ := r.Value(name, "ms"); rate*ms < 990 || rate*ms > 1010 {
			t.Errorf("%s: %v MB/s and %v ms for 1 MB", name, rate, ms)
		}
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "o200k/letter") {
		t.Errorf("the table has no line of o200k/letter: %v", err)
	}
}

func TestTokensThatDiffer(t *testing.T) {
	if _, err := bench.Tokens(t.Context(), projection.Estimate{}, &bench.TokensOptions{Rounds: 1}); err == nil || !strings.Contains(err.Error(), "the library counts") {
		t.Errorf("beside a tokenizer that only estimates: %v", err)
	}
}
