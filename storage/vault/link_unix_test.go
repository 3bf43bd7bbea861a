//go:build unix

package vault_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// TestLinksSwappedIn: a directory that becomes a link while the store is open, to
// somewhere else or to nothing, has nothing written behind it either.
func TestLinksSwappedIn(t *testing.T) {
	for _, name := range []string{"_data", "_data/log", "_data/tmp", "_data/lost", "doc", "_governance", "_governance/doc", "People", "."} {
		for _, dangling := range []bool{true, false} {
			dir, outside := filepath.Join(t.TempDir(), "v"), t.TempDir()
			write(t, dir, "People/Ada.md", "x")
			s := open(t, dir, &vault.Options{Adopt: true, Files: []string{"_governance/"}, Logger: quiet})
			for _, key := range []string{"doc/a", "people/a", "note/a"} {
				set(t, s, key, `{"n":1}`)
			}
			set(t, s, "_governance/doc/a", "1")
			set(t, s, "_a", "1")
			there, behind := filepath.Join(dir, name), filepath.Join(outside, "x")
			if err := os.MkdirAll(there, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(there, there+".away"); err != nil {
				t.Fatal(err)
			}
			if !dangling {
				if err := os.CopyFS(behind, os.DirFS(there+".away")); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(behind, there); err != nil {
				t.Fatal(err)
			}
			before := contents(t, outside)
			for i := range 3 {
				for _, key := range []string{"doc/a", "doc/b", "people/a", "people/b", "note/a", "_governance/doc/a", "_governance/doc/b", "_a"} {
					err := storage.Set(t.Context(), s, key, fmt.Appendf(nil, `{"n":%d}`, i+2))
					if err == nil && (name == "_data" || name == "_data/log" || name == "_data/tmp") {
						t.Errorf("%s became a link (dangling %v): Set %s is no error", name, dangling, key)
					}
				}
				_ = storage.Delete(t.Context(), s, "doc/a")
				_ = s.Rebuild(t.Context())
				_ = s.Compact(t.Context())
			}
			_ = s.Close()
			if name != "." || dangling { // who swaps the vault itself has another vault
				if diff := cmp.Diff(before, contents(t, outside)); diff != "" {
					t.Errorf("%s became a link (dangling %v): %s", name, dangling, diff)
				}
			}
			if s, err := vault.Open(t.Context(), dir, &vault.Options{Files: []string{"_governance/"}, Logger: quiet}); err == nil && name != "." {
				_ = storage.Set(t.Context(), s, "doc/c", []byte(`{}`))
				_ = storage.Set(t.Context(), s, "people/c", []byte(`{}`))
				_ = storage.Set(t.Context(), s, "_governance/doc/c", []byte(`{}`))
				_ = s.Close()
				if diff := cmp.Diff(before, contents(t, outside)); diff != "" {
					t.Errorf("%s is a link (dangling %v): %s", name, dangling, diff)
				}
			}
		}
	}
}
