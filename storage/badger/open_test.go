package badger_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	direct "github.com/dgraph-io/badger/v4"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/badger"
)

const large = 5000 // bytes of a value that goes to the value log

// made returns the directory of a store with some content, closed.
func made(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir, &badger.Options{Durability: storage.Process})
	if err := s.EnsureIndex(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		doc := fmt.Sprintf(`{"f":"%d","pad":"%s"}`, i%10, strings.Repeat("needle-", 20))
		if err := storage.Set(t.Context(), s, fmt.Sprintf("doc/%03d", i), []byte(doc)); err != nil {
			t.Fatal(err)
		}
	}
	if err := storage.Set(t.Context(), s, "_large/a", bytes.Repeat([]byte("haystack"), large/8)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t *testing.T, dir string, opts *badger.Options) *badger.Store {
	t.Helper()
	s, err := badger.Open(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// first returns the first file of a directory that matches.
func first(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("no %s in %s: %v", pattern, dir, err)
	}
	return found[0]
}

func change(t *testing.T, path string, f func(content []byte) []byte) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, f(content))
}

// files returns the content of a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(content)
	}
	return all
}

func foreign(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	db, err := direct.Open(direct.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenErrors(t *testing.T) {
	manifest := func(f func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) { change(t, filepath.Join(dir, "MANIFEST"), f) }
	}
	table := func(f func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) { change(t, first(t, dir, "*.sst"), f) }
	}
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte {
			if at < 0 {
				at += len(b)
			}
			b[at] ^= 0x10
			return b
		}
	}
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		want   error
		says   string
	}{
		{"file", func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			write(t, dir, []byte("x"))
		}, storage.ErrFormat, "not a directory"},
		{"other files", func(t *testing.T, dir string) {
			if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "notes.md"), []byte("# notes\n"))
		}, storage.ErrFormat, "other files"},
		{"other program", foreign, storage.ErrFormat, "another program"},
		{"newer", manifest(func(b []byte) []byte { b[5]++; return b }), storage.ErrNewer, "format version 2"},
		{"newer badger", manifest(func(b []byte) []byte { b[7]++; return b }), storage.ErrNewer, "badger version 9"},
		{"older badger", manifest(func(b []byte) []byte { b[7]--; return b }), storage.ErrFormat, "badger version 7"},
		{"not badger's manifest", manifest(flip(0)), storage.ErrFormat, "not badger's"},
		{"manifest cut", manifest(func(b []byte) []byte { return b[:5] }), storage.ErrCorrupt, "cut short"},
		{"manifest cut at an entry", manifest(func(b []byte) []byte { return b[:8] }), storage.ErrCorrupt, "cut short"},
		{"manifest cut in an entry", manifest(func(b []byte) []byte { return b[:16] }), storage.ErrCorrupt, "cut short"},
		{"manifest flipped", manifest(flip(-2)), storage.ErrCorrupt, "checksum"},
		{"manifest missing", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "MANIFEST")); err != nil {
				t.Fatal(err)
			}
		}, storage.ErrCorrupt, "MANIFEST is missing"},
		{"table missing", func(t *testing.T, dir string) {
			if err := os.Remove(first(t, dir, "*.sst")); err != nil {
				t.Fatal(err)
			}
		}, storage.ErrCorrupt, "missing"},
		{"table empty", table(func(b []byte) []byte { return nil }), storage.ErrCorrupt, "cut short"},
		{"table cut", table(func(b []byte) []byte { return b[:len(b)/2] }), storage.ErrCorrupt, "cut short"},
		{"table cut by a byte", table(func(b []byte) []byte { return b[:len(b)-1] }), storage.ErrCorrupt, "cut short"},
		{"table longer", table(func(b []byte) []byte { return append(b, 0) }), storage.ErrCorrupt, "cut short"},
		{"table of zeros", table(func(b []byte) []byte { clear(b); return b }), storage.ErrCorrupt, "cut short"},
		{"table's index flipped", table(flip(-100)), storage.ErrCorrupt, "overwritten"},
		{"table's last block", table(func(b []byte) []byte {
			length := func(end int) int { return int(binary.BigEndian.Uint32(b[end-4:])) }
			end := len(b) - 4 - length(len(b))
			end -= 4 + length(end) // where the index begins
			b[end-50] ^= 0x10
			return b
		}), storage.ErrCorrupt, "last block"},
		{"key registry", func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, "KEYREGISTRY"), func(b []byte) []byte { clear(b); return b })
		}, storage.ErrCorrupt, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := made(t)
			c.damage(t, dir)
			before := map[string]string{}
			if c.name != "file" {
				before = files(t, dir)
			}
			for range 2 { // the first attempt must not keep the lock
				s, err := badger.Open(t.Context(), dir, &badger.Options{LockWait: -1})
				if err == nil {
					s.Close()
				}
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), dir) {
					t.Errorf("Open: %v, want %v that says %q and names the directory", err, c.want, c.says)
				}
			}
			if c.name == "file" {
				return
			}
			after := files(t, dir)
			for name := range before {
				if after[name] != before[name] {
					t.Errorf("Open changed %s", name)
				}
			}
			if len(after) != len(before) && c.name != "key registry" { // badger opens that itself
				t.Errorf("Open changed the files: %d became %d", len(before), len(after))
			}
		})
	}
	t.Run("no directory around it", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "none", "store")
		if _, err := badger.Open(t.Context(), dir, nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dir) {
			t.Errorf("Open: %v", err)
		}
	})
}

