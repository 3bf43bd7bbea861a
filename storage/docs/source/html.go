package source

import (
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// hypertext turns the text of an HTML page into lines and blocks: one line for
// each paragraph, list item, table row, and line of preformatted text. It reads
// tags one after another, which preserves the line numbers of the file and
// tolerates unclosed tags.
func hypertext(lines []line) ([]line, []block) {
	var b strings.Builder
	for i := range lines {
		b.WriteString(lines[i].text)
	}
	h := hyperReader{at: 1}
	z := html.NewTokenizer(strings.NewReader(b.String()))
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			break // the end: the reader has no other error
		}
		h.limit = h.at + strings.Count(string(z.Raw()), "\n")
		h.token(z.Token())
		h.at = h.limit
	}
	if h.end(); h.pre > 0 {
		h.pre = 1
		h.close(atom.Pre)
	}
	return h.lines, h.blocks
}

type hyperReader struct {
	lines     []line
	blocks    []block
	at, limit int // current line of the file, and the line where the token ends

	text        strings.Builder // the current line
	first, last int
	space       bool      // whether a space goes before what comes next
	heading     atom.Atom // the heading the text belongs to
	item        bool      // whether the line belongs to a list
	listed      bool      // whether the last block is a list
	dropped     atom.Atom // the element being skipped, whose text is not for people
	pre         int       // nesting depth of preformatted text
	code        int       // where the preformatted text began
}

// token handles a tag or a text.
func (h *hyperReader) token(t html.Token) {
	switch t.Type {
	case html.TextToken:
		if h.dropped == 0 {
			h.write(t.Data)
		}
	case html.StartTagToken, html.SelfClosingTagToken:
		h.open(&t)
	case html.EndTagToken:
		h.close(t.DataAtom)
	}
}

func (h *hyperReader) open(t *html.Token) {
	switch a := t.DataAtom; a {
	case atom.Script, atom.Style, atom.Noscript, atom.Noembed, atom.Noframes, atom.Iframe:
		if t.Type == html.StartTagToken {
			h.dropped = a
		}
	case atom.Pre:
		h.end()
		if h.pre++; h.pre == 1 {
			h.code = len(h.lines)
		}
	case atom.Td, atom.Th:
		if h.text.Len() > 0 {
			h.write(" | ")
		}
	case atom.Img:
		for _, attr := range t.Attr {
			if attr.Key == "alt" {
				h.write(" " + attr.Val + " ")
			}
		}
	default:
		if breaks[a] || titles[a] > 0 {
			h.end()
		}
		if titles[a] > 0 {
			h.heading = a
		}
		h.item = a == atom.Li || h.item && h.text.Len() == 0
	}
}

func (h *hyperReader) close(a atom.Atom) {
	switch {
	case a == h.dropped:
		h.dropped = 0
	case a == atom.Pre && h.pre > 0:
		h.end()
		if h.pre--; h.pre == 0 && len(h.lines) > h.code {
			h.emit(block{from: h.code, whole: true, parts: afterBlank(h.lines, h.code, len(h.lines))})
		}
	case breaks[a], titles[a] > 0:
		h.end()
		h.heading, h.item = 0, false
	}
}

// titles are the levels of headings.
var titles = map[atom.Atom]int{
	atom.Title: 1, atom.H1: 2, atom.H2: 3, atom.H3: 4, atom.H4: 5, atom.H5: 6, atom.H6: 7,
}

// breaks are the elements that begin and end lines.
var breaks = func() map[atom.Atom]bool {
	set := make(map[atom.Atom]bool)
	for _, a := range []atom.Atom{
		atom.Address, atom.Article, atom.Aside, atom.Blockquote, atom.Body, atom.Br, atom.Caption, atom.Dd, atom.Details,
		atom.Div, atom.Dl, atom.Dt, atom.Fieldset, atom.Figcaption, atom.Figure, atom.Footer, atom.Form, atom.Head,
		atom.Header, atom.Hr, atom.Html, atom.Legend, atom.Li, atom.Main, atom.Nav, atom.Ol, atom.Option, atom.P,
		atom.Section, atom.Summary, atom.Table, atom.Tbody, atom.Textarea, atom.Tfoot, atom.Thead, atom.Tr, atom.Ul,
	} {
		set[a] = true
	}
	return set
}()

// write adds text, with each run of white space as one space, or unchanged if
// it is preformatted.
func (h *hyperReader) write(text string) {
	for _, r := range text {
		switch {
		case h.pre > 0 && r == '\n':
			h.line()
		case h.pre == 0 && unicode.IsSpace(r):
			h.space = true
		default:
			h.put(r)
		}
		if r == '\n' {
			h.at = min(h.at+1, h.limit)
		}
	}
}

func (h *hyperReader) put(r rune) {
	if h.text.Len() == 0 {
		h.first = h.at
		if h.space = false; h.item && h.pre == 0 {
			h.text.WriteString("- ")
		}
	}
	if h.space {
		h.text.WriteByte(' ')
		h.space = false
	}
	h.text.WriteRune(r)
	h.last = h.at
}

// line ends a line, which may be empty.
func (h *hyperReader) line() {
	if h.text.Len() == 0 {
		h.first, h.last = h.at, h.at
	}
	h.lines = append(h.lines, line{h.text.String() + "\n", h.first, h.last})
	h.text.Reset()
	h.space = false
}

// end ends the current line, if there is one, and makes it a block.
func (h *hyperReader) end() {
	if h.text.Len() == 0 {
		return
	}
	from := len(h.lines)
	title := h.text.String()
	h.line()
	switch {
	case h.pre > 0:
	case h.heading != 0:
		h.emit(block{from: from, level: titles[h.heading], title: title})
		h.heading = 0
	case h.item && h.listed:
		last := &h.blocks[len(h.blocks)-1]
		last.parts = append(last.parts, from)
		last.to = len(h.lines)
	default:
		h.emit(block{from: from})
		h.listed = h.item
	}
	h.item = false
}

func (h *hyperReader) emit(b block) {
	b.to = len(h.lines)
	h.blocks = append(h.blocks, b)
	h.listed = false
}
