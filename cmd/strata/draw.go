package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

// drawing shows events to people.
type drawing struct {
	s       *screen
	palette palette
	cap     int  // tokens that a prompt may have
	legend  bool // was shown
	cell    int  // widest share of a layer so far, in columns, to align columns
}

// Columns of a turn's first line, besides its words and the bar.
const (
	leadColumns  = 11 // number and time
	tokenColumns = 8
	shareColumns = 8
	indent       = 4
)

// layout divides a line between words and bar.
func (d *drawing) layout() (words, bar int) {
	room := d.s.width() - leadColumns - tokenColumns - shareColumns - 1
	bar = min(room*2/5, 48)
	return room - bar, bar
}

// drawThread begins a stretch of one thread: with its date, its name, and the
// names of the columns.
func (d *drawing) drawThread(e *event) {
	if !d.legend {
		d.legend = true
		d.s.printf("\n")
		d.s.legend(d.palette)
		for _, line := range wrap("Below each turn: tokens used of those allocated, by layer; * marks a layer whose change was sent as an update. "+
			"What layers leave goes to history. Stable is the share that stood at the start of the prompt before.", d.s.width()) {
			d.s.printf("%s\n", d.s.paint(faint, line))
		}
	}
	title := e.Thread
	if !e.Time.IsZero() {
		title = e.Time.Format("Mon 2 Jan") + "  " + title
	}
	if e.Process > 0 {
		title += fmt.Sprintf("  (process %d)", e.Process)
	}
	d.s.printf("\n")
	d.s.rule(preview(title, d.s.width()/2), "tokens of "+thousands(d.cap)+"  stable")
}

// drawTurn shows a turn in two lines, and more if there is more to say.
func (d *drawing) drawTurn(e *event) {
	words, bar := d.layout()
	r := e.Report
	at := "     "
	if !e.Time.IsZero() {
		at = e.Time.Format("15:04")
	}
	d.s.printf("%4d %s %s %s%s%s\n", e.Number, d.s.paint(faint, at), d.colorSpeech(e, pad(preview(opening(e), words), words)), d.s.bar(d.palette, r, bar),
		padLeft(thousands(r.Tokens), tokenColumns), d.s.paint(green, padLeft(percent(e.Reused, e.Bytes), shareColumns)))
	d.drawParts(r)
	if from := e.Elsewhere; from != nil {
		head := "from " + from.Thread
		if !from.Time.IsZero() {
			head += ", " + from.Time.Format("2 Jan")
		}
		d.drawNote(d.s.mark(d.palette.find(from.Layer))+" ", 2, head+": “"+from.Text+"”", plain)
	}
	if r.Opened != "" && r.Opened != firstEpoch {
		d.drawNote("", 0, "new prefix: "+r.Opened, faint)
	}
	for i := range r.Hooks {
		if h := &r.Hooks[i]; h.Status != memory.StatusOK {
			d.drawNote("", 0, fmt.Sprintf("! %s of %s: %s %s%s", h.Hook, h.Layer, h.Status, h.Error, h.Note), red)
		}
	}
	for _, n := range r.Notes {
		d.drawNote("", 0, "note: "+n, faint)
	}
}

// colorSpeech colors what a person said differently from what a tool returned.
func (d *drawing) colorSpeech(e *event, words string) string {
	if len(e.Input) > 0 && e.Input[len(e.Input)-1].Kind == projection.ToolResult {
		return d.s.paint(faint, words)
	}
	return words
}

// drawNote prints a line below a turn.
func (d *drawing) drawNote(lead string, columns int, text string, c color) {
	d.s.printf("%s%s%s\n", strings.Repeat(" ", indent), lead, d.s.paint(c, preview(text, d.s.width()-indent-columns)))
}

// drawParts shows how much each part of the prompt used of its share, what was
// yielded, and what was left out.
func (d *drawing) drawParts(r *memory.TurnReport) {
	row := columnRow{s: d.s, indent: indent}
	yielded := 0
	var out []missing
	d.cell = max(d.cell, len("999/999*"))
	for _, h := range d.palette {
		for i := range r.Layers {
			u := &r.Layers[i]
			if u.Layer != h.id {
				continue
			}
			yielded += u.Yielded
			text, c := "-", faint
			if u.Used > 0 {
				text, c = thousands(u.Used), plain
			}
			text += "/" + thousands(u.Allocated)
			if u.Update != "" {
				text += "*"
			}
			d.cell = max(d.cell, columns(text))
			row.add(d.s.mark(h)+" ", 2, text, d.cell, c)
			if n := u.Trimmed + u.Skipped; n > 0 {
				out = append(out, missing{h, n})
			}
		}
	}
	h, hue := r.History, d.palette.find(partHistory)
	row.add(d.s.mark(hue)+" ", 2, thousands(h.Tokens)+"/"+thousands(h.Budget), max(d.cell, 11), plain)
	row.add("", 0, "yielded "+thousands(yielded), 13, faint)
	if n := h.Dropped + h.Unpaired; n > 0 {
		out = slices.Insert(out, 0, missing{hue, n})
	}
	for i, f := range out {
		lead := ""
		if i == 0 {
			lead = "out "
		}
		row.add(lead+d.s.mark(f.from), len(lead)+1, thousands(f.items), 0, plain)
	}
	row.end()
}

// missing returns how many items of a part are not in a prompt.
type missing struct {
	from  hue
	items int
}

// columnRow prints cells next to each other, on as many lines as necessary.
type columnRow struct {
	s      *screen
	indent int
	line   strings.Builder
	used   int
}

// add adds a cell: a mark of some columns, which may be colored, and text.
func (r *columnRow) add(mark string, markColumns int, text string, wide int, c color) {
	wide = max(wide, columns(text)) + markColumns
	if r.used > 0 && r.used+1+columns(text)+markColumns > r.s.width()-r.indent {
		r.end()
	}
	if r.used > 0 {
		r.line.WriteByte(' ')
		r.used++
	}
	r.line.WriteString(mark + r.s.paint(c, text) + strings.Repeat(" ", wide-markColumns-columns(text)))
	r.used += wide
}

func (r *columnRow) end() {
	if r.used > 0 {
		r.s.printf("%s%s\n", strings.Repeat(" ", r.indent), strings.TrimRight(r.line.String(), " "))
	}
	r.line.Reset()
	r.used = 0
}

// opening returns how a turn began: what was said, or what a tool returned.
func opening(e *event) string {
	for i := len(e.Input) - 1; i >= 0; i-- {
		if in := &e.Input[i]; in.Kind == projection.Message && in.Role == projection.User {
			return in.Text
		}
	}
	for i := range e.Input {
		if in := &e.Input[i]; in.Kind == projection.ToolResult {
			return "> " + in.Name + " " + thousands(len(in.Text)) + " bytes: " + in.Text
		}
	}
	for _, list := range [][]said{e.Input, e.Output} {
		if len(list) > 0 {
			return "< " + list[0].Text
		}
	}
	return ""
}

// day formats a date for headings.
func day(t time.Time) string { return t.Format("Mon 2 Jan 2006") }
