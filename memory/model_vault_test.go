package memory_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/vault"
)

// vaultEnv makes TestModelVault one of the processes that share a vault; it names
// the directory and the process.
const vaultEnv = "STRATA_MODEL_VAULT"

// ledgers are two layers of one resource, so that some turns of others change
// one of them and some change both.
func ledgers() (layers []memory.Layer) {
	for _, id := range []string{"res-a", "res-b"} {
		layers = append(layers, memory.Define(memory.Spec{ID: id, Scope: memory.ScopeResource}, memory.Hooks[tokens]{
			Store: func(_ context.Context, in *memory.StoreInput[tokens]) (ch memory.Change[tokens], err error) {
				token := in.New[0].Text()
				if id == "res-a" && odd(token) {
					return ch, nil
				}
				return memory.Update(func(s tokens) tokens {
					s.T = append(s.T, token)
					return s
				}).Put("t/"+token, nil), nil
			},
		}))
	}
	return layers
}

func odd(token string) bool { return token[len(token)-1]&1 == 1 }

// TestModelVault has several processes, each with several runs, commit turns on
// one vault, and holds what it then contains against what each was told: every
// acknowledged turn is there once, each run's in its order.
func TestModelVault(t *testing.T) {
	if where := os.Getenv(vaultEnv); where != "" {
		dir, name, _ := strings.Cut(where, "|")
		serveVault(t, dir, name)
		return
	}
	processes := 3
	if testing.Short() {
		processes = 2
	}
	dir := t.TempDir()
	said := make([][]string, processes)
	var wg sync.WaitGroup
	for n := range processes {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run", "^TestModelVault$")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|p%d", vaultEnv, dir, n))
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("process %d: %v\n%s", n, err, out)
			}
			lines := bufio.NewScanner(strings.NewReader(string(out)))
			for lines.Scan() {
				if token, ok := strings.CutPrefix(lines.Text(), "acknowledged "); ok {
					said[n] = append(said[n], token)
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	checkVault(t, dir, slices.Concat(said...))
}

const vaultRuns, vaultTurns = 8, 20

// serveVault commits turns of several runs at once, each until it is acknowledged.
func serveVault(t *testing.T, dir, name string) {
	store, err := vault.Open(t.Context(), dir, &vault.Options{Durability: storage.Process})
	if err != nil {
		t.Fatal(err)
	}
	m, err := memory.New(store, ledgers(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for n := range vaultRuns {
		wg.Go(func() {
			thread := fmt.Sprint("t", n)
			run, err := m.Begin(t.Context(), memory.Identity{Thread: thread, Resource: "r"})
			if err != nil {
				t.Error(err)
				return
			}
			for turn := range vaultTurns {
				token := fmt.Sprintf("%s.%s.%02d", name, thread, turn)
				if _, err := run.Project(t.Context(), user(token)); err != nil {
					t.Error(err)
					return
				}
				err := memory.ErrConflict
				for errors.Is(err, memory.ErrConflict) {
					err = run.Commit(t.Context(), memory.Response{})
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				fmt.Println("acknowledged", token)
				mu.Unlock()
			}
			if err := run.End(t.Context(), memory.Success); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(m.Close(t.Context()), store.Close()); err != nil {
		t.Error(err)
	}
}

func checkVault(t *testing.T, dir string, acknowledged []string) {
	store, err := vault.Open(t.Context(), dir, &vault.Options{Durability: storage.Process})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	var a []string // of those, what the first layer was to keep
	for _, token := range acknowledged {
		if !odd(token) {
			a = append(a, token)
		}
	}
	for layer, want := range map[string][]string{"res-a": a, "res-b": acknowledged} {
		var got tokens
		for info, err := range thread.States(t.Context(), store, layer) {
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(info.State, &got); err != nil {
				t.Fatal(err)
			}
		}
		checkTokens(t, layer, got.T, want)
		var records []string
		for key, err := range store.List(t.Context(), "_layers/"+layer+"/resource/r/r0/t/") {
			if err != nil {
				t.Fatal(err)
			}
			records = append(records, key[strings.LastIndexByte(key, '/')+1:])
		}
		if slices.Sort(want); !slices.Equal(records, want) {
			t.Errorf("%s has the records %q, not %q", layer, records, want)
		}
	}
	for info, err := range thread.List(t.Context(), store) {
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		var items []string
		for turn, err := range thread.Turns(t.Context(), store, info.Thread, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; turn.Number != n {
				t.Errorf("turn %d of %s is numbered %d", n, info.Thread, turn.Number)
			}
			items = append(items, turnTexts(turn)...)
		}
		var want []string
		for _, token := range acknowledged {
			if strings.Contains(token, "."+info.Thread+".") {
				want = append(want, token)
			}
		}
		checkTokens(t, "thread "+info.Thread, items, want)
	}
}

// checkTokens checks that all tokens are there once, and those of a run in order.
func checkTokens(t *testing.T, where string, got, want []string) {
	t.Helper()
	last := make(map[string]string)
	for _, token := range got {
		run := token[:strings.LastIndexByte(token, '.')]
		if token <= last[run] {
			t.Errorf("%s has %s after %s", where, token, last[run])
		}
		last[run] = token
	}
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %d updates, %d were acknowledged:\n%q\n%q", where, len(got), len(want), got, want)
	}
}
