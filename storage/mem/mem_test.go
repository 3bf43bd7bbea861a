package mem_test

import (
	"context"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/storagetest"
)

var engine = storagetest.Engine{
	Name:     "mem",
	Volatile: true,
	Without:  []string{"UnreadableLister"},
	Open:     func(context.Context, string) (storage.Adapter, error) { return mem.New(), nil },
}

func TestContract(t *testing.T) { storagetest.Run(t, engine) }

func FuzzContract(f *testing.F) { storagetest.Fuzz(f, engine) }
