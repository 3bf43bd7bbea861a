package storage_test

import (
	"context"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/storagetest"
)

// plain is an engine with no capability: four methods.
type plain struct{ storage.Adapter }

// TestFallbacks runs the contract on the least that an engine can be, which
// shows what the package functions do where a capability is missing.
func TestFallbacks(t *testing.T) {
	storagetest.Run(t, storagetest.Engine{
		Name:     "plain",
		Volatile: true,
		Open:     func(context.Context, string) (storage.Adapter, error) { return plain{mem.New()}, nil },
		Without:  []string{"Scanner", "Finder", "Watcher", "Statter", "Checker", "UnreadableLister", "Compacter", "Snapshotter"},
	})
}
