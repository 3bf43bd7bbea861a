package recall_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/bench/locomo"
	"github.com/stratamem/strata/bench/recall"
	"github.com/stratamem/strata/storage/search"
)

const fixture = "testdata/fixture.json"

func load(t *testing.T, path string) []locomo.Conversation {
	t.Helper()
	data, err := locomo.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func scores(t *testing.T, data []locomo.Conversation, rankers ...recall.Ranker) map[string]recall.Score {
	t.Helper()
	list, err := recall.Run(t.Context(), data, &recall.Options{Rankers: rankers})
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]recall.Score)
	for _, s := range list {
		m[s.Ranker+"/"+s.Category] = s
	}
	return m
}

// TestFixture pins what recall gives on our own conversations. Plain BM25 shows
// that the fixture wants more than words.
func TestFixture(t *testing.T) {
	data := load(t, fixture)
	questions := 0
	for _, c := range data {
		questions += len(c.Questions)
	}
	if len(data) < 12 || questions < 300 {
		t.Fatalf("the fixture has %d conversations and %d questions", len(data), questions)
	}
	got := scores(t, data, recall.Rankers()[:3]...)
	all := got["default/cat1-4"]
	if five, ten := all.Recall[5].Mean, all.Recall[10].Mean; five < 0.97 || ten < 0.98 {
		t.Errorf("default: R@5 %.3f, R@10 %.3f", five, ten)
	}
	if plain := got["plain/cat1-4"].Recall[10].Mean; plain > 0.85 {
		t.Errorf("plain BM25 has R@10 %.3f: the fixture is too easy to tell anything", plain)
	}
	if small := all.Budget[512].Mean; small < 0.95 {
		t.Errorf("recall under 512 tokens is %.3f", small)
	}
}

// TestFloor is the bar of the relevance floor.
func TestFloor(t *testing.T) {
	got, err := recall.Floor(t.Context(), load(t, fixture), search.Ranking{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Unanswerable < 50 || got.Silent < 0.8 || got.Lost > 0.03 {
		t.Errorf("floor: %+v, want at least 0.8 silent and at most 0.03 lost", got)
	}
}

// TestTuning holds the bars on data that may not be shipped; STRATA_LOCOMO is
// the path of the file.
func TestTuning(t *testing.T) {
	path := os.Getenv("STRATA_LOCOMO")
	if path == "" {
		t.Skip("STRATA_LOCOMO does not name LoCoMo's data, whose licence forbids to ship it")
	}
	s := scores(t, load(t, path), recall.Rankers()[0])["default/cat1-4"]
	for name, c := range map[string]struct{ got, want float64 }{
		"R@10": {s.Recall[10].Mean, 0.80}, "R@5": {s.Recall[5].Mean, 0.72},
		"recall@1024": {s.Budget[1024].Mean, 0.80}, "recall@4096": {s.Budget[4096].Mean, 0.90},
	} {
		if c.got < c.want {
			t.Errorf("%s is %.3f, want %.2f", name, c.got, c.want)
		}
	}
}

// TestGenerate pins that the fixture is what its generator makes.
func TestGenerate(t *testing.T) {
	out, err := exec.Command("go", "run", "./generate").Output()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out, want) {
		t.Error("testdata/fixture.json is not what ./generate makes: go run ./generate > testdata/fixture.json")
	}
}

func TestReport(t *testing.T) {
	data := load(t, fixture)
	list, err := recall.Run(t.Context(), data, &recall.Options{Rankers: recall.Rankers()[:1], Split: []string{data[0].ID}})
	if err != nil {
		t.Fatal(err)
	}
	r := recall.Report(list)
	for _, metric := range []string{"R@1", "R@50", "MRR", "nDCG@10", "recall@256", "recall@8192", "us", "index", "questions"} {
		if v, ok := r.Value("default/cat1-4", metric); !ok || v <= 0 {
			t.Errorf("%s is %v", metric, v)
		}
	}
	var js bytes.Buffer
	if err := r.WriteJSON(&js); err != nil || !json.Valid(js.Bytes()) {
		t.Errorf("JSON: %v", err)
	}
	var text strings.Builder
	if err := recall.WriteText(&text, list); err != nil || !strings.Contains(text.String(), "default/cat1-4") {
		t.Errorf("text %q: %v", text.String(), err)
	}
	ten := list[0].Recall[10]
	if ten.Low > ten.Mean || ten.High < ten.Mean {
		t.Errorf("interval %+v", ten)
	}
	if _, err := recall.Run(t.Context(), data, &recall.Options{Split: []string{"nobody"}}); err == nil {
		t.Error("an unknown conversation is accepted")
	}
}

func TestRankersDiffer(t *testing.T) {
	var names []string
	for _, r := range recall.Rankers() {
		if slices.Contains(names, r.Name) {
			t.Errorf("two rankers are called %s", r.Name)
		}
		names = append(names, r.Name)
	}
}

func TestSpeed(t *testing.T) {
	r, err := recall.Speed(t.Context(), []int{600})
	if err != nil {
		t.Fatal(err)
	}
	for _, metric := range []string{"p50", "p99", "append", "open", "index"} {
		if v, ok := r.Value("search/600", metric); !ok || v <= 0 {
			t.Errorf("%s is %v", metric, v)
		}
	}
}
