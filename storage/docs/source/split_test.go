package source_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/stratamem/strata/storage/docs"
	"github.com/stratamem/strata/storage/docs/source"
)

var update = flag.Bool("update", false, "write testdata/split.txtar anew")

// show writes passages: where each is, below which headings, and its text.
func show(list []docs.Passage) string {
	var b strings.Builder
	for i := range list {
		p := &list[i]
		fmt.Fprintf(&b, "[%d-%d] %s\n", p.First, p.Last, p.Heading)
		for l := range strings.SplitSeq(p.Text, "\n") {
			b.WriteString(strings.TrimRight("| "+l, " ") + "\n")
		}
	}
	return b.String()
}

func TestSplit(t *testing.T) {
	const path = "testdata/split.txtar"
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	golden := make(map[string]string)
	var files []txtar.File
	for _, f := range archive.Files {
		if name, ok := strings.CutSuffix(f.Name, ".passages"); ok {
			golden[name] = string(f.Data)
			continue
		}
		files = append(files, f)
	}
	archive.Files = nil
	for _, f := range files {
		_, list, err := source.Split(f.Name, f.Data, 160)
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		got := show(list)
		archive.Files = append(archive.Files, f, txtar.File{Name: f.Name + ".passages", Data: []byte(got)})
		if diff := cmp.Diff(golden[f.Name], got); diff != "" && !*update {
			t.Errorf("%s (-want +got):\n%s", f.Name, diff)
		}
	}
	if *update {
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKinds(t *testing.T) {
	for name, want := range map[string]string{
		"a.md": docs.Markdown, "A.MARKDOWN": docs.Markdown, "a.html": docs.HTML, "x/a.HTM": docs.HTML, "a.go": docs.Code,
		"a.rs": docs.Code, "a.txt": docs.Text, "README": docs.Text, "a.json": docs.Text, "go": docs.Text, ".md": docs.Markdown,
	} {
		if kind, _, err := source.Split(name, []byte("x"), 0); kind != want || err != nil {
			t.Errorf("%s is %q, %v, want %q", name, kind, err, want)
		}
	}
}

func TestEncodings(t *testing.T) {
	for name, test := range map[string]struct {
		data string
		want string // text of the passages; or the error
	}{
		"empty":           {"", ""},
		"white space":     {" \n\t\n", ""},
		"mark":            {"\xef\xbb\xbfhello", "hello"},
		"windows":         {"a\r\nb\r\n", "a\nb"},
		"utf-16 little":   {"\xff\xfeh\x00i\x00\n\x00\xe4\x00", "hi\nä"},
		"utf-16 big":      {"\xfe\xff\x00h\x00i", "hi"},
		"binary":          {"ELF\x00\x01", "it is no text"},
		"latin-1":         {"one\ncaf\xe9\n", "line 2 is not UTF-8: convert the file"},
		"cut in a letter": {"caf\xc3", "line 1 is not UTF-8"},
	} {
		_, list, err := source.Split("a.txt", []byte(test.data), 0)
		var got strings.Builder
		for _, p := range list {
			got.WriteString(p.Text)
		}
		if err != nil {
			if _, ok := errors.AsType[*source.TextError](err); !ok || !strings.HasPrefix(err.Error(), test.want) || test.want == "" {
				t.Errorf("%s: %v", name, err)
			}
		} else if got.String() != test.want {
			t.Errorf("%s: %q, want %q", name, got.String(), test.want)
		}
	}
}

// letters are what of a text is not white space.
func letters(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
}

// checkSplit is what holds for all passages of all files: they are small enough,
// in order, stand where they say, and together have all of the text.
func checkSplit(t *testing.T, name string, data []byte, size int) {
	t.Helper()
	kind, list, err := source.Split(name, data, size)
	if err != nil {
		return
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	rows := strings.Split(text, "\n")
	// HTML has other text, and so has what is not UTF-8 in the file.
	plain := utf8.Valid(data)
	verbatim := plain && kind != docs.HTML
	var all strings.Builder
	last := 1
	for i, p := range list {
		all.WriteString(p.Text)
		switch {
		case len(p.Text) > max(size, 64) || strings.TrimSpace(p.Text) == "" || !utf8.ValidString(p.Text) || !utf8.ValidString(p.Heading):
			t.Fatalf("passage %d has %d bytes of %d: %.80q", i, len(p.Text), size, p.Text)
		case p.First < last || p.Last < p.First || plain && p.Last > len(rows):
			t.Fatalf("passage %d has lines %d to %d after %d, of %d", i, p.First, p.Last, last, len(rows))
		case len(p.Heading) > 2000:
			t.Fatalf("the heading of passage %d has %d bytes", i, len(p.Heading))
		case verbatim && !strings.Contains(strings.Join(rows[p.First-1:p.Last], "\n"), p.Text):
			t.Fatalf("passage %d is not what its lines %d to %d say: %q", i, p.First, p.Last, p.Text)
		}
		last = p.Last
		if kind == docs.HTML {
			last = p.First
		}
	}
	if verbatim && letters(all.String()) != letters(text) {
		t.Fatalf("text is lost: %d bytes of %d", len(letters(all.String())), len(letters(text)))
	}
}

var hostile = []string{
	"", "# ", "#", "```", "~~~\n```", "- ", "---", "---\ntitle:\n", "a\n===", "====", "\n\n\n", "1. x\n\n\ty\n\nz", "package", "package a",
	"package a\nfunc f() {}; func g() {\n}", "//line x:1\npackage a", "<pre>", "<h1>", "<h1><pre>x", "<li><h2>x</h2>", "</pre></h1>",
	"<script>", "<script>x</script", "<td>a<td>b", "<p>&#10;&#10;x", "<pre>&#10;&#10;x</pre>y", "<svg><title>t</title>", "<textarea>\nx</textarea>",
	"<plaintext>\n<p>", "<!-- x", "<![CDATA[x]]>", "<img alt='a\nb'>", "<ul><li></li></ul><p>x", "> ```\n> x\n> ```\ny", "#\tx #", "\u2028\u0085x",
}

func TestHostile(t *testing.T) {
	list := append([]string{
		strings.Repeat("x", 1<<18), strings.Repeat("# x\n", 5_000), strings.Repeat("é", 25_000), strings.Repeat("<div>", 25_000),
		"# " + strings.Repeat("y", 1<<18) + "\n" + strings.Repeat("z\n", 12_000), strings.Repeat("- x\n", 12_000),
		"package a\nvar x = " + strings.Repeat("(", 50_000), strings.Repeat("```\n", 12_001), strings.Repeat("\n", 1<<18) + "x",
		strings.Repeat(" ", 1<<18) + "x", "<title>" + strings.Repeat("t", 1<<18) + "</title>" + strings.Repeat("<p>x", 3_000),
		"package a\nvar (\n" + strings.Repeat("\tlongNameOfAVariable int\n", 5_000) + ")\n",
	}, hostile...)
	for i, text := range list {
		for _, name := range []string{"a.md", "a.txt", "a.html", "a.go", "a.py"} {
			if len(text) > 1000 && testing.Short() {
				continue
			}
			t.Run(fmt.Sprintf("%d/%s", i, name), func(t *testing.T) { checkSplit(t, name, []byte(text), 200) })
		}
	}
}

func FuzzSplit(f *testing.F) {
	archive, err := txtar.ParseFile("testdata/split.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, x := range archive.Files {
		f.Add(x.Name, x.Data, 160)
	}
	for _, text := range hostile {
		f.Add("a.html", []byte(text), 64)
		f.Add("a.md", []byte(text), 64)
	}
	f.Fuzz(func(t *testing.T, name string, data []byte, size int) {
		size = min(max(size, 64), 5000)
		checkSplit(t, name, data, size)
	})
}

func BenchmarkSplit(b *testing.B) {
	archive, err := txtar.ParseFile("testdata/split.txtar")
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range archive.Files {
		if strings.HasSuffix(f.Name, ".passages") {
			continue
		}
		data := []byte(strings.Repeat(string(f.Data), 1+(200<<10)/len(f.Data)))
		b.Run(f.Name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, _, err := source.Split(f.Name, data, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