// TestUnfinishedFiles: a process that is killed right after it made a file
// leaves it empty, which badger refuses to open.
func TestUnfinishedFiles(t *testing.T) {
	for _, name := range []string{"00099.mem", "000099.vlog", "DISCARD", "000099.sst", "LOCK"} {
		dir := made(t)
		write(t, filepath.Join(dir, name), nil)
		s := open(t, dir, nil)
		if _, _, err := s.Get(t.Context(), "_large/a"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := storage.Set(t.Context(), s, "_a", nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"LOCK", "MANIFEST-REWRITE"} { // killed while it made the store
		dir := t.TempDir()
		write(t, filepath.Join(dir, name), []byte("4711\n"))
		open(t, dir, nil)
	}
}

func TestLocked(t *testing.T) {
	dir := made(t)
	s := open(t, dir, nil)
	start := time.Now()
	_, err := badger.Open(t.Context(), dir, &badger.Options{LockWait: 50 * time.Millisecond})
	var locked *storage.LockedError
	if !errors.As(err, &locked) || locked.Path != dir || locked.Holder != "this process" {
		t.Fatalf("Open of an open store: %v", err)
	}
	if took := time.Since(start); took < 50*time.Millisecond || took > 3*time.Second {
		t.Errorf("waited %v", took)
	}
	if _, err := badger.Open(t.Context(), dir, &badger.Options{LockWait: -1, ReadOnly: true}); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("Open for reading: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := badger.Open(ctx, dir, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Open with a context that ends: %v", err)
	}
	// Who waits gets the store when it is closed.
	time.AfterFunc(30*time.Millisecond, func() { s.Close() })
	open(t, dir, nil)
}

// TestLockedByAnother has the test binary hold the store in another process,
// and then be killed.
func TestLockedByAnother(t *testing.T) {
	const holds = "STRATA_TEST_HOLDS"
	if dir := os.Getenv(holds); dir != "" {
		open(t, dir, nil)
		fmt.Println("open")
		fmt.Scanln() // until the parent closes our input
		return
	}
	dir := made(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestLockedByAnother$")
	cmd.Env = append(os.Environ(), holds+"="+dir)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	_, err = badger.Open(t.Context(), dir, &badger.Options{LockWait: -1})
	var locked *storage.LockedError
	if !errors.As(err, &locked) || !strings.Contains(locked.Holder, fmt.Sprint(cmd.Process.Pid)) {
		t.Errorf("Open of a store that process %d has open: %v", cmd.Process.Pid, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	_, err = badger.Open(t.Context(), dir, &badger.Options{ReadOnly: true})
	if !errors.Is(err, badger.ErrNotClosed) || !errors.Is(err, storage.ErrReadOnly) || !strings.Contains(err.Error(), "for writing once") {
		t.Errorf("Open for reading of a store that was not closed: %v", err)
	}
	s := open(t, dir, &badger.Options{LockWait: -1}) // a dead holder's lock is free at once
	if _, _, err := s.Get(t.Context(), "doc/000"); err != nil {
		t.Error(err)
	}
}

func TestReadOnly(t *testing.T) {
	dir := made(t)
	ctx := t.Context()
	a, b := open(t, dir, &badger.Options{ReadOnly: true}), open(t, dir, &badger.Options{ReadOnly: true})
	if _, err := badger.Open(ctx, dir, &badger.Options{LockWait: -1}); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("Open for writing: %v", err)
	}
	still, err := a.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer still.Close()
	for _, s := range []*badger.Store{a, b, still.(*badger.Store)} {
		for _, key := range []string{"doc/000", "_large/a"} {
			if _, _, err := s.Get(ctx, key); err != nil {
				t.Error(err)
			}
		}
		for f, err := range s.Check(ctx) {
			t.Errorf("Check: %v, %v", f, err)
		}
		for what, err := range map[string]error{
			"Set": storage.Set(ctx, s, "doc/a", []byte(`{}`)), "Delete": storage.Delete(ctx, s, "doc/000"),
			"EnsureIndex": s.EnsureIndex(ctx, "g"), "Compact": s.Compact(ctx),
		} {
			if !errors.Is(err, storage.ErrReadOnly) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := s.EnsureIndex(ctx, "f"); err != nil { // is declared already
			t.Error(err)
		}
	}
	_, err = badger.Open(ctx, filepath.Join(t.TempDir(), "none"), &badger.Options{ReadOnly: true})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of no directory: %v", err)
	}
	_, err = badger.Open(ctx, t.TempDir(), &badger.Options{ReadOnly: true})
	if !errors.Is(err, storage.ErrFormat) {
		t.Errorf("Open of an empty directory: %v", err)
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	dir := "/sys" // not even root may create files there
	if os.Getuid() != 0 {
		dir = made(t)
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
	} else if runtime.GOOS != "linux" {
		t.Skip("no directory here that root may not write to")
	} else {
		dir = filepath.Join(dir, "store")
	}
	_, err := badger.Open(t.Context(), dir, nil)
	if !errors.Is(err, storage.ErrReadOnly) || !strings.Contains(err.Error(), dir) {
		t.Errorf("Open: %v", err)
	}
}

// TestCreateRace has many open a directory that is not there: one makes it, all
// use it in turn.
func TestCreateRace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	errs := make(chan error)
	for i := range 8 {
		go func() {
			s, err := badger.Open(context.Background(), dir, &badger.Options{LockWait: time.Minute})
			if err == nil {
				err = errors.Join(storage.Set(context.Background(), s, fmt.Sprintf("_r/%d", i), nil), s.Close())
			}
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	n := 0
	for range open(t, dir, nil).List(t.Context(), "") {
		n++
	}
	if n != 8 {
		t.Errorf("%d of 8 writes are there", n)
	}
}

func TestLockWaitIsBounded(t *testing.T) {
	dir := made(t)
	open(t, dir, nil)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := badger.Open(t.Context(), dir, nil)
		if !errors.Is(err, storage.ErrLocked) {
			t.Errorf("Open: %v", err)
		}
		if took := time.Since(start); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("waited %v, want 5 s", took)
		}
	})
}

// TestNothingRunsAfterClose opens, uses and closes a store in a bubble, which
// does not end while one of its goroutines runs.
func TestNothingRunsAfterClose(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		for range 2 {
			s, err := badger.Open(ctx, dir, &badger.Options{GCInterval: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 50 {
				err = errors.Join(err, storage.Set(ctx, s, fmt.Sprintf("_a/%d", i), make([]byte, large)))
			}
			for _, e := range s.Scan(ctx, "", nil) {
				err = errors.Join(err, e)
			}
			still, snapErr := s.Snapshot(ctx)
			err = errors.Join(err, snapErr, s.Compact(ctx), s.EnsureIndex(ctx, "f"), s.Close())
			if _, _, getErr := still.Get(ctx, "_a/7"); getErr != nil {
				t.Error(getErr)
			}
			if err := errors.Join(err, still.Close()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestModes: nobody else reads what is in the store, also where the directory was
// there before, unless a group shares it.
func TestModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it has no modes")
	}
	for mode, want := range map[fs.FileMode]fs.FileMode{0o755: 0o700, 0o700: 0o700, 0o775: 0o775, 0: 0o700} {
		dir := filepath.Join(t.TempDir(), "store")
		if mode != 0 {
			if err := errors.Join(os.Mkdir(dir, mode), os.Chmod(dir, mode)); err != nil {
				t.Fatal(err)
			}
		}
		open(t, dir, nil)
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("a directory that was %o is %o, want %o", mode, got, want)
		}
	}
	other := t.TempDir()
	if err := errors.Join(os.Chmod(other, 0o755), os.WriteFile(filepath.Join(other, "notes.txt"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if s, err := badger.Open(t.Context(), other, nil); err == nil {
		s.Close()
	}
	if info, err := os.Stat(other); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("a directory that is none of ours is %v, %v", info.Mode(), err)
	}
}
