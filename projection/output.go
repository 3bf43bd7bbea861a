package projection

import (
	"hash/crc32"
	"slices"
	"strings"
)

// Contribution is what one layer contributes to a projection.
type Contribution struct {
	Layer     string
	Placement Placement
	Authority Authority // of its texts, but for those that say that they are data
	Required  bool
	Budget    int       // tokens allocated to it, wrappers included
	Texts     []Passage // trimmed to the budget, from the end
	Failed    bool      // there are no texts this time: what is in the prefix stays, nothing else is shown
	// Delta describes the change from old to new text in fewer words, or returns
	// false. It is called at most once per projection, and its panics reach the
	// caller.
	Delta func(old, new string) (delta string, ok bool)
}

// Passage is a text that a layer contributes, with the record keys or item ids
// from which it was made.
type Passage struct {
	Text string
	Refs []string
	Data bool // it is data, whatever the authority of the contribution
}

// output is what a layer contributed, wrapped and measured, as it is in a view.
// It is immutable.
type output struct {
	items []Item
	sizes []int  // tokens of each item
	size  int    // tokens of all
	sum   uint32 // CRC-32C of the texts, to detect a difference in the next output

	authority Authority // of the contribution
	parts     []Part    // of the items
	given     []Passage // what it was made from; nil if the output was restored
	markers   *markers  // the tags that its texts cannot spell
	budget    int
	trimmed   int
}

// nothing is the output of a layer that says nothing.
var nothing = new(output)

// maxBytesPerToken limits what is counted at all: a text with more bytes per
// token of its budget is over it. The longest tokens of today's vocabularies
// have 128 bytes.
const maxBytesPerToken = 256

// outputOf wraps, measures and trims a contribution. It returns last if the
// layer contributed the same again. scratch is a reusable buffer.
func outputOf(tok Tokenizer, m *markers, c *Contribution, limit int, last *output, scratch *[]byte) *output {
	if !c.Required {
		limit = min(limit, c.Budget)
	}
	if last.budget == limit && last.markers == m && last.authority == c.Authority && last.given != nil && slices.EqualFunc(last.given, c.Texts, Passage.same) {
		return last
	}
	if len(c.Texts) == 0 {
		return nothing
	}
	out := newOutput(len(c.Texts))
	out.given, out.budget, out.markers, out.authority = c.Texts, limit, m, c.Authority
	for i := range c.Texts {
		p := &c.Texts[i]
		if p.Text == "" {
			continue
		}
		authority := c.Authority
		if p.Data {
			authority = Data
		}
		it := Item{Kind: Message, Role: authority.role(), Remembered: authority != Instruction, Layer: c.Layer, Refs: p.Refs}
		out.parts = append(out.parts, Part{Type: TextPart, Text: m.wrapped(c.Layer, authority, "", p.Text)})
		it.Parts = out.parts[len(out.parts)-1 : len(out.parts) : len(out.parts)]
		size := sizeWithin(tok, &it, limit)
		if !c.Required && size > limit-out.size {
			out.trimmed = len(c.Texts) - i
			break
		}
		out.add(it, size)
		*scratch = append((*scratch)[:0], it.Parts[0].Text...)
		out.sum = crc32.Update(out.sum, castagnoli, *scratch)
	}
	return out
}

