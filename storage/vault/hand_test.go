package vault_test

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

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/vault"
)

func open(t testing.TB, dir string, opts *vault.Options) *vault.Store {
	t.Helper()
	if opts == nil {
		opts = &vault.Options{Durability: storage.Process}
	}
	opts.Logger = quiet
	s, err := vault.Open(context.Background(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func set(t testing.TB, s storage.Adapter, key, value string) {
	t.Helper()
	if err := storage.Set(t.Context(), s, key, []byte(value)); err != nil {
		t.Fatalf("Set %s: %v", key, err)
	}
}

func want(t testing.TB, s storage.Adapter, key, value string) {
	t.Helper()
	got, _, err := s.Get(t.Context(), key)
	if err != nil {
		t.Errorf("Get %s: %v", key, err)
		return
	}
	x, _ := storage.Canonical(got)
	if y, _ := storage.Canonical([]byte(value)); string(x) != string(y) {
		t.Errorf("Get %s = %s, want %s", key, x, y)
	}
}

func found(t testing.TB, s storage.Adapter, field, value string, keys ...string) {
	t.Helper()
	got := []string{}
	for e, err := range storage.Find(t.Context(), s, storage.Query{Equal: map[string]string{field: value}}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Key)
	}
	if !slices.Equal(got, keys) {
		t.Errorf("Find %s=%s yields %q, want %q", field, value, got, keys)
	}
}

func faults(t testing.TB, s *vault.Store) (found []storage.Fault) {
	t.Helper()
	for f, err := range s.Check(t.Context()) {
		if err != nil {
			t.Fatalf("Check: %v", err)
		}
		if f.Reason == "" || f.Repair == "" || f.Path == "" {
			t.Errorf("fault %+v does not say what and what to do", f)
		}
		found = append(found, f)
	}
	return found
}

func sound(t testing.TB, s *vault.Store) {
	t.Helper()
	if found := faults(t, s); len(found) > 0 {
		t.Errorf("Check found %+v", found)
	}
}

// lost returns the texts that were kept.
func lost(t testing.TB, dir string) (texts []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, "_data/lost"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var text []byte
			text, err = os.ReadFile(path)
			texts = append(texts, string(text))
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return texts
}

// TestHandEdits does what people and git do, with events of the file system and
// without.
func TestHandEdits(t *testing.T) {
	for _, events := range []bool{true, false} {
		t.Run(fmt.Sprintf("events=%t", events), func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, nil)
			if !events {
				s.WithoutEvents()
			}
			if err := s.EnsureIndex(t.Context(), "status"); err != nil {
				t.Fatal(err)
			}
			set(t, s, "insight/a", `{"status":"draft","body":"text"}`)
			set(t, s, "insight/b", `{"status":"draft"}`)
			found(t, s, "status", "draft", "insight/a", "insight/b")

			write(t, dir, "insight/a.md", "---\nstatus: active\nreviewer: Bob\n---\nmore text")
			found(t, s, "status", "active", "insight/a")
			want(t, s, "insight/a", `{"status":"active","reviewer":"Bob","body":"more text"}`)

			// An editor that saves to a new file, and a new directory.
			write(t, dir, "insight/.b.swp", "---\nstatus: active\n---\n")
			if err := os.Rename(filepath.Join(dir, "insight/.b.swp"), filepath.Join(dir, "insight/b.md")); err != nil {
				t.Fatal(err)
			}
			write(t, dir, "note/My Note.md", "---\nstatus: active\n---\nhello")
			found(t, s, "status", "active", "insight/a", "insight/b", "note/My Note")
			want(t, s, "note/My Note", `{"status":"active","body":"hello"}`)

			// The file keeps the name that a person gave it.
			set(t, s, "note/My Note", `{"status":"done"}`)
			if got := read(t, dir, "note/My Note.md"); !strings.Contains(got, "status: done") {
				t.Errorf("the file of a note has %q", got)
			}
			if err := errors.Join(os.Remove(filepath.Join(dir, "insight/b.md")), os.RemoveAll(filepath.Join(dir, "note"))); err != nil {
				t.Fatal(err)
			}
			found(t, s, "status", "active", "insight/a")
			found(t, s, "status", "done")
			if _, _, err := s.Get(t.Context(), "insight/b"); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("Get of a removed file: %v", err)
			}
			set(t, s, "note/My Note", `{"status":"done"}`)
			found(t, s, "status", "done", "note/My Note")
			// A whole directory moves away and comes back, as git does it.
			if err := os.Rename(filepath.Join(dir, "insight"), filepath.Join(dir, ".aside")); err != nil {
				t.Fatal(err)
			}
			found(t, s, "status", "active")
			if err := os.Rename(filepath.Join(dir, ".aside"), filepath.Join(dir, "insight")); err != nil {
				t.Fatal(err)
			}
			found(t, s, "status", "active", "insight/a")
			write(t, dir, "insight/c.md", "---\nstatus: active\n---\n")
			found(t, s, "status", "active", "insight/a", "insight/c")
			sound(t, s)
			if texts := lost(t, dir); len(texts) > 0 {
				t.Errorf("kept %q, which had been read", texts)
			}
		})
	}
}

