package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/stratamem/strata/soma"
)

// specs are the stores that scripts on knowledge run over. They are written for
// the first.
var specs = []string{"vault:notes", "bolt:notes.db", "badger:notes"}

// onEngines runs a script over stores.
func onEngines(t *testing.T, name, script string, specs []string) {
	for _, spec := range specs {
		engine, _, _ := strings.Cut(spec, ":")
		t.Run(engine, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), name+".txtar")
			if err := os.WriteFile(file, []byte(strings.ReplaceAll(script, "vault:notes", spec)), 0o600); err != nil {
				t.Fatal(err)
			}
			testscript.Run(t, testscript.Params{
				Files:               []string{file},
				RequireExplicitExec: true,
				Setup: func(env *testscript.Env) error {
					env.Setenv("GORACE", "atexit_sleep_ms=0") // a second for each command, under the race detector
					return nil
				},
				Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
					"plain": plainText, "json": validJSON, "status": status, "says": says, "seen": seen,
				},
			})
		})
	}
}

// The scripts in testdata/script run over a vault; this runs those that edit no
// file over the other engines as well.
func TestKnowledgeScripts(t *testing.T) {
	for _, name := range []string{"knowledge", "forget"} {
		script, err := os.ReadFile("testdata/script/" + name + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		onEngines(t, name, string(script), specs[1:])
	}
}

// The session in the documentation is what happens.
func TestKnowledgeDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/knowledge.md")
	if err != nil {
		t.Fatal(err)
	}
	script := sessionScript(string(text))
	if n := strings.Count(script, "\nstatus "); n < 10 {
		t.Fatalf("the session has %d commands:\n%s", n, script)
	}
	onEngines(t, "docs", script, specs)
}

// sessionScript makes a script of the indented blocks of a text that begin with a
// command: lines after "$ " are commands, those that follow are what they print.
// A status that is not 0 is in a comment.
func sessionScript(text string) string {
	var script, files strings.Builder
	var want []string
	n, blank := 0, 0
	flush := func() {
		if n > 0 && want != nil {
			fmt.Fprintf(&script, "says want%d\n", n)
			fmt.Fprintf(&files, "-- want%d --\n%s\n", n, strings.Join(want, "\n"))
		}
		want, blank = nil, 0
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\\\n", ""), "\n") {
		if line == "" { // within what is printed, or behind it
			blank++
			continue
		}
		line, ok := strings.CutPrefix(line, "    ")
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case isCommand:
			flush()
			if set, ok := strings.CutPrefix(command, "export "); ok {
				fmt.Fprintf(&script, "env %s\n", set)
				continue
			}
			exit := "0"
			if at := strings.Index(command, "# exit status "); at > 0 {
				command, exit = command[:at], command[at+len("# exit status "):]
			}
			n++
			command = seenDigest.ReplaceAllString(command, "--digest $$SEEN")
			fmt.Fprintf(&script, "status %s %s\n", exit, command)
			want = []string{}
		case ok && want != nil:
			want = append(append(want, make([]string, blank)...), line)
			blank = 0
		default:
			flush()
		}
	}
	flush()
	return script.String() + files.String()
}

var (
	moment      = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+Z)?`)
	shownDigest = regexp.MustCompile(`(?m)^(digest +)([0-9a-f]{64})$`)
	seenDigest  = regexp.MustCompile(`--digest [0-9a-f]{64}`)
)

// says compares what a command printed with a file, but for the times, and for
// the digest, which is $SEEN in what follows.
func says(ts *testscript.TestScript, _ bool, args []string) {
	got, want := ts.ReadFile("stdout")+ts.ReadFile("stderr"), ts.ReadFile(args[0])
	if m := shownDigest.FindStringSubmatch(got); m != nil {
		ts.Setenv("SEEN", m[2])
	}
	scrubbed := func(s string) string {
		return shownDigest.ReplaceAllString(moment.ReplaceAllString(s, "<time>"), "$1<digest>")
	}
	if diff := cmp.Diff(scrubbed(want), scrubbed(got)); diff != "" {
		ts.Fatalf("%s (-want +got):\n%s", args[0], diff)
	}
}

func TestFieldFlags(t *testing.T) {
	fields, err := parseFields("knowledge new", "--field", []string{
		"n=3", `text="3"`, "word=three", "yes=true", "list=[1,2]", "empty=", "two=1 2", "nil=null", "eq=a=b", "big=123456789012345678901",
	})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(&got, "%s %T %v\n", name, fields[name], fields[name])
	}
	const want = `big json.Number 123456789012345678901
