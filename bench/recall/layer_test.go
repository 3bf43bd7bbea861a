package recall_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stratamem/strata/bench"
	"github.com/stratamem/strata/bench/recall"
	"github.com/stratamem/strata/projection/tiktoken"
)

func throughLayers(t *testing.T, path string) map[string]recall.LayerScore {
	t.Helper()
	tokens, err := tiktoken.New("o200k_base")
	if err != nil {
		t.Fatal(err)
	}
	list, err := recall.Layers(t.Context(), load(t, path), &recall.LayersOptions{Tokenizer: tokens})
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]recall.LayerScore)
	for _, s := range list {
		m[s.Case+"/"+s.Category] = s
	}
	return m
}

func TestLayersReport(t *testing.T) {
	data := load(t, agents)
	list, err := recall.Layers(t.Context(), data, &recall.LayersOptions{Split: []string{data[0].ID}})
	if err != nil {
		t.Fatal(err)
	}
	r := bench.NewReport("recall")
	recall.ReportLayers(r, list)
	for _, c := range []string{"layer", "both", "messages", "excerpts"} {
		for _, metric := range []string{"evidence@512", "evidence@1500", "evidence@4096", "R@1", "R@10", "precision"} {
			if v, ok := r.Value(c+"/cat1-4", metric); !ok || v <= 0 || v > 1 {
				t.Errorf("%s of %s is %v", metric, c, v)
			}
		}
		if v, ok := r.Value(c+"/cat6", "silent"); !ok || v <= 0 && c != "both" { // notes are always shown
			t.Errorf("silent of %s is %v", c, v)
		}
	}
	var text bytes.Buffer
	if err := recall.WriteLayers(&text, list); err != nil || !strings.Contains(text.String(), "excerpts/cat4") {
		t.Errorf("text %q: %v", text.String(), err)
	}
	if _, err := recall.Layers(t.Context(), data, &recall.LayersOptions{Split: []string{"nobody"}}); err == nil {
		t.Error("an unknown conversation is accepted")
	}
}

// TestLayersTuning holds the bars on data that may not be shipped; STRATA_BEAM is
// the path of the file.
func TestLayersTuning(t *testing.T) {
	path := os.Getenv("STRATA_BEAM")
	if path == "" {
		t.Skip("STRATA_BEAM does not name BEAM's data, which is not ours to ship")
	}
	got := throughLayers(t, path)
	s, beside := got["layer/cat1-4"], got["excerpts/cat1-4"]
	if s.Evidence[1500] < 0.40 || s.Evidence[4096] < 0.49 {
		t.Errorf("evidence through the layer: %v", s.Evidence)
	}
	if beside.Evidence[1500] < 0.67 || beside.Evidence[4096] < 0.76 {
		t.Errorf("plain BM25 over excerpts gives %v: it is not what the layer was to be measured beside", beside.Evidence)
	}
}
