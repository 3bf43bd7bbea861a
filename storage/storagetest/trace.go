package storagetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
)

func traceCases() []testCase {
	return []testCase{{name: "full-is-synced", run: fullIsSynced, durable: true}}
}

// written are the system calls, for strace, that show what is written and
// synced; those with a question mark do not exist everywhere.
const written = "openat,write,pwrite64,writev,pwritev,?pwritev2,fsync,fdatasync,msync,?rename,renameat,?renameat2,?link,linkat"

// fullIsSynced proves, by tracing system calls, that an engine opened with
// storage.Full syncs a write before acknowledging it: between two
// acknowledgements of a lone writer there is a sync, and what was written to
// one of the Files and Logs, or renamed into a directory, was synced after
// that. For an engine with a Journal, only that file is examined.
func fullIsSynced(t *testing.T, e Engine) {
	const writes = 20
	if e.Full == nil {
		return // it promises nothing
	}
	if dir, ok := childOf(t); ok {
		writeSynced(e, dir, writes)
	}
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "trace")
	cmd := child(t, dir, strace(t), "-f", "-qq", "-y", "-s", "16", "-o", file, "-e", "trace="+written)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("traced child: %v\n%s", err, out)
	}
	trace, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	f := newFollower(func(name string) bool { return e.mustSync(dir, name) })
	if err := f.follow(trace); err != nil {
		t.Fatal(err)
	}
	if f.acks != writes {
		t.Errorf("%d acknowledgements in the trace, want %d", f.acks, writes)
	}
	for _, problem := range f.problems {
		t.Error(problem)
	}
}

// mustSync reports whether the suite examines the syncs of a file or directory
// of the store in dir.
func (e Engine) mustSync(dir, name string) bool {
	if e.Journal != "" {
		return strings.Contains(name, e.Journal)
	}
	rel, err := filepath.Rel(dir, name)
	if err != nil {
		return false
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return filepath.IsLocal(rel)
	}
	return matches(slices.Concat(e.Files, e.Logs), filepath.ToSlash(rel))
}

func writeSynced(e Engine, dir string, writes int) {
	a := openChild(e.Full, dir)
	for n := range writes {
		if err := storage.Set(context.Background(), a, fmt.Sprintf("doc/%d", n), []byte(`{"f":"1"}`)); err != nil {
			fail(err)
		}
		acknowledge(0, n)
	}
	os.Exit(0)
}

// A call is on one line of a trace, or on two if a line of another thread comes
// between; the second then lacks the arguments.
var (
	traceCall    = regexp.MustCompile(`^(\d+) +(\w+)\((.*)$`)
	traceResumed = regexp.MustCompile(`^(\d+) +<\.\.\. \w+ resumed>(.*)$`)
	traceFile    = regexp.MustCompile(`^\d+<(/[^>]*)>`) // the first argument, unless it is not a file
	traceName    = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
)

// traced is a system call that has begun.
type traced struct {
	name, args string
	begun      int // line
}

// follower reads a trace and finds acknowledgements of unsynced writes.
type follower struct {
	look     func(name string) bool // whether a file matters
	acks     int
	problems []string

	synced bool              // whether anything was, since the last acknowledgement
	dirty  map[string]int    // file → line of its last unsynced write
	direct map[string]bool   // files opened so that every write is synced
	begun  map[string]traced // thread → call that has not ended
}

func newFollower(look func(name string) bool) *follower {
	return &follower{look: look, dirty: map[string]int{}, direct: map[string]bool{}, begun: map[string]traced{}}
}

func (f *follower) follow(trace io.Reader) error {
	lines := bufio.NewScanner(trace)
	for n := 0; lines.Scan(); n++ {
		if m := traceCall.FindStringSubmatch(lines.Text()); m != nil {
			call := traced{m[2], m[3], n}
			f.begin(call)
			if strings.HasSuffix(m[3], "<unfinished ...>") {
				f.begun[m[1]] = call
				continue
			}
			f.end(call, m[3])
		} else if m := traceResumed.FindStringSubmatch(lines.Text()); m != nil {
			f.end(f.begun[m[1]], m[2])
		}
	}
	return lines.Err()
}

// begin processes what a call may do as soon as it has begun.
func (f *follower) begin(c traced) {
	switch c.name {
	case "write", "pwrite64", "writev", "pwritev", "pwritev2":
		if strings.HasPrefix(c.args, "1<") && strings.Contains(c.args, `"ack `) {
			f.acknowledged()
		} else if name := c.file(); name != "" {
			f.dirty[name] = c.begun
		}
	case "openat":
		if m := traceName.FindStringSubmatch(c.args); m != nil && strings.Contains(c.args, "SYNC") {
			f.direct[m[1]] = true
		}
	case "rename", "renameat", "renameat2", "link", "linkat":
		if m := traceName.FindAllStringSubmatch(c.args, 2); len(m) == 2 {
			from, to := m[0][1], m[1][1]
			if n, ok := f.dirty[from]; ok {
				f.dirty[to] = n
			}
			f.dirty[filepath.Dir(to)] = c.begun
		}
	}
}

// end processes what a call has done when it has returned.
func (f *follower) end(c traced, result string) {
	name := c.file()
	switch c.name {
	case "write", "pwrite64", "writev", "pwritev", "pwritev2":
		if !f.direct[name] {
			return
		}
	case "fsync", "fdatasync":
		if !strings.HasSuffix(result, "= 0") {
			return
		}
	case "msync": // of an unknown file
		f.synced = f.synced || strings.HasSuffix(result, "= 0")
		return
	default:
		return
	}
	f.synced = f.synced || f.look(name)
	if n, ok := f.dirty[name]; ok && n <= c.begun {
		delete(f.dirty, name)
	}
}

func (f *follower) acknowledged() {
	if !f.synced {
		f.problems = append(f.problems, fmt.Sprintf("acknowledgement %d: nothing was synced since the one before", f.acks))
	}
	for _, name := range slices.Sorted(maps.Keys(f.dirty)) {
		if f.look(name) {
			f.problems = append(f.problems, fmt.Sprintf("acknowledgement %d: %s was written and not synced", f.acks, name))
		}
	}
	f.acks++
	f.synced = false
	clear(f.dirty)
}

// file returns the file of a call's first argument, if there is one.
func (c traced) file() string {
	if m := traceFile.FindStringSubmatch(c.args); m != nil && !strings.HasPrefix(m[1], "/dev/") {
		return m[1]
	}
	return ""
}
