package vault_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/vault"
)

// TestHostileIDs: whatever an id is, its file is in its type's directory, and
// there is one for each.
func TestHostileIDs(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	texts := []string{
		"../../etc/passwd", "..", ".", "/etc/passwd", "a/../../b", `..\..\x`, "con", "CON", "nul.txt", "a", "A", "ä", "Ä", "a\u0308",
		"\x00", "a\nb", "-rf", "~", ".hidden", ".tmp.x", "x.md", "x", strings.Repeat("x", 196), strings.Repeat("x", 197), strings.Repeat("x", 198),
		strings.Repeat("X", 98), strings.Repeat("X", 99), strings.Repeat("%", 330), strings.Repeat("日", 66), strings.Repeat("日", 67), "==", "x==" + strings.Repeat("0", 32),
	}
	for i, text := range texts {
		set(t, s, "doc/"+storage.EscapeSegment(text), fmt.Sprintf(`{"n":%d}`, i))
	}
	set(t, s, "con/x", `{"n":-1}`)
	for i, text := range texts {
		want(t, s, "doc/"+storage.EscapeSegment(text), fmt.Sprintf(`{"n":%d}`, i))
	}
	names, err := os.ReadDir(filepath.Join(dir, "doc"))
	if err != nil || len(names) != len(texts) {
		t.Errorf("%d files for %d documents, %v", len(names), len(texts), err)
	}
	above, _ := os.ReadDir(dir)
	for _, e := range above {
		if name := e.Name(); e.IsDir() && name != "doc" && name != "_data" && name != "=63on" {
			t.Errorf("there is a directory %q", name)
		}
	}
	sound(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "_index.json")); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, nil) // the keys of cut names come from the files
	for i, text := range texts {
		want(t, s, "doc/"+storage.EscapeSegment(text), fmt.Sprintf(`{"n":%d}`, i))
	}
	sound(t, s)
}

