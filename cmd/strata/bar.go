package main

import (
	"strings"

	"github.com/stratamem/strata/memory"
)

// hue is how a part of a prompt is drawn: with its color on a terminal with
// colors, and elsewhere with its letter.
type hue struct {
	id     string // of the layer; "system" and "history" are not layers
	label  string
	color  color
	letter byte
}

// palette says how the parts of all prompts of a run are drawn, in the order in
// which the bar shows them.
type palette []hue

const (
	partSystem  = "system"
	partHistory = "history"
)

// newPalette gives each layer a color and a letter of its own.
func newPalette(layers []memory.Layer) palette {
	colors := []color{blue, magenta, cyan, green, yellow}
	p := palette{{id: partSystem, label: "system", color: red, letter: '!'}}
	taken := map[byte]bool{'H': true}
	for i := range layers {
		spec := layers[i].Spec()
		letter := byte('a' + i%26)
		for _, c := range []byte(strings.ToUpper(spec.ID)) {
			if c >= 'A' && c <= 'Z' && !taken[c] {
				letter = c
				break
			}
		}
		taken[letter] = true
		p = append(p, hue{spec.ID, spec.ID, colors[i%len(colors)], letter})
	}
	return append(p, hue{partHistory, partHistory, white, 'H'})
}

// find returns the hue of a part.
func (p palette) find(id string) hue {
	for _, h := range p {
		if h.id == id {
			return h
		}
	}
	return hue{id: id, label: id, letter: '?'}
}

// shares returns the tokens of each part of a prompt, in the palette's order.
func (p palette) shares(r *memory.TurnReport) []int {
	shares := make([]int, len(p))
	rest := r.Tokens
	for i, h := range p {
		switch h.id {
		case partHistory:
			shares[i] = r.History.Tokens
		default:
			for j := range r.Layers {
				if r.Layers[j].Layer == h.id {
					shares[i] = r.Layers[j].Used + r.Layers[j].Carried
				}
			}
		}
		rest -= shares[i]
	}
	shares[0] = max(rest, 0) // everything else: system and tail
	return shares
}

// cells divides width among parts of a whole: each part that is not empty gets
// one if possible, the rest goes by largest remainder. Width not covered by
// parts stays free.
func cells(parts []int, whole, width int) []int {
	out := make([]int, len(parts))
	total := 0
	for _, n := range parts {
		total += n
	}
	whole = max(whole, total)
	if whole <= 0 || width <= 0 {
		return out
	}
	fill := (total*width + whole/2) / whole
	left := fill
	rest := make([]int, len(parts)) // remainders, scaled by total
	for i, n := range parts {
		if total == 0 {
			break
		}
		out[i] = n * fill / total
		rest[i] = n * fill % total
		left -= out[i]
	}
	for ; left > 0; left-- {
		most := 0
		for i := range rest {
			if rest[i] > rest[most] {
				most = i
			}
		}
		out[most]++
		rest[most] = -1
	}
	for i, n := range parts { // nothing that exists is invisible
		if n == 0 || out[i] > 0 {
			continue
		}
		most := 0
		for j := range out {
			if out[j] > out[most] {
				most = j
			}
		}
		if out[most] > 1 {
			out[most]--
			out[i]++
		}
	}
	return out
}

// bar draws a prompt: each part with its share of the cap.
func (s *screen) bar(p palette, r *memory.TurnReport, width int) string {
	var b strings.Builder
	free := width
	for i, n := range cells(p.shares(r), r.Cap, width) {
		if n == 0 {
			continue
		}
		free -= n
		b.WriteString(s.paint(p[i].color, s.block(p[i], n)))
	}
	b.WriteString(s.paint(faint, strings.Repeat(s.freeCell(), max(free, 0))))
	return b.String()
}

// block is a stretch of a bar: full blocks in color, or letters without.
func (s *screen) block(h hue, n int) string {
	if s.color {
		return strings.Repeat("█", n)
	}
	return strings.Repeat(string(h.letter), n)
}

// mark stands for a part in legends and tables.
func (s *screen) mark(h hue) string {
	if s.color {
		return s.paint(h.color, "■")
	}
	return string(h.letter)
}

// legend says which part is which.
func (s *screen) legend(p palette) {
	row := columnRow{s: s}
	for _, h := range p {
		if h.id != partSystem {
			row.add(s.mark(h)+" ", 2, h.label+" ", 0, plain)
		}
	}
	row.add(s.paint(faint, s.freeCell())+" ", 2, "free", 0, plain)
	row.end()
}

// freeCell is a column of a bar that nothing fills.
func (s *screen) freeCell() string {
	if s.color {
		return "·"
	}
	return "."
}
