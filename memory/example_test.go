package memory_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage/mem"
)

// A loop with one layer, which remembers the names of those it talked to.
func Example() {
	type names struct{ Seen []string }
	guests := memory.Define(memory.Spec{ID: "guests", Slot: memory.SlotEntity, Scope: memory.ScopeGlobal}, memory.Hooks[names]{
		Recall: func(_ context.Context, in *memory.RecallInput[names]) (memory.Recalled[names], error) {
			return memory.Recalled[names]{Text: strings.Join(in.State.Seen, ", ")}, nil
		},
		Store: func(_ context.Context, in *memory.StoreInput[names]) (memory.Change[names], error) {
			var found []string
			for i := range in.New {
				if name, ok := strings.CutPrefix(in.New[i].Text(), "I am "); ok {
					found = append(found, name)
				}
			}
			if found == nil {
				return memory.Change[names]{}, nil
			}
			return memory.Update(func(n names) names {
				n.Seen = append(n.Seen, found...)
				return n
			}), nil
		},
	})

	ctx := context.Background()
	m, err := memory.New(mem.New(), []memory.Layer{guests}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, said := range []string{"I am Anna", "I am Ben", "Who was here?"} {
		run, err := m.Begin(ctx, memory.Identity{Thread: said})
		if err != nil {
			log.Fatal(err)
		}
		view, err := run.Project(ctx, projection.Text(projection.User, said))
		if err != nil {
			log.Fatal(err)
		}
		for band, it := range view.All() {
			fmt.Printf("%s %q\n", band, it.Text())
		}
		// Here the model would be called with the view.
		answer := projection.Text(projection.Assistant, "Hello!")
		if err := run.Commit(ctx, memory.Response{Items: []projection.Item{answer}}); err != nil {
			log.Fatal(err)
		}
		if err := run.End(ctx, memory.Success); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// history "I am Anna"
	// anchor "<guests data>\nAnna\n</guests>"
	// history "I am Ben"
	// anchor "<guests data>\nAnna, Ben\n</guests>"
	// history "Who was here?"
}
