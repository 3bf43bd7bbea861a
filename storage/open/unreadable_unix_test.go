//go:build unix

package open_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/open"
)

// TestOpenUnreadable: a store that may not be read is not one that is read-only,
// which would have its user make it writable.
func TestOpenUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		asNobody(t)
		return
	}
	for _, part := range []string{"bolt:agent.db", "badger:agent", "vault:notes", "vault:notes/_data", "vault:notes/_data/vault.json"} {
		engine, where, _ := strings.Cut(part, ":")
		dir := t.TempDir()
		top, _, _ := strings.Cut(where, "/")
		spec := engine + ":" + filepath.Join(dir, top)
		a, err := open.Open(t.Context(), spec, nil)
		if err == nil {
			err = errors.Join(storage.Set(t.Context(), a, "_a", []byte("x")), a.Close(), os.Chmod(filepath.Join(dir, where), 0))
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, readOnly := range []bool{true, false} {
			a, err := open.Open(t.Context(), spec, &open.Options{ReadOnly: readOnly})
			if !errors.Is(err, fs.ErrPermission) || errors.Is(err, storage.ErrReadOnly) || a != nil {
				t.Errorf("%s, read-only %v: %v, want that it may not be read", part, readOnly, err)
			}
		}
		if err := os.Chmod(filepath.Join(dir, where), 0o700); err != nil {
			t.Error(err)
		}
	}
}

// asNobody runs a test again as a user whom modes of files hold, which root is not.
func asNobody(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "strata-nobody-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	const nobody = 65534
	program := filepath.Join(dir, "test")
	text, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(program, text, 0o755)
	}
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^"+t.Name()+"$")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
