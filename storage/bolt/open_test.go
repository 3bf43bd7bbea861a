package bolt_test

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

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/bolt"
	"go.etcd.io/bbolt"
)

// made returns the path of a store with some content, closed.
func made(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, &bolt.Options{Durability: storage.Process})
	if err := s.EnsureIndex(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		doc := fmt.Sprintf(`{"f":"%d","pad":"%s"}`, i%10, strings.Repeat("needle-", 20))
		if err := storage.Set(t.Context(), s, fmt.Sprintf("doc/%03d", i), []byte(doc)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(tb testing.TB, path string, opts *bolt.Options) *bolt.Store {
	tb.Helper()
	s, err := bolt.Open(tb.Context(), path, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

// pageSize returns that of a file, which its first meta page tells.
func pageSize(file []byte) int { return int(binary.NativeEndian.Uint32(file[16+8:])) }

// TestPageSize shows that a file that has to survive power loss has the system's
// pages, so that no two meta pages share a block, and another smaller ones; that
// Compact makes the file what it should be; and that any is read and written.
func TestPageSize(t *testing.T) {
	for _, c := range []struct {
		made, compacted storage.Durability
		before, after   int
	}{
		{storage.Full, storage.Full, os.Getpagesize(), os.Getpagesize()},
		{storage.Process, storage.Process, 2048, 2048},
		{storage.None, storage.Full, 2048, os.Getpagesize()},
		{storage.Full, storage.Process, os.Getpagesize(), 2048},
	} {
		path := filepath.Join(t.TempDir(), "store.db")
		check := func(want int) {
			t.Helper()
			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := pageSize(file); got != want {
				t.Errorf("%+v: pages of %d bytes, want %d", c, got, want)
			}
		}
		s := open(t, path, &bolt.Options{Durability: c.made})
		large := bytes.Repeat([]byte("large "), 10_000)
		if err := s.Apply(t.Context(), storage.Put("_a", large), storage.Put("_b", large[:1500])); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		check(c.before)
		s = open(t, path, &bolt.Options{Durability: c.compacted})
		if err := s.Apply(t.Context(), storage.Put("_b", large[:3000])); err != nil {
			t.Fatal(err)
		}
		check(c.before)
		if err := s.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string][]byte{"_a": large, "_b": large[:3000]} {
			if got, _, err := s.Get(t.Context(), key); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%+v: %s has %d bytes, want %d: %v", c, key, len(got), len(want), err)
			}
		}
		if found := faults(t, s); len(found) > 0 {
			t.Errorf("%+v: Check found %+v", c, found)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		check(c.after)
	}
}

func write(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	good, err := os.ReadFile(made(t))
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string, content []byte) string { return write(t, filepath.Join(dir, name), content) }
	change := func(at int, to []byte) []byte {
		bad := bytes.Clone(good)
		copy(bad[at:], to)
		return bad
	}
	junk := bytes.Repeat([]byte{0xAA}, pageSize(good))
	foreign := filepath.Join(dir, "foreign.db")
	db, err := bbolt.Open(foreign, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	newer := file("newer.db", good)
	if db, err = bbolt.Open(newer, 0o600, nil); err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("strata")).Put([]byte("format"), []byte(`{"format":"strata-bolt","version":3}`))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	page := pageSize(good)
	for _, c := range []struct {
		name, path string
		want       error
		says       string
	}{
		{"empty", file("empty.db", nil), storage.ErrFormat, "empty file"},
		{"text", file("text.db", []byte("# notes\n")), storage.ErrFormat, "not a bolt store"},
		{"long text", file("long.db", bytes.Repeat([]byte("notes\n"), 10_000)), storage.ErrFormat, "not a bolt store"},
		{"directory", dir, storage.ErrFormat, "not a regular file"},
		{"no directory", filepath.Join(dir, "none", "store.db"), fs.ErrNotExist, "none"},
		{"other program", foreign, storage.ErrFormat, "another program"},
		{"newer", newer, storage.ErrNewer, "version 3"},
		{"cut in half", file("half.db", good[:len(good)/2/page*page]), storage.ErrCorrupt, "cut short"},
		{"cut to the meta pages", file("metas.db", good[:2*page]), storage.ErrCorrupt, "cut short"},
		{"cut to one page", file("one.db", good[:page]), storage.ErrCorrupt, "cut short"},
		{"cut inside a page", file("torn.db", good[:3*page+7]), storage.ErrCorrupt, "cut short"},
		{"both meta pages", file("bothmetas.db", bytes.Join([][]byte{change(16+8, junk[:40])[:page], change(page+16+8, junk[:40])[page:]}, nil)), storage.ErrCorrupt, "meta pages"},
		{"everything but the meta pages", file("pages.db", append(bytes.Clone(good[:2*page]), bytes.Repeat(junk, len(good)/page-2)...)), storage.ErrCorrupt, "restore a backup"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, _ := os.ReadFile(c.path)
			for range 2 { // the first attempt must not keep the lock
				s, err := bolt.Open(t.Context(), c.path, &bolt.Options{LockWait: -1})
				if err == nil {
					s.Close()
				}
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.path) {
					t.Errorf("Open: %v, want %v that says %q and names the file", err, c.want, c.says)
				}
			}
			if after, _ := os.ReadFile(c.path); !bytes.Equal(after, before) {
				t.Error("Open changed the file")
			}
		})
	}
	t.Run("one meta page", func(t *testing.T) { // of a commit that was torn; the other is the one before
		s := open(t, file("onemeta.db", change(16+8, junk[:40])), nil)
		if _, _, err := s.Get(t.Context(), "doc/000"); err != nil {
			t.Error(err)
		}
	})
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp.*")); len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}

func TestLocked(t *testing.T) {
	path := made(t)
	s := open(t, path, nil)
	start := time.Now()
	_, err := bolt.Open(t.Context(), path, &bolt.Options{LockWait: 50 * time.Millisecond})
	var locked *storage.LockedError
	if !errors.As(err, &locked) || locked.Path != path || !errors.Is(err, storage.ErrLocked) {
		t.Fatalf("Open of an open file: %v", err)
	}
	if runtime.GOOS == "linux" && locked.Holder != "this process" {
		t.Errorf("holder is %q", locked.Holder)
	}
	if took := time.Since(start); took < 50*time.Millisecond || took > 3*time.Second {
		t.Errorf("waited %v", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := bolt.Open(ctx, path, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Open with a context that ends: %v", err)
	}
	// Who waits gets the file when it is closed.
	time.AfterFunc(30*time.Millisecond, func() { s.Close() })
	open(t, path, nil)
}

// TestLockedByAnother has the test binary hold the file in another process.
func TestLockedByAnother(t *testing.T) {
	const holds = "STRATA_TEST_HOLDS"
	if path := os.Getenv(holds); path != "" {
		open(t, path, nil)
		fmt.Println("open")
		fmt.Scanln() // until the parent closes our input
		return
	}
	path := made(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestLockedByAnother$")
	cmd.Env = append(os.Environ(), holds+"="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if _, err := out.Read(make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	_, err = bolt.Open(t.Context(), path, &bolt.Options{LockWait: -1})
	var locked *storage.LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("Open of a file that another process has open: %v", err)
	}
	if runtime.GOOS == "linux" && !strings.Contains(locked.Holder, fmt.Sprint(cmd.Process.Pid)) {
		t.Errorf("holder is %q, not %d", locked.Holder, cmd.Process.Pid)
	}
}

func TestReadOnly(t *testing.T) {
	path := made(t)
	a, b := open(t, path, &bolt.Options{ReadOnly: true}), open(t, path, &bolt.Options{ReadOnly: true})
	ctx := t.Context()
	for _, s := range []*bolt.Store{a, b} {
		if _, _, err := s.Get(ctx, "doc/000"); err != nil {
			t.Error(err)
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
	_, err := bolt.Open(ctx, filepath.Join(t.TempDir(), "none.db"), &bolt.Options{ReadOnly: true})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of no file: %v", err)
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	dir := "/sys" // not even root may create files there
	if os.Getuid() != 0 {
		dir = t.TempDir()
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
	} else if runtime.GOOS != "linux" {
		t.Skip("no directory here that root may not write to")
	}
	_, err := bolt.Open(t.Context(), filepath.Join(dir, "store.db"), nil)
	if !errors.Is(err, storage.ErrReadOnly) || !strings.Contains(err.Error(), dir) {
		t.Errorf("Open: %v", err)
	}
}

// TestCreateRace has many open a file that is not there: one makes it, all use
// it in turn.
func TestCreateRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	errs := make(chan error)
	for i := range 8 {
		go func() {
			s, err := bolt.Open(context.Background(), path, nil)
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
	for range open(t, path, nil).List(t.Context(), "") {
		n++
	}
	if n != 8 {
		t.Errorf("%d of 8 writes are there", n)
	}
}

func TestLockWaitIsBounded(t *testing.T) {
	path := made(t)
	open(t, path, nil)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := bolt.Open(t.Context(), path, nil)
		if !errors.Is(err, storage.ErrLocked) {
			t.Errorf("Open: %v", err)
		}
		if took := time.Since(start); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("waited %v, want 5 s", took)
		}
	})
}
