package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocsSkipped: of many files that are skipped the first are named.
func TestDocsSkipped(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("d", 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if err := os.WriteFile(filepath.Join("d", fmt.Sprintf("%02d.png", i)), []byte{0}, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	status, out, errs := call(t.Context(), nil, "docs", "add", "a.db", "d")
	if status != exitOK || out != "0 added, 0 updated, 0 removed, 0 unchanged\n" {
		t.Errorf("status %d: %s", status, out)
	}
	if strings.Count(errs, "\n") != 21 || !strings.Contains(errs, "strata: skipped 10 more: --json names them") {
		t.Errorf("said:\n%s", errs)
	}
}

// TestDocsIsInterrupted: what is done by then is said, and the next run goes on.
func TestDocsIsInterrupted(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("a.md", []byte("A zebra."), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	if status, _, errs := call(ctx, nil, "docs", "add", "a.db", "a.md"); status != exitInterrupted || !strings.Contains(errs, "interrupted") {
		t.Errorf("status %d: %s", status, errs)
	}
	if status, out, errs := call(t.Context(), nil, "docs", "add", "a.db", "a.md"); status != exitOK || !strings.HasPrefix(out, "1 added") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}