empty string 
eq string a=b
list []interface {} [1 2]
n json.Number 3
nil string null
text string 3
two string 1 2
word string three
yes bool true
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "n", "=3", "id=x", "layer=canon", "decay_at=2030-01-01", "proposal_status=promoted", "ratified_by=me", "retired_at=2030-01-01", "reviewed_by=me", "a=\xff"} {
		if _, err := parseFields("knowledge new", "--field", []string{bad}); err == nil {
			t.Errorf("--field %q is taken", bad)
		}
	}
}

// What is on record never has a person without a name that can be shown.
func TestPerson(t *testing.T) {
	for _, test := range []struct{ as, env, want string }{
		{"anna", "", "anna"},
		{" anna ", "ben", "anna"},
		{"", "ben", "ben"},
		{"Ägidius van der Öhm", "", "Ägidius van der Öhm"},
		{"", "", ""},
		{"  ", "ben", ""},
		{"a\x1b[2Jb", "", ""},
		{"a\nb", "", ""},
		{"\u202eanna", "", ""},
		{"\xff", "", ""},
	} {
		env := map[string]string{envActor: test.env, "USER": "root"}
		actor, err := (&tool{env: func(name string) string { return env[name] }}).person("knowledge new", test.as)
		if actor.Name != test.want || (err == nil) != (test.want != "") || err == nil && actor.Kind != "person" {
			t.Errorf("--as %q with $%s %q: %v, %v, want %q", test.as, envActor, test.env, actor, err, test.want)
		}
	}
}

// The document of an entity is what the store keeps, name by name.
func TestDocumentOf(t *testing.T) {
	e := &soma.Entity{Type: "insight", ID: "a", Fields: map[string]any{"n": 3, "name": []any{"odd"}}}
	if diff := cmp.Diff(map[string]any{"type": "insight", "id": "a", "n": 3, "name": []any{"odd"}}, documentOf(e)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	e.Name, e.Unratified = "A", true
	if got := documentOf(e); got["name"] != "A" || got["unratified"] != true || len(e.Fields) != 2 {
		t.Errorf("%v of %v", got, e.Fields)
	}
}

// What is left alone, or is odd, is said, and is an exit status.
func TestLeftAlone(t *testing.T) {
	for _, test := range []struct {
		name     string
		do       func(t *tool) error
		out, err string
	}{
		{"migrate", func(t *tool) error {
			return t.printMigrated(&soma.Migrated{Migrated: 2, Warnings: []string{"a/b: \x1b"}}, false)
		}, "migrated 2 entities, 0 as", `a/b: \x1b`},
		{"migrate --json", func(t *tool) error { return t.printMigrated(&soma.Migrated{Warnings: []string{"a/b"}}, true) }, `"a/b"`, ""},
		{"decay", func(t *tool) error { return t.printDecayed(&soma.Decayed{Bad: []string{"a/b\x1b"}}, false) }, "moved 0", `a/b\x1b`},
		{"decay --json", func(t *tool) error { return t.printDecayed(&soma.Decayed{Bad: []string{"a/b"}}, true) }, `"a/b"`, ""},
	} {
		var out, errs strings.Builder
		err := test.do(&tool{out: &out, err: &errs})
		if err == nil || !strings.Contains(out.String(), test.out) || !strings.Contains(errs.String(), test.err) {
			t.Errorf("%s: %v, prints %q and %q", test.name, err, out.String(), errs.String())
		}
	}
}

// Every verb says what it does, and how it is called.
func TestVerbsHaveHelp(t *testing.T) {
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		if cmd.Name() == "completion" || cmd.Name() == "help" {
			return
		}
		if cmd.Short == "" || !strings.Contains(cmd.Example, strings.TrimPrefix(cmd.CommandPath(), "strata ")) {
			t.Errorf("%s has no help, or no example of its own", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	root := rootCommand(&tool{env: func(string) string { return "" }})
	for _, cmd := range root.Commands() {
		look(cmd)
	}
}
