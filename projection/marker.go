package projection

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A layer's text is enclosed in a block: a tag named after the layer, the text,
// and the closing tag. What somebody said may spell such a tag, or half of one;
// a model that took it for ours would attribute what follows to another layer,
// or to none.
//
// So an opening bracket in a text that begins the tag of a block, in any
// spelling, is shown as &lt;. Spellings are judged by what a reader might take
// them for: case, blanks and signs within the tag do not count, nor do
// invisible characters; a character that is not ASCII may look like any other;
// and at the end of a text the beginning of a name is enough, because something
// else follows. What is shown depends only on the text and the names, so it is
// the same in every view.

// markers are the beginnings of the tags of a view's blocks. They are
// immutable.
type markers struct {
	layers []string // the contributing layers
	names  []string // of all blocks, folded
}

// summaryName is the block name of summaries.
const summaryName = "summary"

// newMarkers returns the markers of summaries and of layers.
func newMarkers(layers []string) *markers {
	m := new(markers)
	m.add(summaryName)
	for _, l := range layers {
		m.add(l)
	}
	return m
}

func (m *markers) add(name string) {
	folded := make([]byte, 0, len(name))
	for _, r := range name {
		if c := fold(r); c != sign && c != bracket {
			folded = append(folded, c)
		}
	}
	if len(folded) > 0 && !slices.Contains(m.names, string(folded)) {
		m.names = append(m.names, string(folded))
	}
}

// with returns the markers of the frame and of the present contributions; that
// is last if nothing changed since the previous view.
func (m *markers) with(layers []Contribution, last *markers) *markers {
	same := func(name string, c Contribution) bool { return name == c.Layer }
	if last != nil && slices.EqualFunc(last.layers, layers, same) {
		return last
	}
	next := &markers{names: slices.Clone(m.names)}
	for i := range layers {
		next.layers = append(next.layers, layers[i].Layer)
		next.add(layers[i].Layer)
	}
	return next
}

// defused returns the text without any tag of a block. If there is none, it
// returns the text itself.
func (m *markers) defused(text string) string {
	if strings.IndexByte(text, '<') < 0 && isASCII(text) {
		return text
	}
	var b strings.Builder
	from := 0
	for i := 0; i < len(text); {
		if c := text[i]; c != '<' && c < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		if opens(r) && m.begin(text[i+n:]) {
			b.WriteString(text[from:i])
			b.WriteString("&lt;")
			from = i + n
		}
		i += n
	}
	if from == 0 {
		return text
	}
	b.WriteString(text[from:])
	return b.String()
}

// begin reports whether what follows an opening bracket reads as the tag of a
// block.
func (m *markers) begin(text string) bool {
	return slices.ContainsFunc(m.names, func(name string) bool { return spells(text, name) })
}

// spells reports whether a text begins with a name, or is the beginning of one.
func spells(text, name string) bool {
	at := 0
	for _, r := range text {
		c := fold(r)
		switch {
		case c == bracket:
			return at == len(name)
		case at == len(name):
			return c == sign || c == other || c == anything && !unicode.In(r, unicode.L, unicode.N) // otherwise the word continues
		case c == sign:
		case c == name[at] || c == anything || name[at] == anything:
			at++
		default:
			return false
		}
	}
	return true
}

// The values of fold for a character that is not an ASCII letter or digit.
const (
	sign     = 0   // does not count, or is invisible
	bracket  = '<' // one ends, or another begins
	anything = '*' // may look like any letter
	other    = '#' // looks like none
)

// fold returns what a character counts as in a name: letters and digits that
// look alike are equal.
func fold(r rune) byte {
	switch {
	case 'A' <= r && r <= 'Z':
		return fold(r + 'a' - 'A')
	case r == 'i' || r == '1':
		return 'l'
	case r == '0':
		return 'o'
	case 'a' <= r && r <= 'z' || '2' <= r && r <= '9':
		return byte(r)
	case r == '>' || opens(r):
		return bracket
	case r < utf8.RuneSelf, unseen(r), unicode.In(r, unicode.C, unicode.M, unicode.P, unicode.Z, unicode.Sc, unicode.Sk, unicode.Sm):
		return sign
	case unicode.In(r, lookalikes...):
		return anything
	}
	return other
}

// lookalikes are the scripts with letters that look Latin, and characters of no
// script, such as circled letters.
var lookalikes = []*unicode.RangeTable{
	unicode.Latin, unicode.Common, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee, unicode.Coptic, unicode.Lisu,
}

// unseen reports whether a letter or symbol is invisible, or stands for what
// cannot be shown.
func unseen(r rune) bool {
	switch r {
	case 0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0, 0xFFFC, utf8.RuneError:
		return true
	}
	return false
}

// opens reports whether a character is an opening angle bracket, or looks like one.
func opens(r rune) bool {
	switch r {
	case '<', '˂', 'ᐸ', '‹', '≺', 0x2329, '❬', '❮', '❰', '⟨', '⧼', 0x3008, '﹤', '＜':
		return true
	}
	return false
}

func isASCII(text string) bool {
	i := 0
	for ascii8(text, i) {
		i += 8
	}
	for ; i < len(text); i++ {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
