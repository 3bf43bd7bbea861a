//go:build unix

// Customadapter runs a memory on a storage engine of its own, see [Tiny]. Its
// test proves the engine with the suite that proves all others.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

func main() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "tiny")
	check(err)
	defer os.RemoveAll(dir)
	store, err := Open(dir, storage.Full)
	check(err)
	defer store.Close()
	m, err := memory.New(store, []memory.Layer{layers.WorkingMemory(nil)}, nil)
	check(err)
	say(ctx, m, "monday", "Please call me Anna.")
	say(ctx, m, "tuesday", "Good morning!")
	for key, err := range store.List(ctx, "_layers/") {
		check(err)
		fmt.Println(key)
	}
}

// say is a conversation of one turn.
func say(ctx context.Context, m *memory.Memory, thread, input string) {
	run, err := m.Begin(ctx, memory.Identity{Thread: thread, Resource: "anna"})
	check(err)
	view, err := run.Project(ctx, projection.Text(projection.User, input))
	check(err)
	for _, it := range view.All() {
		fmt.Println(it.Text())
	}
	check(run.Commit(ctx, memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, "Hello!")}}))
	check(run.End(ctx, memory.Success))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
