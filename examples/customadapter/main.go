//go:build unix

// Customadapter runs a memory on its own storage engine, see [Tiny], or on the
// store that its argument names: tiny:DIR, or bolt:agent.db and the like. Its
// test runs the suite that tests all other engines.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/open"
)

func main() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "tiny")
	check(err)
	defer os.RemoveAll(dir)
	flag.Parse()
	spec := cmp.Or(flag.Arg(0), "tiny:"+dir)
	store, err := open.Open(ctx, spec, &open.Options{Engines: map[string]open.Opener{"tiny": openTiny}})
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

// openTiny opens the store that a spec such as tiny:DIR names.
func openTiny(_ context.Context, dir string, opts *open.Options) (storage.Adapter, error) {
	if opts.ReadOnly {
		return nil, &storage.InvalidError{Rule: "tiny cannot be opened to read only"}
	}
	s, err := Open(dir, opts.Durability)
	if err != nil {
		return nil, err // not an Adapter that holds a nil *Tiny
	}
	return s, nil
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
