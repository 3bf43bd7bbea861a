package storagetest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/storagetest"
)

// inMemory is an engine whose stores wrap one in memory.
func inMemory(wrap func(*mem.Store) storage.Adapter) storagetest.Engine {
	return storagetest.Engine{
		Name:     "wrong",
		Volatile: true,
		Without:  []string{"UnreadableLister"},
		Open:     func(context.Context, string) (storage.Adapter, error) { return wrap(mem.New()), nil },
	}
}

// onDisk is an engine of logged stores.
func onDisk(f flaw) storagetest.Engine {
	return storagetest.Engine{
		Name:    "logged",
		Open:    openLogged(f, false),
		Full:    openLogged(f, true),
		Files:   []string{"log"},
		Logs:    []string{"log"},
		Without: []string{"UnreadableLister"},
	}
}

// faults are engines that do one thing wrong, each with a case that must fail.
var faults = []struct {
	name   string
	engine storagetest.Engine
	fails  string
	hangs  bool // the case does not end
}{
	{"get-returns-one-slice", inMemory(func(s *mem.Store) storage.Adapter { return &getsAgain{Store: s, last: map[string][]byte{}} }), "ownership", false},
	{"set-keeps-the-slice", inMemory(func(s *mem.Store) storage.Adapter { return &keepsValue{Store: s, last: map[string][]byte{}} }), "ownership", false},
	{"list-in-wrong-order", inMemory(func(s *mem.Store) storage.Adapter { return listsBackwards{s} }), "list-order", false},
	{"list-by-segments", inMemory(func(s *mem.Store) storage.Adapter { return listsDirectories{s} }), "list-order", false},
	{"delete-wants-the-key", inMemory(func(s *mem.Store) storage.Adapter { return deletesStrictly{s} }), "get-set-delete", false},
	{"numbers-are-rounded", inMemory(func(s *mem.Store) storage.Adapter { return roundsNumbers{s} }), "numbers-are-kept", false},
	{"takes-any-value", inMemory(func(s *mem.Store) storage.Adapter { return takesAnything{s} }), "refused-values", false},
	{"takes-less-than-it-says", inMemory(func(s *mem.Store) storage.Adapter {
		return saysMore{storagetest.Limited(s, storage.Limits{Ops: 100}), storage.Limits{Ops: 101}}
	}), "apply-limits", false},
	{"smaller-batches-than-it-says", inMemory(func(s *mem.Store) storage.Adapter {
		return saysMore{storagetest.Limited(s, storage.Limits{Batch: 9999, Value: 5000}), storage.Limits{Batch: 10000, Value: 5000}}
	}), "apply-limits", false},
	{"takes-more-than-it-says", inMemory(func(s *mem.Store) storage.Adapter { return saysMore{s, storage.Limits{Value: 1 << 20}} }), "refused-values", false},
	{"longer-keys-than-it-says", inMemory(func(s *mem.Store) storage.Adapter { return saysMore{s, storage.Limits{Key: 200}} }), "keys-at-the-limit", false},
	{"half-a-batch-on-conflict", inMemory(func(s *mem.Store) storage.Adapter { return appliesHalf{s} }), "apply-preconditions", false},
	{"half-a-batch-is-seen", inMemory(func(s *mem.Store) storage.Adapter { return appliesVisibly{crowded(s)} }), "apply-is-atomic", false},
	{"lost-update", inMemory(func(s *mem.Store) storage.Adapter { return looksBeforeItWrites{crowded(s)} }), "counters", false},
	{"conflict-of-another-key", inMemory(func(s *mem.Store) storage.Adapter { return namesWrongKey{s} }), "apply-preconditions", false},
	{"same-version", inMemory(func(s *mem.Store) storage.Adapter { return versionsBySize{s} }), "versions", false},
	{"version-of-another-value", inMemory(func(s *mem.Store) storage.Adapter { return readsTwice{crowded(s)} }), "value-and-version-together", false},
	{"stale-index", inMemory(func(s *mem.Store) storage.Adapter {
		return &indexesLate{Store: s, found: map[string][]storage.Entry{}}
	}), "index-follows-changes", false},
	{"stale-index", inMemory(func(s *mem.Store) storage.Adapter {
		return &indexesLate{Store: s, found: map[string][]storage.Entry{}}
	}), "random-operations", false},
	{"find-does-not-look-again", inMemory(func(s *mem.Store) storage.Adapter { return findsThenReads{crowded(s)} }), "find-while-writing", false},
	{"lists-are-not-indexed", inMemory(func(s *mem.Store) storage.Adapter { return indexesStrings{s} }), "find-against-filter", false},
	{"scan-past-its-limit", inMemory(func(s *mem.Store) storage.Adapter { return scansTooFar{s} }), "scan-options", false},
	{"lock-in-the-loop", inMemory(func(s *mem.Store) storage.Adapter { return &locksTheLoop{Store: s} }), "write-in-the-loop", true},
	{"silent-gap", inMemory(func(s *mem.Store) storage.Adapter { return dropsEvents{s} }), "watch-overflow", true},
	{"miscounts", inMemory(func(s *mem.Store) storage.Adapter { return miscounts{s} }), "stats", false},
	{"used-after-close", inMemory(func(s *mem.Store) storage.Adapter { return staysOpen{s} }), "closed", false},
	{"context-is-ignored", inMemory(func(s *mem.Store) storage.Adapter { return ignoresTheEnd{s} }), "cancelled", false},
	{"snapshot-moves", inMemory(func(s *mem.Store) storage.Adapter { return snapshotsNothing{s} }), "snapshot", false},
	{"parts-of-values", inMemory(func(s *mem.Store) storage.Adapter { return writesParts{crowded(s)} }), "values-are-whole", false},
	{"capability-not-declared", storagetest.Engine{
		Volatile: true, Without: []string{"Watcher", "UnreadableLister"},
		Open: func(context.Context, string) (storage.Adapter, error) { return mem.New(), nil },
	}, "capabilities", false},
	{"nothing-outlives-close", storagetest.Engine{
		Open: func(context.Context, string) (storage.Adapter, error) { return mem.New(), nil },
	}, "reopen", false},

	{"acknowledged-write-is-lost", onDisk(loses), "crash-at-random", false},
	{"acknowledged-write-is-lost", onDisk(loses), "crash-at-every-system-call", false},
	{"half-a-batch-after-a-crash", onDisk(halves), "crash-at-random", false},
	{"half-a-batch-after-a-crash", onDisk(halves), "crash-at-every-system-call", false},
	{"file-is-overwritten", onDisk(overwrites), "crash-at-every-system-call", false},
	{"index-is-saved-at-close", onDisk(savesIndex), "crash-at-random", false},
	{"never-synced", onDisk(neverSynced), "full-is-synced", false},
	{"acknowledged-before-the-sync", onDisk(syncedLate), "full-is-synced", false},
	{"torn-end-is-kept", onDisk(keepsTorn), "torn-logs", false},
	{"torn-end-is-damage", onDisk(refusesTorn), "torn-logs", false},
	{"values-are-not-checked", onDisk(unchecked), "flipped-values", false},
	{"damage-is-an-empty-store", onDisk(resets), "flipped-files", false},
	{"second-process-gets-in", onDisk(sound), "second-process-is-kept-out", false},
}

