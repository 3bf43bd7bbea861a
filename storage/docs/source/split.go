package source

import (
	"path"
	"strings"

	"github.com/stratamem/strata/storage/docs"
)

// DefaultPassage is how many bytes a passage has at most, unless it is said
// otherwise: about 300 tokens of English, and never more tokens than bytes.
const DefaultPassage = 1200

// minPassage is the least that a passage can be limited to.
const minPassage = 64

// Split cuts the content of a file into passages of at most size bytes; 0 means
// [DefaultPassage], and less than 64 means 64. The name says by its ending what
// the file is, and stands in no passage. What is no text is a [*TextError].
//
// Markdown and HTML are cut at headings, whose path each passage has: the
// titles of the sections that it lies in, joined by " > ", the outermost
// first. In a section as many blocks as fit make a passage: paragraphs, lists,
// tables, code. A fenced or preformatted block is kept whole where it fits. Go
// is cut between declarations, and the path is the package and the names of
// what is declared; other source code where a line without indent follows an
// empty one; all else between paragraphs. A block that is too large is cut
// between the items of a list, at empty lines, at lines, at sentences, words,
// and letters, whichever comes first.
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

// kindOf returns the kind of a file by the ending of its name; what is not
// known is text.
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
	text        string // with its end, unless it is the last
	first, last int    // lines of the file that it is from
}

func (l *line) blank() bool { return strings.TrimSpace(l.text) == "" }

// block is a part of a document that is better not cut.
type block struct {
	from, to int    // lines
	level    int    // of a heading, from 1; 0: none
	title    string // of a heading
	name     string // of what is declared; without a section of its own
	whole    bool   // rather ends a passage early than be cut
	parts    []int  // lines where to cut if it must be, in order
}

// paragraphs makes blocks that end with empty lines.
func paragraphs(lines []line) []block {
	var list []block
	for i := 0; i < len(lines); {
		from := i
		i = pastParagraph(lines, i)
		list = append(list, block{from: from, to: i})
	}
	return list
}

// pastParagraph returns the line after a paragraph and the empty lines behind
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
