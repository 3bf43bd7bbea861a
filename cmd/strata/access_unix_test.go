//go:build unix

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
)

// TestCopyKeepsOthersOut: whoever could not read a store cannot read its copy, nor
// what is restored from its backup.
func TestCopyKeepsOthersOut(t *testing.T) {
	for _, test := range []struct {
		engine string
		mode   fs.FileMode // of the source
		most   fs.FileMode // of a vault
	}{
		{"bolt", 0o600, 0o700}, {"bolt", 0o640, 0o700}, {"bolt", 0o644, 0o755}, {"badger", 0o700, 0o700}, {"vault", 0o700, 0o700}, {"vault", 0o750, 0o700}, {"vault", 0o755, 0o755},
	} {
		dir := t.TempDir()
		src, backup := filepath.Join(dir, "source"), filepath.Join(dir, "backup")
		fill(t, test.engine+":"+src, 3)
		if err := os.Chmod(src, test.mode); err != nil {
			t.Fatal(err)
		}
		for name, most := range map[string]fs.FileMode{"vault": test.most, "badger": 0o700, "bolt": 0o600} {
			to := filepath.Join(dir, "copy", name)
			if name != "vault" {
				if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			do(t, "copy", test.engine+":"+src, name+":"+to)
			if info, err := os.Stat(to); err != nil || info.Mode().Perm() != most {
				t.Errorf("%s of %v to %s: %v, %v, want %v", test.engine, test.mode, name, info.Mode(), err, most)
			}
		}
		do(t, "backup", test.engine+":"+src, backup)
		restored := filepath.Join(dir, "restored")
		do(t, "restore", backup, "vault:"+restored)
		if info, err := os.Stat(restored); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("restored: %v, %v", info.Mode(), err)
		}
	}
}

// TestCopyIntoOpenDirectory: a directory that is there keeps its mode, and it is
// said if others may read what they could not.
func TestCopyIntoOpenDirectory(t *testing.T) {
	dir := t.TempDir()
	src, to := filepath.Join(dir, "agent.db"), filepath.Join(dir, "notes")
	with(t, "bolt:"+src, func(a storage.Adapter) {
		if err := storage.Set(t.Context(), a, "insight/a", []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
	})
	if err := os.Mkdir(to, 0o755); err != nil {
		t.Fatal(err)
	}
	status, _, errs := call(t.Context(), nil, "copy", src, "vault:"+to)
	if status != 0 || !strings.Contains(errs, "chmod go-rx "+to) {
		t.Errorf("status %d: %s", status, errs)
	}
}

// TestCopyOfPrivateDocuments: a vault whose documents are their owner's alone in a
// directory that others may enter, as under a umask of 077, has a copy that is.
func TestCopyOfPrivateDocuments(t *testing.T) {
	for _, narrow := range []string{"", "insight", "insight/a.md"} {
		dir := t.TempDir()
		src, to := filepath.Join(dir, "source"), filepath.Join(dir, "copy")
		fill(t, "vault:"+src, 3)
		with(t, "vault:"+src, func(a storage.Adapter) {
			if err := storage.Set(t.Context(), a, "insight/a", []byte(`{}`)); err != nil {
				t.Fatal(err)
			}
		})
		most := fs.FileMode(0o755)
		if narrow != "" {
			most = 0o700
			info, err := os.Stat(filepath.Join(src, narrow))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(src, narrow), info.Mode()&0o700); err != nil {
				t.Fatal(err)
			}
		}
		do(t, "copy", "vault:"+src, "vault:"+to)
		if info, err := os.Stat(to); err != nil || info.Mode().Perm() != most {
			t.Errorf("%q: %v, %v, want %v", narrow, info.Mode(), err, most)
		}
	}
}
