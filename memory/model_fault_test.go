package memory_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// planted are faults of the kind that the model is for. Each is a text of a file
// of this package, which stands there once, and what to put in its place.
var planted = []struct {
	name, file, text, fault string
}{
	{"a failed try moves what a cell was computed from", "draft.go",
		"\td.rebased = d.rebased || !bytes.Equal(d.base.raw, first.stored.raw)\n",
		"\td.rebased = d.rebased || !bytes.Equal(d.base.raw, first.stored.raw)\n\tfor i := range d.parts {\n\t\td.parts[i].stored = d.base\n\t}\n"},
	{"what others wrote is not rebased on", "draft.go",
		"!bytes.Equal(d.base.raw, first.stored.raw)", "len(d.base.raw) == 0 && !bytes.Equal(d.base.raw, first.stored.raw)"},
	{"one change too few is done with", "draft.go",
		"p.pending = slices.Delete(p.pending, 0, p.covers)", "p.pending = slices.Delete(p.pending, 0, max(p.covers-1, 0))"},
	{"what a tool changed meanwhile is dropped", "draft.go",
		"p.pending = slices.Delete(p.pending, 0, p.covers)", "p.pending = slices.Delete(p.pending, 0, len(p.pending))"},
	{"what a tool changed meanwhile is dropped with a rebase", "draft.go",
		"return base, pending[n:] })", "return base, nil })"},
	{"a batch of one's own is not known again", "write.go",
		"case err == nil && bytes.Equal(record, b.mark):", "case err == nil && record == nil:"},
	{"another's turn is taken for one's own", "write.go",
		"bytes.Equal(data, run.writer.turnBytes)", "len(data) > 0"},
	{"a batch that was not written is taken for written", "write.go",
		"\tdefault:\n\t\tb.fate = fateRefused\n", "\tdefault:\n\t\tb.landed(false)\n"},
	{"only the child knows a lost batch again", "write.go",
		"if fate == fateApplied {", "if fate == fateApplied && r == b.runs[0] {"},
	{"a state is written without its precondition", "draft.go",
		"storage.Put(c.stateKey, d.next.raw).IfVersion(was.version)", "storage.Put(c.stateKey, d.next.raw)"},
	{"records are written below what was cleared", "draft.go",
		"RecordsPrefix(c.prefix, d.next.Clears)", "RecordsPrefix(c.prefix, was.Clears)"},
	{"records from before a clear are written after it", "draft.go",
		"has, writes = false, nil", "has = false"},
	{"a child's changes are dropped where it shares its parent's scope", "batch.go",
		"b.draft(part{run: run, cell: c}, part{run: parent, cell: above, parent: true})", "b.draft(part{run: parent, cell: above, parent: true})"},
	{"a parent's changes come before its child's", "batch.go",
		"b.draft(part{run: run, cell: c}, part{run: parent, cell: above, parent: true})", "b.draft(part{run: parent, cell: above, parent: true}, part{run: run, cell: c})"},
	{"a child that returns takes its parent's turn along", "draft.go",
		"\t\t\tp.covers, p.seen = p.returned()\n", "\t\t\tp.covers, p.seen = len(p.pending), p.state\n"},
	{"what crossed into a child overwrites the scope", "draft.go",
		"d.rebased = d.rebased || p.detached", "d.rebased = d.rebased || false"},
	{"a child's usage is added at every try to return", "child.go",
		"if child.ending.merged {", "if child.ending.merged && child.ending.returned == nil {"},
	{"an ended execution keeps its state", "batch.go",
		"if c.kind == ScopeExecution && c.stored.raw != nil {", "if c.kind == ScopeExecution && c.stored.raw == nil {"},
	{"a queue is left too early", "write.go",
		"\tdefer b.m.queues.leave(keys)\n", "\tb.m.queues.leave(keys)\n"},
	{"one turn too many is pruned", "batch.go", "w.number-2*keep", "w.number-keep+1"},
}

// TestFaultsFitTheCode shows at once that a fault must change with the code.
func TestFaultsFitTheCode(t *testing.T) {
	for _, f := range planted {
		text, err := os.ReadFile(f.file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), f.text); n != 1 {
			t.Errorf("%s: %q stands %d times in %s: the code has changed, so change the fault with it", f.name, f.text, n, f.file)
		}
	}
}

// TestModelFindsFaults plants each fault and has TestModel find it: a model that
// finds nothing says nothing.
func TestModelFindsFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the package once for each fault")
	}
	if os.Getenv(seedsEnv) != "" || os.Getenv(seedEnv) != "" {
		t.Skip("seeds are chosen by the environment")
	}
	for _, f := range planted {
		t.Run(strings.ReplaceAll(f.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			here, err := filepath.Abs(f.file)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(here)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			there, overlay := filepath.Join(dir, f.file), filepath.Join(dir, "overlay.json")
			list, err := json.Marshal(map[string]any{"Replace": map[string]string{here: there}})
			if err != nil {
				t.Fatal(err)
			}
			for path, data := range map[string]string{there: strings.Replace(string(text), f.text, f.fault, 1), overlay: string(list)} {
				if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("go", "test", "-overlay", overlay, "-vet=off", "-count=1", "-run", "^TestModel$", ".")
			cmd.Env = append(os.Environ(), seedsEnv+"=800")
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Error("the model does not find it")
				return
			}
			found := string(out)
			at := strings.Index(found, "seed ")
			if at < 0 || !strings.Contains(found, "the interleaving:") {
				t.Fatalf("the model did not get to look for it:\n%s", found)
			}
			t.Log(strings.SplitN(found[at:], "\n", 2)[0])
		})
	}
}
