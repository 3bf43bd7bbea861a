package bench_test

import (
	"testing"

	"github.com/stratamem/strata/bench"
)

// What a provider bills does not depend on the machine, so the figures are
// bars. They are the least possible of each case, with foreknowledge of which
// layer will change and nothing for wrappers, plus four per cent.
func TestPrefix(t *testing.T) {
	r := new(bench.Report)
	if err := bench.Prefix(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for name, most := range map[string]float64{"none": 3400, "lowest": 4800, "mixed": 5800, "all": 10_400} {
		if got, ok := r.Value("prefix/"+name, "billed"); !ok || got > most {
			t.Errorf("prefix/%s: billed %.0f characters a turn, at most %.0f", name, got, most)
		}
	}
	if got, ok := r.Value("prefix/overflow", "reuse"); !ok || got < 0.8 {
		t.Errorf("prefix/overflow: %.3f of a prompt is the start of the one before, at least 0.8", got)
	}
	if got, ok := r.Value("prefix/overflow", "history"); !ok || got < 0.5 {
		t.Errorf("prefix/overflow: history had %.3f of its budget, at least half", got)
	}
}
