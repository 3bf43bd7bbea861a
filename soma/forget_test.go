package soma_test

import (
	"slices"
	"testing"

	"github.com/stratamem/strata/storage"
)

// TestForgetTakesLinksOut: of what was forgotten no field leads to it, and every other link
// stays; canon that cited it holds as before, for that was no decision about its text.
func TestForgetTakesLinksOut(t *testing.T) {
	w := newWorld(t, "mem")
	w.create(harvester, archived("leak", "the password is hunter2"))
	w.create(harvester, archived("other", "harmless"))
	law := w.proposed("law", 0.9, "leak", "other")
	law.Related = []string{"decision/leak", "decision/other"}
	law.Fields["contradicts"] = []any{"leak", "other"}
	law.Fields["relations"] = []any{map[string]any{"to": "leak", "type": "explains"}, map[string]any{"to": "other", "type": "explains"}}
	w.create(synthesizer, law)
	canon, err := w.promote(anna, "law", "")
	w.check(err)
	w.check(storage.Set(w.Context(), w.db, "decision/texts", []byte(`{"name":"texts","layer":"archive","supersedes":"decision/leak","contradicts":"other"}`)))
	w.check(storage.Set(w.Context(), w.db, "decision/text", []byte(`{"name":"text","layer":"archive","supersedes":"other","contradicts":"[[decision/leak]]"}`)))
	_, err = w.Sync(w.Context())
	w.check(err)

	got, err := w.As(anna).Forget(w.Context(), "leak", "a leak")
	w.check(err)
	slices.Sort(got.Unlinked)
	w.same("unlinked", got.Unlinked, []string{"decision/text", "decision/texts", "insight/canon-law", "insight/law"})
	for _, id := range []string{"law", canon.ID} {
		e := w.read(id)
		w.same(id+" is related to", e.Related, []string{"decision/other"})
		w.same(id+" contradicts", e.Fields["contradicts"], any([]any{"[[decision/other]]"}))
		w.same(id+" explains", e.Fields["relations"], any([]any{map[string]any{"to": "other", "type": "explains"}}))
		if cited := e.Evidence(); len(cited) != 1 || cited[0].ID != "other" {
			t.Errorf("%s cites %v", id, cited)
		}
	}
	w.same("withheld", w.withheld(), []string(nil))
	w.same("texts supersedes", w.read("texts").Text("supersedes"), "")
	w.same("texts contradicts", w.read("texts").Text("contradicts"), "other")
	w.same("text supersedes", w.read("text").Text("supersedes"), "other")
	w.same("text contradicts", w.read("text").Text("contradicts"), "")
}

// TestTombstoneDigest: a tombstone tells the last document from others, also where somebody
// deleted it first, and nothing where there was none.
func TestTombstoneDigest(t *testing.T) {
	w := newWorld(t, "mem")
	made := w.create(harvester, archived("leak", "once"))
	changed, err := w.As(anna).Update(w.Context(), "leak", map[string]any{"body": "twice"})
	w.check(err)
	if made.Digest() == changed.Digest() {
		t.Fatal("the digest is the same")
	}
	for _, gone := range []bool{false, true} {
		if gone {
			changed = w.create(harvester, archived("file", "three times"))
			w.check(storage.Delete(w.Context(), w.db, "decision/file"))
		}
		keys := len(w.dump())
		got, err := w.As(anna).Forget(w.Context(), changed.ID, "a leak")
		w.check(err)
		if len(got.Entities) != 1 || got.Entities[0].Digest != changed.Digest() {
			t.Errorf("%s, deleted before %t: %+v, want the digest %s", changed.ID, gone, got.Entities, changed.Digest())
		}
		if left := len(w.dump()); got.Records < 2 || left >= keys {
			t.Errorf("%d records were deleted, %d keys are %d now", got.Records, keys, left)
		}
	}
}
