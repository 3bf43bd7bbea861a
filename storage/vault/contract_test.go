package vault_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/storagetest"
	"github.com/stratamem/strata/storage/vault"
)

var quiet = slog.New(slog.DiscardHandler)

func engine(d storage.Durability) storagetest.Engine {
	return storagetest.Engine{
		Name: "vault",
		Open: func(ctx context.Context, dir string) (storage.Adapter, error) {
			s, err := vault.Open(ctx, filepath.Join(dir, "vault"), &vault.Options{Durability: d, Logger: quiet})
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		TornReads: true,
		Journal:   "/_data/log/",
	}
}

func TestContract(t *testing.T) { storagetest.Run(t, engine(storage.Process)) }

func FuzzContract(f *testing.F) { storagetest.Fuzz(f, engine(storage.None)) }

func TestFullIsSynced(t *testing.T) { storagetest.Synced(t, engine(storage.Full)) }
