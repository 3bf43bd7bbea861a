package source

import (
	"path"
	"strings"

	"github.com/stratamem/strata/storage/docs"
)

// DefaultPassage is the default for the most bytes in a passage: about 300
// tokens of English, and never more tokens than bytes.
const DefaultPassage = 1200

// minPassage is the smallest limit of a passage.
const minPassage = 64

// Split cuts the content of a file into passages of at most size bytes; 0 means
// [DefaultPassage], and less than 64 means 64. The extension of the name
// determines the kind of file; the name is not in the passages. If the content
// is not text, the error is a [*TextError].
//
// Markdown and HTML are cut at headings. Each passage has the path of its
// headings: the titles of the sections it lies in, outermost first, joined by "
// > ". Within a section, as many blocks as fit make a passage: paragraphs,
// lists, tables, code. A fenced or preformatted block stays whole if it fits.
// Go is cut between declarations, and the path is the package and the names
// declared; other source code is cut where an unindented line follows an empty
// one; everything else between paragraphs. A block that is too large is cut
// between list items, or else at empty lines, lines, sentences, words, or
// letters, in this order of preference.
func Split(name string, data []byte, size int) (kind string, list []docs.Passage, err error) {
	lines, err := decode(data)
	if err != nil {
		return "", nil, err
	}
	if size == 0 {
		size = DefaultPassage
	}
	p := packer{size: max(size, minPassage)}
	kind = kindOf(name)
	var blocks []block
	switch kind {
	case docs.Markdown:
		blocks = markdown(lines)
	case docs.HTML:
		lines, blocks = hypertext(lines)
	case docs.Code:
		var ok bool
		if strings.HasSuffix(strings.ToLower(name), ".go") {
			blocks, ok = golang(lines)
		}
		if !ok {
			blocks = indented(lines)
		}
	default:
		blocks = paragraphs(lines)
	}
	for i := range blocks {
		p.add(&blocks[i], lines[blocks[i].from:blocks[i].to])
	}
	p.flush()
	return kind, p.list, nil
}

// kindOf returns the kind of a file by its extension; if that is unknown, text.
func kindOf(name string) string {
	switch ext := strings.ToLower(path.Ext(name)); {
	case ext == ".md", ext == ".markdown", ext == ".mdown", ext == ".mkd", ext == ".mdx":
		return docs.Markdown
	case ext == ".html", ext == ".htm", ext == ".xhtml":
		return docs.HTML
	case codeEndings[strings.TrimPrefix(ext, ".")]:
		return docs.Code
	}
	return docs.Text
}

var codeEndings = func() map[string]bool {
	set := make(map[string]bool)
	for ext := range strings.FieldsSeq(`bash c cc clj cpp cs css cxx dart el erl ex exs fs go gradle groovy h hh hpp hs
		hxx java jl js jsx kt kts less lisp lua m mjs ml mli mm nim php pl pm proto ps1 py pyi r rb rs sass scala scm
		scss sh sol sql svelte swift tcl tf ts tsx v vb vue zig zsh`) {
		set[ext] = true
	}
	return set
}()

// line is a line of a document as its passages have it.
type line struct {
	text        string // with its line end, unless it is the last
	first, last int    // lines of the file that it comes from
}

func (l *line) blank() bool { return strings.TrimSpace(l.text) == "" }

// block is a part of a document that should stay in one piece.
type block struct {
	from, to int    // lines
	level    int    // of a heading, from 1; 0: none
	title    string // of a heading
	name     string // of what is declared, in files without sections
	whole    bool   // rather end a passage early than cut the block
	parts    []int  // lines where to cut if necessary, in order
}

// paragraphs divides text into blocks that end with empty lines.
func paragraphs(lines []line) []block {
	var list []block
	for i := 0; i < len(lines); {
		from := i
		i = pastParagraph(lines, i)
		list = append(list, block{from: from, to: i})
	}
	return list
}

// pastParagraph returns the line after a paragraph and the empty lines after
// it.
func pastParagraph(lines []line, i int) int {
	for i < len(lines) && !lines[i].blank() {
		i++
	}
	return pastBlank(lines, i)
}

func pastBlank(lines []line, i int) int {
	for i < len(lines) && lines[i].blank() {
		i++
	}
	return i
}
