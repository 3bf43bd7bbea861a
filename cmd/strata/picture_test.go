package main

import (
	"cmp"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// note is a file of a vault, with the files that it links to.
type note struct {
	file  string // folder/name.md
	name  string // the front matter's
	links []string
}

var (
	noteName = regexp.MustCompile(`(?m)^name: "?(.*?)"?$`)
	noteLink = regexp.MustCompile(`\[\[([^\]|#]+)`)
	noteHash = regexp.MustCompile(`-[0-9a-f]{20}`)
)

// notesOf reads the notes of a vault and nothing else of it: what a program knows
// that has the files alone. Hashes in names, which differ by the run, are left out.
func notesOf(t *testing.T, dir string) (list []note) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		rel, _ := filepath.Rel(dir, path)
		n := note{file: filepath.ToSlash(rel)}
		if m := noteName.FindSubmatch(text); m != nil {
			n.name = string(m[1])
		}
		for _, m := range noteLink.FindAllSubmatch(text, -1) {
			to := string(m[1]) + ".md"
			if _, err := os.Stat(filepath.Join(dir, to)); err != nil {
				t.Errorf("%s links to %s, which is no file", n.file, to)
			}
			if !slices.Contains(n.links, to) {
				n.links = append(n.links, to)
			}
		}
		list = append(list, n)
	}
	// By what stays the same from run to run.
	into := map[string]int{}
	for _, n := range list {
		for _, to := range n.links {
			into[to]++
		}
	}
	slices.SortFunc(list, func(a, b note) int {
		return cmp.Or(cmp.Compare(filepath.Dir(a.file), filepath.Dir(b.file)), cmp.Compare(a.name, b.name), cmp.Compare(len(b.links), len(a.links)),
			cmp.Compare(into[b.file], into[a.file]), cmp.Compare(noteHash.ReplaceAllString(a.file, ""), noteHash.ReplaceAllString(b.file, "")))
	})
	return list
}

// picture draws the files and their links.
func picture(notes []note) string {
	const row, left, mid, right = 24, 24, 470, 800
	var b strings.Builder
	height := row * (len(notes) + 6 + 2)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1080 %d" font-family="system-ui, sans-serif" font-size="13">`+"\n", height)
	b.WriteString("<title>The vault of strata demo: its files, and the links between them</title>\n")
	fmt.Fprintf(&b, `<rect width="1080" height="%d" fill="#fff"/>`+"\n", height)
	text := func(x, y int, style, s string) {
		fmt.Fprintf(&b, `<text x="%d" y="%d" %s>%s</text>`+"\n", x, y, style, html.EscapeString(s))
	}
	text(left, row, `font-weight="600"`, "files")
	text(mid, row, `font-weight="600"`, "links")
	folder, y := "", 2*row
	for _, n := range notes {
		dir, name := filepath.Split(n.file)
		if dir != folder {
			folder = dir
			text(left, y, `fill="#555"`, strings.TrimSuffix(dir, "/"))
			y += row
		}
		text(left+16, y, "", strings.TrimSuffix(noteHash.ReplaceAllString(name, "-…"), ".md"))
		y += row
	}
	// Who links stands at the left, what is linked to at the right.
	place := map[string][2]int{}
	var from, to []note
	linked := map[string]bool{}
	for _, n := range notes {
		for _, l := range n.links {
			linked[l] = true
		}
	}
	for _, n := range notes {
		switch {
		case len(n.links) > 0:
			from = append(from, n)
		case linked[n.file]:
			to = append(to, n)
		}
	}
	rows := max(len(from), len(to), 1)
	for i, n := range from {
		place[n.file] = [2]int{mid, 3*row + i*rows*2*row/max(len(from), 1)}
	}
	for i, n := range to {
		place[n.file] = [2]int{right, 3*row + i*rows*2*row/max(len(to), 1)}
	}
	for _, n := range from {
		slices.SortFunc(n.links, func(a, b string) int { return cmp.Compare(place[a][1], place[b][1]) })
		for _, l := range n.links {
			a, z := place[n.file], place[l]
			fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#bbb"/>`+"\n", a[0], a[1], z[0], z[1])
		}
	}
	for _, n := range slices.Concat(from, to) {
		p := place[n.file]
		fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="6" fill="#7c5cd6"/>`+"\n", p[0], p[1])
		text(p[0]+10, p[1]-6, "", noteHash.ReplaceAllString(strings.TrimSuffix(filepath.Base(n.file), ".md"), "-…"))
		text(p[0]+10, p[1]+14, `fill="#777" font-size="11"`, n.name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// TestPicture holds the picture of docs/obsidian.md against what strata demo writes:
// each link of a document leads to a file, and those are the ones in the picture.
func TestPicture(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "notes")
	// The demo starts itself anew, to be killed: it has to be the tool and not this test.
	tool := filepath.Join(t.TempDir(), "strata")
	for _, args := range [][]string{{"go", "build", "-o", tool, "."}, {tool, "demo", "--fast", "--db", "vault:" + dir}} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	got := picture(notesOf(t, dir))
	const path = "../../docs/img/obsidian.svg"
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Which of failures that are alike the insight cites differs from run to run.
	ends := regexp.MustCompile(` x2="\d+" y2="\d+"`)
	if diff := gocmp.Diff(ends.ReplaceAllString(string(want), ""), ends.ReplaceAllString(got, "")); diff != "" {
		t.Errorf("go test ./cmd/strata -run TestPicture -update draws it anew:\n%s", diff)
	}
}
