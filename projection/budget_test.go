package projection_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/projection"
)

func TestAllocate(t *testing.T) {
	auto := projection.Budget{}
	for _, c := range []struct {
		name                   string
		total, system, reserve int
		layers                 []projection.Budget
		want                   projection.Allocation
	}{
		{"no layers", 10_000, 0, 0, nil, projection.Allocation{Available: 10_000, Layers: []int{}, History: 10_000}},
		{"one auto", 10_000, 0, 0, []projection.Budget{auto}, projection.Allocation{Available: 10_000, Layers: []int{6000}, History: 4000}},
		{"two auto", 10_000, 0, 0, []projection.Budget{auto, auto}, projection.Allocation{Available: 10_000, Layers: []int{3000, 3000}, History: 4000}},
		{"three auto split exactly", 10_001, 0, 0, []projection.Budget{auto, auto, auto}, projection.Allocation{Available: 10_001, Layers: []int{2000, 2000, 2000}, History: 4001}},
		{"range", 10_000, 1000, 1000, []projection.Budget{projection.Between(100, 5000)}, projection.Allocation{Available: 8000, Layers: []int{4840}, History: 3160}},
		{"exact", 10_000, 0, 0, []projection.Budget{projection.Exactly(500)}, projection.Allocation{Available: 10_000, Layers: []int{500}, History: 9500}},
		{"exact beside auto", 10_000, 0, 0, []projection.Budget{projection.Exactly(500), auto}, projection.Allocation{Available: 10_000, Layers: []int{500, 5500}, History: 4000}},
		{"bounded share half the pool", 10_000, 0, 0, []projection.Budget{projection.Exactly(6000), projection.Exactly(3000), auto}, projection.Allocation{Available: 10_000, Layers: []int{2000, 1000, 3000}, History: 4000}},
		{"minimums over what is available", 1000, 0, 0, []projection.Budget{projection.Between(900, 1000), projection.Between(600, 700)}, projection.Allocation{Available: 1000, Layers: []int{600, 400}, History: 0}},
		{"minimum without bound", 10_000, 0, 0, []projection.Budget{{Min: 1000}}, projection.Allocation{Available: 10_000, Layers: []int{6400}, History: 3600}},
		{"nothing available", 100, 80, 30, []projection.Budget{auto, projection.Exactly(5)}, projection.Allocation{Layers: []int{0, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, projection.Allocate(c.total, c.system, c.reserve, c.layers)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAllocateGivesOutWhatThereIs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		layers := make([]projection.Budget, r.IntN(6))
		for i := range layers {
			if r.IntN(3) > 0 {
				lo := r.IntN(1 << r.IntN(40))
				layers[i] = projection.Between(lo, lo+r.IntN(1<<r.IntN(40)))
			}
		}
		total := r.IntN(1 << r.IntN(40))
		a := projection.Allocate(total, r.IntN(100), r.IntN(100), layers)
		sum := a.History
		for i, n := range a.Layers {
			sum += n
			if n < 0 || layers[i].Max > 0 && n > layers[i].Max {
				t.Fatalf("layer %d of %v got %d", i, layers, n)
			}
		}
		mins := 0
		for _, l := range layers {
			mins += l.Min
		}
		if a.History < 0 || sum > a.Available || mins <= a.Available && sum != a.Available {
			t.Fatalf("allocated %v of %d to %v", a, total, layers)
		}
	}
}

func TestPolicyValidate(t *testing.T) {
	for _, c := range []struct {
		policy projection.Policy
		want   string
	}{
		{projection.Policy{}, ""},
		{projection.Policy{Budget: 8000, Reserve: -1}, ""},
		{projection.Policy{Budget: -1}, "policy: budget -1 is negative"},
		{projection.Policy{Budget: 3000}, "policy: budget 3000 leaves nothing beside the reserve of 4000"},
		{projection.Policy{Overflow: "forget"}, `policy: overflow "forget" is none of truncate, sliding_window, summarize`},
		{projection.Policy{Overflow: projection.SlidingWindow}, "policy: sliding_window needs a window of at least one item, not 0"},
		{projection.Policy{Overflow: projection.Summarize}, "policy: summarize needs a Summarize function"},
		{projection.Policy{UncachedFactor: math.NaN(), CachedFactor: -1}, "policy: uncached factor NaN is not a price\npolicy: cached factor -1 is not a price"},
		{projection.Policy{CachedFactor: math.Inf(1)}, "policy: cached factor +Inf is not a price"},
	} {
		got := ""
		if err := c.policy.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: got %q, want %q", c.policy, got, c.want)
		}
	}
}

func TestEstimate(t *testing.T) {
	for text, want := range map[string]int{"": 0, "a": 1, "abcd": 1, "abcde": 2, "日本語文": 1, "🙂🙂": 1, "🙂🙂🙂": 2, "\xff\xff\xff\xff\xff": 2} {
		if got := (projection.Estimate{}).Count(text); got != want {
			t.Errorf("Count(%q) = %d, want %d", text, got, want)
		}
	}
}
