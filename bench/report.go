// Package bench measures Strata: how long a turn takes, and how much of each
// prompt a provider's cache can reuse. Every benchmark is a function that
// returns a [Report]; the strata command prints it.
//
// It is not a set of timed tests: nothing here fails because a machine is slow.
// Speed is reported as measured, along with the machine.
package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is what a benchmark measured. All benchmarks print it alike.
type Report struct {
	Suite  string `json:"suite"`
	Commit string `json:"commit"` // of Strata's source; "unknown" outside a checkout
	Go     string `json:"go"`
	CPU    string `json:"cpu"`
	Rows   []Row  `json:"rows"`
}

// Row is one figure.
type Row struct {
	Case   string  `json:"case"`
	Metric string  `json:"metric"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
}

// NewReport returns an empty report of a suite.
func NewReport(suite string) *Report {
	return &Report{Suite: suite, Commit: commit(), Go: runtime.Version(), CPU: cpu()}
}

func (r *Report) add(name, metric string, value float64, unit string) {
	r.Rows = append(r.Rows, Row{name, metric, value, unit})
}

// Value returns the figure of a case, and false if it was not measured.
func (r *Report) Value(name, metric string) (float64, bool) {
	for _, row := range r.Rows {
		if row.Case == name && row.Metric == metric {
			return row.Value, true
		}
	}
	return 0, false
}

// WriteJSON writes the report as one indented JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// WriteText writes the report as a table, one line per case.
func (r *Report) WriteText(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s · commit %s · %s · %s\n\n", r.Suite, r.Commit, r.Go, r.CPU); err != nil {
		return err
	}
	switch r.Suite {
	case storageSuite:
		return r.writeStorageText(w)
	case readySuite:
		return r.writeLifeText(w)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var header []string
	for i := 0; i < len(r.Rows); {
		j := i
		var metrics, values []string
		for ; j < len(r.Rows) && r.Rows[j].Case == r.Rows[i].Case; j++ {
			metrics = append(metrics, r.Rows[j].Metric)
			values = append(values, fmt.Sprintf("%.4g %s", r.Rows[j].Value, r.Rows[j].Unit))
		}
		if !slices.Equal(metrics, header) {
			header = metrics
			fmt.Fprintf(tw, "case\t%s\n", strings.Join(header, "\t"))
		}
		fmt.Fprintf(tw, "%s\t%s\n", r.Rows[i].Case, strings.Join(values, "\t"))
		i = j
	}
	return tw.Flush()
}

// commit names the revision that was built, or that of the checkout around the
// working directory.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value[:min(12, len(s.Value))]
			}
		}
	}
	if out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output(); err == nil {
		return strings.TrimSpace(string(out))
	}
	return "unknown"
}

// cpu names the processor and how many cores are used.
func cpu() string {
	name := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				name = strings.TrimSpace(v)
				break
			}
		}
	}
	return fmt.Sprintf("%s × %d", name, runtime.GOMAXPROCS(0))
}
