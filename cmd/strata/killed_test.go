package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage/badger"
)

// TestKilledBadger: a process that had a store of badger's open was killed, and
// the verbs that read make it readable themselves.
func TestKilledBadger(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	s, err := badger.Open(t.Context(), open, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	m, err := memory.New(s, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	run, err := m.Begin(t.Context(), memory.Identity{Thread: "chat"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = run.Project(t.Context(), projection.Text(projection.User, "Where was I?"))
	if err = errors.Join(err, run.Commit(t.Context(), memory.Response{}), run.End(t.Context(), memory.Success)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"show", "items", "--db"}, {"backup", "-q"}, {"knowledge", "list", "--db"}} {
		killed := filepath.Join(t.TempDir(), "killed")
		if err := os.CopyFS(killed, os.DirFS(open)); err != nil {
			t.Fatal(err)
		}
		args = append(args, "badger:"+killed)
		if args[0] == "backup" {
			args = append(args, filepath.Join(t.TempDir(), "backup"))
		}
		status, out, errs := call(t.Context(), nil, args...)
		if status != 0 || args[0] == "show" && !strings.Contains(out, "Where was I?") {
			t.Errorf("%v: status %d\n%s%s", args, status, out, errs)
		}
	}
}
