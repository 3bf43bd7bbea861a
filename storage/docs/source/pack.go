package source

import (
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stratamem/strata/storage/docs"
)

// packer packs blocks into passages.
type packer struct {
	size int
	list []docs.Passage
	path []block // headings above what comes next

	// The current passage.
	text        strings.Builder
	first, last int
	spare       string   // empty lines, which count only if something follows
	body        bool     // whether it has more than headings
	names       []string // names that it declares
}

// add takes the next block with its lines.
func (p *packer) add(b *block, lines []line) {
	if b.level > 0 {
		if p.body {
			p.flush()
		}
		for n := len(p.path); n > 0 && p.path[n-1].level >= b.level; n-- {
			p.path = p.path[:n-1]
		}
		p.path = append(p.path, block{level: b.level, title: shorten(b.title)})
	}
	size := sizeOf(lines)
	late := p.body && p.text.Len() > p.size/2 // late enough to begin what must be cut
	if !p.holds(size) && (size <= p.size && (p.body || b.whole) || late) {
		p.flush()
	}
	p.fill(lines, b)
}

// fill adds the lines of a block, cutting it only where necessary.
func (p *packer) fill(lines []line, b *block) {
	if p.holds(sizeOf(lines)) {
		p.take(lines, b)
		return
	}
	from := b.from
	for _, to := range append(slices.Clone(b.parts), b.to) {
		part := lines[from-b.from : to-b.from]
		from = to
		size := sizeOf(part)
		if !p.holds(size) && size <= p.size {
			p.flush()
		}
		if p.holds(size) {
			p.take(part, b)
			continue
		}
		for _, l := range part {
			for piece := range pieces(l.text, p.size) {
				l.text = piece
				one := []line{l}
				if !p.holds(sizeOf(one)) {
					p.flush()
				}
				p.take(one, b)
			}
		}
	}
}

// take adds lines to the current passage.
func (p *packer) take(lines []line, b *block) {
	for _, l := range lines {
		if l.blank() {
			if len(p.spare) <= p.size { // more are not needed
				p.spare += l.text
			}
			continue
		}
		if p.text.Len() == 0 {
			p.first, p.spare = l.first, ""
		}
		p.text.WriteString(p.spare)
		p.text.WriteString(l.text)
		p.last, p.spare = l.last, ""
		p.body = p.body || b.level == 0
		if b.name != "" && !slices.Contains(p.names, b.name) {
			p.names = append(p.names, b.name)
		}
	}
}

// holds reports whether the current passage has room for more.
func (p *packer) holds(size int) bool {
	return p.text.Len()+len(p.spare)+size <= p.size || p.text.Len() == 0 && size <= p.size
}

// flush ends the current passage.
func (p *packer) flush() {
	if p.text.Len() > 0 {
		p.list = append(p.list, docs.Passage{
			First: p.first, Last: p.last, Heading: p.heading(),
			Text: strings.TrimRightFunc(p.text.String(), unicode.IsSpace),
		})
	}
	p.text.Reset()
	p.spare, p.body, p.names = "", false, nil
}

func (p *packer) heading() string {
	var titles []string
	for i := range p.path {
		if t := p.path[i].title; t != "" && (len(titles) == 0 || titles[len(titles)-1] != t) {
			titles = append(titles, t)
		}
	}
	if len(p.names) > 0 {
		titles = append(titles, shorten(strings.Join(p.names, ", ")))
	}
	return strings.Join(titles, " > ")
}

// maxTitle bounds a title in a path, in bytes. The text has the whole title.
const maxTitle = 100

func shorten(title string) string {
	if len(title) <= maxTitle {
		return title
	}
	n := maxTitle
	for !utf8.RuneStart(title[n]) {
		n--
	}
	return title[:n] + "…"
}

// sizeOf returns the number of bytes in lines without the white space at their
// end.
func sizeOf(lines []line) int {
	size, after := 0, 0
	for i := range lines {
		text := strings.TrimRightFunc(lines[i].text, unicode.IsSpace)
		if text != "" {
			size += after + len(text)
			after = 0
		}
		after += len(lines[i].text) - len(text)
	}
	return size
}

// pieces yields the parts of a line, each at most size bytes, cut after a
// sentence if one ends in the second half, or else after a word, or else
// between letters.
func pieces(text string, size int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(text) > size {
			n := size
			for !utf8.RuneStart(text[n]) {
				n--
			}
			sentence, word := 0, 0
			before := ' '
			for i, r := range text[:n] {
				after := i + utf8.RuneLen(r)
				switch {
				case strings.ContainsRune("。！？", r):
					sentence = after
				case unicode.IsSpace(r):
					if word = after; strings.ContainsRune(".!?:;", before) {
						sentence = after
					}
				}
				before = r
			}
			switch {
			case sentence > n/2:
				n = sentence
			case word > n/2:
				n = word
			}
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
		yield(text)
	}
}
