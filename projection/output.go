package projection

import (
	"hash/crc32"
	"strings"
)

// Output is what a layer contributed, wrapped and measured, as it stands in a
// view.
type Output struct {
	Items []Item
	Sizes []int  // tokens of each item
	Size  int    // tokens of all
	Sum   uint32 // CRC-32C of the texts, to tell whether the next output differs

	raw     []Item // as the layer gave them
	budget  int
	trimmed int
}

// maxBytesPerToken bounds what is counted at all: a text with more bytes for
// each token of its budget is over it. The longest tokens of today's
// vocabularies have 128 bytes.
const maxBytesPerToken = 256

// output wraps, measures and trims a contribution. It reuses last where the
// layer gave the same again.
func output(tok Tokenizer, c *Contribution, limit int, last *Output) Output {
	if !c.Required {
		limit = min(limit, c.Budget)
	}
	if last.budget == limit && last.raw != nil && sameText(last.raw, c.Items) {
		return *last
	}
	out := Output{raw: c.Items, budget: limit}
	if len(c.Items) == 0 {
		return out
	}
	out.Items = make([]Item, 0, len(c.Items))
	out.Sizes = make([]int, 0, len(c.Items))
	for i := range c.Items {
		text := c.Items[i].Text()
		if text == "" {
			continue
		}
		it := wrap(c.Layer, "", text)
		it.Refs = c.Items[i].Refs
		size := sizeWithin(tok, &it, limit)
		if !c.Required && size > limit-out.Size {
			out.trimmed = len(c.Items) - i
			break
		}
		out.Items = append(out.Items, it)
		out.Sizes = append(out.Sizes, size)
		out.Sum = crc32.Update(out.Sum, castagnoli, []byte(it.Parts[0].Text))
		out.Size = add(out.Size, size)
	}
	return out
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sizeWithin is Size, but for a text that is certainly over the limit, which is
// not counted.
func sizeWithin(tok Tokenizer, it *Item, limit int) int {
	if n := len(it.Parts[0].Text) / maxBytesPerToken; n > limit {
		return min(n, maxTokens)
	}
	return Size(tok, it)
}

// wrap makes the item that carries a layer's text: the text in a tag named for
// the layer. A closing tag inside the text is defused.
func wrap(layer string, action Action, text string) Item {
	if end := "</" + layer; strings.Contains(text, end) {
		text = strings.ReplaceAll(text, end, "<\\/"+layer)
	}
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
	it := Text(System, b.String())
	it.Layer, it.Action = layer, action
	return it
}

// update describes the step from one output to another, as an item: the change
// alone where the layer has a short way to put it and room tokens hold it beside
// what stands already, else all of the new output.
func update(tok Tokenizer, c *Contribution, told, now *Output, room int) (Item, int) {
	text := plain(now)
	var it Item
	switch {
	case len(now.Items) == 0:
		it = wrap(c.Layer, Retract, "")
	case len(told.Items) == 0:
		it = wrap(c.Layer, Add, text)
	default:
		if c.Delta != nil {
			if delta, ok := c.Delta(plain(told), text); ok && len(delta) < len(text) {
				it = wrap(c.Layer, Add, delta)
				if size := Size(tok, &it); size <= room {
					return withRefs(it, now), size
				}
			}
		}
		it = wrap(c.Layer, Replace, text)
	}
	return withRefs(it, now), Size(tok, &it)
}

// withRefs returns the item with the references of all that an output has.
func withRefs(it Item, out *Output) Item {
	for i := range out.Items {
		it.Refs = append(it.Refs, out.Items[i].Refs...)
	}
	return it
}

// plain is the text of an output without its wrappers.
func plain(o *Output) string {
	texts := make([]string, len(o.Items))
	for i := range o.Items {
		text := o.Items[i].Text()
		layer := o.Items[i].Layer
		texts[i] = text[len(layer)+3 : len(text)-len(layer)-4]
	}
	return strings.Join(texts, "\n")
}

// sameText says whether two lists of items read the same.
func sameText(a, b []Item) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Text() != b[i].Text() {
			return false
		}
	}
	return true
}
