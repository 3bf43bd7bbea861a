package open_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/open"
)

func TestOpen(t *testing.T) {
	path, dir, notes := filepath.Join(t.TempDir(), "agent.db"), filepath.Join(t.TempDir(), "agent"), filepath.Join(t.TempDir(), "notes")
	for spec, engine := range map[string]string{
		"mem:": "mem", "bolt:" + path: "bolt", "badger:" + dir: "badger", "vault:" + notes: "vault",
	} {
		a, err := open.Open(t.Context(), spec, nil)
		if err != nil {
			t.Fatalf("Open %q: %v", spec, err)
		}
		st, err := storage.StatsOf(t.Context(), a)
		if err != nil || st.Engine != engine {
			t.Errorf("Open %q: engine %q, %v", spec, st.Engine, err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, spec := range []string{"bolt:" + path, "badger:" + dir, "vault:" + notes} {
		a, err := open.Open(t.Context(), spec, &open.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if err := storage.Set(t.Context(), a, "_a", nil); !errors.Is(err, storage.ErrReadOnly) {
			t.Errorf("%s: Set: %v", spec, err)
		}
	}
}

// TestOpenFiles: records of a namespace are files where the engine has such.
func TestOpenFiles(t *testing.T) {
	dir := t.TempDir()
	for _, spec := range []string{"mem:", "bolt:" + filepath.Join(dir, "db"), "badger:" + filepath.Join(dir, "badger"), "vault:" + filepath.Join(dir, "vault")} {
		a, err := open.Open(t.Context(), spec, &open.Options{Files: []string{"_governance/"}})
		if err != nil {
			t.Fatalf("Open %q: %v", spec, err)
		}
		if err := errors.Join(storage.Set(t.Context(), a, "_governance/a/b", []byte("x")), a.Close()); err != nil {
			t.Error(err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "vault/_governance/a/b.rec")); err != nil || string(text) != "x" {
		t.Errorf("the record's file has %q, %v", text, err)
	}
}

func TestOpenErrors(t *testing.T) {
	for spec, says := range map[string]string{
		"":             "mem:",
		"agent.db":     `"bolt:agent.db"`,
		"./a:b/c.db":   `"bolt:./a:b/c.db"`,
		`C:\agent.db`:  `use "bolt:C:`,
		"bolt:":        "needs a file",
		"badger:":      "needs a directory",
		"vault:":       "needs a directory",
		"mem:x":        "nothing after",
		"redis://host": `"bolt:FILE"`,
	} {
		a, err := open.Open(t.Context(), spec, nil)
		if !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), says) || a != nil {
			t.Errorf("Open %q: %v, %v, want an error that says %s", spec, a, err, says)
		}
	}
	for _, scheme := range []string{"bolt:", "badger:"} {
		a, err := open.Open(t.Context(), scheme+filepath.Join(t.TempDir(), "no", "such", "place"), nil)
		if err == nil || a != nil {
			t.Errorf("Open of %s in no directory: %v, %v", scheme, a, err)
		}
	}
}
