package vault_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/backup"
	"github.com/stratamem/strata/storage/vault"
)

// governed are options with a namespace of files.
func governed() *vault.Options {
	return &vault.Options{Durability: storage.Process, Files: []string{"_governance/"}}
}

// recordFiles are the files of the namespace, with slashes.
func recordFiles(t testing.TB, dir string) []string {
	t.Helper()
	names := []string{}
	err := filepath.WalkDir(filepath.Join(dir, "_governance"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var rel string
			rel, err = filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return names
}

func record(t testing.TB, s storage.Adapter, key, value string) {
	t.Helper()
	if got, _, err := s.Get(t.Context(), key); err != nil || string(got) != value {
		t.Errorf("Get %s = %.100q, %v, want %.100q", key, got, err, value)
	}
}

func absent(t testing.TB, s storage.Adapter, key string) {
	t.Helper()
	if got, _, err := s.Get(t.Context(), key); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("Get %s = %.100q, %v, want ErrNotFound", key, got, err)
	}
}

func keys(t testing.TB, s storage.Adapter, prefix string) []string {
	t.Helper()
	found := []string{}
	for key, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		found = append(found, key)
	}
	var scanned []string
	for e, err := range storage.Scan(t.Context(), s, prefix, nil) {
		if err != nil {
			t.Fatalf("Scan: %v", err)
		}
		scanned = append(scanned, e.Key)
	}
	if !slices.Equal(found, scanned) {
		t.Errorf("List yields %q, Scan %q", found, scanned)
	}
	return found
}

func TestRecordFile(t *testing.T) {
	for key, want := range map[string]string{
		"_governance/a":             "_governance/a.rec",
		"_governance/a/b":           "_governance/a/b.rec",
		"_governance/a.rec":         "_governance/a.rec.rec",
		"_governance/a.rec/b":       "_governance/a=2Erec/b.rec",
		"_governance/con/.x":        "_governance/=63on/=2Ex.rec",
		"_governance/A b/%2F":       "_governance/^a b/%2F.rec",
		"_governance/é/_data":       "_governance/é/_data.rec",
		"_governance/.git/hooks":    "_governance/=2Egit/hooks.rec",
		"_governance/..%2F..":       "_governance/=2E.%2F...rec",
		"_governance/a:b|c\\d/\x00": "_governance/a=3Ab=7Cc=5Cd/=00.rec",
		"_governance/" + strings.Repeat("x", 400) + "/y": "_governance/" + strings.Repeat("x", 194) + "==/" +
			strings.Repeat("x", 194) + "==/" + strings.Repeat("x", 12) + "/y.rec",
	} {
		dir, name, cut := vault.FileOf(key)
		if got := dir + "/" + name; got != want || cut {
			t.Errorf("%q is in %q, %t, want %q", key, got, cut, want)
		}
	}
}

func FuzzRecordFile(f *testing.F) {
	f.Add("a", "b.rec", strings.Repeat("=", 300))
	f.Add("..", "%2E", "con")
	f.Add(strings.Repeat("日", 100), strings.Repeat("%25", 90), ".rec")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		for _, key := range []string{"_governance/" + storage.Join(a, b, c), "_governance/" + a + "/" + b} {
			if storage.ValidateKey(key) != nil {
				continue
			}
			dir, name, _ := vault.FileOf(key)
			if back, ok := vault.KeyOf(dir, name); !ok || back != key {
				t.Fatalf("%q is in %q %q, and that is of %q", key, dir, name, back)
			}
			for part := range strings.SplitSeq(dir+"/"+name, "/") {
				if part == "" || part[0] == '.' || len(part) > 200 || strings.ContainsAny(part, `\:*?"<>|`) {
					t.Fatalf("%q is in %q %q", key, dir, name)
				}
			}
			if strings.HasSuffix(strings.TrimSuffix(dir, "/"), ".rec") {
				t.Fatalf("the directory %q of %q is called like a file", dir, key)
			}
		}
	})
}

