package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/backup"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/storagetest"
)

// TestSmall: what a store does not take is refused before anything is restored, and
// Copy names it and leaves what came before.
func TestSmall(t *testing.T) {
	src := mem.New()
	defer src.Close()
	for i := range 100 {
		if err := storage.Set(t.Context(), src, fmt.Sprintf("_rec/%02d", i), make([]byte, 3000)); err != nil {
			t.Fatal(err)
		}
	}
	var text bytes.Buffer
	small := storagetest.Limited(mem.New(), storagetest.Small)
	defer small.Close()
	tally, err := backup.Copy(t.Context(), small, src, nil)
	if err != nil || tally.Records != 100 {
		t.Fatalf("Copy: %+v, %v", tally, err)
	}
	if err := storage.Set(t.Context(), src, "_rec/50", make([]byte, storagetest.Small.Value+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Write(t.Context(), src, &text); err != nil {
		t.Fatal(err)
	}
	var invalid *storage.InvalidError
	empty := storagetest.Limited(mem.New(), storagetest.Small)
	defer empty.Close()
	if _, err := backup.Restore(t.Context(), empty, &text, nil); !errors.As(err, &invalid) || invalid.Key != "_rec/50" {
		t.Errorf("Restore: %v, want an InvalidError of _rec/50", err)
	}
	for key := range empty.List(t.Context(), "") {
		t.Errorf("a refused backup set %q", key)
	}
	if _, err := backup.Copy(t.Context(), empty, src, nil); !errors.As(err, &invalid) || invalid.Key != "_rec/50" {
		t.Errorf("Copy: %v, want an InvalidError of _rec/50", err)
	}
	if err := storage.Delete(t.Context(), src, "_rec/50"); err != nil {
		t.Fatal(err)
	}
	if tally, err = backup.Copy(t.Context(), empty, src, &backup.CopyOptions{Resume: true}); err != nil || tally.Records != 99 {
		t.Errorf("Copy that goes on: %+v, %v", tally, err)
	}
}

// FuzzRestore: no input panics, what is refused changes nothing, and what is
// taken comes out again.
func FuzzRestore(f *testing.F) {
	m := mem.New()
	for key, value := range map[string]string{"doc/a": `{"f":"1"}`, "doc/%": `{}`, "_rec/a": "\x00\xff", "_rec/b": ""} {
		if err := storage.Set(context.Background(), m, key, []byte(value)); err != nil {
			f.Fatal(err)
		}
	}
	var text bytes.Buffer
	if _, err := backup.Write(context.Background(), m, &text); err != nil {
		f.Fatal(err)
	}
	f.Add(text.Bytes())
	f.Add(text.Bytes()[:text.Len()/2])
	f.Add([]byte(`{"format":"strata-backup","version":1}` + "\n" + `{"end":true}` + "\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		m := mem.New()
		tally, err := backup.Restore(t.Context(), m, bytes.NewReader(in), nil)
		if err != nil {
			if !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrFormat) && !errors.Is(err, storage.ErrNewer) && !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("Restore: %v", err)
			}
			for key := range m.List(t.Context(), "") {
				t.Errorf("a refused backup set %q", key)
			}
			return
		}
		var out bytes.Buffer
		again, err := backup.Write(t.Context(), m, &out)
		if err != nil {
			t.Fatal(err)
		}
		if again.Documents != tally.Documents || again.Records != tally.Records {
			t.Errorf("restored %+v, backed up %+v", tally, again)
		}
	})
}
