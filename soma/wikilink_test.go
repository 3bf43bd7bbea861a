package soma_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/vault"
)

// TestObsidianLinks: links of all spellings lead where Obsidian takes them, in a vault of
// its own that was adopted.
func TestObsidianLinks(t *testing.T) {
	dir := unpack(t, "../storage/vault/testdata/obsidian.txtar")
	_, s := openVault(t, dir, &vault.Options{Adopt: true, Taken: soma.Types()})
	links := func(ref string) (list []string) {
		e, err := s.Read(t.Context(), ref)
		if err != nil {
			t.Fatal(ref, err)
		}
		all, err := s.Links(t.Context(), e)
		if err != nil {
			t.Fatal(ref, err)
		}
		for _, l := range all {
			list = append(list, l.To)
		}
		return list
	}
	if _, err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string][]string{
		// [[create a link]] leads nowhere; with a folder, and what is shown.
		"note/Welcome": {"create a link", "Ada Lovelace"},
		// In any case, with a heading, an embedded note and an embedded picture, a canvas, a
		// folder that tells two files of a name apart.
		"note/Ideas & questions": {"Ada Lovelace", "Retries hide the cause", "2026-11-20", "projects-strata/README"},
		"daily-notes/2026-11-20": {"Ada Lovelace", "Retries hide the cause", "2026-11-19", "2026-11-21"},
		"people/Ada Lovelace":    {"Retries hide the cause"},
		"projects-strata/README": {"Welcome"},
	} {
		if diff := cmp.Diff(want, links(ref)); diff != "" {
			t.Error(ref, diff)
		}
	}

	linked := func(id string) (list []string) {
		for e, err := range s.FindLinked(t.Context(), id, soma.AllTeams) {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, e.Type+"/"+e.ID)
		}
		slices.Sort(list)
		return list
	}
	for id, want := range map[string][]string{
		"Ada Lovelace":           {"daily-notes/2026-11-20", "note/Ideas & questions", "note/Welcome", "people/Zoë"},
		"Retries hide the cause": {"daily-notes/2026-11-20", "note/Ideas & questions", "people/Ada Lovelace"},
		"projects-strata/README": {"note/Ideas & questions"},
		"projects-garden/README": nil,
		"create a link":          {"note/Welcome"},
	} {
		if diff := cmp.Diff(want, linked(id)); diff != "" {
			t.Error("to", id, diff)
		}
	}
	near, err := s.Neighbors(t.Context(), "people/Zoë", soma.AllTeams, 2)
	if err != nil || len(near) < 3 || near[0].Entity.ID != "Ada Lovelace" {
		t.Error(near, err)
	}
}