// faultChild is set in a process in which an engine is put to the test.
const faultChild = "STRATA_FAULT"

// TestFaults runs each wrong engine in another process and wants its case to
// fail there.
func TestFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name+"/"+f.fails, func(t *testing.T) {
			if os.Getenv(faultChild) != "" {
				storagetest.Run(t, f.engine)
				return
			}
			out, err := inChild(t, f.fails, f.hangs)
			found := "--- FAIL: " + t.Name() + "/" + f.fails
			if f.hangs {
				found = "panic: test timed out"
			}
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || !strings.Contains(out, found) {
				t.Errorf("the suite finds no fault: %v\n%s", err, out)
			}
		})
	}
}

// TestSound runs the cases that must fail above on the same engine without a
// flaw. For those in memory, package mem does it.
func TestSound(t *testing.T) {
	if os.Getenv(faultChild) != "" {
		storagetest.Run(t, onDisk(sound))
		return
	}
	done := map[string]bool{"second-process-is-kept-out": true} // which it has no lock for
	for _, f := range faults {
		if f.engine.Name != "logged" || done[f.fails] {
			continue
		}
		done[f.fails] = true
		if out, err := inChild(t, f.fails, false); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// inChild runs a case of the suite that t is in, in another process.
func inChild(t *testing.T, name string, hangs bool) (out string, err error) {
	t.Helper()
	timeout := "1m"
	if hangs {
		timeout = "3s"
	}
	run := "^" + strings.ReplaceAll(t.Name()+"/"+name, "/", "$/^") + "$"
	cmd := exec.Command(os.Args[0], "-test.run="+run, "-test.v", "-test.timeout="+timeout)
	cmd.Env = append(os.Environ(), faultChild+"=1", "STRATA_KILLS=20")
	text, err := cmd.CombinedOutput()
	if err == nil && strings.Contains(string(text), "--- SKIP: ") {
		t.Skipf("%s", text)
	}
	if !strings.Contains(string(text), "=== RUN   "+t.Name()+"/"+name) {
		t.Fatalf("there is no case %s: %s", name, text)
	}
	return string(text), err
}