// TestUnreadableFiles: what is no document is reported and skipped, stays on
// disk, and is kept when its key is set.
func TestUnreadableFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	if err := s.EnsureIndex(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "secret.md")
	write(t, filepath.Dir(outside), "secret.md", "---\nf: x\n---\nsecret")
	set(t, s, "doc/good", `{"f":"x"}`)
	bad := map[string]string{
		"doc/conflict": "---\n<<<<<<< HEAD\nf: x\n=======\nf: y\n>>>>>>> theirs\n---\n",
		"doc/twice":    "---\nf: x\nf: y\n---\n",
		"doc/binary":   "\xff\xfe\x00",
		"doc/open":     "---\nf: x\n",
	}
	for key, text := range bad {
		write(t, dir, key+".md", text)
	}
	if runtime.GOOS != "windows" {
		bad["doc/link"] = ""
		if err := os.Symlink(outside, filepath.Join(dir, "doc/link.md")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Dir(outside), filepath.Join(dir, "linked")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Get(t.Context(), "linked/secret"); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("Get through a linked directory: %v", err)
		}
		if err := storage.Set(t.Context(), s, "linked/secret", []byte(`{}`)); err == nil {
			t.Error("Set through a linked directory: no error")
		}
	}
	write(t, dir, "doc/deeper/x.md", "not looked at")
	write(t, dir, "notes.txt", "not looked at")
	if os.Getuid() != 0 {
		bad["doc/forbidden"] = ""
		write(t, dir, "doc/forbidden.md", "---\nf: x\n---\n")
		if err := os.Chmod(filepath.Join(dir, "doc/forbidden.md"), 0); err != nil {
			t.Fatal(err)
		}
	}
	found(t, s, "f", "x", "doc/good")
	for key := range s.List(t.Context(), "") {
		if key != "doc/good" {
			t.Errorf("List yields %s", key)
		}
	}
	for key := range bad {
		_, _, err := s.Get(t.Context(), key)
		var corrupt *storage.CorruptError
		if !errors.As(err, &corrupt) || corrupt.Key != key || corrupt.Path == "" || corrupt.Repair == "" {
			t.Errorf("Get %s: %v", key, err)
		}
		err = s.Apply(t.Context(), storage.Put(key, []byte(`{}`)).IfAbsent())
		if !errors.Is(err, storage.ErrConflict) {
			t.Errorf("Apply if %s is absent: %v", key, err)
		}
	}
	reported := map[string]bool{}
	for _, f := range faults(t, s) {
		reported[f.Key] = true
	}
	for key := range bad {
		if !reported[key] {
			t.Errorf("Check does not report %s", key)
		}
		set(t, s, key, `{"f":"x"}`)
		want(t, s, key, `{"f":"x"}`)
	}
	if texts := lost(t, dir); len(texts) < 4 {
		t.Errorf("kept %d texts", len(texts))
	}
	if read(t, filepath.Dir(outside), "secret.md") != "---\nf: x\n---\nsecret" {
		t.Error("a file outside the vault was written")
	}
	for _, f := range faults(t, s) {
		if f.Key != "" || !strings.HasSuffix(f.Path, "linked") {
			t.Errorf("Check found %+v", f)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	made := func(files map[string]string) string {
		dir := t.TempDir()
		for name, text := range files {
			write(t, dir, name, text)
		}
		return dir
	}
	file := filepath.Join(t.TempDir(), "file")
	write(t, filepath.Dir(file), "file", "text")
	notes := made(map[string]string{"notes/a.md": "text", ".git/config": ""})
	for _, c := range []struct {
		name, dir string
		want      error
	}{
		{"other files", notes, storage.ErrFormat},
		{"a file", file, storage.ErrFormat},
		{"newer", made(map[string]string{"_data/vault.json": `{"format":"strata-vault","version":3}`}), storage.ErrNewer},
		{"newer index", made(map[string]string{"_index.json": `{"format":"strata-vault-index","version":3,"segment":1,"at":16,"fields":[],"documents":{` + "\n}}\n"}), storage.ErrNewer},
		{"newer marker", made(map[string]string{"_vault.json": `{"format":"strata-vault","version":4}`}), storage.ErrNewer},
		{"folder outside", made(map[string]string{"_vault.json": `{"format":"strata-vault","version":3,"folders":{"../x":"x"}}`}), storage.ErrFormat},
		{"folder from the root", made(map[string]string{"_vault.json": `{"format":"strata-vault","version":3,"folders":{"/tmp":"x"}}`}), storage.ErrFormat},
		{"folder of the store", made(map[string]string{"_vault.json": `{"format":"strata-vault","version":3,"folders":{"_data/log":"x"}}`}), storage.ErrFormat},
		{"hidden folder", made(map[string]string{"_vault.json": `{"format":"strata-vault","version":3,"folders":{"a/.git":"x"}}`}), storage.ErrFormat},
		{"folder spelled twice", made(map[string]string{"_vault.json": `{"format":"strata-vault","version":3,"folders":{"a/../b":"x"}}`}), storage.ErrFormat},
		{"folder of no type", made(map[string]string{"_vault.json": `{"format":"strata-vault","version":3,"folders":{"A":"_x"}}`}), storage.ErrFormat},
		{"two folders of a type", made(map[string]string{"_vault.json": `{"format":"strata-vault","version":3,"folders":{"A":"x","B":"x"}}`}), storage.ErrFormat},
		{"marker of another", made(map[string]string{"_vault.json": "<<<<<<< HEAD\n"}), storage.ErrFormat},
		{"other format", made(map[string]string{"_data/vault.json": `{"format":"other"}`}), storage.ErrFormat},
		{"no JSON", made(map[string]string{"_data/vault.json": `x`}), storage.ErrFormat},
	} {
		s, err := vault.Open(t.Context(), c.dir, &vault.Options{Logger: quiet})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.dir) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if err == nil {
			s.Close()
		}
	}
	s := open(t, notes, &vault.Options{Adopt: true})
	want(t, s, "notes/a", `{"body":"text"}`)
	if runtime.GOOS == "linux" {
		_, err := vault.Open(t.Context(), "/proc/strata-vault", &vault.Options{Logger: quiet})
		if err == nil {
			t.Error("a vault in /proc")
		}
	}
}

func TestNewerIsRefusedBeforeItIsTouched(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	set(t, s, "doc/a", `{}`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(read(t, dir, "_data/vault.json")), &v); err != nil {
		t.Fatal(err)
	}
	v["version"] = 7
	text, _ := json.Marshal(v)
	write(t, dir, "_data/vault.json", string(text))
	_, err := vault.Open(t.Context(), dir, &vault.Options{Logger: quiet})
	var format *storage.FormatError
	if !errors.As(err, &format) || !format.Newer {
		t.Errorf("Open: %v", err)
	}
}