// newOutput returns an output of at most n items. Most layers contribute one
// item, in a single allocation.
func newOutput(n int) *output {
	if n > 1 {
		return &output{items: make([]Item, 0, n), sizes: make([]int, 0, n), parts: make([]Part, 0, n)}
	}
	one := new(struct {
		output
		item   [1]Item
		part   [1]Part
		tokens [1]int
	})
	one.items, one.sizes, one.parts = one.item[:0], one.tokens[:0], one.part[:0]
	return &one.output
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// same reports whether two passages read the same.
func (p Passage) same(other Passage) bool { return p.Text == other.Text && p.Data == other.Data }

func (o *output) add(it Item, size int) {
	o.items, o.sizes, o.size = append(o.items, it), append(o.sizes, size), add(o.size, size)
}

// reads reports whether two outputs look the same in a view.
func (o *output) reads(other *output) bool {
	return o == other || slices.EqualFunc(o.items, other.items, func(a, b Item) bool { return a.Text() == b.Text() && a.Role == b.Role })
}

// least returns the authority of an update that says all that the output says: where
// some of that is data, all of it is.
func (o *output) least(authority Authority) Authority {
	if slices.ContainsFunc(o.items, func(it Item) bool { return it.Remembered }) {
		return Data
	}
	return authority
}

// plain is the text of an output without the wrapper.
func (o *output) plain() string {
	if len(o.items) == 1 {
		return unwrap(&o.items[0], o.items[0].Layer)
	}
	texts := make([]string, len(o.items))
	for i := range o.items {
		texts[i] = unwrap(&o.items[i], o.items[i].Layer)
	}
	return strings.Join(texts, "\n")
}

// sizeWithin is Size, except that it does not count a text that is certainly
// over the limit.
func sizeWithin(tok Tokenizer, it *Item, limit int) int {
	if n := len(it.Parts[0].Text) / maxBytesPerToken; n > limit {
		return min(n, maxTokens)
	}
	return Size(tok, it)
}

// wrap returns the item that contains a layer's text.
func (m *markers) wrap(layer string, authority Authority, action Action, text string) Item {
	it := Text(authority.role(), m.wrapped(layer, authority, action, text))
	it.Layer, it.Action, it.Remembered = layer, action, authority != Instruction
	return it
}

// dataMark marks the opening tag of data.
const dataMark = " data"

// wrapped returns a text, without any tags, in a tag named after the layer.
func (m *markers) wrapped(layer string, authority Authority, action Action, text string) string {
	text = m.defused(text)
	var b strings.Builder
	b.Grow(len(text) + 2*len(layer) + len(dataMark) + len(action) + 10)
	b.WriteByte('<')
	b.WriteString(layer)
	if authority != Instruction {
		b.WriteString(dataMark)
	}
	if action != "" {
		b.WriteByte(' ')
		b.WriteString(string(action))
	}
	if action == Retract {
		b.WriteString("/>")
	} else {
		b.WriteString(">\n")
		b.WriteString(text)
		b.WriteString("\n</")
		b.WriteString(layer)
		b.WriteByte('>')
	}
	return b.String()
}

// unwrap returns the text of a block that wrap made without an action.
func unwrap(it *Item, name string) string {
	_, text, _ := strings.Cut(it.Text(), ">\n")
	return strings.TrimSuffix(text, "\n</"+name+">")
}

// update returns an item that describes the step from what was told to what a
// layer says now: only the change if the layer can put it more briefly and it
// fits in room tokens with what is already there, or else the whole new output.
func update(tok Tokenizer, m *markers, c *Contribution, told, now *output, room int) (Item, int) {
	text, authority := now.plain(), now.least(c.Authority)
	var it Item
	switch {
	case len(now.items) == 0:
		it = m.wrap(c.Layer, authority, Retract, "")
	case len(told.items) == 0:
		it = m.wrap(c.Layer, authority, Add, text)
	default:
		if c.Delta != nil {
			if delta, ok := c.Delta(told.plain(), text); ok && len(delta) < len(text) {
				it = m.wrap(c.Layer, authority, Add, delta)
				if size := Size(tok, &it); size <= room {
					return withRefs(it, now), size
				}
			}
		}
		it = m.wrap(c.Layer, authority, Replace, text)
	}
	return withRefs(it, now), Size(tok, &it)
}

// withRefs returns the item with the references of all that an output has.
func withRefs(it Item, out *output) Item {
	for i := range out.items {
		it.Refs = append(it.Refs, out.items[i].Refs...)
	}
	return it
}
