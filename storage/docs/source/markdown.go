package source

import (
	"regexp"
	"strings"
)

var (
	fence     = regexp.MustCompile("^[ \t>]*(`{3,}|~{3,})")
	atx       = regexp.MustCompile(`^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$`)
	underline = regexp.MustCompile(`^ {0,3}(=+|-+)[ \t]*$`)
	rule      = regexp.MustCompile(`^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$`)
	listItem  = regexp.MustCompile(`^ {0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)`)
)

// markdown divides Markdown into blocks: it knows the part of CommonMark that
// distinguishes headings, code, lists and paragraphs. Headings are one level
// lower than in the text, because the title in the front matter ranks above
// them.
func markdown(lines []line) []block {
	m := markdownReader{lines: lines}
	i := m.frontMatter()
	for i < len(lines) {
		i = m.block(i)
	}
	return m.blocks
}

type markdownReader struct {
	lines  []line
	blocks []block
}

func (m *markdownReader) text(i int) string { return strings.TrimRight(m.lines[i].text, " \t\n") }

// emit adds a block that ends at a line, with the empty lines after it.
func (m *markdownReader) emit(b block, to int) int {
	b.to = pastBlank(m.lines, to)
	m.blocks = append(m.blocks, b)
	return b.to
}

// frontMatter reads what is between two lines of "---" at the very beginning.
func (m *markdownReader) frontMatter() int {
	if len(m.lines) == 0 || m.text(0) != "---" {
		return 0
	}
	b := block{level: 1}
	for i := 1; i < len(m.lines); i++ {
		text := m.text(i)
		if text == "---" || text == "..." {
			return m.emit(b, i+1)
		}
		if title, ok := strings.CutPrefix(text, "title:"); ok && b.title == "" {
			b.title = strings.Trim(strings.TrimSpace(title), `"'`)
		}
	}
	return 0
}

// block reads the block that begins at a line.
func (m *markdownReader) block(i int) int {
	text := m.text(i)
	switch h := atx.FindStringSubmatch(text); {
	case text == "":
		return m.emit(block{from: i}, i)
	case fence.MatchString(text):
		return m.fenced(i)
	case h != nil:
		return m.emit(block{from: i, level: len(h[1]) + 1, title: h[2]}, i+1)
	case listItem.MatchString(text) && !rule.MatchString(text):
		return m.list(i)
	}
	return m.paragraph(i)
}

// pastFence returns the line after fenced code that begins at a line: after the
// closing fence, or at the end.
func (m *markdownReader) pastFence(i int) int {
	open := fence.FindStringSubmatch(m.text(i))[1]
	for i++; i < len(m.lines); i++ {
		text := strings.TrimLeft(m.text(i), " \t>")
		if strings.HasPrefix(text, open) && strings.Trim(text, open[:1]) == "" {
			return i + 1
		}
	}
	return i
}

func (m *markdownReader) fenced(i int) int {
	b := block{from: i, whole: true}
	to := m.pastFence(i)
	b.parts = afterBlank(m.lines, i, to)
	return m.emit(b, to)
}

// list reads a list with everything indented in it.
func (m *markdownReader) list(i int) int {
	b := block{from: i}
	for i < len(m.lines) {
		text := m.text(i)
		switch {
		case text == "":
		case fence.MatchString(text) && (text[0] == ' ' || text[0] == '\t'):
			i = m.pastFence(i)
			continue
		case fence.MatchString(text), atx.MatchString(text), rule.MatchString(text):
			return m.emit(b, i)
		case listItem.MatchString(text):
			if i > b.from {
				b.parts = append(b.parts, i)
			}
		case text[0] != ' ' && text[0] != '\t' && m.lines[i-1].blank():
			return m.emit(b, i)
		}
		i++
	}
	return m.emit(b, i)
}

// paragraph reads a paragraph, a table, or an underlined heading.
func (m *markdownReader) paragraph(from int) int {
	for i := from; ; i++ {
		if i == len(m.lines) {
			return m.emit(block{from: from}, i)
		}
		text := m.text(i)
		if u := underline.FindStringSubmatch(text); u != nil && i > from && i-from <= 3 {
			var title []string
			for at := from; at < i; at++ {
				title = append(title, strings.TrimSpace(m.text(at)))
			}
			level := 2
			if u[1][0] == '-' {
				level = 3
			}
			return m.emit(block{from: from, level: level, title: strings.Join(title, " ")}, i+1)
		}
		if text == "" || i > from && (fence.MatchString(text) || atx.MatchString(text) || listItem.MatchString(text)) {
			return m.emit(block{from: from}, i)
		}
	}
}

// afterBlank returns the lines that follow an empty one.
func afterBlank(lines []line, from, to int) []int {
	var list []int
	for i := from + 1; i < to; i++ {
		if lines[i-1].blank() && !lines[i].blank() {
			list = append(list, i)
		}
	}
	return list
}
