package open_test

import (
	"errors"
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
		if err := a.Set(t.Context(), "_a", nil); !errors.Is(err, storage.ErrReadOnly) {
			t.Errorf("%s: Set: %v", spec, err)
		}
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
