package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stratamem/strata/storage"
)

const (
	// killsName sets how often a child is killed at random.
	killsName = "STRATA_KILLS"

	crashWriters = 4
	crashKept    = 5             // batches whose documents a writer keeps
	crashBatches = crashKept + 2 // one that removes, and one after Compact
	// openBound is how long opening may take after a crash.
	openBound = 10 * time.Second
)

func crashCases() []testCase {
	return []testCase{
		{name: "crash-at-random", run: crashAtRandom, durable: true},
		{name: "crash-at-every-system-call", run: crashAtEveryCall, durable: true},
	}
}

// kills returns how often a child is killed at random: STRATA_KILLS, or else
// 200, or 20 with -short.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv(killsName)); err == nil && n > 0 {
		return n
	}
	if testing.Short() {
		return 20
	}
	return 200
}

// crashAtRandom kills a process in which several goroutines write, at random
// instants, and examines what it left.
func crashAtRandom(t *testing.T, e Engine) {
	if dir, ok := childOf(t); ok {
		writeUntilKilled(e, dir)
	}
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	var dir string
	var acked []int
	total := 0
	for kill := range kills() {
		if kill%5 == 0 { // also hit the creation of a store
			dir, acked = t.TempDir(), make([]int, crashWriters)
		}
		// In most rounds the clock starts when the child has begun to write.
		fromStart := rnd.IntN(5) == 0
		delay := time.Duration(rnd.IntN(40_000)) * time.Microsecond
		cmd := child(t, dir)
		var timer *time.Timer
		begin := sync.OnceFunc(func() { timer = time.AfterFunc(delay, func() { cmd.Process.Kill() }) })
		started := func() {
			if fromStart {
				begin()
			}
		}
		killed := follow(t, cmd, started, func(writer, n int) {
			begin()
			acked[writer] = max(acked[writer], n)
			total++
		})
		timer.Stop()
		if !killed {
			t.Fatal("child ended by itself")
		}
		crashed(t, e, dir, acked)
		if t.Failed() {
			t.Fatalf("seed %d, after kill %d, %v from the start: %t; acknowledged: %v", seed, kill, delay, fromStart, acked)
		}
	}
	if total == 0 {
		t.Errorf("no batch was acknowledged before any kill")
	}
	t.Logf("%d kills, %d batches acknowledged, seed %d", kills(), total, seed)
}

// crashAtEveryCall kills a process before the first system call that changes a
// file, then another before the second, and so on until one ends alive: between
// any two steps of creating a store, of a commit, of Compact and of Close.
func crashAtEveryCall(t *testing.T, e Engine) {
	if dir, ok := childOf(t); ok {
		writeAndClose(e, dir)
	}
	for n := 1; ; n++ {
		dir, acked := t.TempDir(), make([]int, 1)
		killed, calls := followCalls(t, child(t, dir), n, func(writer, n int) { acked[writer] = n })
		crashed(t, e, dir, acked)
		if t.Failed() {
			t.Fatalf("before system call %d, killed: %t; acknowledged: %v", n, killed, acked)
		}
		if !killed {
			t.Logf("%d kills", n-1)
			if acked[0] != crashBatches || calls < acked[0] {
				t.Errorf("%d batches acknowledged in %d system calls", acked[0], calls)
			}
			return
		}
	}
}

