package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed storage.html
var storagePage string

var storageTemplate = template.Must(template.New("storage").Parse(storagePage))

// page is the content of storage.html.
type page struct {
	*Report
	Columns []string
	Means   string
	Sizes   []pageSize
}

// pageSize has the plots of all engines at one size, and their tables.
type pageSize struct {
	N                                           string
	Writes, Reads, Ratios, Opens, Disk, Written template.HTML
	Tables                                      []pageTable
}

type pageTable struct {
	Engine string
	Rows   [][]string
}

// WriteHTML writes a report of [Storage] as a self-contained page: the plots
// are inline SVG. It suits light and dark screens, narrow ones and paper.
func (r *Report) WriteHTML(w io.Writer) error {
	p := page{Report: r, Columns: columns, Means: ratioMeans}
	bySize := map[int][][]figure{}
	var sizes []int
	for _, g := range groups(r.figures()) {
		n := g[0].N
		if bySize[n] == nil {
			sizes = append(sizes, n)
		}
		bySize[n] = append(bySize[n], g)
	}
	for _, n := range sizes {
		p.Sizes = append(p.Sizes, plots(n, bySize[n]))
	}
	return storageTemplate.Execute(w, p)
}

func plots(n int, engines [][]figure) pageSize {
	ps := pageSize{N: thousands(n)}
	var writes, reads, ratios, opens, disk, written []row
	for _, figures := range engines {
		t := pageTable{Engine: figures[0].Engine}
		rate := map[int]*row{}
		for i := range figures {
			f := &figures[i]
			t.Rows = append(t.Rows, f.cells())
			label := fmt.Sprintf("%s, %s", f.Engine, f.Op)
			if f.Workers > 1 {
				label += fmt.Sprintf(", %d callers", f.Workers)
			}
			switch f.Op {
			case "set", "set-indexed":
				if f.Engine == "mem" { // nothing is durable there
					break
				}
				if rate[f.Workers] == nil {
					writes = append(writes, row{Label: label})
					rate[f.Workers] = &writes[len(writes)-1]
				}
				r := &writes[len(writes)-1]
				if d, ok := f.direct["rate"]; ok {
					r.Marks = append(r.Marks, mark{Kind: "direct", Name: "direct", Value: d, Text: showRate(d)})
				}
				m := mark{Kind: "ours", Name: "Strata", Value: f.metrics["rate"], Text: showRate(f.metrics["rate"])}
				if f.Op == "set-indexed" {
					m.Kind, m.Name = "indexed", "Strata with five indexes"
				}
				r.Marks = append(r.Marks, m)
			case "get", "list1000", "scan1000", "find1000":
				if f.Workers > 1 {
					break
				}
				r := row{Label: label}
				if f.direct != nil {
					r.Marks = append(r.Marks, timeMark("direct", "direct", f.direct))
				}
				reads = append(reads, row{r.Label, append(r.Marks, timeMark("ours", "Strata", f.metrics))})
			case "open", "rebuild":
				r := row{Label: label}
				if d, ok := f.direct["p50"]; ok {
					r.Marks = append(r.Marks, mark{Kind: "direct", Name: "direct", Value: d, Text: showMicros(d)})
				}
				opens = append(opens, row{r.Label, append(r.Marks, mark{Kind: "ours", Name: "Strata", Value: f.metrics["p50"], Text: showMicros(f.metrics["p50"])})})
			}
			if g, ok := f.goal(); ok {
				if v, measured := f.metrics["ratio"]; measured {
					kind, verdict := "met", "met"
					if !g.met(v) {
						kind, verdict = "missed", "missed"
					}
					ratios = append(ratios, row{label, []mark{{Kind: kind, Value: v, To: g.limit, Text: fmt.Sprintf("%s of %s: %s", showRatio(v), g, verdict)}}})
				}
			}
			disk = append(disk, byteRow(f, "size", label)...)
			written = append(written, byteRow(f, "written", label)...)
		}
		ps.Tables = append(ps.Tables, t)
	}
	ps.Writes = barPlot("Durable writes per second", writes, showRate)
	ps.Reads = rangePlot("Time of a read", reads, showMicros)
	ps.Ratios = ratioPlot("Ratio to direct use", ratios)
	ps.Opens = barPlot("Time to open", opens, showMicros)
	ps.Disk = barPlot("Bytes on disk for a document", disk, showBytes)
	ps.Written = rangePlot("Bytes written for a document", written, showBytes)
	return ps
}

// byteRow returns the row of a metric in bytes, if it was measured.
func byteRow(f *figure, metric, label string) []row {
	v, ok := f.metrics[metric]
	if !ok {
		return nil
	}
	r := row{Label: label}
	if d, ok := f.direct[metric]; ok {
		r.Marks = append(r.Marks, mark{Kind: "direct", Name: "direct", Value: d, Text: showBytes(d)})
	}
	r.Marks = append(r.Marks, mark{Kind: "ours", Name: "Strata", Value: v, Text: showBytes(v)})
	return []row{r}
}

func timeMark(kind, name string, metrics map[string]float64) mark {
	p50, p99 := metrics["p50"], metrics["p99"]
	return mark{Kind: kind, Name: name, Value: p50, To: p99, Text: showMicros(p50) + " – " + showMicros(p99)}
}
