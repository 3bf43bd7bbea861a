package transcript_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/stratamem/strata/internal/transcript"
	"github.com/stratamem/strata/projection"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Each file of testdata holds a transcript (in), its entries and faults (want)
// and its turns.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			opts := &transcript.Options{Name: "in", Sidechains: section(ar, "options") == "sidechains\n"}
			in := section(ar, "in")
			got := map[string]string{"want": entries(t, in, opts), "turns": turns(t, in, opts)}
			for i, f := range ar.Files {
				text, ok := got[f.Name]
				if !ok {
					continue
				}
				if *update {
					ar.Files[i].Data = []byte(text)
				} else if diff := cmp.Diff(string(f.Data), text); diff != "" {
					t.Errorf("%s (-want +got):\n%s", f.Name, diff)
				}
			}
			if *update {
				if err := os.WriteFile(path, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func section(ar *txtar.Archive, name string) string {
	for _, f := range ar.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

func newReader(t testing.TB, text string, opts *transcript.Options) *transcript.Reader {
	t.Helper()
	r, err := transcript.NewReader(strings.NewReader(text), opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func entries(t *testing.T, text string, opts *transcript.Options) string {
	var b strings.Builder
	r := newReader(t, text, opts)
	fmt.Fprintf(&b, "shape %s\n", r.Shape())
	for e, err := range r.Entries() {
		if err != nil {
			b.WriteString(describe(err))
			continue
		}
		who := "outside"
		switch {
		case e.Model:
			who = "model"
		case e.System:
			who = "system text"
		}
		fmt.Fprintf(&b, "%d %s %s", e.Line, e.Thread, who)
		if !e.Time.IsZero() {
			fmt.Fprintf(&b, " %s", e.Time.UTC().Format("2006-01-02T15:04:05.999Z07:00"))
		}
		b.WriteString("\n")
		for _, it := range e.Items {
			b.WriteString(render(it))
		}
	}
	fmt.Fprintf(&b, "skipped %+v\n", r.Skipped())
	return b.String()
}

func turns(t *testing.T, text string, opts *transcript.Options) string {
	var b strings.Builder
	for turn, err := range newReader(t, text, opts).Turns() {
		if err == nil {
			fmt.Fprintf(&b, "%d %s: %d in, %d out", turn.Line, turn.Thread, len(turn.Input), len(turn.Output))
			if s := turn.System; s != nil {
				fmt.Fprintf(&b, ", told %d of line %d", len(s.Items), s.Line)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func describe(err error) string {
	if f, ok := err.(*transcript.Fault); ok && f.Repaired {
		return fmt.Sprintf("! %v (repaired)\n", err)
	}
	return fmt.Sprintf("! %v\n", err)
}

func render(it projection.Item) string {
	var b strings.Builder
	fmt.Fprintf(&b, "    %s", it.Kind)
	for _, s := range []string{string(it.Role), it.Name, it.CallID} {
		if s != "" {
			b.WriteString(" " + s)
		}
	}
	if it.Failed {
		b.WriteString(" failed")
	}
	if it.Kind == projection.ToolCall {
		b.WriteString(" " + it.Arguments)
	}
	for _, p := range it.Parts {
		switch {
		case p.Type == projection.TextPart:
			fmt.Fprintf(&b, " %q", p.Text)
		case p.URL != "":
			fmt.Fprintf(&b, " %s(%s)", p.Type, p.URL)
		default:
			fmt.Fprintf(&b, " %s(%s %s %d bytes)", p.Type, p.Name, p.MediaType, len(p.Data))
		}
	}
	return b.String() + "\n"
}
