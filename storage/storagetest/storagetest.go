// Package storagetest tests storage engines: it has the storage contract as a
// list of cases, which kill processes, damage files and trace system calls, and
// a fuzz target that compares an engine with a model.
//
// It measures no speed (package bench does) and needs nothing but an [Engine]:
//
//	func TestEngine(t *testing.T) {
//		storagetest.Run(t, storagetest.Engine{
//			Name: "mine",
//			Open: func(ctx context.Context, dir string) (storage.Adapter, error) {
//				return mine.Open(ctx, filepath.Join(dir, "store"))
//			},
//			Files:   []string{"store"},
//			Without: []string{"Watcher", "Compacter"},
//		})
//	}
//
// The directory examples/customadapter has an engine in one file with its test,
// and docs/engines.md explains how to write one and how to read failures.
//
// A run kills a process 200 times at random, 20 times with -short, or as often
// as STRATA_KILLS in the environment says: 2,000 are for a night. On Linux it
// kills another at every system call with which a store is created, written,
// compacted and closed. full-is-synced needs strace. A case without its tool is
// skipped, but fails if CI is set in the environment.
//
// The one decision: what an engine cannot do is declared in its Engine, and the
// suite checks that too. Nothing else makes a case skip. The suite itself is
// tested with engines that each do one thing wrong.
package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stratamem/strata/storage"
)

// Engine is what to test.
type Engine struct {
	Name string
	// Open opens the store in an existing directory, creating it if the directory
	// is empty, with [storage.Process] or better. The suite closes it. Open is
	// called in several processes, concurrently if the engine is Shared.
	Open func(ctx context.Context, dir string) (storage.Adapter, error)
	// Full is Open with [storage.Full]; nil if the engine makes no such promise.
	// The suite traces its system calls.
	Full func(ctx context.Context, dir string) (storage.Adapter, error)
	// Volatile says that nothing outlives Close. Such an engine is not killed,
	// and its files are not damaged.
	Volatile bool
	// Shared says that several processes may have a store open. Otherwise the
	// second opener gets a [*storage.LockedError].
	Shared bool
	// Files are the files that hold the store, as patterns of [path.Match]
	// relative to the directory: the suite flips bits in them and truncates them,
	// and the damage must be detected. Files that people may edit are not among
	// them.
	Files []string
	// Logs are the files whose end a crash may leave torn: the suite truncates
	// them, and the store must continue without the last write.
	Logs []string
	// Journal is part of the path of the file from which the engine repeats its
	// writes after a power loss, if it writes to other files after syncing that
	// one; see the case full-is-synced.
	Journal string
	// TornReads says that a reader may see a batch in progress.
	TornReads bool
	// Without names the capabilities that the engine lacks, by the names of
	// their interfaces, for example "Watcher".
	Without []string
}

// Run runs the whole contract as subtests of t.
func Run(t *testing.T, e Engine) {
	for _, c := range cases() {
		if slices.ContainsFunc(c.needs, func(name string) bool { return slices.Contains(e.Without, name) }) {
			continue
		}
		if c.durable && e.Volatile {
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.run(t, e) })
	}
}

type testCase struct {
	name    string
	run     func(t *testing.T, e Engine)
	durable bool     // needs a store that outlives Close
	needs   []string // capabilities
}

func cases() []testCase {
	return slices.Concat(valueCases(), orderCases(), batchCases(), concurrentCases(), findCases(), watchCases(),
		upkeepCases(), transferCases(), modelCases(), processCases(), damageCases(), traceCases(), crashCases())
}

// strongest opens with the best durability available.
func (e Engine) strongest() func(context.Context, string) (storage.Adapter, error) {
	if e.Full != nil {
		return e.Full
	}
	return e.Open
}

// open opens a new store that is closed with the test.
func (e Engine) open(t testing.TB) storage.Adapter {
	t.Helper()
	return e.openIn(t, t.TempDir())
}

func (e Engine) openIn(t testing.TB, dir string) storage.Adapter {
	t.Helper()
	a, err := e.Open(context.Background(), dir)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return a
}

func (e Engine) has(capability string) bool { return !slices.Contains(e.Without, capability) }

