package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// column of a table about lives is a metric in the table's unit.
type column struct {
	header, metric string
	scale          float64
	format         string
}

var windowColumns = []column{
	{"project p50 ms", "project_p50", 1e-3, "%.2f"}, {"p99", "project_p99", 1e-3, "%.2f"},
	{"commit p50 ms", "commit_p50", 1e-3, "%.2f"}, {"p99", "commit_p99", 1e-3, "%.2f"},
	{"applied KB", "applied", 1e-3, "%.1f"}, {"wchar KB", "wchar", 1e-3, "%.1f"},
	{"file ×", "file_ratio", 1, "%.1f"}, {"heap MB", "heap", 1e-6, "%.1f"},
	{"cpu ms", "cpu", 1e-3, "%.2f"}, {"allocs", "allocs", 1, "%.0f"}, {"KB", "bytes", 1e-3, "%.0f"},
}

var shareColumns = []column{
	{"of project %", "project", 100, "%.0f"}, {"of commit %", "commit", 100, "%.0f"},
	{"state B", "state", 1, "%.0f"}, {"records B", "records", 1, "%.0f"},
}

// lifeTables returns two tables, headers first: the windows of each life, one
// per row, and each layer's shares in the last window of each life.
func (r *Report) lifeTables() (windows, shares [][]string) {
	values := make(map[string]map[string]float64)
	var cases []string
	last := make(map[string]string) // windows by life
	for _, row := range r.Rows {
		if values[row.Case] == nil {
			values[row.Case] = make(map[string]float64)
			cases = append(cases, row.Case)
			if life, ok := lifeOf(row.Case); ok {
				last[life] = row.Case
			}
		}
		values[row.Case][row.Metric] = row.Value
	}
	windows, shares = [][]string{headers(windowColumns)}, [][]string{headers(shareColumns)}
	for _, name := range cases {
		if _, ok := lifeOf(name); ok {
			windows = append(windows, cells(name, windowColumns, values[name]))
		}
		whole, ok := partialOf(name)
		if life, _ := lifeOf(whole); ok && last[life] == whole {
			shares = append(shares, cells(name, shareColumns, values[name]))
		}
	}
	return windows, shares
}

func headers(columns []column) []string {
	list := []string{"turns"}
	for _, c := range columns {
		list = append(list, c.header)
	}
	return list
}

// cells formats the figures of a case, with a dash for missing ones.
func cells(name string, columns []column, values map[string]float64) []string {
	list := []string{name}
	for _, c := range columns {
		text := "–"
		if v, ok := values[c.metric]; ok {
			text = fmt.Sprintf(c.format, v*c.scale)
		}
		list = append(list, text)
	}
	return list
}

// lifeNote is the text between the tables.
func (r *Report) lifeNote() string {
	p50, _ := r.Value(machineCase.name, "p50")
	return fmt.Sprintf("Times, bytes and allocations are of a turn. %s takes %.0f µs in this run.", machineCase.name, p50)
}

func (r *Report) writeLifeText(w io.Writer) error {
	windows, shares := r.lifeTables()
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range windows {
		fmt.Fprintf(tw, "%s\t\n", strings.Join(row, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s\n\n", r.lifeNote())
	for _, row := range shares {
		fmt.Fprintf(tw, "%s\t\n", strings.Join(row, "\t"))
	}
	return tw.Flush()
}

func (r *Report) writeLifeMarkdown(w io.Writer) error {
	windows, shares := r.lifeTables()
	writeMarkdownTable(w, windows)
	fmt.Fprintf(w, "\n%s\n\n", r.lifeNote())
	return writeMarkdownTable(w, shares)
}

func writeMarkdownTable(w io.Writer, rows [][]string) error {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|---|%s\n", strings.Repeat("---:|", len(row)-1))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// lifeOf returns the life to which a case ready/ENGINE/N or live/ENGINE/N
// belongs.
func lifeOf(name string) (life string, ok bool) {
	p := strings.Split(name, "/")
	if len(p) != 3 || p[0] != "ready" && p[0] != "live" {
		return "", false
	}
	return p[0] + "/" + p[1], true
}

// partialOf returns the case to which ready/ENGINE/N/LAYER belongs.
func partialOf(name string) (whole string, ok bool) {
	i := strings.LastIndexByte(name, '/')
	return name[:max(i, 0)], i >= 0 && strings.Count(name, "/") == 3
}
