package soma_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stratamem/strata/soma"
)

func TestDirectory(t *testing.T) {
	w := newWorld(t, "vault")
	if _, err := soma.Fingerprint(w.dir); err == nil {
		t.Error("what is not there has a fingerprint")
	}
	w.create(harvester, archived("a", ""))
	w.create(teamContext, w.worked("b", "red"))
	w.check(os.WriteFile(filepath.Join(w.dir, "decision", "notes.txt"), nil, 0o644))
	w.check(os.MkdirAll(filepath.Join(w.dir, ".obsidian"), 0o755))
	w.check(os.WriteFile(filepath.Join(w.dir, ".obsidian", "x.md"), nil, 0o644))
	if n, err := soma.CountEntities(w.dir); n != 2 || err != nil {
		t.Errorf("%d entities, %v", n, err)
	}
	if n, err := soma.CountEntities(filepath.Join(w.dir, "nothing")); n != 0 || err != nil {
		t.Errorf("%d entities of nothing, %v", n, err)
	}
	if _, err := soma.CountEntities(filepath.Join(w.dir, "decision", "notes.txt")); err == nil {
		t.Error("a file is counted")
	}
	w.Store.Close()
	w.check(w.db.Close())
	if sum, err := soma.Fingerprint(w.dir); len(sum) != 64 || err != nil {
		t.Errorf("fingerprint %q, %v", sum, err)
	}
}

func TestEpoch(t *testing.T) {
	eachEngine(t, func(w *world) {
		first, err := w.Epoch(w.Context())
		w.check(err)
		w.open()
		again, err := w.Epoch(w.Context())
		w.check(err)
		if first == "" || first != again {
			w.Errorf("epoch %q, then %q", first, again)
		}
		other, err := newWorld(w.T, "mem").Epoch(w.Context())
		if err != nil || other == first {
			w.Errorf("another store has epoch %q, %v", other, err)
		}
	})
}
