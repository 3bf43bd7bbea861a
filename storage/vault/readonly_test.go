package vault_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/vault"
)

// tree returns what is in a directory: names, modes, times and texts.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var text []byte
		if info.Mode().IsRegular() {
			text, err = os.ReadFile(path)
		}
		files[path] = fmt.Sprint(info.Mode(), info.ModTime().UnixNano(), string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestReadOnly: a vault that is opened for reading can be read by all means,
// and no file of it is changed.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	if err := s.EnsureIndex(t.Context(), "layer"); err != nil {
		t.Fatal(err)
	}
	set(t, s, "doc/a", `{"layer":"canon"}`)
	set(t, s, "_r/1", "one")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		spoil func()
	}{
		{"closed", func() {}},
		{"torn", func() { tear(t, dir) }},
		{"no data", func() { remove(t, dir, "_data") }},
		{"clone", func() { remove(t, dir, "_index.json"); remove(t, dir, "_vault.lock") }},
	} {
		name := c.name
		t.Run(name, func(t *testing.T) {
			c.spoil()
			before := tree(t, dir)
			adopt := name == "clone"
			r := open(t, dir, &vault.Options{ReadOnly: true, Adopt: adopt})
			want(t, r, "doc/a", `{"layer":"canon"}`)
			if _, err := os.Stat(filepath.Join(dir, "_data")); err == nil {
				want(t, r, "_r/1", "one")
			}
			sound(t, r)
			if !adopt {
				found(t, r, "layer", "canon", "doc/a")
			}
			if st, err := r.Stats(t.Context()); err != nil || st.Documents != 1 {
				t.Errorf("Stats: %+v, %v", st, err)
			}
			still, err := r.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want(t, still, "doc/a", `{"layer":"canon"}`)
			if err := still.Close(); err != nil {
				t.Error(err)
			}
			if n, _, err := r.Verify(t.Context()); err != nil || n != 1 {
				t.Errorf("Verify: %d lines, %v", n, err)
			}
			for call, err := range map[string]error{
				"Set": storage.Set(t.Context(), r, "doc/b", []byte(`{}`)), "Delete": storage.Delete(t.Context(), r, "doc/a"), "Compact": r.Compact(t.Context()),
				"Rebuild": r.Rebuild(t.Context()), "EnsureIndex": r.EnsureIndex(t.Context(), "more"),
			} {
				if !errors.Is(err, storage.ErrReadOnly) {
					t.Errorf("%s: %v", call, err)
				}
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
				t.Errorf("a file was changed: %s", diff)
			}
		})
	}
}

// TestReadOnlySeesOthers: what others write, compact and edit is seen.
func TestReadOnlySeesOthers(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	set(t, s, "doc/a", `{"n":1}`)
	r := open(t, dir, &vault.Options{ReadOnly: true})
	for n := range 3 {
		set(t, s, "doc/a", fmt.Sprintf(`{"n":%d}`, n))
		set(t, s, "_r/1", fmt.Sprint(n))
		want(t, r, "doc/a", fmt.Sprintf(`{"n":%d}`, n))
		want(t, r, "_r/1", fmt.Sprint(n))
		if err := s.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, r, "_r/1", fmt.Sprint(n))
		sound(t, r)
	}
	write(t, dir, "doc/b.md", "by hand")
	want(t, r, "doc/b", `{"body":"by hand"}`)
}

// TestReadOnlyNeedsAVault: none is made.
func TestReadOnlyNeedsAVault(t *testing.T) {
	dir := t.TempDir()
	if _, err := vault.Open(t.Context(), filepath.Join(dir, "none"), &vault.Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no directory: %v", err)
	}
	if _, err := vault.Open(t.Context(), dir, &vault.Options{ReadOnly: true}); !errors.Is(err, storage.ErrFormat) {
		t.Errorf("of an empty directory: %v", err)
	}
	write(t, dir, "notes.txt", "hello")
	if _, err := vault.Open(t.Context(), dir, &vault.Options{ReadOnly: true}); !errors.Is(err, storage.ErrFormat) {
		t.Errorf("of another's directory: %v", err)
	}
	if files := tree(t, dir); len(files) != 2 {
		t.Errorf("there are files: %v", files)
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// tear puts the beginning of a frame at the end of the log, as a writer does that
// is killed.
func tear(t *testing.T, dir string) {
	t.Helper()
	end, err := os.ReadFile(filepath.Join(dir, "_data/end"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "_data/log/00000001.log"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{200, 0, 0, 0, 1, 2, 3, 4, 5}, int64(end[8])|int64(end[9])<<8); err != nil {
		t.Fatal(err)
	}
}
