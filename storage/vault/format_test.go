package vault_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/vault"
)

// golden unpacks a vault that an older program has written.
func golden(t *testing.T, name string) string {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for files := tar.NewReader(unzipped); ; {
		head, err := files.Next()
		if err == io.EOF {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		if head.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, head.Name, string(text))
	}
}

// TestVersion1 opens vaults that the program before format 2 wrote, one of them when
// it was killed: what they hold is read, with and without writing, and what
// is to be otherwise is made so.
func TestVersion1(t *testing.T) {
	content := map[string]string{
		"policy/plain": `{"status":"active","body":"Do not deploy on Fridays."}`,
		"policy/ended": `{"status":"active","body":"Ends with a newline."}`, // and that is the file's
		"policy/empty": `{"status":"draft"}`,
		"policy/" + storage.EscapeSegment("Ünder: one/two"): `{"status":"draft","tags":["a","b"],"n":1.50}`,
	}
	records := map[string]string{
		"_governance/policy/plain": `{"digest":"x"}`, "_governance/later": "\x00\xff", "_threads/t/1": "an item", "_threads/t/2": "another",
	}
	for _, name := range []string{"v1.tar.gz", "v1-killed.tar.gz"} {
		dir := golden(t, name)
		check := func(s *vault.Store) {
			t.Helper()
			for key, value := range content {
				want(t, s, key, value)
			}
			for key, value := range records {
				record(t, s, key, value)
			}
			if got := keys(t, s, ""); len(got) != len(content)+len(records) {
				t.Errorf("keys %q", got)
			}
			found(t, s, "status", "active", "policy/ended", "policy/plain")
			sound(t, s)
		}
		look := open(t, dir, &vault.Options{ReadOnly: true, Files: []string{"_governance"}})
		check(look)
		if text := read(t, dir, "_data/vault.json"); !strings.Contains(text, `"version":1`) {
			t.Errorf("%s: reading has changed the version: %s", name, text)
		}
		s := open(t, dir, nil)
		check(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, governed())
		check(s)
		if d := cmp.Diff([]string{"_governance/later.rec", "_governance/policy/plain.rec"}, recordFiles(t, dir)); d != "" {
			t.Error(d)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"_data/vault.json", "_vault.json", "_index.json"} {
			if text := read(t, dir, name); !strings.Contains(text, `"version":2`) {
				t.Errorf("%s has %.100s", name, text)
			}
		}
		check(open(t, dir, nil))
		set(t, open(t, dir, nil), "policy/plain", content["policy/plain"])
		if text := read(t, dir, "policy/plain.md"); !strings.HasSuffix(text, "Fridays.\n") {
			t.Errorf("a document that was set ends in %q", text)
		}
	}
}

// TestIgnore: a .gitignore that is there is kept, and one is written where there is
// none, also later.
func TestIgnore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	text := read(t, dir, ".gitignore")
	for _, line := range []string{"/_data/", "/_index.json", "/_mutations*.jsonl", "/_vault.lock", ".tmp.*"} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf(".gitignore lacks %s", line)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, theirs := range []string{"*.bak\n", ""} {
		write(t, dir, ".gitignore", theirs)
		if err := open(t, dir, nil).Close(); err != nil {
			t.Fatal(err)
		}
		if got := read(t, dir, ".gitignore"); got != theirs {
			t.Errorf(".gitignore was %q and is %q", theirs, got)
		}
	}
	if err := os.Remove(filepath.Join(dir, ".gitignore")); err != nil {
		t.Fatal(err)
	}
	look := open(t, dir, &vault.Options{ReadOnly: true})
	if _, err := os.Lstat(filepath.Join(dir, ".gitignore")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a vault that is read only has a new .gitignore: %v", err)
	}
	look.Close()
	open(t, dir, nil)
	if got := read(t, dir, ".gitignore"); got != text {
		t.Errorf(".gitignore is %q", got)
	}
}
