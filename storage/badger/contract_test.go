package badger_test

import (
	"context"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/badger"
	"github.com/stratamem/strata/storage/storagetest"
)

func engine(d storage.Durability) storagetest.Engine {
	return storagetest.Engine{
		Name: "badger",
		Open: func(ctx context.Context, dir string) (storage.Adapter, error) {
			s, err := badger.Open(ctx, dir, &badger.Options{Durability: d})
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	}
}

func TestContract(t *testing.T) { storagetest.Run(t, engine(storage.Process)) }

func FuzzContract(f *testing.F) { storagetest.Fuzz(f, engine(storage.None)) }

func TestFullIsSynced(t *testing.T) { storagetest.Synced(t, engine(storage.Full)) }