// writeUntilKilled is the child of crashAtRandom.
func writeUntilKilled(e Engine, dir string) {
	ctx := context.Background()
	a := openChild(e.Open, dir)
	if err := storage.EnsureIndex(ctx, a, "writer", "n"); err != nil {
		fail(err)
	}
	var wg sync.WaitGroup
	for w := range crashWriters {
		wg.Go(func() {
			for n := reached(a, e, w) + 1; ; n++ {
				if err := e.write(a, w, n); err != nil {
					fail(err)
				}
				acknowledge(w, n)
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

// writeAndClose is the child of crashAtEveryCall. It makes as few batches as
// are needed to have every kind of step.
func writeAndClose(e Engine, dir string) {
	ctx := context.Background()
	a := openChild(e.strongest(), dir)
	err := storage.EnsureIndex(ctx, a, "writer", "n")
	for n := 1; err == nil && n <= crashBatches; n++ {
		if err = e.write(a, 0, n); err == nil {
			acknowledge(0, n)
		}
		if n == crashKept+1 && err == nil && e.has("Compacter") {
			err = storage.Compact(ctx, a)
		}
	}
	if err = errors.Join(err, a.Close()); err != nil {
		fail(err)
	}
	os.Exit(0)
}

func crashLast(w int) string        { return fmt.Sprintf("_crash/last/%d", w) }
func crashItem(w, n int) string     { return fmt.Sprintf("_crash/item/%d/%08d", w, n) }
func crashDocument(w, n int) string { return fmt.Sprintf("crash/%d-%08d", w, n) }

// batch is batch n of a writer: a document and a record are added, those of an
// older batch removed, and a record says that the batch was made. Three records
// out of four have more bytes than an engine keeps next to a key. For an engine
// without batches it is one document that is replaced.
func (e Engine) batch(w, n int) []storage.Op {
	document := fmt.Appendf(nil, `{"writer":"%d","n":"%d","pad":%q}`, w, n, strings.Repeat("x", n%2000))
	ops := []storage.Op{
		storage.Put(crashDocument(w, n), document),
		storage.Put(crashItem(w, n), slices.Concat(document, bytes.Repeat([]byte("x"), n%4*4000))),
		storage.Put(crashLast(w), strconv.AppendInt(nil, int64(n), 10)),
	}
	if old := n - crashKept; old > 0 {
		ops = append(ops, storage.Remove(crashDocument(w, old)), storage.Remove(crashItem(w, old)))
	}
	return ops
}

// write applies batch n of a writer.
func (e Engine) write(a storage.Adapter, w, n int) error {
	ops := e.batch(w, n)
	return a.Apply(context.Background(), ops...)
}

// state is what a writer's first n batches leave.
func (e Engine) state(w, n int) map[string]string {
	content := map[string]string{}
	for i := max(1, n-crashKept); i <= n; i++ {
		for _, op := range e.batch(w, i) {
			if delete(content, op.Key); !op.Delete {
				content[op.Key] = string(op.Value)
			}
		}
	}
	return content
}

// reached returns the last batch of a writer that the store has; 0 if it has
// none.
func reached(a storage.Adapter, e Engine, w int) int {
	value, _, _ := a.Get(context.Background(), crashLast(w))
	n, _ := strconv.Atoi(string(value))
	return n
}

// crashed examines a store that was left by a killed process: every
// acknowledged batch is there, no batch in part, the index agrees with the
// documents, and the store continues to work.
func crashed(t *testing.T, e Engine, dir string, acked []int) {
	t.Helper()
	start := time.Now()
	a, err := e.Open(t.Context(), dir)
	if err != nil {
		t.Fatalf("Open after a kill: %v", err)
	}
	if took := time.Since(start); took > openBound {
		t.Errorf("Open after a kill took %v", took)
	}
	got := make([]int, len(acked))
	for w := range acked {
		if got[w] = reached(a, e, w); got[w] < acked[w] {
			t.Errorf("writer %d: batch %d was acknowledged, the store has %d", w, acked[w], got[w])
		}
	}
	wantState(t, e, a, got)
	set(t, a, "_crash/after", "")
	remove(t, a, "_crash/after")
	if err := a.Close(); err != nil {
		t.Errorf("Close after a kill: %v", err)
	}
}

// wantState checks that a store holds the writers' first batches and nothing
// else, however it is read.
func wantState(t *testing.T, e Engine, a storage.Adapter, batches []int) {
	t.Helper()
	content := map[string]string{}
	for w, n := range batches {
		maps.Copy(content, e.state(w, n))
	}
	diff(t, "keys", list(t, a, ""), sortedKeys(content))
	for key, value := range content {
		want(t, a, key, value)
	}
	declare(t, a, "writer", "n")
	for w, n := range batches {
		for _, q := range []storage.Query{
			{Equal: fields{"writer": strconv.Itoa(w)}},
			{Equal: fields{"writer": strconv.Itoa(w)}, Range: &storage.Range{Field: "n", From: strconv.Itoa(n)}},
		} {
			wantFound(t, a, q, naiveFind(content, q)...)
		}
	}
	sound(t, e, a)
}
