package recall

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stratamem/strata/internal/demo"
	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage/mem"
)

// Recollection is what SemanticRecall recalled for a request of the demo.
type Recollection struct {
	Line     int    // of the request in the demo's conversation
	Request  string // what the user said
	Passages []string
}

// Demo plays the conversation of strata demo with its layers and its budget,
// and returns its requests in order with what SemanticRecall recalled for each:
// a passage is a line of it, without the lines that name a day.
func Demo(ctx context.Context) ([]Recollection, error) {
	turns, err := demo.Turns()
	if err != nil {
		return nil, err
	}
	now := &clock{}
	m, err := memory.New(mem.New(), []memory.Layer{
		layers.Instructions(&layers.InstructionsOptions{Text: demo.Instructions, Spec: memory.Spec{Budget: projection.Between(0, len(demo.Instructions)/2)}}),
		layers.WorkingMemory(nil), layers.Observations(nil), layers.Episodic(nil), layers.SemanticRecall(nil),
	}, &memory.Options{Policy: projection.Policy{Budget: 4000, Reserve: 800}, Clock: func() time.Time { return now.now }})
	if err != nil {
		return nil, err
	}
	const rest = 4 * time.Hour // then the demo begins another run
	var list []Recollection
	var run *memory.Run
	for i := range turns {
		t := &turns[i]
		if run != nil && (turns[i-1].Thread != t.Thread || t.Time.Sub(now.now) > rest) {
			if err := run.End(ctx, memory.Success); err != nil {
				return nil, fmt.Errorf("play demo: %w", err)
			}
			run = nil
		}
		now.now = t.Time
		if run == nil {
			if run, err = m.Begin(ctx, memory.Identity{Thread: t.Thread, Resource: demo.Resource}); err != nil {
				return nil, fmt.Errorf("play demo: %w", err)
			}
		}
		view, err := run.Project(ctx, t.Input...)
		if err != nil {
			return nil, fmt.Errorf("play demo: %w", err)
		}
		r := Recollection{Line: t.Line}
		if at := slices.IndexFunc(t.Input, func(it projection.Item) bool { return it.Role == projection.User }); at >= 0 {
			r.Request = strings.Join(strings.Fields(t.Input[at].Text()), " ")
			for _, it := range view.All() {
				if it.Layer == "semantic-recall" {
					r.Passages = append(r.Passages, passages(it.Text())...)
				}
			}
			list = append(list, r)
		}
		if err := run.Commit(ctx, memory.Response{Items: t.Output}); err != nil {
			return nil, fmt.Errorf("play demo: %w", err)
		}
	}
	return list, run.End(ctx, memory.Success)
}

// passages returns the recalled lines, without those that name a day and the
// surrounding tags.
func passages(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool {
		return l == "" || strings.HasPrefix(l, "<") || strings.HasPrefix(l, "[")
	})
}
