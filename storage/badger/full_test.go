package badger_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/badger"
)

// TestReserve: what does not leave the reserve free is refused, and nothing
// changes.
func TestReserve(t *testing.T) {
	dir := made(t)
	if _, err := badger.Open(t.Context(), dir, &badger.Options{Reserve: math.MaxInt64 / 2}); !errors.Is(err, storage.ErrDiskFull) {
		t.Errorf("Open: %v", err)
	}
	s := open(t, dir, &badger.Options{Reserve: math.MaxInt64 / 2, ReadOnly: true})
	if _, _, err := s.Get(t.Context(), "doc/000"); err != nil {
		t.Error(err)
	}
}

// TestDiskFull fills a file system of 300 MiB, which a child process mounts
// for itself alone. Without the reserve, the system would end the child.
func TestDiskFull(t *testing.T) {
	const fills = "STRATA_TEST_FILLS"
	if dir := os.Getenv(fills); dir != "" {
		fill(t, dir)
		return
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("no way here to mount a small file system")
	}
	dir := t.TempDir()
	cmd := exec.Command(unshare, "--user", "--map-root-user", "--mount", "sh", "-c",
		`mount -t tmpfs -o size=300m none "$0" || { echo no mount; exit 0; }; exec "$1" -test.run='^TestDiskFull$'`, dir, os.Args[0])
	cmd.Env = append(os.Environ(), fills+"="+dir)
	out, err := cmd.CombinedOutput()
	if string(out) == "no mount\n" || err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Skipf("no way here to mount a small file system: %s", out)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func fill(t *testing.T, dir string) {
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Fatalf("the file system is not new: %v", left)
	}
	ctx := t.Context()
	ballast := filepath.Join(dir, "ballast")
	write(t, ballast, make([]byte, 60<<20))
	dir = filepath.Join(dir, "store")
	s := open(t, dir, &badger.Options{Durability: storage.Process})
	stored := 0
	var err error
	for ; stored < 1000 && err == nil; stored++ {
		err = s.Apply(ctx, storage.Put(fmt.Sprintf("_big/%03d", stored), big(stored)), storage.Put("_last", fmt.Append(nil, stored)))
	}
	if !errors.Is(err, storage.ErrDiskFull) || stored < 20 {
		t.Fatalf("write %d: %v", stored, err)
	}
	stored-- // the one that failed
	if err := s.Compact(ctx); err != nil && !errors.Is(err, storage.ErrDiskFull) {
		t.Errorf("Compact: %v", err)
	}
	alive(t, s, stored)
	if last, _, err := s.Get(ctx, "_last"); err != nil || string(last) != fmt.Sprint(stored-1) {
		t.Errorf("_last is %q, %v, want %d", last, err, stored-1)
	}
	if found := faults(t, s); len(found) > 0 {
		t.Errorf("Check found %+v", found)
	}
	// Where there is room again, the store goes on.
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := storage.Set(ctx, s, fmt.Sprintf("_big/%03d", stored), big(stored)); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	alive(t, open(t, dir, nil), stored+1)
}
