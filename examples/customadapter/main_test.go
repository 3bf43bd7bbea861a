package main

import (
	"context"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/storagetest"
)

func TestTiny(t *testing.T) {
	storagetest.Run(t, storagetest.Engine{
		Name:     "tiny",
		Open:     func(context.Context, string) (storage.Adapter, error) { return NewTiny(), nil },
		Volatile: true,
		Without:  []string{"Scanner", "Finder", "Watcher", "Statter", "Checker", "Compacter", "Snapshotter"},
	})
}

func Example() {
	main()
	// Output:
	// Please call me Anna.
	// <working-memory>
	// profile.preferred_name: Anna
	// </working-memory>
	// Good morning!
	// _layers/working-memory/resource/anna/state
}
