package vault_test

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stratamem/strata/storage"
	"golang.org/x/sys/unix"
)

// TestFindOpensWhatMatches counts, in the kernel's events, the files that a
// query opens.
func TestFindOpensWhatMatches(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	if err := s.EnsureIndex(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	var ops []storage.Op
	for i := range 1000 {
		ops = append(ops, storage.Put(fmt.Sprintf("doc/%03d", i), fmt.Appendf(nil, `{"n":%d}`, i%10)))
	}
	if err := s.Apply(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
	for range s.List(t.Context(), "") { // the events of its own writes are out of the way
	}
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, filepath.Join(dir, "doc"), unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range s.Find(t.Context(), storage.Query{Equal: map[string]string{"n": "7"}}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	opened := 0
	for buf := make([]byte, 64<<10); ; {
		k, err := unix.Read(fd, buf)
		if err != nil || k == 0 {
			break
		}
		for b := buf[:k]; len(b) > 0; opened++ {
			b = b[unix.SizeofInotifyEvent+binary.NativeEndian.Uint32(b[12:]):]
		}
	}
	if n != 100 || opened != 100 {
		t.Errorf("%d documents found, %d files opened", n, opened)
	}
}
