package soma_test

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

// changed says of each piece of evidence whether it changed since it was cited.
func (w *world) changed(id string) map[string]bool {
	w.Helper()
	_, cited, err := w.Evidence(w.Context(), id)
	w.check(err)
	m := make(map[string]bool)
	for _, c := range cited {
		m[c.ID] = c.Changed
	}
	return m
}

// What a reviewer relies on is all that the evidence says, and nothing else.
func TestEvidenceChanges(t *testing.T) {
	onHandAndMem(t, func(w *world) {
		event := func() *soma.Entity {
			return &soma.Entity{
				Type: "execution", ID: "event", Name: "Deploy", Status: "completed", Layer: soma.Archive, Tags: []string{"deploy"},
				Related: []string{"execution/other"}, Body: "It\nworked.", Fields: map[string]any{"outcome": "ok", "choice": "wait"},
			}
		}
		for name, change := range map[string]map[string]any{
			"name": {"name": "other"}, "body": {"body": "It failed."}, "outcome": {"outcome": "failed"}, "status": {"status": "failed"},
			"choice": {"choice": "go"}, "no choice": {"choice": nil}, "tags": {"tags": []string{"deploy", "x"}}, "related": {"related": []string{}},
			"links": {"relations": []any{map[string]any{"to": "x", "type": "blocks"}}}, "evidence": {"evidence_links": []string{"x"}},
			"the type of a field": {"outcome": []string{"ok"}}, "another field": {"cost": 3},
		} {
			w.clear()
			w.create(harvester, event())
			w.create(synthesizer, w.proposed("idea", 0.5, "event"))
			w.same("before", w.changed("idea"), map[string]bool{"event": false})
			_, err := w.As(anna).Update(w.Context(), "event", change)
			w.check(err)
			w.same(name, w.changed("idea"), map[string]bool{"event": true})
		}
		w.clear()
		w.create(harvester, event())
		w.create(synthesizer, w.proposed("cited idea", 0.5))
		w.create(synthesizer, w.proposed("other idea", 0.5))
		w.create(teamContext, w.worked("plan", "red"))
		w.create(synthesizer, w.proposed("idea", 0.5, "event", "cited-idea", "other-idea", "plan"))
		law, err := w.promote(anna, "idea", "")
		w.check(err)
		same := map[string]bool{"event": false, "cited-idea": false, "other-idea": false, "plan": false}
		_, err = w.As(anna).Update(w.Context(), "event", map[string]any{"body": "It  \nworked.\n"})
		w.check(err)
		_, err = w.promote(anna, "cited-idea", "")
		w.check(err)
		w.add(13 * 24 * time.Hour)
		w.check(w.As(anna).ExtendDecayOnAccess(w.Context(), "plan"))
		w.same("what an editor, a promotion and a timer change", w.changed(law.ID), same)
		w.add(14 * 24 * time.Hour)
		_, err = w.As(soma.Worker("decay")).ProcessDecay(w.Context())
		w.check(err)
		w.same("what decay changes", w.read("plan").Layer, soma.Archive)
		w.same("after decay", w.changed(law.ID), same)
		w.check(w.As(anna).Reject(w.Context(), "other-idea", "thin"))
		_, err = w.As(anna).Update(w.Context(), "plan", map[string]any{"status": "superseded"})
		w.check(err)
		same["other-idea"], same["plan"] = true, true
		w.same("what was rejected, and given up", w.changed(law.ID), same)
	})
}

// The digest of what is cited is the store's, whatever the author brought.
func TestCitations(t *testing.T) {
	onHandAndMem(t, func(w *world) {
		w.create(harvester, archived("event", "x"))
		w.create(harvester, archived("later", "x"))
		forged := strings.Repeat("0", 64)
		cite := func(id, digest string) map[string]any { return map[string]any{"id": id, "digest": digest} }
		w.create(synthesizer, w.proposed("honest", 0.5, "event"))
		honest := w.read("honest").Evidence()[0].Digest
		for i, digest := range []string{forged, "v2:" + forged, "v9:" + forged, "x"} {
			e := w.create(synthesizer, w.proposed("forged "+string(rune('a'+i)), 0.5, cite("event", digest)))
			w.same("the digest of a new link", e.Evidence()[0].Digest, honest)
			e, err := w.As(synthesizer).Update(w.Context(), e.ID, map[string]any{"evidence_links": []any{cite("event", digest), cite("later", digest), "gone"}})
			w.check(err)
			v := e.Evidence()
			if v[0].Digest != honest || !strings.HasPrefix(v[1].Digest, "v2:") || v[1].Digest == "v2:"+forged || v[2].Digest != "" {
				w.Errorf("links after an update: %+v", v)
			}
		}
		// What is cited still does not count as read again.
		_, err := w.As(anna).Update(w.Context(), "event", map[string]any{"outcome": "failed"})
		w.check(err)
		e := w.read("forged-a")
		_, err = w.As(synthesizer).Update(w.Context(), e.ID, map[string]any{"evidence_links": []any{cite("event", ""), "later"}})
		w.check(err)
		w.same("cited still", w.changed(e.ID), map[string]bool{"event": true, "later": false})
		// The same proposal again is the same, though what it cites has changed.
		before := w.dump()
		w.create(synthesizer, w.proposed("honest", 0.5, "event"))
		w.same("the store", w.dump(), before)
		// A digest of a form that is not known cannot be vouched for.
		document, _, err := w.db.Get(w.Context(), e.Key())
		w.check(err)
		w.check(storage.Set(w.Context(), w.db, e.Key(), []byte(strings.ReplaceAll(string(document), `"v2:`, `"v9:`))))
		w.same("an unknown form", w.changed(e.ID), map[string]bool{"event": true, "later": true})
	})
}

// A store of before has digests of names and bodies. What these do not cover is
// found in its history.
func TestOlderCitations(t *testing.T) {
	onHandAndMem(t, func(w *world) {
		f, err := os.Open("testdata/evidence-1e6b860.jsonl")
		w.check(err)
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var r struct{ Key, Value string }
			w.check(json.Unmarshal(lines.Bytes(), &r))
			w.check(storage.Set(w.Context(), w.db, r.Key, []byte(r.Value)))
		}
		want := map[string]bool{
			"the-same": false, "no-newline": false, "the-plan": false, "the-idea": false, "gone": false,
			"the-body": true, "the-status": true, "the-outcome": true, "the-tags": true, "the-name": true,
		}
		for _, id := range []string{"waits", "canon-held", "held"} {
			w.same("cited by "+id, w.changed(id), want)
		}
		// The newline at the end of a file is no longer the body's.
		for id, body := range map[string]string{"the-same": "What happened.", "no-newline": "What happened.\n"} {
			document, _, err := w.db.Get(w.Context(), "execution/"+id)
			w.check(err)
			var all map[string]any
			w.check(json.Unmarshal(document, &all))
			all["body"] = body
			document, err = json.Marshal(all)
			w.check(err)
			w.check(storage.Set(w.Context(), w.db, "execution/"+id, document))
		}
		w.same("after an editor", w.changed("waits"), want)
		w.add(16 * 24 * time.Hour)
		_, err = w.As(anna).Update(w.Context(), "the-same", map[string]any{"outcome": "failed"})
		w.check(err)
		want["the-same"] = true
		w.same("after a change", w.changed("waits"), want)
		canon, err := w.promote(anna, "waits", "")
		w.check(err)
		w.same("cited by canon that is made of it", w.changed(canon.ID), want)
	})
}
