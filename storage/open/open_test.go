package open_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
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

// TestOpenFurther: an engine that the caller gives is opened by its scheme, with
// what stands behind it and the options.
func TestOpenFurther(t *testing.T) {
	wants := &open.Options{ReadOnly: true, Durability: storage.Full}
	fails := errors.New("no such host")
	var asked []string
	further := func(engine string, err error) open.Opener {
		return func(_ context.Context, where string, opts *open.Options) (storage.Adapter, error) {
			asked = append(asked, engine+" "+where)
			if opts != wants {
				t.Errorf("%s: the options are other ones", engine)
			}
			if err != nil {
				return nil, err
			}
			return mem.New(), nil
		}
	}
	wants.Engines = map[string]open.Opener{"tiny": further("tiny", nil), "far": further("far", fails)}
	for spec, want := range map[string]error{"tiny:a:b": nil, "tiny:": nil, "far://host/x": fails} {
		a, err := open.Open(t.Context(), spec, wants)
		if err != want || (a == nil) != (want != nil) {
			t.Errorf("Open %q: %v, %v, want %v", spec, a, err, want)
		}
	}
	slices.Sort(asked)
	if want := []string{"far //host/x", "tiny ", "tiny a:b"}; !slices.Equal(asked, want) {
		t.Errorf("opened %q, want %q", asked, want)
	}
	for _, spec := range []string{"", "tiny", "redis://host"} {
		if _, err := open.Open(t.Context(), spec, wants); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), `"vault:DIR", "mem:", "far:" and "tiny:"`) {
			t.Errorf("Open %q: %v, want an error that names all engines", spec, err)
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