func TestHandEditsWhileClosed(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	if err := s.EnsureIndex(t.Context(), "status"); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		set(t, s, fmt.Sprintf("insight/%02d", i), `{"status":"draft"}`)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "insight/03.md", "---\nstatus: active\n---\n")
	write(t, dir, "insight/new.md", "---\nstatus: active\n---\n")
	if err := os.Remove(filepath.Join(dir, "insight/04.md")); err != nil {
		t.Fatal(err)
	}
	for _, damage := range []func(){
		func() {},
		func() { write(t, dir, "_index.json", "{}") },
		func() { os.Truncate(filepath.Join(dir, "_index.json"), 300) },
		func() { os.Remove(filepath.Join(dir, "_index.json")) },
		func() { os.RemoveAll(filepath.Join(dir, "_data")) },
	} {
		damage()
		s = open(t, dir, nil)
		if err := s.EnsureIndex(t.Context(), "status"); err != nil {
			t.Fatal(err)
		}
		found(t, s, "status", "active", "insight/03", "insight/new")
		if st, err := s.Stats(t.Context()); err != nil || st.Documents != 20 {
			t.Errorf("%d documents, %v", st.Documents, err)
		}
		sound(t, s)
		if err := s.Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		found(t, s, "status", "active", "insight/03", "insight/new")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnseenTextIsKept: what nobody has read is not lost, and who has read it
// or asks for another version is not bothered.
func TestUnseenTextIsKept(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	ctx := t.Context()
	const edit = "---\nstatus: active\n---\nby hand"
	set(t, s, "insight/a", `{"status":"draft"}`)
	v := func() storage.Version {
		_, v, err := s.Get(ctx, "insight/a")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	before := v()
	write(t, dir, "insight/a.md", edit)
	err := s.Apply(ctx, storage.Put("insight/a", []byte(`{}`)).IfVersion(before))
	if !errors.Is(err, storage.ErrConflict) {
		t.Errorf("Apply to a version that was edited: %v", err)
	}
	if err := s.Apply(ctx, storage.Put("insight/a", []byte(`{"n":1}`)).IfVersion(v())); err != nil {
		t.Error(err)
	}
	write(t, dir, "insight/a.md", edit)
	want(t, s, "insight/a", `{"status":"active","body":"by hand"}`)
	set(t, s, "insight/a", `{"n":2}`)
	if texts := lost(t, dir); len(texts) > 0 {
		t.Errorf("kept %q, which had been read", texts)
	}
	write(t, dir, "insight/a.md", edit)
	set(t, s, "insight/a", `{"n":3}`)
	write(t, dir, "insight/new.md", edit)
	if err := storage.Delete(ctx, s, "insight/new"); err != nil {
		t.Fatal(err)
	}
	// It is remembered over a restart.
	write(t, dir, "insight/a.md", edit+"!")
	for range s.List(ctx, "") { // seen by the store, by nobody else
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, nil)
	set(t, s, "insight/a", `{"n":4}`)
	if texts := lost(t, dir); len(texts) != 3 || !slices.Contains(texts, edit) || !slices.Contains(texts, edit+"!") {
		t.Errorf("kept %q", texts)
	}
	hands := 0
	for m, err := range s.Log(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Actor == vault.ActorHand && m.Lost != "" {
			hands++
		}
	}
	if hands != 3 {
		t.Errorf("the audit log tells of %d changes by hand", hands)
	}
	sound(t, s)
}

// TestEditDuringCommit: what is saved after the check of a commit, and before its
// file is in place, is kept.
func TestEditDuringCommit(t *testing.T) {
	const edit = "---\nstatus: active\n---\nby hand"
	for name, c := range map[string]struct {
		op   storage.Op
		hand func(dir string)
		kept []string
		want string // after it; "" for nothing
	}{
		"saved anew, and replaced": {storage.Put("insight/a", []byte(`{"n":1}`)), func(dir string) {
			write(t, dir, "insight/.swp", edit)
			if err := os.Rename(filepath.Join(dir, "insight/.swp"), filepath.Join(dir, "insight/a.md")); err != nil {
				t.Error(err)
			}
		}, []string{edit}, `{"n":1}`},
		"saved in place, and replaced": {storage.Put("insight/a", []byte(`{"n":1}`)), func(dir string) {
			write(t, dir, "insight/a.md", edit)
		}, []string{edit}, `{"n":1}`},
		"saved, and deleted": {storage.Remove("insight/a"), func(dir string) {
			write(t, dir, "insight/a.md", edit)
		}, []string{edit}, ""},
		"made where there was none": {storage.Put("insight/b", []byte(`{"n":1}`)), func(dir string) {
			write(t, dir, "insight/b.md", edit)
		}, []string{edit}, `{"n":1}`},
		"removed, and replaced": {storage.Put("insight/a", []byte(`{"n":1}`)), func(dir string) {
			if err := os.Remove(filepath.Join(dir, "insight/a.md")); err != nil {
				t.Error(err)
			}
		}, nil, `{"n":1}`},
		"removed with its directory, and replaced": {storage.Put("insight/a", []byte(`{"n":1}`)), func(dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "insight")); err != nil {
				t.Error(err)
			}
		}, nil, `{"n":1}`},
		"saved without a change": {storage.Put("insight/a", []byte(`{"n":1}`)), func(dir string) {
			write(t, dir, "insight/a.md", read(t, dir, "insight/a.md"))
		}, nil, `{"n":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, nil)
			set(t, s, "insight/a", `{"status":"draft"}`)
			vault.CrashAt("logged", 1, func() { c.hand(dir) })
			defer vault.CrashAt("", 0, nil)
			if err := s.Apply(t.Context(), c.op); err != nil {
				t.Fatal(err)
			}
			if c.want != "" {
				want(t, s, c.op.Key, c.want)
			} else if _, _, err := s.Get(t.Context(), c.op.Key); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("Get of what was deleted: %v", err)
			}
			if texts := lost(t, dir); !slices.Equal(texts, c.kept) {
				t.Errorf("kept %q, want %q", texts, c.kept)
			}
			temps, err := filepath.Glob(filepath.Join(dir, "_data/tmp/*"))
			if err != nil || len(temps) > 0 {
				t.Errorf("temporary files are left: %q, %v", temps, err)
			}
			sound(t, s)
		})
	}
}

func TestWatchSeesHands(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	other := open(t, dir, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	events, err := s.Watch(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	step := 0
	next := func() {
		switch step++; step {
		case 1:
			write(t, dir, "insight/hand.md", "by hand")
		case 2:
			set(t, other, "_rec/other", "process")
		case 3:
			set(t, other, "insight/other", `{"a":1}`)
		case 4:
			if err := storage.Delete(ctx, other, "insight/other"); err != nil {
				t.Error(err)
			}
		case 5:
			if err := os.Remove(filepath.Join(dir, "insight/hand.md")); err != nil {
				t.Error(err)
			}
		default:
			cancel()
		}
	}
	next()
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
		next()
	}
	if want := []string{"1 insight/hand", "1 _rec/other", "1 insight/other", "2 insight/other", "2 insight/hand"}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}
