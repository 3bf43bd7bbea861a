package projection_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/projection"
)

func TestAllocate(t *testing.T) {
	auto := projection.Budget{}
	automatic, exactly, between := projection.Automatic, projection.Exactly, projection.Between
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
		{"automatic is its own value", 10_000, 0, 0, []projection.Budget{automatic(), auto}, projection.Allocation{Available: 10_000, Layers: []int{3000, 3000}, History: 4000}},
		{"exact", 10_000, 0, 0, []projection.Budget{exactly(500)}, projection.Allocation{Available: 10_000, Layers: []int{500}, History: 9500}},
		{"exactly nothing", 10_000, 0, 0, []projection.Budget{exactly(0), between(0, 0), auto}, projection.Allocation{Available: 10_000, Layers: []int{0, 0, 6000}, History: 4000}},
		{"exact beside auto", 10_000, 0, 0, []projection.Budget{exactly(500), auto}, projection.Allocation{Available: 10_000, Layers: []int{500, 5700}, History: 3800}},
		{"exact beside a large one", 700, 0, 0, []projection.Budget{between(0, 5000), exactly(50)}, projection.Allocation{Available: 700, Layers: []int{390, 50}, History: 260}},
		{"exact before minimums", 700, 0, 0, []projection.Budget{between(900, 900), exactly(50)}, projection.Allocation{Available: 700, Layers: []int{650, 50}}},
		{"exactly all", 700, 0, 0, []projection.Budget{auto, exactly(650), exactly(50)}, projection.Allocation{Available: 700, Layers: []int{0, 650, 50}}},
		{"bounded share half the pool", 10_000, 0, 0, []projection.Budget{between(0, 6000), between(0, 3000), auto}, projection.Allocation{Available: 10_000, Layers: []int{2000, 1000, 3000}, History: 4000}},
		{"minimums over what is available", 1000, 0, 0, []projection.Budget{between(900, 1000), between(600, 700)}, projection.Allocation{Available: 1000, Layers: []int{600, 400}, History: 0}},
		{"nothing available", 100, 80, 30, []projection.Budget{auto, between(1, 5), exactly(0)}, projection.Allocation{Layers: []int{0, 0, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := projection.Allocate(c.total, c.system, c.reserve, c.layers)
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}

func TestAllocateExactlyOrNot(t *testing.T) {
	_, err := projection.Allocate(1000, 200, 100, []projection.Budget{projection.Exactly(660), {}, projection.Exactly(50), projection.Exactly(10)})
	var short *projection.AllocationError
	if !errors.As(err, &short) || *short != (projection.AllocationError{Index: 2, Want: 50, Left: 40}) || !errors.Is(err, projection.ErrBudget) {
		t.Errorf("got %v", err)
	}
	if want := "allocate budgets: prompt over budget: layer 3 is to get exactly 50 tokens, and 40 are left"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

func TestBudgetValidate(t *testing.T) {
	for _, c := range []struct {
		budget projection.Budget
		want   string
	}{
		{projection.Budget{}, ""},
		{projection.Automatic(), ""},
		{projection.Exactly(0), ""},
		{projection.Exactly(-1), "budget of exactly -1 tokens is negative"},
		{projection.Between(0, 0), ""},
		{projection.Between(-1, 5), "budget minimum -1 is negative"},
		{projection.Between(5, 2), "budget minimum 5 is over its maximum 2"},
	} {
		got := ""
		if err := c.budget.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: got %q, want %q", c.budget, got, c.want)
		}
	}
}

func TestAllocateGivesOutWhatThereIs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		layers := make([]projection.Budget, r.IntN(6))
		most, exact, mins := make([]int, len(layers)), 0, 0
		for i := range layers {
			most[i] = math.MaxInt
			switch r.IntN(4) {
			case 0:
				most[i] = r.IntN(1 << r.IntN(40))
				exact += most[i]
				layers[i] = projection.Exactly(most[i])
			case 1, 2:
				lo := r.IntN(1 << r.IntN(40))
				most[i] = lo + r.IntN(1<<r.IntN(40))
				mins += lo
				layers[i] = projection.Between(lo, most[i])
			}
		}
		total := r.IntN(1 << r.IntN(40))
		a, err := projection.Allocate(total, r.IntN(100), r.IntN(100), layers)
		if (err != nil) != (exact > a.Available) {
			t.Fatalf("allocated %v of %d to %v: %v", a, total, layers, err)
		}
		if err != nil {
			continue
		}
		sum := a.History
		for i, n := range a.Layers {
			sum += n
			if n < 0 || n > most[i] {
				t.Fatalf("layer %d of %v got %d", i, layers, n)
			}
		}
		if a.History < 0 || sum > a.Available || exact+mins <= a.Available && sum != a.Available {
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
		{projection.Policy{Budget: 4001}, ""},
		{projection.Policy{Budget: 4000}, "policy: budget 4000 leaves nothing beside the reserve of 4000"},
		{projection.Policy{Budget: 1<<40 - 1}, ""},
		{projection.Policy{Budget: 1 << 40}, "policy: budget 1099511627776 is not below 1099511627776"},
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
	for text, want := range map[string]int{"": 0, "a": 1, "abcd": 1, "abcde": 2, "日本語文": 1, "🙂🙂": 1, "🙂🙂🙂": 2, "\xff\xff\xff\xff\xff": 2,
		"\uffff\uffff\uffff\uffff": 1, "\U00010000\U00010000\U00010000": 2, "12345678日本": 3, "1234567é": 2} {
		if got := (projection.Estimate{}).Count(text); got != want {
			t.Errorf("Count(%q) = %d, want %d", text, got, want)
		}
	}
}

// TestEstimateParts: an image is 1,024 tokens, and so is a file by URL; a file's own
// bytes are four a token.
func TestEstimateParts(t *testing.T) {
	for _, c := range []struct {
		part projection.Part
		want int
	}{
		{projection.Part{Type: projection.ImagePart}, 1024},
		{projection.Part{Type: projection.ImagePart, Data: make([]byte, 40)}, 1024},
		{projection.Part{Type: projection.FilePart, URL: "u", Data: make([]byte, 40)}, 1024},
		{projection.Part{Type: projection.FilePart}, 0},
		{projection.Part{Type: projection.FilePart, Data: make([]byte, 40)}, 10},
		{projection.Part{Type: projection.FilePart, Data: make([]byte, 41)}, 11},
	} {
		if got := (projection.Estimate{}).CountPart(c.part); got != c.want {
			t.Errorf("%s of %d bytes and URL %q: %d tokens, want %d", c.part.Type, len(c.part.Data), c.part.URL, got, c.want)
		}
	}
}

// TestCap: a view has what the budget leaves beside the reserve.
func TestCap(t *testing.T) {
	for _, c := range []struct{ budget, reserve, want int }{
		{0, 0, 124_000},
		{0, 8_000, 120_000},
		{0, -1, 128_000},
		{10_000, 0, 6_000},
		{10_000, 1, 9_999},
		{10_000, -1, 10_000},
		{10_000, -500, 10_000},
	} {
		p := projection.Policy{Budget: c.budget, Reserve: c.reserve}
		if got := p.Cap(); got != c.want {
			t.Errorf("budget %d, reserve %d: cap %d, want %d", c.budget, c.reserve, got, c.want)
		}
	}
}

// TestFits: what stands around a text in a view is counted with it, and a text that is
// far too long is not counted.
func TestFits(t *testing.T) {
	counted := 0
	f, err := projection.NewFrame(&projection.FrameOptions{Tokenizer: counting{&counted}})
	if err != nil {
		t.Fatal(err)
	}
	size := len("<notes>\nhello\n</notes>")
	for limit, ok := range map[int]bool{size - 1: false, size: true, size + 1: true} {
		if n, fits := f.Fits("notes", projection.Instruction, "hello", limit); n != size || fits != ok {
			t.Errorf("within %d: %d tokens, %t", limit, n, fits)
		}
	}
	counted = 0
	if n, fits := f.Fits("notes", projection.Instruction, strings.Repeat("x", 1<<20), 1000); fits || n <= 1000 || n > 1<<20 || counted > 0 {
		t.Errorf("a megabyte within 1,000: %d tokens, %t, counted %d", n, fits, counted)
	}
}

// counting is a tokenizer of which a token is a byte, that counts its calls.
type counting struct{ calls *int }

func (c counting) Name() string { return "counting" }

func (c counting) Count(text string) int {
	*c.calls++
	return len(text)
}

func (c counting) CountPart(projection.Part) int { return 0 }

func (c counting) Overhead() int { return 0 }
