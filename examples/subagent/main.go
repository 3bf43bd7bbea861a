// Subagent spawns two children that work for a parent. A layer says what crosses
// into a child, and what of its work comes back.
package main

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strings"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage/mem"
)

// findings is what one execution knows. In execution scope, only OnSpawn and
// OnReturn move anything between parent and child.
type findings struct {
	Facts []string `json:"facts"`
}

// Findings returns the layer.
func Findings() memory.Layer {
	return memory.Define(memory.Spec{
		ID:        "findings",
		Slot:      memory.SlotEntity,
		Scope:     memory.ScopeExecution,
		Placement: projection.Live,
	}, memory.Hooks[findings]{
		Recall: func(_ context.Context, in *memory.RecallInput[findings]) (memory.Recalled[findings], error) {
			return memory.Recalled[findings]{Text: strings.Join(in.State.Facts, "\n")}, nil
		},
		Store: func(_ context.Context, in *memory.StoreInput[findings]) (memory.Change[findings], error) {
			var facts []string
			for _, it := range in.New {
				if fact, ok := strings.CutPrefix(it.Text(), "Found: "); ok {
					facts = append(facts, fact)
				}
			}
			return learn(facts), nil
		},
		OnSpawn: func(_ context.Context, in *memory.SpawnInput[findings]) (memory.Spawned[findings], error) {
			state := findings{Facts: slices.Clone(in.State.Facts)}
			return memory.Spawned[findings]{State: &state}, nil
		},
		OnReturn: func(_ context.Context, in *memory.ReturnInput[findings]) (memory.Returned[findings], error) {
			return memory.Returned[findings]{Change: learn(in.ChildState.Facts), Result: in.Result}, nil
		},
	})
}

// learn returns the change that merges facts, each once: both children know
// what the parent told them.
func learn(facts []string) memory.Change[findings] {
	return memory.Update(func(f findings) findings {
		for _, fact := range facts {
			if !slices.Contains(f.Facts, fact) {
				f.Facts = append(f.Facts, fact)
			}
		}
		return f
	})
}

func main() {
	ctx := context.Background()
	m, err := memory.New(mem.New(), []memory.Layer{Findings()}, nil)
	check(err)
	parent, err := m.Begin(ctx, memory.Identity{Thread: "research"})
	check(err)
	turn(ctx, parent, "Which engine should we take?", "Found: the data fits one machine")

	for _, task := range []struct{ ask, answer string }{
		{"Read the docs of bbolt.", "Found: bbolt is one file"},
		{"Read the docs of badger.", "Found: badger writes faster"},
	} {
		child, err := parent.Spawn(ctx, nil)
		check(err)
		turn(ctx, child, task.ask, task.answer)
		_, err = child.Return(ctx, memory.Result{Outcome: memory.Success, Text: task.answer})
		check(err)
	}

	view, err := parent.Project(ctx, projection.Text(projection.User, "So?"))
	check(err)
	for _, it := range view.All() {
		if it.Layer == "findings" {
			fmt.Println(it.Text())
		}
	}
	check(parent.End(ctx, memory.Success))
}

// turn is one turn of an agent whose model answers what it is told to.
func turn(ctx context.Context, run *memory.Run, ask, answer string) {
	_, err := run.Project(ctx, projection.Text(projection.User, ask))
	check(err)
	check(run.Commit(ctx, memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, answer)}}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