func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	set(t, s, "doc/a", `{"n":1}`)
	restore := vault.SetFreeSpace(9 << 20)
	defer restore()
	for _, err := range []error{storage.Set(t.Context(), s, "doc/a", []byte(`{"n":2}`)), storage.Set(t.Context(), s, "doc/b", []byte(`{}`)), storage.Delete(t.Context(), s, "doc/a"), storage.Set(t.Context(), s, "_rec/a", nil)} {
		if !errors.Is(err, storage.ErrDiskFull) {
			t.Errorf("a write with 9 MB free: %v", err)
		}
	}
	want(t, s, "doc/a", `{"n":1}`)
	if temps, _ := filepath.Glob(filepath.Join(dir, "_data/tmp/.tmp.*")); len(temps) > 0 {
		t.Errorf("temporary files are left: %q", temps)
	}
	restore()
	set(t, s, "doc/b", `{}`)
	sound(t, s)
}

func TestOrphanTemporaries(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	set(t, s, "doc/a", `{}`)
	names := []string{".tmp.1", "doc/.tmp.2", "_data/.tmp.3", "_data/tmp/.tmp.4"}
	for _, name := range names {
		write(t, dir, name, "x")
	}
	open(t, dir, nil)
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	set(t, s, "doc/b", `{}`)
}

// TestFlippedBits: of records when they are read, of all by Check.
func TestFlippedBits(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	for i := range 10 {
		set(t, s, fmt.Sprintf("_rec/%d", i), strings.Repeat("needle", 20))
	}
	_, numbers, _ := vault.Segments(dir)
	name := fmt.Sprintf("_data/log/%08d.log", numbers[0])
	text := []byte(read(t, dir, name))
	text[strings.Index(string(text), "needle")+9] ^= 4
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(text, 0); err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Get(t.Context(), "_rec/0")
	var corrupt *storage.CorruptError
	if !errors.As(err, &corrupt) || corrupt.Key != "_rec/0" || corrupt.Path == "" || corrupt.Repair == "" {
		t.Errorf("Get: %v", err)
	}
	if _, _, err := s.Get(t.Context(), "_rec/1"); err != nil {
		t.Error(err)
	}
	if len(faults(t, s)) == 0 {
		t.Error("Check found nothing")
	}
	set(t, s, "_rec/0", "again")
}

func TestAuditLog(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &vault.Options{Durability: storage.Process, Actor: "tester"})
	ctx := t.Context()
	set(t, s, "insight/a", `{"layer":"strategic","source_worker":"w1","status":"draft","body":"x"}`)
	set(t, s, "insight/a", `{"layer":"strategic","source_worker":"w1","status":"active","body":"y","new":1}`)
	set(t, s, "insight/a", `{"layer":"strategic","source_worker":"w1","status":"active","body":"y","new":1}`) // no change
	set(t, s, "_rec/a", "not of the log")
	if err := storage.Delete(storage.WithActor(ctx, "person:anna"), s, "insight/a"); err != nil {
		t.Fatal(err)
	}
	var got []string
	var last vault.Mutation
	for m, err := range s.Log(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(m.Op, m.Type, m.ID, m.Layer, m.Worker, m.Actor, m.Fields))
		if m.Seq < last.Seq || m.Time.Before(last.Time) || last.After != m.Before || m.Op != "create" && m.Prev == "" {
			t.Errorf("%+v after %+v", m, last)
		}
		last = m
	}
	want := []string{"createinsightastrategicw1tester[]", "updateinsightastrategicw1tester[body new status]", "deleteinsightastrategicw1person:anna[]"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the audit log has %q", got)
	}
	lines, head, err := s.Verify(ctx)
	if err != nil || lines != 3 || len(head) != 32 {
		t.Errorf("Verify = %d, %q, %v", lines, head, err)
	}
	// A careless edit breaks the chain, and the log goes on.
	text := read(t, dir, "_mutations.jsonl")
	write(t, dir, "_mutations.jsonl", strings.Replace(text, "w1", "w2", 1))
	if _, _, err := s.Verify(ctx); !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("Verify of an edited log: %v", err)
	}
	write(t, dir, "_mutations.jsonl", text)
	set(t, s, "insight/b", `{}`)
	if lines, _, err := s.Verify(ctx); err != nil || lines != 4 {
		t.Errorf("Verify = %d, %v", lines, err)
	}
	if err := os.Remove(filepath.Join(dir, "_mutations.jsonl")); err != nil {
		t.Fatal(err)
	}
	set(t, s, "insight/c", `{}`)
	if lines, _, err := s.Verify(ctx); err != nil || lines != 1 {
		t.Errorf("Verify of a new log = %d, %v", lines, err)
	}
}

