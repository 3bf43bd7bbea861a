package source_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/docs"
	"github.com/stratamem/strata/storage/docs/source"
	"github.com/stratamem/strata/storage/mem"
)

// folder is a folder of files with a collection; the working directory is
// where it lies.
type folder struct {
	t *testing.T
	*docs.Collection
}

func newFolder(t *testing.T, files map[string]string) *folder {
	t.Helper()
	t.Chdir(t.TempDir())
	store := mem.New()
	t.Cleanup(func() { store.Close() })
	c, err := docs.Open(store, docs.Owner{}, "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &folder{t, c}
	for name, text := range files {
		f.write(name, text)
	}
	return f
}

var longAgo = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// write writes a file as it was long ago.
func (f *folder) write(name, text string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
	f.touch(name, longAgo)
}

func (f *folder) touch(name string, at time.Time) {
	f.t.Helper()
	if err := os.Chtimes(name, at, at); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) update(path string, opts *source.Options) *source.Report {
	f.t.Helper()
	r, err := source.Update(f.t.Context(), f.Collection, path, opts)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// did compares what an update did.
func (f *folder) did(r *source.Report, added, updated, removed string, unchanged int) {
	f.t.Helper()
	want := &source.Report{Added: strings.Fields(added), Updated: strings.Fields(updated), Removed: strings.Fields(removed), Unchanged: unchanged}
	got := *r
	got.Skipped = nil
	if diff := cmp.Diff(want, &got); diff != "" {
		f.t.Errorf("report (-want +got):\n%s", diff)
	}
}

// skipped compares what of an update was skipped: lines of name and reason.
func (f *folder) skipped(r *source.Report, want ...string) {
	f.t.Helper()
	var got []string
	for _, s := range r.Skipped {
		got = append(got, s.Name+": "+s.Reason)
	}
	ok := slices.EqualFunc(want, got, func(w, g string) bool { return strings.Contains(g, w) })
	if !ok {
		f.t.Errorf("skipped %q, want %q", got, want)
	}
}

func (f *folder) names() string {
	f.t.Helper()
	list, err := f.List(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	var names []string
	for i := range list {
		names = append(names, list[i].Name)
	}
	return strings.Join(names, " ")
}

// finds says where a query finds something, as far as that goes.
func (f *folder) finds(query string) string {
	f.t.Helper()
	res, err := f.Search(f.t.Context(), docs.Query{Text: query, Limit: 1})
	if err != nil {
		f.t.Fatal(err)
	}
	if len(res.Hits) == 0 {
		return ""
	}
	return res.Hits[0].Cite()
}

func TestUpdate(t *testing.T) {
	f := newFolder(t, map[string]string{
		"docs/pump.md": "# Pump\n\nGrease the bearing every month.\n", "docs/sub/valve.txt": "Close it clockwise.\n",
		"docs/main.go": "package main\n\n// Start starts the motor.\nfunc Start() {}\n", "other.md": "A zebra.\n", "docs/empty.txt": "",
	})
	f.did(f.update("docs", nil), "docs/empty.txt docs/main.go docs/pump.md docs/sub/valve.txt", "", "", 0)
	f.did(f.update("./other.md", nil), "other.md", "", "", 0)
	if got := f.finds("when is the bearing greased"); got != "docs/pump.md:1-3" {
		t.Errorf("found %q", got)
	}
	f.did(f.update("docs/", nil), "", "", "", 4)

	// New, changed, touched, gone; and the file beside the folder stays.
	f.write("docs/new.md", "Oil is new.\n")
	f.write("docs/sub/valve.txt", "Close it anticlockwise.\n")
	f.touch("docs/main.go", longAgo.Add(time.Hour))
	if err := os.Remove("docs/pump.md"); err != nil {
		t.Fatal(err)
	}
	f.did(f.update("docs", nil), "docs/new.md", "docs/sub/valve.txt", "docs/pump.md", 2)
	if got := f.names(); got != "docs/empty.txt docs/main.go docs/new.md docs/sub/valve.txt other.md" {
		t.Errorf("there are %s", got)
	}
	if got := f.finds("grease the bearing") + f.finds("anticlockwise"); got != "docs/sub/valve.txt:1" {
		t.Errorf("found %q", got)
	}

	// Cut otherwise.
	f.did(f.update("docs", &source.Options{Passage: 64}), "", "docs/empty.txt docs/main.go docs/new.md docs/sub/valve.txt", "", 0)

	// The working directory itself, by its one name; what is above is not of it.
	f.did(f.update(".", nil), "", "docs/empty.txt docs/main.go docs/new.md docs/sub/valve.txt", "", 1)
	t.Chdir("docs")
	f.did(f.update("../other.md", nil), "../other.md", "", "", 0)
	if got := f.names(); !strings.HasPrefix(got, "../other.md docs/") {
		t.Errorf("there are %s", got)
	}

	// A folder in the place of a file.
	f.write("x/a", "An aardvark.")
	f.update("x", nil)
	if err := os.Remove("x/a"); err != nil {
		t.Fatal(err)
	}
	f.write("x/a/b", "A badger.")
	f.did(f.update("x", nil), "x/a/b", "", "x/a", 0)
}

// A file is read again unless its size and time say that it is what it was, and
// the time is older than the grain of clocks.
func TestUpdateShortcut(t *testing.T) {
	f := newFolder(t, map[string]string{"a.md": "one zebra"})
	f.update("a.md", nil)
	f.write("a.md", "two zebra") // neither time nor size differ: not seen
	f.did(f.update("a.md", nil), "", "", "", 1)
	f.touch("a.md", longAgo.Add(1))
	f.did(f.update("a.md", nil), "", "a.md", "", 0)

	now := time.Now()
	f.touch("a.md", now)
	f.did(f.update("a.md", nil), "", "", "", 1)
	f.write("a.md", "six zebra")
	f.touch("a.md", now) // within the grain: seen
	f.did(f.update("a.md", nil), "", "a.md", "", 0)
}

func TestUpdateSkips(t *testing.T) {
	f := newFolder(t, map[string]string{
		"d/good.md": "A zebra.", "d/binary.png": "\x89PNG\x00\x00", "d/latin.txt": "caf\xe9", "d/big.txt": strings.Repeat("x", 101),
		"d/.hidden.md": "A hidden zebra.", "d/.git/config": "A zebra of git.", "d/link/inside.md": "Inside.", "secret.md": "A secret zebra.",
		"d/out/of/limits.md": "Excluded zebra.", "d/" + strings.Repeat("n", 200) + "/" + strings.Repeat("n", 200) + "/" + strings.Repeat("n", 200) + "/" + strings.Repeat("n", 200) + "/" + strings.Repeat("n", 200): "x",
	})
	for link, to := range map[string]string{
		"d/escape.md": "../secret.md", "d/up": "..", "d/dangling.md": "nothing.md", "d/same.md": "good.md", "d/link/loop": "..",
		"d/absolute.md": mustAbs(t, "secret.md"),
	} {
		if err := os.Symlink(to, link); err != nil {
			t.Skip(err)
		}
	}
	opts := &source.Options{MaxBytes: 100, Exclude: func(name string) bool { return name == "d/out" }}
	r := f.update("d", opts)
	f.did(r, "d/good.md d/link/inside.md", "", "", 0)
	f.skipped(r, "d/absolute.md: it is a link out of the folder", "d/big.txt: its 101 bytes are over the limit of 100",
		"d/binary.png: it is no text", "d/dangling.md: it is a link out of the folder, or to nothing", "d/escape.md: it is a link out of the folder",
		"d/latin.txt: line 1 is not UTF-8", "its name is over 900 bytes", "d/up: it is a link out of the folder")

	// A link that is named itself is followed, and so is a hidden folder.
	f.did(f.update("d/escape.md", nil), "d/escape.md", "", "", 0)
	f.did(f.update("d/.git", nil), "d/.git/config", "", "", 0)

	// What cannot be read any more stays as it was.
	f.write("d/good.md", "A zebra\x00.")
	r = f.update("d", opts)
	f.did(r, "", "", "d/.git/config d/escape.md", 1)
	if got := f.finds("zebra"); got != "d/good.md:1" {
		t.Errorf("found %q", got)
	}

	for path, want := range map[string]string{
		"nothing": "read nothing: no such file", "d/binary.png": "read d/binary.png: it is no text", os.DevNull: "not a regular file",
	} {
		if _, err := source.Update(t.Context(), f.Collection, path, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A folder that may not be read keeps what was known of it.
func TestUpdateUnreadable(t *testing.T) {
	f := newFolder(t, map[string]string{"d/a.md": "A zebra.", "d/shut/b.md": "An okapi.", "d/c.md": "A camel."})
	f.update("d", nil)
	for _, name := range []string{"d/shut", "d/c.md"} {
		if err := os.Chmod(name, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(name, 0o700) })
	}
	f.touch("d/c.md", longAgo.Add(time.Hour))
	if _, err := os.ReadDir("d/shut"); !errors.Is(err, fs.ErrPermission) {
		t.Skip("this user may read everything")
	}
	r := f.update("d", nil)
	f.did(r, "", "", "", 1)
	f.skipped(r, "d/c.md: permission denied", "d/shut: permission denied")
	if f.finds("okapi") == "" || f.finds("camel") == "" {
		t.Error("what may not be read is gone")
	}
}

// A folder is put in batches: when it is broken off, what is in is reported and
// whole, and the next update goes on.
func TestUpdateIsBrokenOff(t *testing.T) {
	f := newFolder(t, nil)
	for i := range 700 {
		f.write(fmt.Sprintf("d/%03d.txt", i), fmt.Sprintf("zebra%d grazes", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	r, err := source.Update(ctx, f.Collection, "d", &source.Options{Progress: func(string) {
		if seen++; seen == 500 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || len(r.Added) == 0 || len(r.Added) >= 500 {
		t.Fatalf("%d files are in, %v", len(r.Added), err)
	}
	if got := len(strings.Fields(f.names())); got != len(r.Added) {
		t.Errorf("%d files are in, %d were reported", got, len(r.Added))
	}
	next := f.update("d", nil)
	if len(next.Added)+next.Unchanged != 700 || next.Unchanged != len(r.Added) {
		t.Errorf("then %d were added, %d unchanged", len(next.Added), next.Unchanged)
	}
	if got := f.finds("zebra699"); got != "d/699.txt:1" {
		t.Errorf("found %q", got)
	}
}

// A store that fails is an error.
func TestUpdateStoreFails(t *testing.T) {
	store := mem.New()
	c, err := docs.Open(store, docs.Owner{}, "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Update(t.Context(), c, "testdata", nil); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("update of a closed store: %v", err)
	}
}