// TestRecordFiles: records of the namespace are small files with their values,
// others are not, and both are part of one batch.
func TestRecordFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, governed())
	content := map[string]string{
		"_governance/a": "", "_governance/a/b": "no newline", "_governance/a.rec/b": "\r\n\x00\xff", "_governance/a.rec": "x\n",
	}
	var ops []storage.Op
	for key, value := range content {
		ops = append(ops, storage.Put(key, []byte(value)).IfAbsent())
	}
	ops = append(ops, storage.Put("_threads/a", []byte("log")), storage.Put("policy/a", []byte(`{}`)), storage.Put("_governance", []byte("log")))
	if err := s.Apply(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
	check := func(s storage.Adapter) {
		t.Helper()
		for key, value := range content {
			record(t, s, key, value)
		}
		record(t, s, "_threads/a", "log")
		record(t, s, "_governance", "log")
		want := []string{"_governance", "_governance/a", "_governance/a.rec", "_governance/a.rec/b", "_governance/a/b", "_threads/a", "policy/a"}
		if d := cmp.Diff(want, keys(t, s, "")); d != "" {
			t.Error(d)
		}
	}
	check(s)
	if d := cmp.Diff([]string{"_governance", "_threads/a"}, s.Logged()); d != "" {
		t.Errorf("in the log:\n%s", d)
	}
	for key, value := range content {
		folder, name, _ := vault.FileOf(key)
		if got := read(t, dir, folder+"/"+name); got != value {
			t.Errorf("%s has %q, want %q", name, got, value)
		}
	}
	var conflict *storage.ConflictError
	err := s.Apply(t.Context(), storage.Put("policy/b", []byte(`{}`)), storage.Put("_governance/a/b", nil).IfAbsent())
	if !errors.As(err, &conflict) || conflict.Key != "_governance/a/b" {
		t.Errorf("Apply to a record that is there: %v", err)
	}
	absent(t, s, "policy/b")
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(s)
	still, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := storage.Delete(t.Context(), s, "_governance/a/b"); err != nil {
		t.Fatal(err)
	}
	absent(t, s, "_governance/a/b")
	check(still)
	var text bytes.Buffer
	if _, err := backup.Write(t.Context(), still, &text); err != nil {
		t.Fatal(err)
	}
	if err := still.Close(); err != nil {
		t.Fatal(err)
	}
	restored := open(t, filepath.Join(t.TempDir(), "restored"), governed())
	if _, err := backup.Restore(t.Context(), restored, &text, nil); err != nil {
		t.Fatal(err)
	}
	check(restored)
	sound(t, restored)
	delete(content, "_governance/a/b")
	if err := s.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, err := s.Stats(t.Context()); err != nil || st.Records != 5 || st.Documents != 1 {
		t.Errorf("Stats = %+v, %v", st, err)
	}
	sound(t, s)
	for m, err := range s.Log(t.Context()) {
		if err != nil || m.Type != "policy" {
			t.Errorf("the audit log has %+v, %v", m, err)
		}
	}
}

// TestRecordNamespaces: a namespace has a name that is a directory's everywhere.
func TestRecordNamespaces(t *testing.T) {
	for _, name := range []string{"", "_", "_data/", "_data", "policy/", "_a/b/", "_A/", "_con.x/", "../_x/", "_x.json"} {
		s, err := vault.Open(t.Context(), t.TempDir(), &vault.Options{Logger: quiet, Files: []string{name}})
		if !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("Open with %q: %v", name, err)
		}
		if err == nil {
			s.Close()
		}
	}
	for _, name := range []string{"_governance", "_governance/", "_a-1"} {
		open(t, t.TempDir(), &vault.Options{Files: []string{name}})
	}
}

// TestRecordHands: what version control adds, changes and removes is seen by the
// next read, in directories that are new too.
func TestRecordHands(t *testing.T) {
	for _, events := range []bool{true, false} {
		for _, named := range []bool{true, false} {
			t.Run(fmt.Sprintf("events=%t,named=%t", events, named), func(t *testing.T) {
				dir := t.TempDir()
				opts := governed()
				if !named {
					opts = nil
				}
				s := open(t, dir, opts)
				if !events {
					s.WithoutEvents()
				}
				absent(t, s, "_governance/a/b/c")
				write(t, dir, "_governance/a/b/c.rec", "one")
				record(t, s, "_governance/a/b/c", "one")
				write(t, dir, "_governance/a/d.rec", "two")
				if got := keys(t, s, "_governance/"); !slices.Equal(got, []string{"_governance/a/b/c", "_governance/a/d"}) {
					t.Errorf("keys %q", got)
				}
				_, v, err := s.Get(t.Context(), "_governance/a/b/c")
				if err != nil {
					t.Fatal(err)
				}
				write(t, dir, "_governance/a/b/c.rec", "changed")
				err = s.Apply(t.Context(), storage.Put("_governance/a/b/c", nil).IfVersion(v))
				if !errors.Is(err, storage.ErrConflict) {
					t.Errorf("Apply to a version that is gone: %v", err)
				}
				write(t, dir, "_governance/new/one.rec", "by hand")
				err = s.Apply(t.Context(), storage.Put("_governance/new/one", nil).IfAbsent())
				if !errors.Is(err, storage.ErrConflict) {
					t.Errorf("Apply to a record that another hand added: %v", err)
				}
				set(t, s, "_governance/a/d", "ours") // which was read by Scan
				set(t, s, "_governance/new/one", "ours")
				if texts := lost(t, dir); !slices.Equal(texts, []string{"by hand"}) {
					t.Errorf("kept %q", texts)
				}
				// A whole directory goes, and comes back.
				aside := filepath.Join(dir, ".aside")
				if err := os.Rename(filepath.Join(dir, "_governance/a"), aside); err != nil {
					t.Fatal(err)
				}
				if got := keys(t, s, "_governance/"); !slices.Equal(got, []string{"_governance/new/one"}) {
					t.Errorf("keys %q", got)
				}
				absent(t, s, "_governance/a/b/c")
				if err := os.Rename(aside, filepath.Join(dir, "_governance/a")); err != nil {
					t.Fatal(err)
				}
				record(t, s, "_governance/a/b/c", "changed")
				if got := keys(t, s, "_governance/"); len(got) != 3 {
					t.Errorf("keys %q", got)
				}
				write(t, dir, "_governance/a/b/e/f/g.rec", "deep")
				if got := keys(t, s, "_governance/a/b/"); len(got) != 2 {
					t.Errorf("keys %q", got)
				}
				if err := os.RemoveAll(filepath.Join(dir, "_governance")); err != nil {
					t.Fatal(err)
				}
				if got := keys(t, s, ""); len(got) != 0 {
					t.Errorf("keys %q", got)
				}
				set(t, s, "_governance/a/b/c", "again")
				if got := recordFiles(t, dir); !slices.Equal(got, []string{"_governance/a/b/c.rec"}) {
					t.Errorf("files %q", got)
				}
				sound(t, s)
			})
		}
	}
}

func TestWatchSeesRecordFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	events, err := s.Watch(ctx, "_governance/")
	if err != nil {
		t.Fatal(err)
	}
	other := open(t, dir, governed())
	steps := []func(){
		func() { set(t, other, "_governance/a/b", "process") },
		func() { write(t, dir, "_governance/new/c.rec", "by hand") },
		func() { os.Remove(filepath.Join(dir, "_governance/new/c.rec")) },
		func() { os.RemoveAll(filepath.Join(dir, "_governance/a")) },
		cancel,
	}
	steps[0]()
	var got []string
	for ev, err := range events {
		if err != nil {
			break
		}
		line := fmt.Sprintf("%d %s", ev.Kind, ev.Key)
		if len(got) > 0 && got[len(got)-1] == line {
			continue // a file that is made and then written is two events
		}
		got = append(got, line)
		steps[len(got)]()
	}
	if want := []string{"1 _governance/a/b", "1 _governance/new/c", "2 _governance/new/c", "2 _governance/a/b"}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

// TestRecordsOfAClone: a directory that came without _data, and an opener that
// names nothing, read and write the same files.
func TestRecordsOfAClone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, governed())
	set(t, s, "_governance/a/b", "one")
	set(t, s, "policy/a", `{"body":"x"}`)
	set(t, s, "_threads/a", "stays behind")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	clone := t.TempDir()
	for _, name := range []string{"_vault.json", "_governance/a/b.rec", "policy/a.md"} {
		write(t, clone, name, read(t, dir, name))
	}
	for _, readOnly := range []bool{true, false} {
		s := open(t, clone, &vault.Options{ReadOnly: readOnly})
		record(t, s, "_governance/a/b", "one")
		want(t, s, "policy/a", `{"body":"x"}`)
		absent(t, s, "_threads/a")
		if d := cmp.Diff([]string{"_governance/a/b", "policy/a"}, keys(t, s, "")); d != "" {
			t.Error(d)
		}
		sound(t, s)
	}
	s = open(t, clone, nil)
	set(t, s, "_governance/c", "two")
	if got := recordFiles(t, clone); !slices.Equal(got, []string{"_governance/a/b.rec", "_governance/c.rec"}) {
		t.Errorf("files %q", got)
	}
}

