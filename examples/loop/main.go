// Loop is the smallest agent loop with a memory: Project before the model call,
// Commit after it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage/mem"
)

func main() {
	ctx := context.Background()
	m, err := memory.New(mem.New(), []memory.Layer{layers.WorkingMemory(nil), layers.SemanticRecall(nil)}, nil)
	check(err)
	for _, thread := range []string{"monday", "tuesday"} {
		run, err := m.Begin(ctx, memory.Identity{Thread: thread, Resource: "anna"})
		check(err)
		for _, input := range inputs[thread] {
			view, err := run.Project(ctx, projection.Text(projection.User, input))
			check(err)
			answer := model(view.Items())
			check(commit(ctx, run, projection.Text(projection.Assistant, answer)))
		}
		check(run.End(ctx, memory.Success))
	}
}

// commit makes a turn durable. ErrConflict says that other processes changed the
// same memory ten times in a row. Nothing is written and nothing is lost: try again
// for as long as the user would wait. End may be called again in the same way.
func commit(ctx context.Context, run *memory.Run, answer ...projection.Item) error {
	for {
		err := run.Commit(ctx, memory.Response{Items: answer})
		if !errors.Is(err, memory.ErrConflict) {
			return err
		}
	}
}

var inputs = map[string][]string{
	"monday":  {"Hi! My name is Anna and I live in Lisbon.", "The deadline for the report is 2026-03-14."},
	"tuesday": {"Hello again. What do you know about me?"},
}

// model stands for a call of a language model: it shows what it was sent.
func model(prompt []projection.Item) string {
	for _, it := range prompt {
		fmt.Printf("%-9s  %s\n", it.Role, it.Text())
	}
	fmt.Println()
	return "Noted."
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
