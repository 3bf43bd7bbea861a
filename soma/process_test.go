package soma_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/vault"
)

const (
	promotions = 500
	childDir   = "STRATA_SOMA_CHILD" // names the vault to a child process
)

// TestPromoteChild is what a child process of TestPromoteProcesses does: it
// promotes all there is.
func TestPromoteChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("it is a part of TestPromoteProcesses")
	}
	_, s := openVault(t, dir, &vault.Options{Durability: storage.None})
	won := 0
	for i := range promotions {
		id := fmt.Sprint("idea-", i)
		_, err := s.As(anna).Promote(t.Context(), id, digestOf(t.Context(), s, id), "")
		if _, refused := errors.AsType[*soma.GovernanceError](err); err != nil && !refused {
			t.Fatal(err)
		} else if err == nil {
			won++
		}
	}
	t.Logf("promoted %d", won)
}

// Two processes promote the same 500 proposals: each becomes one canon entry.
func TestPromoteProcesses(t *testing.T) {
	w := newWorld(t, "vault")
	for i := range promotions {
		w.create(soma.Person("ben"), w.proposed(fmt.Sprintf("idea %d", i), 0.5))
	}
	var children []*exec.Cmd
	for range 2 {
		c := exec.Command(os.Args[0], "-test.run=^TestPromoteChild$", "-test.v")
		c.Env = append(os.Environ(), childDir+"="+w.dir)
		c.Stdout, c.Stderr = t.Output(), t.Output()
		w.check(c.Start())
		children = append(children, c)
	}
	for _, c := range children {
		if err := c.Wait(); err != nil {
			t.Errorf("a child: %v", err)
		}
	}
	of := make(map[string]int)
	for e, err := range w.Query(w.Context(), soma.Query{Layer: soma.Canon}) {
		w.check(err)
		of[e.Text(soma.FieldOrigin)]++
	}
	if len(of) != promotions {
		t.Errorf("%d proposals are canon, want %d", len(of), promotions)
	}
	for id, n := range of {
		if n != 1 {
			t.Errorf("%s is canon %d times", id, n)
		}
	}
	w.consistent()
}
