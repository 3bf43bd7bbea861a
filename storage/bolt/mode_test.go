package bolt_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stratamem/strata/storage"
)

// TestMode: nobody else reads what is in the store.
func TestMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it has no modes")
	}
	dir := t.TempDir()
	a, err := openAt(storage.Process)(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	info, err := os.Stat(filepath.Join(dir, "store.db"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
}
