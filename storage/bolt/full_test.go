//go:build unix

package bolt_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stratamem/strata/storage"
)

// TestDiskFull fills what a child process may write to one file, which the
// system reports like a full disk.
func TestDiskFull(t *testing.T) {
	const fills = "STRATA_TEST_FILLS"
	if path := os.Getenv(fills); path != "" {
		fill(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "store.db")
	cmd := exec.Command(os.Args[0], "-test.run=^TestDiskFull$")
	cmd.Env = append(os.Environ(), fills+"="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Where there is room again, the store goes on.
	if err := storage.Set(t.Context(), open(t, path, nil), "_big/again", make([]byte, 100_000)); err != nil {
		t.Error(err)
	}
}

func fill(t *testing.T, path string) {
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	s := open(t, path, nil)
	ctx := t.Context()
	value := make([]byte, 100_000)
	stored := 0
	var err error
	for ; stored < 100 && err == nil; stored++ {
		err = s.Apply(ctx, storage.Put(fmt.Sprintf("_big/%02d", stored), value), storage.Put("_last", fmt.Append(nil, stored)))
	}
	if !errors.Is(err, storage.ErrDiskFull) {
		t.Fatalf("write %d: %v", stored, err)
	}
	stored-- // the one that failed
	if err := s.Compact(ctx); err != nil && !errors.Is(err, storage.ErrDiskFull) {
		t.Errorf("Compact: %v", err)
	}
	for range 2 {
		keys := 0
		for _, err := range s.Scan(ctx, "", nil) {
			if err != nil {
				t.Fatal(err)
			}
			keys++
		}
		if keys != stored+1 {
			t.Errorf("%d keys, want %d", keys, stored+1)
		}
		if last, _, err := s.Get(ctx, "_last"); err != nil || string(last) != fmt.Sprint(stored-1) {
			t.Errorf("_last is %q, %v, want %d", last, err, stored-1)
		}
		if found := faults(t, s); len(found) > 0 {
			t.Errorf("Check found %+v", found)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, path, nil)
	}
}
