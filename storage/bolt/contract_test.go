package bolt_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/bolt"
	"github.com/stratamem/strata/storage/storagetest"
)

// openAt returns what opens a store with a durability.
func openAt(d storage.Durability) func(context.Context, string) (storage.Adapter, error) {
	return func(ctx context.Context, dir string) (storage.Adapter, error) {
		s, err := bolt.Open(ctx, filepath.Join(dir, "store.db"), &bolt.Options{Durability: d, LockWait: time.Second})
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

func TestContract(t *testing.T) {
	storagetest.Run(t, storagetest.Engine{
		Name:    "bolt",
		Open:    openAt(storage.Process),
		Full:    openAt(storage.Full),
		Files:   []string{"store.db"},
		Without: []string{"UnreadableLister"},
	})
}

func FuzzContract(f *testing.F) {
	storagetest.Fuzz(f, storagetest.Engine{Name: "bolt", Open: openAt(storage.None)})
}
