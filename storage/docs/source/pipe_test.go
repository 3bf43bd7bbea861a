//go:build unix

package source_test

import (
	"syscall"
	"testing"
)

// A pipe is not waited for.
func TestUpdatePipe(t *testing.T) {
	f := newFolder(t, map[string]string{"d/good.md": "A zebra."})
	if err := syscall.Mkfifo("d/pipe", 0o600); err != nil {
		t.Skip(err)
	}
	r := f.update("d", nil)
	f.did(r, "d/good.md", "", "", 0)
	f.skipped(r, "d/pipe: it is not a regular file")
}
