package bench

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// The plots are drawn as SVG with colors from the style of the page. All
// lengths are in units of the view box, which is plotWidth wide.
const (
	plotWidth = 760
	plotLeft  = 205 // where the axis begins
	plotRight = 120 // room for the last value
	lineHigh  = 20
)

// mark is one value of a row: a bar, or a range from the median to the 99th
// percentile.
type mark struct {
	Kind  string // class: direct, ours, indexed
	Name  string
	Value float64
	To    float64 // end of a range; 0 for none
	Text  string
}

// row is a label with its marks, one below the other.
type row struct {
	Label string
	Marks []mark
}

// svg collects a drawing.
type svg struct{ strings.Builder }

func (s *svg) text(x, y float64, class, anchor, text string) {
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, template.HTMLEscapeString(text))
}

func (s *svg) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

// plot draws rows of marks over an axis. at maps a value to 0 to 1; ticks are
// the values with a grid line; mark draws a mark with its middle at y.
func plot(title string, rows []row, at func(float64) float64, ticks []float64, tick func(float64) string, draw func(s *svg, x func(float64) float64, y float64, m mark)) template.HTML {
	var s svg
	x := func(v float64) float64 { return plotLeft + at(v)*(plotWidth-plotLeft-plotRight) }
	high := 8.0
	for _, r := range rows {
		high += float64(len(r.Marks))*lineHigh + 10
	}
	var said []string
	for _, r := range rows {
		for _, m := range r.Marks {
			said = append(said, strings.TrimSpace(r.Label+" "+m.Name)+": "+m.Text)
		}
	}
	fmt.Fprintf(&s, `<svg viewBox="0 0 %d %.0f" role="img" aria-label="%s">`, plotWidth, high+24,
		template.HTMLEscapeString(title+". "+strings.Join(said, "; ")))
	for _, v := range ticks {
		s.line(x(v), 4, x(v), high, "grid")
		s.text(x(v), high+16, "axis", "middle", tick(v))
	}
	y := 8.0
	for _, r := range rows {
		s.text(plotLeft-12, y+float64(len(r.Marks))*lineHigh/2+4, "label", "end", r.Label)
		for _, m := range r.Marks {
			draw(&s, x, y+lineHigh/2, m)
			y += lineHigh
		}
		y += 10
	}
	s.WriteString("</svg>")
	return template.HTML(s.String()) // all text in it was escaped
}

// barPlot draws values from 0 on.
func barPlot(title string, rows []row, show func(float64) string) template.HTML {
	most := 0.0
	for _, r := range rows {
		for _, m := range r.Marks {
			most = max(most, m.Value)
		}
	}
	if most == 0 {
		return ""
	}
	step := niceStep(most / 4)
	var ticks []float64
	for v := 0.0; v <= most*1.001; v += step {
		ticks = append(ticks, v)
	}
	tick := func(v float64) string {
		if v == 0 {
			return "0"
		}
		return show(v)
	}
	return plot(title, rows, func(v float64) float64 { return v / most }, ticks, tick,
		func(s *svg, x func(float64) float64, y float64, m mark) {
			fmt.Fprintf(s, `<rect x="%d" y="%.1f" width="%.1f" height="%d" rx="2" class="%s"/>`, plotLeft, y-7, max(x(m.Value)-plotLeft, 1), 14, m.Kind)
			s.text(x(m.Value)+6, y+4, "value", "start", m.Text)
		})
}

// niceStep returns the next of 1, 2 and 5 times a power of ten.
func niceStep(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if v <= f*p {
			return f * p
		}
	}
	return 10 * p
}

// rangePlot draws ranges on a logarithmic axis: a dot at the median, a line to
// the 99th percentile.
func rangePlot(title string, rows []row, show func(float64) string) template.HTML {
	least, most := math.Inf(1), 0.0
	for _, r := range rows {
		for _, m := range r.Marks {
			least, most = min(least, m.Value), max(most, m.Value, m.To)
		}
	}
	if most == 0 {
		return ""
	}
	from, to := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	if to == from {
		to++
	}
	var ticks []float64
	for e := from; e <= to; e++ {
		ticks = append(ticks, math.Pow(10, e))
	}
	return plot(title, rows, func(v float64) float64 { return (math.Log10(v) - from) / (to - from) }, ticks, show,
		func(s *svg, x func(float64) float64, y float64, m mark) {
			end := x(m.Value)
			if m.To > m.Value {
				end = x(m.To)
				s.line(x(m.Value), y, end, y, "whisker "+m.Kind)
				s.line(end, y-4, end, y+4, "whisker "+m.Kind)
			}
			fmt.Fprintf(s, `<circle cx="%.1f" cy="%.1f" r="5" class="%s"/>`, x(m.Value), y, m.Kind)
			s.text(end+8, y+4, "value", "start", m.Text)
		})
}

// ratioPlot draws ratios on a logarithmic axis around 1, each with its goal as a
// tick.
func ratioPlot(title string, rows []row) template.HTML {
	far := 2.0
	for _, r := range rows {
		for _, m := range r.Marks {
			far = max(far, m.Value, 1/m.Value, m.To, 1/m.To)
		}
	}
	far = math.Pow(2, math.Ceil(math.Log2(far)))
	var ticks []float64
	for v := 1 / far; v <= far*1.001; v *= 2 {
		ticks = append(ticks, v)
	}
	return plot(title, rows, func(v float64) float64 { return (math.Log2(v/far) + 2*math.Log2(far)) / (2 * math.Log2(far)) }, ticks, showRatio,
		func(s *svg, x func(float64) float64, y float64, m mark) {
			s.line(x(1), y-10, x(1), y+10, "one")
			s.line(x(1), y, x(m.Value), y, "whisker "+m.Kind)
			s.line(x(m.To), y-9, x(m.To), y+9, "goal")
			fmt.Fprintf(s, `<circle cx="%.1f" cy="%.1f" r="5" class="%s"/>`, x(m.Value), y, m.Kind)
			s.text(plotWidth-4, y+4, "value", "end", m.Text)
		})
}