func TestWikilinks(t *testing.T) {
	for text, want := range map[string][]string{
		"[[a]] [[a|shown]] [[a#part]] [[a#^block]] [[a^block]] [[ a ]]": {"a"},
		"[[f/a]] [[F G/b.md]] ![[c]] ![[c|300]]":                        {"a", "b", "c"},
		"![[x.png]] [[x.PDF|paper]] [[b.canvas]] [[v1.2]]":              {"v1.2"},
		"`[[a]]` ``[[b]] ` [[c]]`` [[d]] ` [[e]]":                       {"d", "e"},
		"```\n[[a]]\n```\n[[b]]\n~~~ sh\n[[c]]\n```\n~~~\n[[d]]":        {"b", "d"},
		"| [[a\\|shown]] |\n[[]] [[#here]] [[|x]] [[a\nb]] [[../up]]":   {"a", "up"},
		"[[insight/a]] [[cafe\u0301]]":                                  {"a", "caf\u00e9"},
		"if [[ -f x ]]; then":                                           {"-f x"},
	} {
		e := &soma.Entity{Type: "insight", ID: "self", Body: text}
		var got []string
		for _, l := range e.Links() {
			got = append(got, l.To)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// TestLinksOfOlder: what an older program did not take for a link becomes one when the
// entity is written anew, or when edits are taken in.
func TestLinksOfOlder(t *testing.T) {
	eachEngine(t, func(w *world) {
		w.create(harvester, archived("Plan", "first"))
		e := w.create(harvester, archived("new", "see [[PLAN]]"))
		older := func() {
			for key, err := range w.db.List(w.Context(), "_links/") {
				w.check(err)
				w.check(storage.Delete(w.Context(), w.db, key))
			}
		}
		linked := func(when string) {
			w.same(when, w.ids(w.FindLinked(w.Context(), "plan", "")), []string{"new"})
		}
		linked("new")
		older()
		if n, err := w.Sync(w.Context()); n != 0 || err != nil {
			w.Error(n, err)
		}
		linked("after a sync")
		older()
		_, err := w.As(anna).Update(w.Context(), e.ID, map[string]any{"name": "newer"})
		w.check(err)
		linked("after an update")
		// The record of an id with a capital, as it was.
		w.check(storage.Set(w.Context(), w.db, "insight/Big", []byte(`{"name":"big","layer":"archive"}`)))
		c := w.create(harvester, archived("third", "see [[insight/Big]]"))
		older()
		w.check(storage.Set(w.Context(), w.db, "_links/Big/third", nil))
		w.same("as it was", w.ids(w.FindLinked(w.Context(), "Big", "")), []string{"third"})
		w.check(w.As(anna).Remove(w.Context(), c.ID, ""))
		for key, err := range w.db.List(w.Context(), "_links/Big/") {
			w.check(err)
			if strings.HasSuffix(key, "third") {
				w.Error("left behind:", key)
			}
		}
	})
}

// TestLinksInFiles: what an entity cites and contradicts stands in its file as links
// that Obsidian follows, and is read back as it was meant.
func TestLinksInFiles(t *testing.T) {
	eachEngine(t, func(w *world) {
		w.create(harvester, archived("event", "x"))
		w.create(harvester, &soma.Entity{Type: "insight", ID: "a|b", Name: "odd", Layer: soma.Archive})
		p := w.proposed("idea", 0.5, "event", map[string]any{"id": "a|b"}, map[string]any{"id": "event-2", "type": "decision"}, "gone", map[string]any{"id": "event", "type": "reason"})
		p.Fields["contradicts"] = []any{"event", "decision/gone", 7.0, "a|b"}
		e := w.create(synthesizer, p)
		want := []any{"[[decision/event]]", map[string]any{"id": "a|b", "type": "insight"}, "[[decision/event-2]]", "[[gone]]", map[string]any{"id": "event", "type": "reason"}}
		w.same("evidence_links", e.Fields[soma.FieldEvidence], any(want))
		if got, ok := e.Fields["contradicts"].([]any); !ok || got[0] != "[[decision/event]]" || got[1] != "[[decision/gone]]" || got[3] != "a|b" && got[3] != "insight/a|b" {
			w.Error(e.Fields["contradicts"])
		}
		cited := w.read("idea").Evidence()
		for i, id := range []string{"event", "a|b", "event-2", "gone", "event"} {
			if cited[i].ID != id || (cited[i].Digest == "") != (i == 2 || i == 3) {
				w.Errorf("%d: %+v", i, cited[i])
			}
		}
		before := w.dump()
		w.create(synthesizer, p)
		w.same("the store after the same again", w.dump(), before)

		// Nobody forges what was cited.
		for _, fields := range []map[string]any{{"evidence_digests": map[string]any{"event": "v2:x", "gone": "v2:x"}}, {"evidence_digests": nil}} {
			_, err := w.As(synthesizer).Update(w.Context(), "idea", fields)
			w.check(err)
			for i, v := range w.read("idea").Evidence() {
				if v.Digest != cited[i].Digest {
					w.Errorf("%v: %+v", fields, v)
				}
			}
		}
		p = w.proposed("forged", 0.5, "event", "gone")
		p.Fields["evidence_digests"] = map[string]any{"event": "v2:x", "gone": "v2:x"}
		if v := w.create(synthesizer, p).Evidence(); v[0].Digest != cited[0].Digest || v[1].Digest != "" {
			w.Error(v)
		}

		// A relation of that type is the same link.
		w.create(harvester, archived("other", ""))
		w.check(w.As(anna).Relate(w.Context(), "other", "event", "contradicts", map[string]any{"since": "May"}))
		if _, ok := w.read("other").Fields["contradicts"]; ok {
			w.Error("properties have no place in a wikilink")
		}
		for range 2 {
			w.check(w.As(anna).Relate(w.Context(), "other", "event", "contradicts", nil))
		}
		other := w.read("other")
		w.same("contradicts", other.Fields["contradicts"], any([]any{"[[decision/event]]"}))
		if links := other.Links(); len(links) != 1 || links[0].Type != "contradicts" || links[0].To != "event" {
			w.Error(links)
		}
		// What is forgotten is in no field.
		if _, err := w.As(anna).Forget(w.Context(), "event", "asked"); err != nil {
			w.Fatal(err)
		}
		for _, id := range []string{"other", "idea"} {
			if e, err := w.Read(w.Context(), id); err == nil {
				for _, l := range e.Links() {
					if l.To == "event" {
						w.Error(id, "still links:", l)
					}
				}
			}
		}
	})
}
