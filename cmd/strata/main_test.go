package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stratamem/strata/storage/bolt"
)

var update = flag.Bool("update", false, "write the golden output in testdata/script anew")

// TestMain lets the scripts run this program as what it is.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"strata": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("OTEL_SDK_DISABLED", "")
			env.Setenv("TMPDIR", env.WorkDir)
			env.Setenv("LONG", strings.Repeat("r", 300))
			env.Setenv("GORACE", "atexit_sleep_ms=0") // which saves a second for each command
			s := startEndpoint()
			env.Defer(s.Close)
			env.Values["endpoint"] = s
			env.Setenv("ENDPOINT", s.URL+"/v1")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"scrub":   scrub,
			"plain":   plainText,
			"json":    validJSON,
			"hold":    hold,
			"damage":  damage,
			"arrived": arrived,
			"status":  status,
			"seen":    seen,
			"session": writeSession,
			"large":   writeLarge,
			"killed":  killed,
			"same":    sameItems,
		},
	})
}

// status runs a command that exits with a status: status N command...
func status(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](err); ok {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// seen puts the digest of a proposal into $SEEN, as who reads it has it: seen ID DB.
func seen(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("strata", "review", "show", args[0], "--json", "--db", args[1]))
	var shown struct{ Digest string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &shown))
	ts.Setenv("SEEN", shown.Digest)
}

var scrubs = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<id>"},
	{regexp.MustCompile(`explain [0-9a-f-]{8,} `), "explain <id> "},
	{regexp.MustCompile(`kill -9 \d+`), "kill -9 <pid>"},
	{regexp.MustCompile(`\(process \d+\) -*`), "(process <pid>) "},
}

// scrub copies a file without what differs from run to run: scrub FROM TO.
func scrub(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[0])
	for _, s := range scrubs {
		text = s.pattern.ReplaceAllString(text, s.text)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o644))
}

// plainText checks that a file has no control characters but line ends.
func plainText(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[0])
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && hidden(r) }); i >= 0 {
		ts.Fatalf("%s has a control character at byte %d: %q", args[0], i, text[max(i-20, 0):i+5])
	}
}

// validJSON checks that a file is JSON, one value or one on each line.
func validJSON(ts *testscript.TestScript, _ bool, args []string) {
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	for n := 0; ; n++ {
		var v any
		if err := dec.Decode(&v); errors.Is(err, io.EOF) && n > 0 {
			return
		} else if err != nil {
			ts.Fatalf("%s, value %d: %v", args[0], n+1, err)
		}
	}
}

// hold opens a store, so that it is locked until the script ends.
func hold(ts *testscript.TestScript, _ bool, args []string) {
	store, err := bolt.Open(context.Background(), ts.MkAbs(args[0]), nil)
	ts.Check(err)
	ts.Defer(func() { ts.Check(store.Close()) })
}

// damage writes noise over the middle of a file: damage FILE FROM TO. With one
// number, the file is cut there.
func damage(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	data := []byte(ts.ReadFile(args[0]))
	from, err := strconv.Atoi(args[1])
	ts.Check(err)
	if len(args) == 2 {
		ts.Check(os.WriteFile(path, data[:from], 0o600))
		return
	}
	to, err := strconv.Atoi(args[2])
	ts.Check(err)
	for i := from; i < min(to, len(data)); i++ {
		data[i] = byte(i*7 + 13)
	}
	ts.Check(os.WriteFile(path, data, 0o600))
}

// arrived waits until the endpoint has a request that it does not answer.
func arrived(ts *testscript.TestScript, _ bool, _ []string) {
	<-ts.Value("endpoint").(*testEndpoint).hanging
}

// call runs a command line in this process.
func call(ctx context.Context, env map[string]string, args ...string) (status int, out, errs string) {
	var o, e bytes.Buffer
	t := &tool{in: strings.NewReader(""), out: &o, err: &e, env: func(name string) string { return env[name] }}
	status = execute(ctx, t, args)
	return status, o.String(), e.String()
}
