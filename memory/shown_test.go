package memory_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage/mem"
)

// TestShown: Recall is told what of the log the prompt shows, in a thread that is
// cut again and again, also by who comes later and resumes.
func TestShown(t *testing.T) {
	var told []string
	asks := memory.Define(memory.Spec{ID: "asks", Placement: projection.Live}, memory.Hooks[counter]{
		Recall: func(_ context.Context, in *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
			told = nil
			for i := range in.Shown {
				told = append(told, in.Shown[i].ID)
			}
			return memory.Recalled[counter]{Text: "as ever"}, nil
		},
	})
	for _, keep := range []int{0, 6} {
		opts := options()
		opts.Policy, opts.KeepTurns = projection.Policy{Budget: 400, Reserve: -1}, keep
		store := mem.New()
		m := newMemory(t, store, opts, asks)
		run := begin(t, m, memory.Identity{})
		cuts := 0
		for i := range 80 {
			items := []projection.Item{user(fmt.Sprint("q", i, strings.Repeat(" word", i%5*4)))}
			if i%7 == 6 {
				items = []projection.Item{projection.Result("1", strings.Repeat("r ", i*4))}
			}
			view := project(t, run, items...)
			var shown []string
			for band, it := range view.All() {
				if band == projection.BandHistory && it.Layer == "" {
					shown = append(shown, it.ID)
				}
			}
			if slices.Sort(shown); view.History.Cut {
				cuts++
			}
			slices.Sort(told)
			if !slices.Equal(told, shown) {
				t.Errorf("keep %d, turn %d (%q): told %q, shown %q", keep, i, view.Opened, told, shown)
			}
			answer := memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, strings.Repeat("a ", i%9*8))}}
			if i%7 == 5 {
				answer.Items = []projection.Item{projection.Call("1", "f", "{}")}
			}
			if err := run.Commit(t.Context(), answer); err != nil {
				t.Fatal(err)
			}
			switch i % 20 {
			case 9:
				end(t, run)
				run = begin(t, m, memory.Identity{})
			case 19:
				var err error
				if run, err = newMemory(t, store, opts, asks).Resume(t.Context(), run.Execution().ID()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if keep == 0 && cuts < 5 {
			t.Errorf("%d cuts", cuts)
		}
	}
}
