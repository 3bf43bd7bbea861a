package bolt_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/backup"
	"github.com/stratamem/strata/storage/bolt"
)

func faults(t *testing.T, s *bolt.Store) (found []storage.Fault) {
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

// flipValue flips a bit in the value of doc/007, wherever it is in the file.
func flipValue(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pattern := []byte("doc/007") // in a leaf page the value follows its key
	n := 0
	for at := 0; ; {
		i := bytes.Index(content[at:], pattern)
		if i < 0 {
			break
		}
		at += i + len(pattern)
		if j := bytes.Index(content[at:min(at+300, len(content))], []byte("needle")); j >= 0 {
			content[at+j] ^= 0x10
			n++
		}
	}
	if n == 0 {
		t.Fatal("the value is not to be found in the file")
	}
	write(t, path, content)
}

func TestFlippedValue(t *testing.T) {
	path := made(t)
	flipValue(t, path)
	s := open(t, path, nil)
	ctx := t.Context()
	damaged := func(what string, err error) {
		t.Helper()
		var corrupt *storage.CorruptError
		if !errors.As(err, &corrupt) || corrupt.Key != "doc/007" || corrupt.Path != path || corrupt.Repair == "" {
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
	if _, _, err := s.Get(ctx, "doc/008"); err != nil {
		t.Errorf("Get of another key: %v", err)
	}
	if found := faults(t, s); len(found) != 1 || found[0].Key != "doc/007" {
		t.Errorf("Check found %+v", found)
	}
	// Setting the key again repairs it, and leaves nothing of it in the index.
	if err := storage.Set(ctx, s, "doc/007", []byte(`{"f":"new"}`)); err != nil {
		t.Fatal(err)
	}
	if found := faults(t, s); len(found) != 0 {
		t.Errorf("Check found %+v after a repair", found)
	}
	for e, err := range s.Find(ctx, storage.Query{Equal: map[string]string{"f": "7"}, Limit: 1}) {
		if err != nil || e.Key != "doc/017" {
			t.Errorf("Find yields %q, %v", e.Key, err)
		}
	}
}

// TestDamagedPages overwrites each page in turn. Whatever is read then, it is
// right or an error, and no panic; and where reading everything is no error,
// Check finds the damage or there is none.
func TestDamagedPages(t *testing.T) {
	good, err := os.ReadFile(made(t))
	if err != nil {
		t.Fatal(err)
	}
	page := pageSize(good)
	dir := t.TempDir()
	detected := 0
	for n := 2; n < len(good)/page; n++ {
		for _, fill := range []byte{0x00, 0xFF} {
			bad := bytes.Clone(good)
			copy(bad[n*page:], bytes.Repeat([]byte{fill}, page))
			path := write(t, fmt.Sprintf("%s/%d-%d.db", dir, n, fill), bad)
			s, err := bolt.Open(t.Context(), path, &bolt.Options{Durability: storage.None})
			if err != nil {
				if !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrFormat) {
					t.Errorf("page %d: Open: %v", n, err)
				}
				detected++
				continue
			}
			if !readsWell(t, s) { // else the page was free
				detected++
				found := 0
				for _, err := range s.Check(t.Context()) {
					if err != nil && !errors.Is(err, storage.ErrCorrupt) {
						t.Errorf("page %d: Check: %v", n, err)
					}
					found++
				}
				if found == 0 {
					t.Errorf("page %d of %#x: content is lost and Check finds nothing", n, fill)
				}
			}
			if err := errors.Join(s.Close(), os.Remove(path)); err != nil {
				t.Errorf("page %d: %v", n, err)
			}
		}
	}
	if detected == 0 {
		t.Error("no damage at all")
	}
}

// readsWell tells whether a store holds what made put there.
func readsWell(t *testing.T, s *bolt.Store) bool {
	n := 0
	for _, err := range s.Scan(t.Context(), "", nil) {
		if err != nil {
			if !errors.Is(err, storage.ErrCorrupt) {
				t.Errorf("Scan: %v", err)
			}
			return false
		}
		n++
	}
	for _, err := range s.Find(t.Context(), storage.Query{Equal: map[string]string{"f": "3"}}) {
		if err != nil {
			if !errors.Is(err, storage.ErrCorrupt) {
				t.Errorf("Find: %v", err)
			}
			return false
		}
		n++
	}
	return n == 330
}

// TestCutWhileOpen takes the file away under an open store.
func TestCutWhileOpen(t *testing.T) {
	path := made(t)
	s := open(t, path, nil)
	if err := os.Truncate(path, int64(2*os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.Get(t.Context(), "doc/200")
	if !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), path) {
		t.Errorf("Get: %v", err)
	}
}
