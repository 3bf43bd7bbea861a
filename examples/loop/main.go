// Loop is the smallest agent loop with a memory: Project before the model call,
// Commit after it.
package main

import (
	"cmp"
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
			check(answer(ctx, run, projection.Text(projection.User, input)))
		}
		check(run.End(ctx, memory.Success))
	}
}

// answer lets the model answer, and call tools until it has what it needs.
func answer(ctx context.Context, run *memory.Run, items ...projection.Item) error {
	for len(items) > 0 {
		view, err := run.Project(ctx, items...)
		if errors.Is(err, memory.ErrBudget) { // what must be in the prompt does not fit: the message is too long
			return commit(ctx, run, projection.Text(projection.Assistant, "That is too long for me. Can you say it shorter?"))
		}
		if err != nil {
			return err
		}
		output := model(view.Items())
		if err := commit(ctx, run, output...); err != nil { // before a tool does something
			return err
		}
		items = nil
		for _, it := range output {
			if it.Kind == projection.ToolCall {
				items = append(items, projection.Result(it.CallID, tool(it.Name, it.Arguments)))
			}
		}
	}
	return nil
}

// commit makes a turn durable. ErrConflict means that other processes changed
// the same memory ten times in a row. Nothing was written and nothing is lost:
// try again for as long as the user would wait. End can be retried in the same
// way.
func commit(ctx context.Context, run *memory.Run, output ...projection.Item) error {
	for {
		err := run.Commit(ctx, memory.Response{Items: output})
		if !errors.Is(err, memory.ErrConflict) {
			return err
		}
	}
}

var inputs = map[string][]string{
	"monday":  {"Hi! My name is Anna and I live in Lisbon.", "The deadline for the report is 2026-03-14."},
	"tuesday": {"Hello again. What do you know about me?"},
}

// model stands for a call of a language model: it shows what it was sent, and
// asks for the date when it reads of a deadline.
func model(prompt []projection.Item) []projection.Item {
	output := projection.Text(projection.Assistant, "Noted.")
	for _, it := range prompt {
		fmt.Printf("%-11s  %s\n", cmp.Or(string(it.Role), string(it.Kind)), it.Text())
		switch {
		case it.Kind == projection.ToolResult:
			output = projection.Text(projection.Assistant, "13 days are left.")
		case it.Text() == inputs["monday"][1]:
			output = projection.Call("1", "today", "{}")
		}
	}
	fmt.Println()
	return []projection.Item{output}
}

// tool stands for the tools of an agent. Those of layers are called by run.Call.
func tool(_, _ string) string { return "2026-03-01" }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
