package transcript_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/stratamem/strata/internal/transcript"
	"github.com/stratamem/strata/projection"
)

const hello = `{"role":"user","content":"hello"}`

func TestShapes(t *testing.T) {
	for name, test := range map[string]struct {
		in   string
		want transcript.Shape
		why  string // in the error
	}{
		"empty":                     {in: "", why: "empty"},
		"blank":                     {in: " \r\n\n\t", why: "empty"},
		"only a BOM":                {in: "\xEF\xBB\xBF", why: "empty"},
		"binary":                    {in: "\x7fELF\x02\x01\x01\x00\x00", why: "binary"},
		"UTF-16":                    {in: "\xFF\xFE{\x00", why: "UTF-16"},
		"prose":                     {in: "Dear all,\n{not JSON}\n", why: "no known shape"},
		"another object":            {in: `{"name":"strata","version":1}`, why: "no known shape"},
		"messages that are no list": {in: `{"messages":{"role":"user"}}`, why: "no known shape"},
		"lines":                     {in: hello, want: transcript.Lines},
		"lines after a BOM":         {in: "\xEF\xBB\xBF" + hello, want: transcript.Lines},
		"lines after a broken one":  {in: `{"role` + "\n" + hello, want: transcript.Lines},
		"a line that is cut off":    {in: `{"role":"user","content":"hel`, want: transcript.Lines},
		"array":                     {in: "\n [" + hello + "]", want: transcript.Messages},
		"object":                    {in: `{"model":"m","messages":[` + hello + "]}", want: transcript.Messages},
		"object over lines":         {in: "{\n\"messages\": [\n" + hello + "\n]}", want: transcript.Messages},
		"session":                   {in: `{"parentUuid":null,"type":"user","message":{"role":"user"}}`, want: transcript.ClaudeCode},
		"session with a summary":    {in: `{"type":"summary","summary":"…","leafUuid":"x"}`, want: transcript.ClaudeCode},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := transcript.NewReader(strings.NewReader(test.in), nil)
			if test.why != "" {
				var f *transcript.Fault
				if !errors.As(err, &f) || f.Line != 0 || !strings.Contains(f.Why, test.why) {
					t.Fatalf("error %v, want a fault of the file: %s", err, test.why)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Shape() != test.want {
				t.Errorf("shape %s, want %s", r.Shape(), test.want)
			}
		})
	}
}

