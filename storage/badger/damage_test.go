package badger_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/backup"
	"github.com/stratamem/strata/storage/badger"
)

func faults(t *testing.T, s *badger.Store) (found []storage.Fault) {
	t.Helper()
	for f, err := range s.Check(t.Context()) {
		if err != nil {
			t.Fatalf("Check: %v", err)
		}
		if f.Reason == "" || f.Repair == "" || f.Path == "" {
			t.Errorf("fault %+v does not say what and what to do", f)
		}
		found = append(found, f)
	}
	return found
}

// flip flips a bit in the value of doc/007, which is in a table, where the
// values stand in key order.
func flip(t *testing.T, dir string) {
	t.Helper()
	change(t, first(t, dir, "*.sst"), func(b []byte) []byte {
		at := bytes.Index(b, []byte(`{"f":"7"`))
		if at < 0 {
			t.Fatal("the value is not to be found in the table")
		}
		b[at+bytes.Index(b[at:], []byte("needle"))] ^= 0x10
		return b
	})
}

func TestFlippedValue(t *testing.T) {
	dir := made(t)
	flip(t, dir)
	s := open(t, dir, nil)
	ctx := t.Context()
	damaged := func(what string, err error) {
		t.Helper()
		var corrupt *storage.CorruptError
		if !errors.As(err, &corrupt) || corrupt.Key != "doc/007" || corrupt.Path != dir || corrupt.Repair == "" {
			t.Errorf("%s: %v, want a CorruptError of doc/007", what, err)
		}
	}
	_, _, err := s.Get(ctx, "doc/007")
	damaged("Get", err)
	err = nil
	for _, err = range s.Scan(ctx, "doc/", nil) {
	}
	damaged("Scan", err)
	for _, err = range s.Find(ctx, storage.Query{Equal: map[string]string{"f": "7"}}) {
	}
	damaged("Find", err)
	_, err = backup.Write(ctx, s, new(bytes.Buffer))
	damaged("Backup", err)
	damaged("EnsureIndex", s.EnsureIndex(ctx, "pad"))
	if _, _, err := s.Get(ctx, "doc/008"); err != nil {
		t.Errorf("Get of another key: %v", err)
	}
	if found := faults(t, s); len(found) != 1 {
		t.Errorf("Check found %+v", found)
	}
	// Setting the key again repairs it, and leaves nothing of it in the index.
	if err := storage.Set(ctx, s, "doc/007", []byte(`{"f":"new"}`)); err != nil {
		t.Fatal(err)
	}
	for e, err := range s.Find(ctx, storage.Query{Equal: map[string]string{"f": "7"}, Limit: 1}) {
		if err != nil || e.Key != "doc/017" {
			t.Errorf("Find yields %q, %v", e.Key, err)
		}
	}
	// The table goes with the next merge, and its damage with it.
	if err := s.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	if found := faults(t, s); len(found) != 0 {
		t.Errorf("Check found %+v after a repair", found)
	}
}

// TestDamagedValueLog flips a bit in a large value, and then takes its file
// away.
func TestDamagedValueLog(t *testing.T) {
	dir := made(t)
	log := first(t, dir, "*.vlog")
	change(t, log, func(b []byte) []byte {
		b[bytes.Index(b, []byte("haystackhaystack"))+100] ^= 1
		return b
	})
	for _, damage := range []string{"flipped", "gone"} {
		s := open(t, dir, nil)
		_, _, err := s.Get(t.Context(), "_large/a")
		var corrupt *storage.CorruptError
		if !errors.As(err, &corrupt) || corrupt.Key != "_large/a" {
			t.Errorf("%s: Get: %v", damage, err)
		}
		err = nil
		for _, err = range s.Scan(t.Context(), "_large/", nil) {
		}
		if !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: Scan: %v", damage, err)
		}
		if found := faults(t, s); len(found) != 1 || found[0].Key != "_large/a" {
			t.Errorf("%s: Check found %+v", damage, found)
		}
		if _, _, err := s.Get(t.Context(), "doc/000"); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(log); damage == "flipped" && err != nil {
			t.Fatal(err)
		}
	}
}

// TestFlippedTable flips bits all over a table. Whatever is read then, it is
// right or an error, and no panic; and where reading everything is no error,
// Check finds the damage.
func TestFlippedTable(t *testing.T) {
	dir := made(t)
	table := first(t, dir, "*.sst")
	var size int
	change(t, table, func(b []byte) []byte { size = len(b); return b })
	detected := 0
	for at := 3; at < size; at += size/60 + 1 {
		change(t, table, func(b []byte) []byte { b[at] ^= 0x24; return b })
		s, err := badger.Open(t.Context(), dir, &badger.Options{ReadOnly: true})
		if err != nil {
			if !errors.Is(err, storage.ErrCorrupt) {
				t.Errorf("byte %d: Open: %v", at, err)
			}
			detected++
		} else {
			for _, err := range s.Scan(t.Context(), "", nil) {
				if err != nil && !errors.Is(err, storage.ErrCorrupt) {
					t.Errorf("byte %d: Scan: %v", at, err)
				}
			}
			if len(faults(t, s)) > 0 {
				detected++
			} else {
				t.Errorf("byte %d of %d flipped: Check finds nothing", at, size)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		change(t, table, func(b []byte) []byte { b[at] ^= 0x24; return b })
	}
	if detected == 0 {
		t.Error("no damage at all")
	}
}