// TestRecordsLeaveTheLog: who names a namespace makes files of the records that
// were written before, or by a program that did not know; nothing is gone
// meanwhile, and what was deleted does not come back.
func TestRecordsLeaveTheLog(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	for i := range 250 {
		set(t, s, fmt.Sprintf("_governance/%03d", i), fmt.Sprint(i))
	}
	set(t, s, "_threads/a", "log")
	if got := recordFiles(t, dir); len(got) > 0 {
		t.Errorf("files %q", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	look := open(t, dir, &vault.Options{ReadOnly: true, Files: []string{"_governance"}})
	record(t, look, "_governance/007", "7")
	if got := keys(t, look, "_governance/"); len(got) != 250 {
		t.Errorf("%d keys", len(got))
	}
	s = open(t, dir, nil)
	now := open(t, dir, governed())
	if got := recordFiles(t, dir); len(got) != 250 {
		t.Errorf("%d files", len(got))
	}
	for _, s := range []*vault.Store{s, now, look} {
		for i := range 250 {
			record(t, s, fmt.Sprintf("_governance/%03d", i), fmt.Sprint(i))
		}
		if got := keys(t, s, "_governance/"); len(got) != 250 {
			t.Errorf("%d keys", len(got))
		}
		if d := cmp.Diff([]string{"_threads/a"}, s.Logged()); d != "" {
			t.Errorf("in the log:\n%s", d)
		}
	}
	for i := range 100 {
		if err := storage.Delete(t.Context(), s, fmt.Sprintf("_governance/%03d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "_governance/100.rec")); err != nil {
		t.Fatal(err)
	}
	sound(t, now)
	for _, before := range []func(){
		func() {},
		func() { os.Remove(filepath.Join(dir, "_index.json")) },
		func() {
			if err := now.Compact(t.Context()); err != nil {
				t.Error(err)
			}
		},
	} {
		before()
		again := open(t, dir, nil)
		absent(t, again, "_governance/007")
		absent(t, again, "_governance/100")
		if got := keys(t, again, "_governance/"); len(got) != 149 {
			t.Errorf("%d keys", len(got))
		}
		sound(t, again)
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRecordsThatCannotBeRead: such a record is listed, an error for who reads it,
// and shown by Check and Unreadable.
func TestRecordsThatCannotBeRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symbolic links need rights there")
	}
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside, "x.rec", "secret")
	write(t, outside, "a/x.rec", "secret")
	s := open(t, dir, governed())
	set(t, s, "_governance/good", "x")
	set(t, s, "_governance/dir/x", "x")
	for name, target := range map[string]string{"link.rec": "x.rec", "linked": "a"} {
		if err := os.Symlink(filepath.Join(outside, target), filepath.Join(dir, "_governance", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "_governance/folder.rec"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "_governance/readme.md", "no record")
	write(t, dir, "_governance/Good.rec", "two files")
	write(t, dir, "_governance/^good.rec", "of one key")
	listed := []string{}
	for key, err := range s.List(t.Context(), "_governance/") {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, key)
	}
	if d := cmp.Diff([]string{"_governance/Good", "_governance/dir/x", "_governance/folder", "_governance/good", "_governance/link"}, listed); d != "" {
		t.Error(d)
	}
	for _, key := range []string{"_governance/link", "_governance/folder", "_governance/linked/x"} {
		_, _, err := s.Get(t.Context(), key)
		var damage *storage.CorruptError
		if !errors.As(err, &damage) || damage.Key != key || damage.Path == "" || damage.Repair == "" {
			t.Errorf("Get %s: %v", key, err)
		}
	}
	if err := storage.Set(t.Context(), s, "_governance/linked/x", nil); err == nil {
		t.Error("Set through a linked directory: no error")
	}
	if err := storage.Set(t.Context(), s, "_governance/folder", nil); err == nil {
		t.Error("Set of what is a directory: no error")
	}
	var scanned error
	for _, err := range storage.Scan(t.Context(), s, "_governance/", nil) {
		scanned = err
	}
	if !errors.Is(scanned, storage.ErrCorrupt) {
		t.Errorf("Scan: %v", scanned)
	}
	names := []string{"_governance/folder", "_governance/link", "file _governance/Good.rec", "file _governance/linked"}
	if d := cmp.Diff(names, unreadable(t, dir, s, "_governance/")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{}, unreadable(t, dir, s, "policy/")); d != "" {
		t.Error(d)
	}
	shown := map[string]bool{}
	for _, f := range faults(t, s) {
		shown[f.Path] = true
	}
	if len(shown) != len(names) {
		t.Errorf("Check shows %v", shown)
	}
	set(t, s, "_governance/link", "ours")
	record(t, s, "_governance/link", "ours")
	if read(t, outside, "x.rec") != "secret" {
		t.Error("a file outside the vault was written")
	}
}

// TestRecordsOfLongKeys: the longest key has a file, or is refused before anything
// is written.
func TestRecordsOfLongKeys(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, governed())
	const room = storage.MaxKey - len("_governance/")
	for _, id := range []string{
		strings.Repeat("x", room), strings.Repeat("a/", room/2-1) + "a", strings.Repeat("日", room/3), strings.Repeat("\x01", room),
		strings.Repeat("A", room), strings.Repeat("x", 196), strings.Repeat("x", 197),
	} {
		key := "_governance/" + id
		if err := storage.Set(t.Context(), s, key, []byte(id)); err != nil {
			if runtime.GOOS == "linux" {
				t.Errorf("Set %.30q: %v", key, err)
			}
			continue
		}
		record(t, s, key, id)
	}
	set(t, s, "_governance/short", "goes on")
	before := keys(t, s, "_governance/")
	sound(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "_data")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, keys(t, open(t, dir, nil), "_governance/")); d != "" {
		t.Error(d)
	}
}
