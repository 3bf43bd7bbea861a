package projection

import (
	"hash/crc32"
	"slices"
	"strings"
)

// Contribution is what one layer brings to a projection.
type Contribution struct {
	Layer     string
	Placement Placement
	Required  bool
	Budget    int       // tokens allocated to it; what stands around its texts counts
	Texts     []Passage // trimmed to the budget, from the end
	Failed    bool      // there are no texts this time: what stands in the prefix stays, nothing else is shown
	// Delta describes the change from old to new text shortly, or says no. It is
	// called at most once in a projection, and what it panics with is the caller's.
	Delta func(old, new string) (delta string, ok bool)
}

// Passage is a text that a layer contributes, with the record keys or item ids that
// it was made from.
type Passage struct {
	Text string
	Refs []string
}

// output is what a layer contributed, wrapped and measured, as it stands in a
// view. It does not change.
type output struct {
	items []Item
	sizes []int  // tokens of each item
	size  int    // tokens of all
	sum   uint32 // CRC-32C of the texts, to tell whether the next output differs

	parts   []Part    // of the items
	given   []Passage // what it was made of; nil in an output that was restored
	markers *markers  // that its texts are free of
	budget  int
	trimmed int
}

// nothing is what a layer says that says nothing.
var nothing = new(output)

// maxBytesPerToken bounds what is counted at all: a text with more bytes for
// each token of its budget is over it. The longest tokens of today's
// vocabularies have 128 bytes.
const maxBytesPerToken = 256

// outputOf wraps, measures and trims a contribution. It is last where the layer
// gave the same again. scratch is a buffer to be used again.
func outputOf(tok Tokenizer, m *markers, c *Contribution, limit int, last *output, scratch *[]byte) *output {
	if !c.Required {
		limit = min(limit, c.Budget)
	}
	if last.budget == limit && last.markers == m && last.given != nil && slices.EqualFunc(last.given, c.Texts, Passage.same) {
		return last
	}
	if len(c.Texts) == 0 {
		return nothing
	}
	out := newOutput(len(c.Texts))
	out.given, out.budget, out.markers = c.Texts, limit, m
	for i := range c.Texts {
		p := &c.Texts[i]
		if p.Text == "" {
			continue
		}
		it := Item{Kind: Message, Role: System, Layer: c.Layer, Refs: p.Refs}
		out.parts = append(out.parts, Part{Type: TextPart, Text: m.wrapped(c.Layer, "", p.Text)})
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

// newOutput returns an output of at most n items. Most layers say one thing: that is
// one piece.
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
func (p Passage) same(other Passage) bool { return p.Text == other.Text }

func (o *output) add(it Item, size int) {
	o.items, o.sizes, o.size = append(o.items, it), append(o.sizes, size), add(o.size, size)
}

// reads reports whether two outputs read the same in a view.
func (o *output) reads(other *output) bool {
	return o == other || slices.EqualFunc(o.items, other.items, func(a, b Item) bool { return a.Text() == b.Text() })
}

// plain is the text of an output without what wrap put around it.
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

// sizeWithin is Size, but for a text that is certainly over the limit, which is
// not counted.
func sizeWithin(tok Tokenizer, it *Item, limit int) int {
	if n := len(it.Parts[0].Text) / maxBytesPerToken; n > limit {
		return min(n, maxTokens)
	}
	return Size(tok, it)
}

// wrap makes the item that carries a layer's text.
func (m *markers) wrap(layer string, action Action, text string) Item {
	it := Text(System, m.wrapped(layer, action, text))
	it.Layer, it.Action = layer, action
	return it
}

// wrapped returns a text in a tag named for the layer, with no tag in it.
func (m *markers) wrapped(layer string, action Action, text string) string {
	text = m.defused(text)
	var b strings.Builder
	b.Grow(len(text) + 2*len(layer) + len(action) + 10)
	b.WriteByte('<')
	b.WriteString(layer)
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

// unwrap returns the text that wrap put into a block without an action.
func unwrap(it *Item, name string) string {
	_, text, _ := strings.Cut(it.Text(), ">\n")
	return strings.TrimSuffix(text, "\n</"+name+">")
}

// update describes the step from what was told to what a layer says now, as an
// item: the change alone where the layer has a short way to put it and room tokens
// hold it beside what stands already, else all of the new output.
func update(tok Tokenizer, m *markers, c *Contribution, told, now *output, room int) (Item, int) {
	text := now.plain()
	var it Item
	switch {
	case len(now.items) == 0:
		it = m.wrap(c.Layer, Retract, "")
	case len(told.items) == 0:
		it = m.wrap(c.Layer, Add, text)
	default:
		if c.Delta != nil {
			if delta, ok := c.Delta(told.plain(), text); ok && len(delta) < len(text) {
				it = m.wrap(c.Layer, Add, delta)
				if size := Size(tok, &it); size <= room {
					return withRefs(it, now), size
				}
			}
		}
		it = m.wrap(c.Layer, Replace, text)
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
