package vault_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/vault"
)

// obsidian makes the vault of testdata/obsidian.txtar.
func obsidian(t *testing.T) (dir string, files map[string]string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "My Notes")
	archive, err := txtar.ParseFile("testdata/obsidian.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		write(t, dir, f.Name, string(f.Data))
	}
	return dir, contents(t, dir)
}

// contents are the files of a directory that are not the store's, with their modes.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if rel == "_data" {
			return fs.SkipDir
		}
		if slices.Contains([]string{"_vault.json", "_vault.lock", "_index.json", "_mutations.jsonl", ".gitignore", "."}, rel) {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		text := []byte{}
		if !e.IsDir() {
			text, err = os.ReadFile(path)
		}
		all[rel] = info.Mode().String() + " " + string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestAdoptObsidian: notes at the root and in folders with capitals, spaces and other
// scripts become documents, and nothing of the person's changes.
func TestAdoptObsidian(t *testing.T) {
	dir, before := obsidian(t)
	opts := &vault.Options{Adopt: true, Taken: []string{"policy"}, Files: []string{"_governance/"}}
	s := open(t, dir, opts)
	want := []string{
		"daily-notes/2026-11-20", "daily-notes/2026-11-21", "drawings/Sketch.excalidraw", "folder-2026/01 January", "folder/Чай",
		"note/%5Findex", "note/100%25", "note/Empty", "note/Ideas & questions", "note/Welcome",
		"people/Ada Lovelace", "people/José Ángel", "people/Zoë", "policy-2/House rules",
		"projects-garden/README", "projects-strata-notes/Retries hide the cause", "projects-strata/README", "recipes/tea", "archive/Old",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, keys(t, s, "")); diff != "" {
		t.Error("keys", diff)
	}
	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Error("files", diff)
	}
	left, err := s.Left(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	for _, l := range left {
		reasons[l.Path] = l.Reason
	}
	wantLeft := map[string]string{
		".": "no Markdown: canvas", ".obsidian": "its name begins with a dot", ".trash": "its name begins with a dot",
		"Attachments": "no Markdown: pdf, png", "Templates": "it holds templates of Obsidian", "_scripts": "no Markdown: js",
		"Broken front matter.md": reasons["Broken front matter.md"],
	}
	if diff := cmp.Diff(wantLeft, reasons); diff != "" || !strings.Contains(reasons["Broken front matter.md"], "front matter") {
		t.Error("left", diff, reasons["Broken front matter.md"])
	}
	folders, err := s.Folders(t.Context())
	if err != nil || !slices.Contains(folders, vault.Folder{Path: "Daily Notes", Type: "daily-notes", Notes: 2}) ||
		!slices.Contains(folders, vault.Folder{Path: ".", Type: "note", Notes: 5}) {
		t.Error(folders, err)
	}

	// A program changes a note: the file stays where it is, with the lines that did not change.
	set(t, s, "people/Ada Lovelace", `{"aliases":["Ada","Countess of Lovelace"],"tags":["person","math"],"born":"1815-12-10","type":"contact","up":"[[People]]","seen":true,"body":"Gone."}`)
	set(t, s, "note/Idea two", `{"body":"new"}`)
	set(t, s, "people/_x", `{"body":"odd"}`)
	set(t, s, "insight/retries", `{"body":"new"}`)
	if err := storage.Delete(t.Context(), s, "note/Welcome"); err != nil {
		t.Fatal(err)
	}
	after := contents(t, dir)
	for _, path := range []string{"^idea two.md", "People/=5Fx.md", "insight/retries.md"} {
		if _, ok := after[path]; !ok {
			t.Error("not written:", path, slices.Sorted(maps.Keys(after)))
		}
	}
	wantAda := "-rw-r--r-- ---\naliases:\n  - Ada\n  - \"Countess of Lovelace\"\ntags: [person, math]\nborn: 1815-12-10\ntype: contact\nup: \"[[People]]\"\nseen: true\n---\nGone.\n"
	if diff := cmp.Diff(wantAda, after["People/Ada Lovelace.md"]); diff != "" {
		t.Error(diff)
	}

	// A person goes on, also in folders and at the root.
	write(t, dir, "New thought.md", "x")
	write(t, dir, "Daily Notes/2026-11-22.md", "today")
	write(t, dir, "Cafe\u0301 notes/one.md", "a folder that came later")
	for key, want := range map[string]string{"note/New thought": `{"body":"x"}`, "daily-notes/2026-11-22": `{"body":"today"}`} {
		if got, _, err := s.Get(t.Context(), key); err != nil || string(got) != want {
			t.Error(key, string(got), err)
		}
	}
	if got := keys(t, s, "note/"); !slices.Contains(got, "note/New thought") || slices.Contains(got, "note/Welcome") {
		t.Error(got)
	}

	// Another process takes in the new folder while this one is open.
	other := open(t, dir, opts)
	if got := keys(t, other, "cafe-notes/"); len(got) != 1 {
		t.Error(got)
	}
	if got := keys(t, s, "cafe-notes/"); len(got) != 1 {
		t.Error("the first store does not see what another has adopted:", got)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	all := keys(t, s, "")
	if err := errors.Join(s.Rebuild(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}

	// Without Adopt, and from a clone that has only what version control carries.
	for _, name := range []string{"_data", "_index.json", "_mutations.jsonl", "_vault.lock"} {
		s = open(t, dir, &vault.Options{Files: opts.Files})
		if diff := cmp.Diff(all, keys(t, s, "")); diff != "" {
			t.Error("before", name, "goes:", diff)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, dir, nil)
	if diff := cmp.Diff(all, keys(t, s, "")); diff != "" {
		t.Error("of a clone", diff)
	}
	for f, err := range s.Check(t.Context()) {
		if err != nil || !strings.HasSuffix(f.Path, "Broken front matter.md") {
			t.Error(f, err)
		}
	}
}

// TestAdoptRefuses: a directory of a person's that is named as the store's own is not
// used for anything.
func TestAdoptRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "_data/a.md", "")
	write(t, dir, "b.md", "")
	_, err := vault.Open(t.Context(), dir, &vault.Options{Adopt: true})
	if format, ok := errors.AsType[*storage.FormatError](err); !ok || filepath.Base(format.Path) != "_data" {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(filepath.Join(dir, "_data")); len(entries) != 1 {
		t.Error(entries)
	}
}

// TestAdoptOddNames: folders that cannot be named for every system are left, and said.
func TestAdoptOddNames(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{"Caf\u00e9", "Cafe\u0301", "a\\b", "bad\xff", "sound", "Sub/.hidden"} {
		write(t, dir, folder+"/n.md", "x")
	}
	s := open(t, dir, &vault.Options{Adopt: true})
	if got := keys(t, s, ""); !slices.Equal(got, []string{"cafe/n", "sound/n"}) {
		t.Error(got)
	}
	left, err := s.Left(t.Context())
	if err != nil || len(left) != 4 {
		t.Error(left, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir, nil)
}

// TestAdoptPlain: a vault that Strata made has no folders, and older programs open it.
func TestAdoptPlain(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	set(t, s, "insight/a", `{}`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, &vault.Options{Adopt: true})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "_vault.json")); err != nil || string(text) != `{"format":"strata-vault","version":2}`+"\n" {
		t.Errorf("%s %v", text, err)
	}
}
