package bench

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// figure is a case of [Storage] with its metrics.
type figure struct {
	Engine, Op string
	Workers, N int
	metrics    map[string]float64
	direct     map[string]float64 // of direct use; nil if not measured
}

// figures are the cases of a report of [Storage], in its order.
func (r *Report) figures() []figure {
	var all []figure
	at := map[string]int{}
	for _, row := range r.Rows {
		part := strings.Split(row.Case, "/")
		if len(part) != 4 {
			continue
		}
		workers, _ := strconv.Atoi(part[2])
		n, _ := strconv.Atoi(part[3])
		name, isDirect := strings.CutSuffix(part[0], "-direct")
		key := fmt.Sprint(name, part[1:])
		i, ok := at[key]
		if !ok {
			i = len(all)
			at[key] = i
			all = append(all, figure{Engine: name, Op: part[1], Workers: workers, N: n, metrics: map[string]float64{}})
		}
		metrics := all[i].metrics
		if isDirect {
			if all[i].direct == nil {
				all[i].direct = map[string]float64{}
			}
			metrics = all[i].direct
		}
		metrics[row.Metric] = row.Value
	}
	return all
}

// goal is the target for a ratio.
type goal struct {
	engines []string
	op      string
	workers int // 0 for any
	limit   float64
	atLeast bool
}

var goals = []goal{
	{[]string{"bolt", "badger"}, "set", 1, 0.9, true},
	{[]string{"bolt", "badger"}, "set", 16, 4, true},
	{[]string{"bolt", "badger"}, "set-indexed", 16, 0.25, true},
	{[]string{"bolt", "badger"}, "get", 0, 1.2, false},
	{[]string{"bolt", "badger"}, "scan1000", 0, 1.3, false},
	{[]string{"bolt", "badger"}, "find1000", 0, 1.3, false},
	{[]string{"vault"}, "set", 1, 1.2, true},
	{[]string{"vault"}, "set", 16, 1.5, true},
}

// goal returns the target for the ratio, and false if there is none.
func (f *figure) goal() (goal, bool) {
	for _, g := range goals {
		if slices.Contains(g.engines, f.Engine) && g.op == f.Op && (g.workers == 0 || g.workers == f.Workers) {
			return g, true
		}
	}
	return goal{}, false
}

func (g goal) met(ratio float64) bool { return g.atLeast == (ratio >= g.limit) || ratio == g.limit }

func (g goal) String() string {
	if g.atLeast {
		return fmt.Sprintf("≥ %.4g", g.limit)
	}
	return fmt.Sprintf("≤ %.4g", g.limit)
}

// cells returns the columns of a table: operation, workers, p50, p99, rate,
// ratio, goal and anything else measured.
func (f *figure) cells() []string {
	cell := func(metric string, show func(float64) string) string {
		if v, ok := f.metrics[metric]; ok {
			return show(v)
		}
		return ""
	}
	ratio, goal := cell("ratio", showRatio), ""
	if g, ok := f.goal(); ok && ratio != "" {
		goal = g.String() + ", met"
		if !g.met(f.metrics["ratio"]) {
			goal = g.String() + ", missed"
		}
	}
	var more []string
	for _, m := range []string{"size", "written", "heap"} {
		if v, ok := f.metrics[m]; ok {
			text := showBytes(v) + map[string]string{"size": " a document", "written": " written", "heap": " of heap"}[m]
			if d, ok := f.direct[m]; ok {
				text += " (direct " + showBytes(d) + ")"
			}
			more = append(more, text)
		}
	}
	return []string{
		f.Op, strconv.Itoa(f.Workers), cell("p50", showMicros), cell("p99", showMicros), cell("rate", showRate), ratio, goal, strings.Join(more, ", "),
	}
}

var columns = []string{"operation", "callers", "p50", "p99", "rate", "to direct", "goal", ""}

func showMicros(us float64) string {
	switch {
	case us < 1000:
		return significant(us) + " µs"
	case us < 1e6:
		return significant(us/1000) + " ms"
	}
	return significant(us/1e6) + " s"
}

func showRate(v float64) string {
	switch {
	case v < 10_000:
		return fmt.Sprintf("%.0f/s", v)
	case v < 1e6:
		return significant(v/1000) + "k/s"
	}
	return significant(v/1e6) + "M/s"
}

func showRatio(v float64) string { return significant(v) + " ×" }

func showBytes(v float64) string {
	switch {
	case v < 10_000:
		return fmt.Sprintf("%.0f B", v)
	case v < 1<<20:
		return significant(v/(1<<10)) + " KiB"
	}
	return significant(v/(1<<20)) + " MiB"
}

// significant formats a number with about three digits.
func significant(v float64) string {
	switch {
	case v < 1 && v > 0:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// groups returns the figures of each engine at each size, in the report's
// order.
func groups(all []figure) [][]figure {
	var out [][]figure
	for _, f := range all {
		i := slices.IndexFunc(out, func(g []figure) bool { return g[0].Engine == f.Engine && g[0].N == f.N })
		if i < 0 {
			i = len(out)
			out = append(out, nil)
		}
		out[i] = append(out[i], f)
	}
	return out
}

func heading(f *figure) string { return fmt.Sprintf("%s, %s documents", f.Engine, thousands(f.N)) }

func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// writeStorageText writes the figures as tables for a terminal.
func (r *Report) writeStorageText(w io.Writer) error {
	for _, group := range groups(r.figures()) {
		fmt.Fprintln(w, heading(&group[0]))
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(tw, "  "+strings.Join(columns, "\t")+"\t")
		for i := range group {
			fmt.Fprintln(tw, "  "+strings.Join(group[i].cells(), "\t")+"\t")
		}
		if err := tw.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	_, err := fmt.Fprintln(w, ratioMeans)
	return err
}

const ratioMeans = "To direct: of set and apply10, how many times the rate of the database used directly; of the rest, how many times its time. " +
	"set-indexed and set-process are to set, find1000 is to the direct scan."

// WriteMarkdown writes a report of [Storage] or of [Ready] as tables for a README.
func (r *Report) WriteMarkdown(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "Commit %s, %s, %s.\n", r.Commit, r.Go, r.CPU); err != nil {
		return err
	}
	if r.Suite == readySuite {
		fmt.Fprintln(w)
		return r.writeLifeMarkdown(w)
	}
	for _, group := range groups(r.figures()) {
		fmt.Fprintf(w, "\n### %s\n\n| %s |\n|---|%s\n", heading(&group[0]), strings.Join(columns, " | "), strings.Repeat("---:|", len(columns)-1))
		for i := range group {
			fmt.Fprintf(w, "| %s |\n", strings.Join(group[i].cells(), " | "))
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", ratioMeans)
	return err
}