// TestAuditRotation: at 10 MB a file is full, and no line is lost or split.
func TestAuditRotation(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir, nil), open(t, dir, nil)
	const batches, each = 32, 1000
	for b := range batches {
		ops := make([]storage.Op, each)
		for i := range ops { // one file: what counts is the log
			ops[i] = storage.Put("doc/a", fmt.Appendf(nil, `{"n":%d,"layer":"%0100d"}`, b*each+i, i))
		}
		on := s
		if b%2 == 1 {
			on = other
		}
		if err := on.Apply(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
	lines, _, err := s.Verify(t.Context())
	if err != nil || lines != batches*each {
		t.Errorf("%d lines of %d, %v", lines, batches*each, err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "_mutations*"))
	if len(files) < 2 {
		t.Errorf("files %q", files)
	}
	sound(t, s)
}

// TestClockGoesBack: neither the audit log nor the view of hand edits depends
// on a clock that only goes forward.
func TestClockGoesBack(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	set(t, s, "doc/a", `{"n":1}`)
	s.Ahead(int64(time.Hour))
	set(t, s, "doc/a", `{"n":2}`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, nil)
	set(t, s, "doc/a", `{"n":3}`)
	var last time.Time
	for m, err := range s.Log(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if !m.Time.After(last) {
			t.Errorf("%v after %v", m.Time, last)
		}
		last = m.Time
	}
	if err := s.EnsureIndex(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	for i, at := range []time.Time{time.Unix(1, 0), time.Now().Add(24 * time.Hour)} {
		path := filepath.Join(dir, "doc/a.md")
		write(t, dir, "doc/a.md", fmt.Sprintf("---\nf: x%d\n---\n", i))
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		found(t, s, "f", fmt.Sprintf("x%d", i), "doc/a")
	}
	sound(t, s)
}

// TestCompactBehindOthers: a store that has the vault open reads on when
// another one compacts the log, also if it was not looking for a while.
func TestCompactBehindOthers(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir, nil), open(t, dir, nil)
	ctx := t.Context()
	record := func(key, value string) {
		t.Helper()
		if got, _, err := s.Get(ctx, key); err != nil || string(got) != value {
			t.Errorf("Get %s = %q, %v, want %q", key, got, err, value)
		}
	}
	for round := range 4 {
		for i := range 50 {
			set(t, other, fmt.Sprintf("_rec/%d", i), fmt.Sprint(round))
		}
		if round%2 == 0 {
			record("_rec/7", fmt.Sprint(round))
		}
		still, err := s.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for range round + 1 { // several times: the first bases are gone
			set(t, other, "doc/a", fmt.Sprintf(`{"n":%d}`, round))
			if err := other.Compact(ctx); err != nil {
				t.Fatal(err)
			}
		}
		record("_rec/7", fmt.Sprint(round))
		want(t, s, "doc/a", fmt.Sprintf(`{"n":%d}`, round))
		set(t, s, "_rec/8", "mine")
		if got, _, err := other.Get(ctx, "_rec/8"); err != nil || string(got) != "mine" {
			t.Errorf("the other store has %q, %v", got, err)
		}
		if got, _, err := still.Get(ctx, "_rec/7"); err != nil || string(got) != fmt.Sprint(round) {
			t.Errorf("a snapshot has %q, %v", got, err)
		}
		if err := still.Close(); err != nil {
			t.Error(err)
		}
	}
	if base, numbers, err := vault.Segments(dir); err != nil || base == 0 || len(numbers) != 1 {
		t.Errorf("segments %d and %v, %v", base, numbers, err)
	}
	sound(t, s)
	sound(t, other)
	third := open(t, dir, nil)
	if st, err := third.Stats(ctx); err != nil || st.Records != 50 || st.Documents != 1 {
		t.Errorf("Stats = %+v, %v", st, err)
	}
}
