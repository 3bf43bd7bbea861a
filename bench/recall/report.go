package recall

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/stratamem/strata/bench"
)

// Report converts scores to the form of the other benchmarks: cases
// RANKER/CATEGORY, metrics R@k, MRR, nDCG@10, recall@TOKENS, us (median per
// question), questions, index bytes per conversation, and R@10/low and
// R@10/high, the bounds of the interval of R@10.
func Report(scores []Score) *bench.Report {
	r := bench.NewReport("recall")
	for i := range scores {
		s := &scores[i]
		add := func(metric string, value float64, unit string) {
			r.Rows = append(r.Rows, bench.Row{Case: s.Ranker + "/" + s.Category, Metric: metric, Value: value, Unit: unit})
		}
		add("questions", float64(s.Questions), "")
		for _, k := range Cutoffs {
			add(fmt.Sprintf("R@%d", k), s.Recall[k].Mean, "")
		}
		add("R@10/low", s.Recall[10].Low, "")
		add("R@10/high", s.Recall[10].High, "")
		add("MRR", s.MRR.Mean, "")
		add("nDCG@10", s.NDCG.Mean, "")
		for _, b := range Budgets {
			add(fmt.Sprintf("recall@%d", b), s.Budget[b].Mean, "")
		}
		add("us", s.Micros, "us")
		add("index", s.Bytes, "B")
	}
	return r
}

// ReportLayers adds the results of [Layers] to a report: cases layer/CATEGORY,
// both/…, messages/… and excerpts/…, metrics evidence@TOKENS, R@1 and R@10 of
// messages, precision, silent, and questions.
func ReportLayers(r *bench.Report, scores []LayerScore) {
	for i := range scores {
		s := &scores[i]
		for _, row := range s.rows() {
			r.Rows = append(r.Rows, bench.Row{Case: s.Case + "/" + s.Category, Metric: row.metric, Value: row.value})
		}
	}
}

type measured struct {
	metric string
	value  float64
}

// rows returns what was measured, leaving out what had no questions.
func (s *LayerScore) rows() []measured {
	rows := []measured{{"questions", float64(s.Questions)}}
	if s.Needs > 0 {
		for _, n := range Prompts {
			rows = append(rows, measured{fmt.Sprintf("evidence@%d", n), s.Evidence[n]})
		}
		rows = append(rows, measured{"R@1", s.First[1]}, measured{"R@10", s.First[10]})
	}
	if s.Shown > 0 {
		rows = append(rows, measured{"precision", s.Precision})
	}
	if s.Questions > s.Needs {
		rows = append(rows, measured{"silent", s.Silent})
	}
	return rows
}

// WriteLayers writes the results of [Layers] as a table; a dash means that
// there were no questions.
func WriteLayers(w io.Writer, scores []LayerScore) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	metrics := []string{"questions"}
	for _, n := range Prompts {
		metrics = append(metrics, fmt.Sprintf("evidence@%d", n))
	}
	metrics = append(metrics, "R@1", "R@10", "precision", "silent")
	fmt.Fprintf(tw, "case\t%s\t\n", strings.Join(metrics, "\t"))
	for i := range scores {
		fmt.Fprintf(tw, "%s/%s", scores[i].Case, scores[i].Category)
		rows := scores[i].rows()
		for _, m := range metrics {
			cell := "–"
			if at := slices.IndexFunc(rows, func(r measured) bool { return r.metric == m }); at >= 0 {
				cell = fmt.Sprintf("%.3f", rows[at].value)
				if m == "questions" {
					cell = fmt.Sprintf("%.0f", rows[at].value)
				}
			}
			fmt.Fprintf(tw, "\t%s", cell)
		}
		fmt.Fprintln(tw, "\t")
	}
	return tw.Flush()
}

// WriteText writes scores as a table, one line per ranker and category, with
// the interval of R@10.
func WriteText(w io.Writer, scores []Score) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "case\tquestions\tR@1\tR@5\tR@10\t95 %\tR@20\tR@50\tMRR\tnDCG@10")
	for _, b := range Budgets {
		fmt.Fprintf(tw, "\t@%d", b)
	}
	fmt.Fprintln(tw, "\tµs\tindex KB\t")
	for i := range scores {
		s := &scores[i]
		ten := s.Recall[10]
		fmt.Fprintf(tw, "%s/%s\t%d\t%.3f\t%.3f\t%.3f\t%.2f–%.2f\t%.3f\t%.3f\t%.3f\t%.3f", s.Ranker, s.Category, s.Questions,
			s.Recall[1].Mean, s.Recall[5].Mean, ten.Mean, ten.Low, ten.High, s.Recall[20].Mean, s.Recall[50].Mean, s.MRR.Mean, s.NDCG.Mean)
		for _, b := range Budgets {
			fmt.Fprintf(tw, "\t%.3f", s.Budget[b].Mean)
		}
		fmt.Fprintf(tw, "\t%.0f\t%.0f\t\n", s.Micros, s.Bytes/1000)
	}
	return tw.Flush()
}
