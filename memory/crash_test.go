package memory_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/bolt"
)

// crashEnv makes the test binary the process that is killed.
const crashEnv = "STRATA_CRASH_DB"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashEnv); path != "" {
		if err := crashing(context.Background(), path); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func crashLayers() []memory.Layer {
	// The records say the same as the state, so that half a batch shows.
	both := memory.Define(memory.Spec{ID: "both"}, memory.Hooks[counter]{
		Store: func(_ context.Context, in *memory.StoreInput[counter]) (memory.Change[counter], error) {
			n := in.State.N + 1
			return memory.Update(func(counter) counter { return counter{n} }).Put(fmt.Sprintf("turn/%06d", n), []byte(in.New[0].Text())), nil
		},
	})
	return []memory.Layer{both, counting("mine", memory.ScopeExecution)}
}

// crashing commits turns until it is killed, and prints a line for each that it
// was told is durable.
func crashing(ctx context.Context, path string) error {
	store, err := bolt.Open(ctx, path, &bolt.Options{Durability: storage.Process})
	if err != nil {
		return err
	}
	m, err := memory.New(store, crashLayers(), nil)
	if err != nil {
		return err
	}
	var run *memory.Run
	for x, err := range thread.Runs(ctx, store) {
		if err != nil {
			return err
		}
		if run, err = m.Resume(ctx, x.ID); err != nil {
			return err
		}
	}
	if run == nil {
		if run, err = m.Begin(ctx, memory.Identity{Thread: "t"}); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	for {
		n := run.Execution().Step() + 1
		if _, err := run.Project(ctx, user(fmt.Sprint("question ", n))); err != nil {
			return err
		}
		if err := run.Commit(ctx, memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, fmt.Sprint("answer ", n))}}); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// TestCrash kills a process that commits turns at random instants: every turn
// that it was told is durable is there, none is half there, and Resume goes on.
func TestCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	acknowledged := 0
	for range rounds {
		acknowledged = max(acknowledged, killed(t, path))
		checkCrashed(t, path, acknowledged)
	}
	if acknowledged == 0 {
		t.Error("no turn was committed before a kill")
	}
	t.Logf("%d turns over %d kills", acknowledged, rounds)
}

// killed runs the process until it is killed and returns the last turn that it
// acknowledged.
func killed(t *testing.T, path string) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last := 0
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "ready" {
			time.AfterFunc(time.Duration(rand.N(30*time.Millisecond)), func() { _ = cmd.Process.Kill() })
			continue
		}
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(lines.Text())
		}
		last = n
	}
	_ = cmd.Wait() // it was killed
	return last
}

func checkCrashed(t *testing.T, path string, acknowledged int) {
	t.Helper()
	store, err := bolt.Open(t.Context(), path, &bolt.Options{Durability: storage.Process})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	turns := 0
	for turn, err := range thread.Turns(t.Context(), store, "t", 0) {
		if err != nil {
			t.Fatal(err)
		}
		turns++
		if turn.Number != turns || turn.Step != turns || len(turn.Items) != 2 || turn.Items[0].Text() != fmt.Sprint("question ", turns) {
			t.Errorf("turn %d is %+v", turns, turn)
		}
	}
	if turns < acknowledged {
		t.Errorf("%d turns are there, %d were acknowledged", turns, acknowledged)
	}
	if turns == 0 {
		return
	}
	want := fmt.Sprintf(`{"n":%d}`, turns)
	if both, mine := stored(t, store, "both"), stored(t, store, "mine"); both != want || mine != want {
		t.Errorf("states %s and %s after %d turns", both, mine, turns)
	}
	records := 0
	for key, err := range store.List(t.Context(), "_layers/both/thread/t/r0/turn/") {
		if err != nil {
			t.Fatal(err)
		}
		if records++; !strings.HasSuffix(key, fmt.Sprintf("%06d", records)) {
			t.Errorf("record %d has the key %s", records, key)
		}
	}
	for x, err := range thread.Runs(t.Context(), store) {
		if err != nil || x.Step != turns || x.LastTurn != turns {
			t.Errorf("run %+v after %d turns, %v", x, turns, err)
		}
	}
	if records != turns {
		t.Errorf("%d records after %d turns", records, turns)
	}
}
