package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/storage/bolt"
)

// writeSession writes a session of Claude Code with so many rounds of question,
// tool call, result and answer: session FILE ROUNDS. One of more rounds begins
// with the same bytes. Every twentieth round comes after a night.
func writeSession(ts *testscript.TestScript, _ bool, args []string) {
	rounds, err := strconv.Atoi(args[1])
	ts.Check(err)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	at := time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)
	n := 0
	line := func(kind string, content ...any) {
		n++
		at = at.Add(20 * time.Second)
		ts.Check(enc.Encode(map[string]any{
			"type": kind, "uuid": fmt.Sprintf("00000000-0000-4000-8000-%012d", n), "sessionId": "session-1", "timestamp": at,
			"message": map[string]any{"role": kind, "content": content},
		}))
	}
	text := func(kind, name string, round int) map[string]any {
		return map[string]any{"type": kind, name: fmt.Sprintf("Round %d: %s", round, strings.Repeat("the build of module seven is slow ", 5))}
	}
	for round := range rounds {
		if round%20 == 19 {
			at = at.Add(12 * time.Hour)
		}
		id := fmt.Sprintf("toolu_%d", round)
		line("user", text("text", "text", round))
		line("assistant", text("thinking", "thinking", round), map[string]any{"type": "tool_use", "id": id, "name": "Bash", "input": map[string]any{"command": "make"}})
		line("user", map[string]any{"type": "tool_result", "tool_use_id": id, "content": "done\n"})
		line("assistant", text("text", "text", round))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o644))
}

// writeLarge writes a transcript with a message of so many bytes in its middle:
// large FILE BYTES.
func writeLarge(ts *testscript.TestScript, _ bool, args []string) {
	size, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), fmt.Appendf(nil,
		"{\"role\":\"user\",\"content\":\"before\"}\n{\"role\":\"assistant\",\"content\":\"b\"}\n{\"role\":\"user\",\"content\":%q}\n{\"role\":\"assistant\",\"content\":\"c\"}\n{\"role\":\"user\",\"content\":\"after\"}\n{\"role\":\"assistant\",\"content\":\"d\"}\n",
		strings.Repeat("word ", size/5)), 0o644))
}

// killed runs the real program and sends it a signal when it has printed so many
// turns, so that it is at work on a later one: killed KILL|INT TURNS ARGS...
func killed(ts *testscript.TestScript, _ bool, args []string) {
	turns, err := strconv.Atoi(args[1])
	ts.Check(err)
	sig := map[string]os.Signal{"KILL": syscall.SIGKILL, "INT": os.Interrupt}[args[0]]
	var program string
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, "strata")); err == nil && !info.IsDir() {
			program = filepath.Join(dir, "strata")
			break
		}
	}
	cmd := exec.Command(program, append(args[2:], "--json")...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = append(os.Environ(), "TMPDIR="+ts.Getenv("TMPDIR"), "GORACE="+ts.Getenv("GORACE"))
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	dec := json.NewDecoder(out)
	for seen := 0; seen < turns; {
		var e event
		ts.Check(dec.Decode(&e))
		if e.Event == eventTurn {
			seen++
		}
	}
	ts.Check(cmd.Process.Signal(sig))
	_, err = io.Copy(io.Discard, out) // it may wait for its reader
	ts.Check(err)
	if err := cmd.Wait(); err == nil {
		ts.Logf("%s was done before the signal", args[0])
	} else if _, ok := errors.AsType[*exec.ExitError](err); !ok {
		ts.Check(err)
	}
}

// sameItems checks that two stores have the same items in the same order, each
// once, and no execution that has not ended: same A B.
func sameItems(ts *testscript.TestScript, _ bool, args []string) {
	var have [2]map[string][]string
	for i, name := range args {
		have[i] = make(map[string][]string)
		store, err := bolt.Open(context.Background(), ts.MkAbs(name), nil)
		ts.Check(err)
		for info, err := range thread.List(context.Background(), store) {
			ts.Check(err)
			ids := make(map[string]bool)
			for turn, err := range thread.Turns(context.Background(), store, info.Thread, 0) {
				ts.Check(err)
				for _, it := range turn.Items {
					if ids[it.ID] {
						ts.Fatalf("%s: item %s of %s is there twice", name, it.ID, info.Thread)
					}
					ids[it.ID] = true
					have[i][info.Thread] = append(have[i][info.Thread], fmt.Sprintf("%s %s %s %s", it.ID, it.Kind, it.CallID, it.Text()))
				}
			}
		}
		for run, err := range thread.Runs(context.Background(), store) {
			ts.Check(err)
			if run.Outcome == "" {
				ts.Fatalf("%s: execution %s has not ended", name, run.ID)
			}
		}
		ts.Check(store.Close())
	}
	if diff := cmp.Diff(have[0], have[1]); diff != "" {
		ts.Fatalf("%s and %s differ (-a +b):\n%s", args[0], args[1], diff)
	}
}

// A run that goes on after a kill is the execution that was killed.
func TestRunGoesOnWithAnExecution(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "a.db")
	file := transcriptFile(t, "Hello")
	if status, _, errs := call(t.Context(), nil, "run", file, "--db", db, "-q"); status != exitOK {
		t.Fatal(errs)
	}
	status, out, errs := call(t.Context(), nil, "run", file, "--db", db, "--json")
	if status != exitOK || errs != "" {
		t.Fatalf("status %d: %s", status, errs)
	}
	var last event
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		if err := dec.Decode(&last); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if last.Event == eventBegin || last.Event == eventTurn {
			t.Errorf("event %s, though all is there", last.Event)
		}
	}
	if last.Totals == nil || last.Totals.Turns != 0 || last.Totals.Items != 0 || last.Totals.Known != 2 {
		t.Errorf("totals %+v, want 2 known items and no turns", last.Totals)
	}
}
