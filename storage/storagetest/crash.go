package storagetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stratamem/strata/storage"
)

// The crash suite runs the test binary again as a child, which runs the same
// subtest and sees by these variables that it is one. It writes and says on
// its standard output what was acknowledged, until it is killed.
const (
	childDir  = "STRATA_CRASH_DIR"
	childName = "STRATA_CRASH_TEST"
	// killsName sets how often a child is killed; the default is 20.
	killsName = "STRATA_KILLS"

	crashWriters = 4
	crashKept    = 5 // batches whose documents a writer keeps
	// openBound is how long opening may take after a crash.
	openBound = 10 * time.Second
)

func crashCases() []testCase {
	return []testCase{{name: "crash", run: crash, durable: true, needs: []string{"Batcher"}}}
}

// crash kills a process that writes, at random instants, and looks at what it
// left: every acknowledged batch, no half batch, an index that agrees with the
// documents. Set STRATA_KILLS for more kills than 20.
func crash(t *testing.T, e Engine) {
	if os.Getenv(childName) == t.Name() {
		crashChild(e, os.Getenv(childDir))
	}
	kills := 20
	if n, err := strconv.Atoi(os.Getenv(killsName)); err == nil && n > 0 {
		kills = n
	}
	seed := rand.Uint64()
	t.Logf("%d kills, seed %d", kills, seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var dir string
	var acked [crashWriters]int
	total := 0
	for kill := range kills {
		if kill%5 == 0 { // the making of a store is to be hit too
			dir, acked = t.TempDir(), [crashWriters]int{}
		}
		// In most rounds the clock starts when the child has begun to write.
		fromStart := rnd.IntN(5) == 0
		delay := time.Duration(rnd.IntN(60_000)) * time.Microsecond
		total += killChild(t, dir, fromStart, delay, &acked)
		crashed(t, e, dir, acked)
		if t.Failed() {
			t.Fatalf("after kill %d, %v from the start: %t; acknowledged: %v", kill, delay, fromStart, acked)
		}
	}
	if total == 0 {
		t.Errorf("no batch was acknowledged before any kill")
	}
	t.Logf("%d batches acknowledged", total)
}

// child returns a command that runs this test again in a process of its own.
func child(t *testing.T, dir string, wrap ...string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	args := append(wrap, binary, "-test.run="+run, "-test.count=1")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), childName+"="+t.Name(), childDir+"="+dir)
	return cmd
}

// killChild runs a child for a while and notes what it acknowledged.
func killChild(t *testing.T, dir string, fromStart bool, delay time.Duration, acked *[crashWriters]int) (n int) {
	t.Helper()
	cmd := child(t, dir)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { cmd.Process.Kill() }
	var timer *time.Timer
	if fromStart {
		timer = time.AfterFunc(delay, kill)
	}
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			if err != io.EOF && !errors.Is(err, os.ErrClosed) {
				t.Errorf("read from the child: %v", err)
			}
			break
		}
		var writer, batch int
		if _, err := fmt.Sscanf(line, "ack %d %d\n", &writer, &batch); err != nil {
			problems.WriteString(line)
			continue
		}
		if timer == nil {
			timer = time.AfterFunc(delay, kill)
		}
		acked[writer] = max(acked[writer], batch)
		n++
	}
	err = cmd.Wait()
	if timer != nil {
		timer.Stop()
	}
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("child ended by itself: %v\n%s", err, problems.String())
	}
	return n
}

// crashChild writes until it is killed.
func crashChild(e Engine, dir string) {
	ctx := context.Background()
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(3)
	}
	a, err := e.Open(ctx, dir)
	if err != nil {
		fail(err)
	}
	if err := storage.EnsureIndex(ctx, a, "writer", "n"); err != nil {
		fail(err)
	}
	var wg sync.WaitGroup
	for w := range crashWriters {
		wg.Go(func() {
			last, err := a.Get(ctx, crashLast(w))
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				fail(err)
			}
			n, _ := strconv.Atoi(string(last))
			for {
				n++
				if err := storage.Apply(ctx, a, crashBatch(w, n)...); err != nil {
					fail(err)
				}
				fmt.Fprintf(os.Stdout, "ack %d %d\n", w, n)
				if w == 0 && n%50 == 0 && e.has("Compacter") {
					if err := storage.Compact(ctx, a); err != nil {
						fail(err)
					}
				}
			}
		})
	}
	wg.Wait()
}

func crashLast(w int) string        { return fmt.Sprintf("_crash/last/%d", w) }
func crashItem(w, n int) string     { return fmt.Sprintf("_crash/item/%d/%08d", w, n) }
func crashDocument(w, n int) string { return fmt.Sprintf("crash/%d-%08d", w, n) }

// crashBatch is the batch n of a writer: a document and a record come, those
// of an older batch go, and a record says that it was made.
func crashBatch(w, n int) []storage.Op {
	document := fmt.Appendf(nil, `{"writer":"%d","n":"%d","pad":%q}`, w, n, strings.Repeat("x", n%2000))
	ops := []storage.Op{
		storage.Put(crashDocument(w, n), document),
		storage.Put(crashItem(w, n), document),
		storage.Put(crashLast(w), strconv.AppendInt(nil, int64(n), 10)),
	}
	if old := n - crashKept; old > 0 {
		ops = append(ops, storage.Remove(crashDocument(w, old)), storage.Remove(crashItem(w, old)))
	}
	return ops
}

// crashed looks at a store that was left by a killed process.
func crashed(t *testing.T, e Engine, dir string, acked [crashWriters]int) {
	t.Helper()
	ctx := t.Context()
	start := time.Now()
	a, err := e.Open(ctx, dir)
	if err != nil {
		t.Fatalf("Open after a kill: %v", err)
	}
	defer a.Close()
	if took := time.Since(start); took > openBound {
		t.Errorf("Open after a kill took %v", took)
	}
	sound(t, e, a)
	wantKeys := []string{}
	for w := range crashWriters {
		value, err := a.Get(ctx, crashLast(w))
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			t.Fatal(err)
		}
		last, _ := strconv.Atoi(string(value))
		if last < acked[w] {
			t.Errorf("writer %d: batch %d was acknowledged, the store has %d", w, acked[w], last)
		}
		if last == 0 {
			continue
		}
		wantKeys = append(wantKeys, crashLast(w))
		var documents []string
		for n := max(1, last-crashKept+1); n <= last; n++ {
			batch := crashBatch(w, n)
			for _, op := range batch[:2] {
				want(t, a, op.Key, string(op.Value))
				wantKeys = append(wantKeys, op.Key)
			}
			documents = append(documents, crashDocument(w, n))
		}
		if err := storage.EnsureIndex(ctx, a, "writer", "n"); err != nil {
			t.Fatal(err)
		}
		wantFound(t, a, storage.Query{Equal: fields{"writer": strconv.Itoa(w)}}, documents...)
	}
	slices.Sort(wantKeys)
	diff(t, "keys", list(t, a, ""), wantKeys)
}
