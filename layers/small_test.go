package layers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/storagetest"
)

// TestSmallStore: layers that keep states, an index and vectors find what was said in a
// store that takes little, and none of their changes is lost in it.
func TestSmallStore(t *testing.T) {
	embed := &layers.Embedding{Model: "letters", Dimensions: 26, Embed: func(_ context.Context, texts []string) ([][]float32, error) {
		list := make([][]float32, len(texts))
		for i, text := range texts {
			list[i] = make([]float32, 26)
			for _, r := range strings.ToLower(text) {
				if r >= 'a' && r <= 'z' {
					list[i][r-'a']++
				}
			}
			list[i][0]++
		}
		return list, nil
	}}
	for name, test := range map[string]struct {
		limits storage.Limits
		layers []memory.Layer
	}{
		"16 operations":  {storagetest.Small, []memory.Layer{layers.SemanticRecall(nil), layers.WorkingMemory(nil)}},
		"128 operations": {storage.Limits{Ops: 128, Batch: 64 << 10, Value: 16 << 10, Key: 512}, []memory.Layer{layers.SemanticRecall(&layers.SemanticRecallOptions{Embed: embed}), layers.WorkingMemory(nil), layers.Entity(nil)}},
	} {
		t.Run(name, func(t *testing.T) {
			store := storagetest.Limited(mem.New(), test.limits)
			m, err := memory.New(store, test.layers, &memory.Options{KeepTurns: 8})
			if err != nil {
				t.Fatal(err)
			}
			for thread := range 10 {
				run, err := m.Begin(t.Context(), memory.Identity{Thread: fmt.Sprint("t", thread), Resource: "r"})
				if err != nil {
					t.Fatal(err)
				}
				for turn := range 15 {
					if _, err := run.Project(t.Context(), projection.Text(projection.User, fmt.Sprintf("Parcel number%d-%d goes to Lisbon, says Maria.", thread, turn))); err != nil {
						t.Fatal(err)
					}
					if err := run.Commit(t.Context(), memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, "Noted.")}}); err != nil {
						t.Fatal(err)
					}
					for _, h := range run.Report().Hooks {
						if h.Err != nil {
							t.Errorf("thread %d, turn %d: %s %s: %v", thread, turn, h.Layer, h.Hook, h.Err)
						}
					}
				}
				if err := run.End(t.Context(), memory.Success); err != nil {
					t.Fatal(err)
				}
			}
			run, err := m.Begin(t.Context(), memory.Identity{Thread: "other", Resource: "r"})
			if err != nil {
				t.Fatal(err)
			}
			for _, parcel := range []string{"number0-0", "number4-14", "number9-7"} {
				view, err := run.Project(t.Context(), projection.Text(projection.User, "Where does parcel "+parcel+" go?"))
				if err != nil {
					t.Fatal(err)
				}
				var shown strings.Builder
				for _, it := range view.All() {
					if it.Layer != "" {
						shown.WriteString(it.Text())
					}
				}
				if !strings.Contains(shown.String(), "Parcel "+parcel+" goes to Lisbon") {
					t.Errorf("%s is not found: %.300s", parcel, shown.String())
				}
				if err := run.Commit(t.Context(), memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, "To Lisbon.")}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := run.End(t.Context(), memory.Success); err != nil {
				t.Fatal(err)
			}
		})
	}
}