// read returns all texts and all faults.
func read(t *testing.T, r *transcript.Reader) (texts []string, faults []*transcript.Fault) {
	t.Helper()
	for e, err := range r.Entries() {
		var f *transcript.Fault
		if errors.As(err, &f) {
			faults = append(faults, f)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range e.Items {
			texts = append(texts, it.Text())
		}
	}
	return texts, faults
}

func TestLineEndsAndMarks(t *testing.T) {
	texts, faults := read(t, newReader(t, "\xEF\xBB\xBF"+hello+"\r\n\r\n"+hello+"\r\n"+hello, nil))
	if len(texts) != 3 || len(faults) != 0 {
		t.Errorf("%d texts and faults %v, want 3 and none", len(texts), faults)
	}
}

func TestInvalidUTF8IsRepaired(t *testing.T) {
	for name, in := range map[string]string{
		"lines":    "{\"role\":\"user\",\"content\":\"caf\xe9\"}\n" + hello,
		"messages": "[{\"role\":\"user\",\"content\":\"caf\xe9\"}," + hello + "]",
	} {
		texts, faults := read(t, newReader(t, in, nil))
		if len(texts) != 2 || texts[0] != "caf\uFFFD" {
			t.Errorf("%s: texts %q", name, texts)
		}
		if len(faults) != 1 || !faults[0].Repaired || faults[0].Line != 1 {
			t.Errorf("%s: faults %v, want one of line 1, repaired", name, faults)
		}
	}
}

// A long entry is reported with its size, costs no memory, and loses nothing
// else.
func TestLongEntries(t *testing.T) {
	long := `{"role":"user","content":"` + strings.Repeat("x", 1<<20) + `"}`
	for name, in := range map[string]string{
		"lines":    hello + "\n" + long + "\n" + hello + "\n" + long,
		"messages": "[" + hello + ",\n" + long + ",\n" + hello + ",\n" + long + "]",
	} {
		texts, faults := read(t, newReader(t, in, &transcript.Options{MaxEntry: 1000}))
		if len(texts) != 2 || len(faults) != 2 {
			t.Fatalf("%s: %d texts and faults %v, want 2 and 2", name, len(texts), faults)
		}
		if f := faults[0]; f.Line != 2 || f.Repaired || !strings.Contains(f.Why, "longer than 1000") {
			t.Errorf("%s: fault %v", name, f)
		}
		if texts, faults := read(t, newReader(t, in, nil)); len(texts) != 4 || len(faults) != 0 {
			t.Errorf("%s, by default: %d texts and faults %v, want 4 and none", name, len(texts), faults)
		}
	}
}

func TestStrictEndsAtTheFirstFault(t *testing.T) {
	r := newReader(t, hello+"\n{\n"+hello, &transcript.Options{Name: "chat.jsonl", Strict: true})
	texts, faults := read(t, r)
	if len(texts) != 1 || len(faults) != 1 {
		t.Fatalf("%d texts and %d faults, want one of each", len(texts), len(faults))
	}
	if got, want := faults[0].Error(), "read transcript chat.jsonl:2: JSON that breaks off"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}

func TestReadErrorIsTheLast(t *testing.T) {
	for _, in := range []string{hello + "\n" + hello + "\n", "[" + hello + "," + hello + ","} {
		broken := errors.New("broken disk")
		// Only what is looked at to recognise the shape can be read.
		src := io.MultiReader(strings.NewReader(in+strings.Repeat(" ", 256<<10)), iotest.ErrReader(broken))
		r, err := transcript.NewReader(src, nil)
		if err != nil {
			t.Fatal(err)
		}
		var last error
		n := 0
		for _, err := range r.Entries() {
			last = err
			n++
		}
		if n != 3 || !errors.Is(last, broken) {
			t.Errorf("%d events, the last with error %v; want 3 and %v", n, last, broken)
		}
	}
	if _, err := transcript.NewReader(iotest.ErrReader(io.ErrClosedPipe), nil); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v, want %v", err, io.ErrClosedPipe)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "whatever.txt")
	if err := os.WriteFile(path, []byte(hello+"\n"+hello+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := transcript.Open(path, &transcript.Options{Thread: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(2*len(hello) + 2); r.Size() != want {
		t.Errorf("size %d, want %d", r.Size(), want)
	}
	var last transcript.Entry
	for e, err := range r.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		last = e
	}
	if last.Offset != r.Size() || last.Thread != "t" {
		t.Errorf("last entry ends at %d in thread %s, want %d and t", last.Offset, last.Thread, r.Size())
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := transcript.Open(filepath.Join(dir, "none"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: error %v", err)
	}
	if _, err := transcript.Open(dir, nil); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("directory: error %v", err)
	}
}

// A loop over the entries can be left and taken up again.
func TestBreak(t *testing.T) {
	r := newReader(t, hello+"\n"+hello+"\n"+hello, nil)
	for range r.Entries() {
		break
	}
	if texts, _ := read(t, r); len(texts) != 2 {
		t.Errorf("%d texts are left, want 2", len(texts))
	}
}

func FuzzReader(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		_, in, _ := bytes.Cut(data, []byte("-- in --\n"))
		in, _, _ = bytes.Cut(in, []byte("-- want --"))
		f.Add(in)
	}
	f.Add([]byte(`{"messages":[{]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		opts := &transcript.Options{MaxEntry: 4 << 10, Sidechains: true}
		r, err := transcript.NewReader(bytes.NewReader(data), opts)
		if err != nil {
			return
		}
		waiting := map[string]bool{}
		items := 0
		ids := map[string]bool{}
		var line int
		for e, err := range r.Entries() {
			var fault *transcript.Fault
			if errors.As(err, &fault) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(e.Items) == 0 || e.Thread == "" || e.Line < line || e.Offset > int64(len(data)) {
				t.Fatalf("entry %+v after line %d", e, line)
			}
			line = e.Line
			if !e.System {
				items += len(e.Items)
			}
			for _, it := range e.Items {
				check(t, it)
				if id := fmt.Sprintf("%q %q", e.Thread, it.ID); it.ID == "" || ids[id] {
					t.Fatalf("a second item, or none, with the id %s", id)
				} else {
					ids[id] = true
				}
				call := fmt.Sprintf("%q %q", e.Thread, it.CallID)
				if it.Kind == projection.ToolResult && !waiting[call] {
					t.Fatalf("a result without a call: %s", call)
				}
				waiting[call] = it.Kind == projection.ToolCall
			}
		}
		again, err := transcript.NewReader(bytes.NewReader(data), opts)
		if err != nil {
			t.Fatal(err)
		}
		for turn, err := range again.Turns() {
			if err == nil {
				items -= len(turn.Input) + len(turn.Output)
				if len(turn.Lines) != len(turn.Input)+len(turn.Output) {
					t.Fatalf("turn of line %d: %d items, %d lines", turn.Line, len(turn.Input)+len(turn.Output), len(turn.Lines))
				}
			}
		}
		if items != 0 {
			t.Fatalf("entries and turns differ by %d items", items)
		}
	})
}

func check(t *testing.T, it projection.Item) {
	if !utf8.ValidString(it.Text()) || !utf8.ValidString(it.Name) || !utf8.ValidString(it.CallID) {
		t.Fatalf("item %+v is not in UTF-8", it)
	}
	if it.Kind != projection.ToolCall && len(it.Parts) == 0 {
		t.Fatalf("item %+v is empty", it)
	}
}

func BenchmarkReader(b *testing.B) {
	line := `{"role":"user","content":"` + strings.Repeat("All of it has to be read. ", 40) + `"}`
	for name, in := range map[string]string{
		"lines":    strings.Repeat(line+"\n", 1000),
		"messages": "[" + strings.Repeat(line+",\n", 999) + line + "]",
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				for _, err := range newReader(b, in, nil).Entries() {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
