//go:build unix

package vault_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/vault"
)

// TestLinkedDirectories: what a vault writes is inside of it. A link in the place
// of one of its own directories or files is refused and nothing is written behind it.
func TestLinkedDirectories(t *testing.T) {
	for _, name := range []string{"_data", "_data/log", "_data/tmp", "_data/lost", "_data/log/00000001.log", "_data/end", "_mutations.jsonl", "_vault.lock"} {
		for _, empty := range []bool{true, false} {
			dir, outside := t.TempDir(), t.TempDir()
			s := open(t, dir, nil)
			set(t, s, "doc/a", `{"n":1}`)
			set(t, s, "_a", "1")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			there, behind := filepath.Join(dir, name), filepath.Join(outside, "x")
			err := os.Rename(there, behind)
			if errors.Is(err, os.ErrNotExist) {
				err = os.Mkdir(behind, 0o755)
			}
			if empty && err == nil {
				err = os.RemoveAll(behind)
			}
			if empty && err == nil && filepath.Ext(name) == "" && name != "_data/end" {
				err = os.Mkdir(behind, 0o755)
			}
			if err = errors.Join(err, os.Symlink(behind, there)); err != nil {
				t.Fatal(err)
			}
			before := modes(t, outside)
			for _, readOnly := range []bool{false, true} {
				s, err := vault.Open(t.Context(), dir, &vault.Options{ReadOnly: readOnly})
				if err == nil {
					err = errors.Join(storage.Set(t.Context(), s, "doc/b", []byte(`{}`)), storage.Set(t.Context(), s, "_b", []byte(`{}`)))
					s.Close()
					if !readOnly {
						t.Errorf("%s is a link: opened, %v", name, err)
					}
				}
				if format, ok := errors.AsType[*storage.FormatError](err); ok && format.Path == "" {
					t.Errorf("%s is a link: %v", name, err)
				}
			}
			after := modes(t, outside)
			for path := range after {
				if _, ok := before[path]; !ok {
					t.Errorf("%s is a link: %s was written outside", name, path)
				}
			}
		}
	}
}