func set(t testing.TB, a storage.Adapter, key, value string) {
	t.Helper()
	if err := storage.Set(context.Background(), a, key, []byte(value)); err != nil {
		t.Fatalf("Set %q: %v", key, err)
	}
}

func remove(t testing.TB, a storage.Adapter, key string) {
	t.Helper()
	if err := storage.Delete(context.Background(), a, key); err != nil {
		t.Fatalf("Delete %q: %v", key, err)
	}
}

func apply(t testing.TB, a storage.Adapter, ops ...storage.Op) {
	t.Helper()
	if err := a.Apply(context.Background(), ops...); err != nil {
		t.Fatalf("Apply: %v", err)
	}
}

// want checks the value of a key.
func want(t testing.TB, a storage.Adapter, key, value string) {
	t.Helper()
	got, _, err := a.Get(context.Background(), key)
	if err != nil {
		t.Errorf("Get %q: %v", key, err)
		return
	}
	if !equal(key, got, []byte(value)) {
		t.Errorf("Get %q = %.200q, want %.200q", key, got, value)
	}
}

// wantGone checks that a key is absent.
func wantGone(t testing.TB, a storage.Adapter, key string) {
	t.Helper()
	if got, _, err := a.Get(context.Background(), key); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("Get %q = %.200q, %v, want ErrNotFound", key, got, err)
	}
}

func wantErr(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: error %v, want %v", what, err, target)
	}
}

// equal compares values as the contract does: documents as JSON.
func equal(key string, a, b []byte) bool {
	if !storage.IsDocument(key) {
		return bytes.Equal(a, b)
	}
	x, err := storage.Canonical(a)
	y, err2 := storage.Canonical(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

func version(t testing.TB, a storage.Adapter, key string) storage.Version {
	t.Helper()
	_, v, err := a.Get(context.Background(), key)
	if err != nil {
		t.Fatalf("Get %q: %v", key, err)
	}
	return v
}

func list(t testing.TB, a storage.Adapter, prefix string) []string {
	t.Helper()
	keys := []string{}
	for key, err := range a.List(context.Background(), prefix) {
		if err != nil {
			t.Fatalf("List %q: %v", prefix, err)
		}
		keys = append(keys, key)
	}
	return keys
}

func sortedKeys(content map[string]string) []string {
	return append([]string{}, slices.Sorted(maps.Keys(content))...)
}

// keysOf drains a sequence of entries.
func keysOf(t testing.TB, seq iter.Seq2[storage.Entry, error]) []string {
	t.Helper()
	keys := []string{}
	for e, err := range seq {
		if err != nil {
			t.Fatalf("sequence: %v", err)
		}
		keys = append(keys, e.Key)
	}
	return keys
}

func diff(t testing.TB, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: (-want +got)\n%s", what, d)
	}
}

// fill sets n documents and n records, and returns their keys in order.
func fill(t testing.TB, e Engine, a storage.Adapter, n int) []string {
	t.Helper()
	var ops []storage.Op
	for i := range n {
		ops = append(ops,
			storage.Put(fmt.Sprintf("_fill/%06d", i), fmt.Appendf(nil, "record %d", i)),
			storage.Put(fmt.Sprintf("fill/%06d", i), fmt.Appendf(nil, `{"n":"%d","even":%t}`, i, i%2 == 0)))
	}
	keys := make([]string, len(ops))
	for i, op := range ops {
		keys[i] = op.Key
	}
	slices.Sort(keys)
	for part := range storage.LimitsOf(a).Batches(ops) {
		apply(t, a, part...)
	}
	return keys
}

// sound checks that the engine finds no damage in itself, and that no document
// is left out.
func sound(t testing.TB, e Engine, a storage.Adapter) {
	t.Helper()
	for f, err := range storage.Unreadable(context.Background(), a, "") {
		if err != nil {
			t.Errorf("Unreadable: %v", err)
			return
		}
		t.Errorf("Unreadable yields %+v", f)
	}
	if !e.has("Checker") {
		return
	}
	for f, err := range storage.Check(context.Background(), a) {
		if err != nil {
			t.Errorf("Check: %v", err)
			return
		}
		t.Errorf("Check found %+v", f)
	}
}
