package soma_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/vault"
)

// TestObsidianLinks: links of all spellings lead where Obsidian takes them, in a vault of
// its own that was adopted.
func TestObsidianLinks(t *testing.T) {
	dir := t.TempDir()
	archive, err := txtar.ParseFile("../storage/vault/testdata/obsidian.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	db, err := vault.Open(t.Context(), dir, &vault.Options{Adopt: true, Taken: soma.Types()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := soma.Open(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
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
