package soma_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/vault"
)

const nfc, nfd = "caf\u00e9", "cafe\u0301"

// TestSpellings: the NFC and NFD forms of an id are one id.
func TestSpellings(t *testing.T) {
	eachEngine(t, func(w *world) {
		e := w.create(harvester, &soma.Entity{Type: "decision", ID: nfd, Name: "a", Layer: soma.Archive})
		w.same("id", e.ID, nfc)
		_, err := w.As(harvester).Create(w.Context(), &soma.Entity{Type: "insight", ID: nfc, Name: "b", Layer: soma.Archive})
		if !errors.Is(err, soma.ErrExists) {
			w.Error(err)
		}
		w.same("derived", w.create(harvester, archived("Cafe\u0301 bar", "")).ID, "caf\u00e9-bar")
		p := w.proposed("idea", 0.5, nfd)
		p.Body, p.Related = "see [["+nfd+"]]", []string{"decision/" + nfd}
		w.create(synthesizer, p)
		for _, id := range []string{nfc, nfd, "decision/" + nfc, "decision/" + nfd} {
			w.same("read", w.read(id).ID, nfc)
			w.same("linked", w.ids(w.FindLinked(w.Context(), id, "")), []string{"idea"})
		}
		w.same("changed", w.changed("idea"), map[string]bool{nfc: false})
		canon, err := w.promote(anna, w.create(synthesizer, w.proposed("Cafe\u0301", 0.5)).ID, "")
		w.check(err)
		w.same("canon", canon.ID, "canon-caf\u00e9")

		// One that an older program wrote in NFD keeps its id, and has both names.
		w.check(storage.Set(w.Context(), w.db, "decision/nai\u0308ve", []byte(`{"name":"old","layer":"archive","status":"active","source_worker":"x"}`)))
		for _, id := range []string{"na\u00efve", "nai\u0308ve"} {
			w.same("older", w.read(id).Name, "old")
		}
		_, err = w.As(anna).Update(w.Context(), "na\u00efve", map[string]any{"name": "new"})
		w.check(err)
		w.same("key", w.read("na\u00efve").Key(), "decision/nai\u0308ve")
		_, err = w.As(anna).Forget(w.Context(), "na\u00efve", "asked")
		w.check(err)
		if _, err := w.Read(w.Context(), "nai\u0308ve"); !errors.Is(err, soma.ErrNotFound) {
			w.Error(err)
		}
	})
}

// TestSpellingsOfFiles: a file system that gives names back in NFD changes no id.
func TestSpellingsOfFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "insight"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "insight", nfd+".md"), []byte("text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, s := openVault(t, dir, &vault.Options{Adopt: true})
	for _, id := range []string{nfc, nfd, "insight/" + nfc, "insight/" + nfd} {
		if e, err := s.Read(t.Context(), id); err != nil || e.ID != nfc {
			t.Error(id, e, err)
		}
	}
}

// TestLookAlikes: what is read as another id is reported, and stays another one.
func TestLookAlikes(t *testing.T) {
	for name, doubtful := range map[string]bool{
		"canon-payments": false, "canon-p\u0430yments": true, "\u043f\u043b\u0430\u0442\u0435\u0436\u0438": false, "strata-\u043f\u043b\u0430\u0442\u0435\u0436": false,
		"caf\u00e9": false, nfd: false, "\u03b1-helix": false, "\u03b1helix": true, "pay\u200bments": true, "pay\u202ements": true, "\u65e5\u672ck\u304f": false,
		"\u4f1a\u8b70-x": false, "": false, "a1\u0430": false, "\u0585pen": true, "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645": false,
	} {
		if got := soma.Doubtful(name); (got != "") != doubtful {
			t.Errorf("%q: %q", name, got)
		}
	}
	eachEngine(t, func(w *world) {
		for _, id := range []string{"canon-payments", "payments", "canon-p\u0430yments", "canon-cop", "\u0441\u043e\u0440", "\uff43\uff4f\uff50", "\u043f\u043b\u0430\u0442\u0435\u0436\u0438"} {
			w.create(harvester, &soma.Entity{Type: "decision", ID: id, Name: "x", Layer: soma.Archive})
			w.same("id", w.read(id).ID, id)
		}
		list, err := w.LookAlikes(w.Context())
		w.check(err)
		got := map[string]int{}
		for _, l := range list {
			got[l.Key]++
			if !strings.Contains(l.Reason, "U+") || strings.Contains(l.Reason, "\u0430") {
				w.Error(l)
			}
		}
		w.same("reported", got, map[string]int{"decision/canon-p\u0430yments": 2, "decision/\u0441\u043e\u0440": 1, "decision/\uff43\uff4f\uff50": 1})
	})
}
