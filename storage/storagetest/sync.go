package storagetest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Synced proves, by tracing system calls, that an engine opened with
// storage.Full has its writes synced before it acknowledges them: between two
// acknowledgements of a lone writer there is a sync, and nothing is written to
// a file after the last one. Of an engine with a Journal, only that file is
// looked at. It needs strace and skips without it.
func Synced(t *testing.T, e Engine) {
	const writes = 20
	if os.Getenv(childName) == t.Name() {
		syncedChild(e, os.Getenv(childDir), writes)
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed: what Full claims is not traced")
	}
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := child(t, t.TempDir(), strace, "-f", "-qq", "-y", "-s", "16", "-o", trace,
		"-e", "trace=write,pwrite64,writev,pwritev,pwritev2,ftruncate,rename,renameat,renameat2,fsync,fdatasync,msync,sync_file_range")
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "ptrace") {
			t.Skipf("strace may not trace here: %s", out)
		}
		t.Fatalf("traced child: %v\n%s", err, out)
	}
	f, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n := followTrace(t, f, e.Journal); n != writes {
		t.Errorf("%d acknowledgements in the trace, want %d", n, writes)
	}
}

func syncedChild(e Engine, dir string, writes int) {
	ctx := context.Background()
	a, err := e.Open(ctx, dir)
	for i := 0; err == nil && i < writes; i++ {
		if err = a.Set(ctx, fmt.Sprintf("doc/%d", i), []byte(`{"f":"1"}`)); err == nil {
			fmt.Fprintf(os.Stdout, "ack %d\n", i)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(3)
	}
	os.Exit(0)
}

var (
	traceAck  = regexp.MustCompile(`write\(1(<[^>]*>)?, "ack `)
	traceSync = regexp.MustCompile(`(fsync|fdatasync|msync)(\(| resumed>).*= 0$`)
	// Files are told from pipes and events by their numbers: 0 to 2 are the
	// child's own.
	traceWrite = regexp.MustCompile(`(pwrite64|writev|pwritev2?|ftruncate|rename(at2?)?)(\(| resumed>)`)
	// A call that another thread's interrupts is on two lines, of which the
	// second does not name the file.
	traceBegun   = regexp.MustCompile(`^(\d+) .* <unfinished \.\.\.>$`)
	traceResumed = regexp.MustCompile(`^(\d+) <\.\.\. \w+ resumed>`)
)

// followTrace returns the number of acknowledgements in a trace. A journal is
// a part of the path of the file that is looked at.
func followTrace(t *testing.T, f *os.File, journal string) (acks int) {
	t.Helper()
	synced, dirty := false, ""
	begun := map[string]string{} // thread → call
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if m := traceBegun.FindStringSubmatch(line); m != nil {
			begun[m[1]] = line
		}
		call := line
		if m := traceResumed.FindStringSubmatch(line); m != nil {
			call = begun[m[1]]
		}
		switch {
		case traceAck.MatchString(line):
			if !synced || dirty != "" {
				t.Errorf("acknowledgement %d: synced since the last one: %t; written after the sync: %s", acks, synced, dirty)
			}
			acks++
			synced = false
		case !strings.Contains(call, journal):
		case traceSync.MatchString(line):
			synced, dirty = true, ""
		case traceWrite.MatchString(line):
			dirty = line
		}
	}
	return acks
}
