// Customlayer defines its own layer: one that counts how the user feels and
// tells the model when to be careful.
package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage/mem"
)

// mood is the layer's state. The runtime keeps it, per thread, and writes it
// with the turn that changed it.
type mood struct {
	Complaints int `json:"complaints"`
}

// Mood returns the layer.
func Mood() memory.Layer {
	return memory.Define(memory.Spec{
		ID:        "mood",
		Slot:      memory.SlotSteering,
		Budget:    projection.Exactly(100),
		Placement: projection.Live,
		Authority: projection.Instruction, // its text is ours; what a user said would be data
	}, memory.Hooks[mood]{
		Recall: func(_ context.Context, in *memory.RecallInput[mood]) (memory.Recalled[mood], error) {
			if in.State.Complaints < 2 {
				return memory.Recalled[mood]{Note: "the user is content"}, nil
			}
			return memory.Recalled[mood]{Text: fmt.Sprintf("The user complained %d times: apologise, be brief.", in.State.Complaints)}, nil
		},
		Store: func(_ context.Context, in *memory.StoreInput[mood]) (memory.Change[mood], error) {
			n := 0
			for _, it := range in.New {
				if it.FromUser() && strings.Contains(strings.ToLower(it.Text()), "wrong") {
					n++
				}
			}
			if n == 0 {
				return memory.Change[mood]{}, nil
			}
			// The update runs again on the new state if another execution of the thread
			// has changed it meanwhile, so no complaint is lost.
			return memory.Update(func(m mood) mood {
				m.Complaints += n
				return m
			}), nil
		},
	})
}

func main() {
	ctx := context.Background()
	m, err := memory.New(mem.New(), []memory.Layer{Mood()}, nil)
	check(err)
	run, err := m.Begin(ctx, memory.Identity{Thread: "support"})
	check(err)
	for _, input := range []string{"The total is wrong.", "Wrong again!", "And now?"} {
		view, err := run.Project(ctx, projection.Text(projection.User, input))
		check(err)
		for band, it := range view.All() {
			if band == projection.BandLive {
				fmt.Println(it.Text())
			}
		}
		check(run.Commit(ctx, memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, "I look into it.")}}))
	}
	check(run.End(ctx, memory.Success))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
