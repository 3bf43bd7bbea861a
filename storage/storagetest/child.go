package storagetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
)

// Cases that need another process run the test binary again. It runs the same
// subtest and recognizes by these variables that it is the child. It writes to
// its standard output what was acknowledged: "ack", a writer, a number.
const (
	childDir  = "STRATA_CHILD_DIR"
	childName = "STRATA_CHILD_TEST"
)

// childOf returns the directory that a child works in, and whether this process
// is a child that must do its part of t.
func childOf(t *testing.T) (dir string, ok bool) {
	return os.Getenv(childDir), os.Getenv(childName) == t.Name()
}

// child returns a command that runs t again in a process of its own, wrapped in
// another command.
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

// follow runs a child to its end, and calls started when it runs and acked for
// each acknowledgement. It reports whether the child was killed; if the child
// fails by itself, the test ends.
func follow(t *testing.T, cmd *exec.Cmd, started func(), acked func(writer, n int)) (killed bool) {
	t.Helper()
	out, problems := outputs(t, cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	started()
	readAcks(t, out, acked)
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && !exit.Exited() {
		return true
	}
	if err != nil {
		t.Fatalf("child ended by itself: %v\n%s", err, problems.String())
	}
	return false
}

// followCalls is follow for a child that is killed before its nth system call
// that changes a file. It also returns how many such calls the child began.
func followCalls(t *testing.T, cmd *exec.Cmd, n int, acked func(writer, n int)) (killed bool, calls int) {
	t.Helper()
	out, problems := outputs(t, cmd)
	type end struct {
		killed        bool
		calls, status int
		err           error
	}
	ended := make(chan end)
	go func() {
		var e end
		e.killed, e.calls, e.status, e.err = killAtCall(cmd, n)
		if e.err != nil && cmd.Process == nil {
			out.Close() // nobody will write
		}
		ended <- e
	}()
	readAcks(t, out, acked)
	e := <-ended
	if cmd.Process != nil {
		_ = cmd.Wait() // for its output: the tracer has its status
	}
	switch {
	case errors.Is(e.err, errors.ErrUnsupported):
		t.Skip("system calls cannot be counted on this system")
	case e.err != nil:
		t.Fatalf("trace the child: %v", e.err)
	case !e.killed && e.status != 0:
		t.Fatalf("child ended by itself: exit status %d\n%s", e.status, problems.String())
	}
	return e.killed, e.calls
}

// outputs connects the outputs of a child: acknowledgements, and reports of
// problems.
func outputs(t *testing.T, cmd *exec.Cmd) (out io.ReadCloser, problems *bytes.Buffer) {
	t.Helper()
	problems = new(bytes.Buffer)
	cmd.Stderr = problems
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	return out, problems
}

func readAcks(t *testing.T, out io.Reader, acked func(writer, n int)) {
	t.Helper()
	var other []byte
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			if err != io.EOF && !errors.Is(err, os.ErrClosed) {
				t.Errorf("read from the child: %v", err)
			}
			break
		}
		var writer, n int
		if _, err := fmt.Sscanf(line, "ack %d %d\n", &writer, &n); err != nil {
			other = append(other, line...)
			continue
		}
		acked(writer, n)
	}
	if len(other) > 0 {
		t.Logf("child: %s", other)
	}
}

// acknowledge tells the parent that a write was acknowledged.
func acknowledge(writer, n int) { fmt.Fprintf(os.Stdout, "ack %d %d\n", writer, n) }

// fail ends a child that cannot do its part.
func fail(err error) {
	fmt.Fprintln(os.Stderr, "child:", err)
	os.Exit(3)
}

// openChild opens a store in a child.
func openChild(open func(context.Context, string) (storage.Adapter, error), dir string) storage.Adapter {
	a, err := open(context.Background(), dir)
	if err != nil {
		fail(err)
	}
	return a
}

// die kills the process that calls it, as kill -9 does.
func die() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		fail(err)
	}
	select {}
}

// strace returns the command that traces system calls. Without it, the test is
// skipped, or fails in CI.
func strace(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err == nil {
		if _, err = exec.Command(path, "-qq", "-o", os.DevNull, "true").Output(); err == nil {
			return path
		}
	}
	reason := fmt.Sprintf("system calls cannot be traced here: %v", err)
	if os.Getenv("CI") != "" && runtime.GOOS == "linux" {
		t.Fatal(reason)
	}
	t.Skip(reason)
	return ""
}
