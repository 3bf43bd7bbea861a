package vault_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/storagetest"
	"github.com/stratamem/strata/storage/vault"
)

var quiet = slog.New(slog.DiscardHandler)

// openAt returns what opens a vault with a durability, and with records of some
// namespaces in files.
func openAt(d storage.Durability, files ...string) func(context.Context, string) (storage.Adapter, error) {
	return func(ctx context.Context, dir string) (storage.Adapter, error) {
		opts := &vault.Options{Durability: d, Logger: quiet, LockWait: time.Minute, Files: files}
		s, err := vault.Open(ctx, filepath.Join(dir, "vault"), opts)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

func TestContract(t *testing.T) { storagetest.Run(t, contract()) }

// TestContractFiles has the records of the suite in files, those of a few namespaces
// apart.
func TestContractFiles(t *testing.T) { storagetest.Run(t, contract(suiteFiles...)) }

var suiteFiles = []string{
	"_a/", "_atomic/", "_big/", "_counter/", "_crash/", "_fill/", "_layers/", "_log/", "_m/", "_needle/", "_order/", "_process/",
	"_rec/", "_w/",
}

func contract(files ...string) storagetest.Engine {
	return storagetest.Engine{
		Name:      "vault",
		Open:      openAt(storage.Process, files...),
		Full:      openAt(storage.Full, files...),
		Journal:   "/_data/log/",
		Shared:    true,
		TornReads: true,
		// The files of documents are people's, and the log has no say in them.
		Files: []string{"vault/_data/log/*", "vault/_data/end"},
		Logs:  []string{"vault/_data/log/*.log"},
	}
}

func FuzzContract(f *testing.F) {
	storagetest.Fuzz(f, storagetest.Engine{Name: "vault", Open: openAt(storage.None), TornReads: true})
}

func FuzzContractFiles(f *testing.F) {
	storagetest.Fuzz(f, storagetest.Engine{Name: "vault", Open: openAt(storage.None, suiteFiles...), TornReads: true})
}
