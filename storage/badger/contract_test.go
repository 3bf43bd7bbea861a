package badger_test

import (
	"context"
	"testing"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/badger"
	"github.com/stratamem/strata/storage/storagetest"
)

// openAt returns what opens a store with a durability.
func openAt(d storage.Durability) func(context.Context, string) (storage.Adapter, error) {
	return func(ctx context.Context, dir string) (storage.Adapter, error) {
		s, err := badger.Open(ctx, dir, &badger.Options{Durability: d, LockWait: time.Second})
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

func TestContract(t *testing.T) {
	storagetest.Run(t, storagetest.Engine{
		Name:    "badger",
		Open:    openAt(storage.Process),
		Full:    openAt(storage.Full),
		Files:   []string{"*.sst", "*.vlog", "MANIFEST"},
		Logs:    []string{"*.mem"},
		Without: []string{"UnreadableLister"},
	})
}

func FuzzContract(f *testing.F) {
	storagetest.Fuzz(f, storagetest.Engine{Name: "badger", Open: openAt(storage.None)})
}
