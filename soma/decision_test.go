package soma_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/soma/guard"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/backup"
)

// gold opens a file of testdata that the tool of 1e6b860 made, the commit before
// decisions had records.
func gold(t *testing.T, name string) io.Reader {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "1e6b860."+name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// eachOld runs a test on what 1e6b860 wrote: restored into every engine, and the
// vault as it was on disk.
func eachOld(t *testing.T, f func(w *world)) {
	eachEngine(t, func(w *world) {
		_, err := backup.Restore(w.Context(), w.db, gold(w.T, "backup.gz"), nil)
		w.check(err)
		w.open()
		f(w)
	})
	t.Run("vault on disk", func(t *testing.T) {
		w := newWorld(t, "vault")
		w.Store.Close()
		w.check(w.db.Close())
		w.dir = t.TempDir()
		for r := tar.NewReader(gold(t, "vault.tar.gz")); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			w.check(err)
			path := filepath.Join(w.dir, filepath.FromSlash(h.Name))
			if h.FileInfo().IsDir() {
				w.check(os.MkdirAll(path, 0o700))
				continue
			}
			text, err := io.ReadAll(r)
			w.check(err)
			w.check(os.WriteFile(path, text, 0o600))
		}
		w.reopen()
		f(w)
	})
}

// old returns the keys of the records from before decisions.
func (w *world) old() (list []string) {
	w.Helper()
	for key, err := range w.db.List(w.Context(), "_canon/") {
		w.check(err)
		list = append(list, key)
	}
	return list
}

// What was ratified before decisions had records is in force, as it was.
func TestOldCanonHolds(t *testing.T) {
	eachOld(t, func(w *world) {
		inForce := func(what string) {
			w.Helper()
			w.same("withheld "+what, w.withheld(), []string(nil))
			list, err := w.PolicySource(0).Constraints(w.Context(), "")
			w.check(err)
			var got []string
			for _, c := range list {
				got = append(got, c.ID+" "+c.Enforcement+" "+c.Condition+" "+c.Message)
			}
			w.same("constraints "+what, got, []string{
				`canon-no-exec error tool == "exec" Never.`, `canon-no-mail warn tool == "mail" Never.`, `canon-no-shell error tool == "shell" Never call it.`,
			})
			w.same("served "+what, slices.Sorted(slices.Values(w.consult(soma.Enforce, ""))), []string{"canon-no-exec", "canon-no-mail", "canon-no-shell", "canon-wait"})
		}
		before := w.dump()
		inForce("at once")
		w.same("the store after reading", w.dump(), before)

		// The next decision about an entry converts its record.
		w.check(w.As(anna).Retire(w.Context(), "canon-wait", "no more"))
		if n := len(w.decisions("insight/canon-wait")); n != 2 {
			w.Errorf("%d decisions about it, want the old one and the new one", n)
		}
		if slices.Contains(w.old(), "_canon/insight/canon-wait") {
			w.Error("the old record is still there")
		}

		m, err := w.MigrateToLayers(w.Context())
		w.check(err)
		if m.Converted != 4 || len(m.Warnings) > 0 {
			w.Errorf("migrated %+v", m)
		}
		w.same("old records", w.old(), []string(nil))
		w.same("withheld", w.withheld(), []string(nil))
		again, err := w.MigrateToLayers(w.Context())
		w.check(err)
		if again.Converted != 0 || again.Migrated != 0 {
			w.Errorf("migrated again: %+v", again)
		}
		for tool, want := range map[string]guard.Action{"shell": guard.Block, "mail": guard.Warning, "exec": guard.Block, "bash": guard.Allow} {
			if got := w.guards(tool, "").Action; got != want {
				w.Errorf("%s after the migration: %v, want %v", tool, got, want)
			}
		}
	})
}

// Who converts the same record makes the same decision of it, so that two copies
// of a store that were migrated apart come together.
func TestOldCanonConvertsAlike(t *testing.T) {
	var first []string
	eachOld(t, func(w *world) {
		_, err := w.MigrateToLayers(w.Context())
		w.check(err)
		var all []string
		for _, key := range []string{"policy/canon-no-shell", "policy/canon-no-bash", "policy/canon-no-mail"} {
			all = append(all, w.decisions(key)...)
		}
		if strings.HasSuffix(w.Name(), "_on_disk") {
			return // another store
		}
		if first == nil {
			first = all
		}
		w.same("decisions", all, first)
	})
}

// A policy that was edited before the store was converted blocks what it was
// against, which the history knows; with neither, every call.
func TestOldCanonFailsClosed(t *testing.T) {
	eachOld(t, func(w *world) {
		w.edit(shell, `== \"shell\"`, `== \"nothing\"`)
		if v := w.guards("shell", ""); v.Action != guard.Block || w.guards("read", "").Action != guard.Allow {
			w.Errorf("edited: %v", v)
		}
		w.check(storage.Delete(w.Context(), w.db, "policy/canon-no-exec"))
		if v := w.guards("exec", ""); v.Action != guard.Block || w.guards("read", "").Action != guard.Allow {
			w.Errorf("deleted: %v", v)
		}
		m, err := w.MigrateToLayers(w.Context())
		w.check(err)
		if m.Converted != 5 {
			w.Errorf("migrated %+v", m)
		}
		if v := w.guards("shell", ""); v.Action != guard.Block || w.guards("exec", "").Action != guard.Block || w.guards("read", "").Action != guard.Allow {
			w.Errorf("converted: %v", v)
		}
	})
	eachOld(t, func(w *world) {
		var gone []string
		for key, err := range w.db.List(w.Context(), "_history/policy/canon-no-shell/") {
			w.check(err)
			gone = append(gone, key)
		}
		for _, key := range gone {
			w.check(storage.Delete(w.Context(), w.db, key))
		}
		w.edit(shell, `Not even`, `Even`)
		if v := w.guards("read", ""); v.Action != guard.Block {
			w.Errorf("nothing knows what it was against: %v", v)
		}
		m, err := w.MigrateToLayers(w.Context())
		w.check(err)
		if m.Converted != 4 || len(m.Warnings) != 1 {
			w.Errorf("migrated %+v", m)
		}
		w.check(w.As(anna).Ratify(w.Context(), shell, "as it is"))
		w.same("withheld", w.withheld(), []string(nil))
		w.same("old records", w.old(), []string(nil))
	})
}

// A canon entry that was forgotten leaves no decision.
func TestForgottenDecisions(t *testing.T) {
	eachEngine(t, func(w *world) {
		w.rule("shell", "error", nil)
		_, err := w.As(anna).Forget(w.Context(), shell, "it named a customer")
		w.check(err)
		w.same("decisions", w.decisions(shell), []string(nil))
		w.same("withheld", w.withheld(), []string(nil))
		if err := w.As(anna).Ratify(w.Context(), shell, "x"); !errors.As(err, new(*soma.GovernanceError)) {
			w.Errorf("what was forgotten is ratified: %v", err)
		}
	})
}
