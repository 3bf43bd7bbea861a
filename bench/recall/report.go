package recall

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/stratamem/strata/bench"
)

// Report puts scores in the form of the other benchmarks: cases RANKER/CATEGORY,
// metrics R@k, MRR, nDCG@10, recall@TOKENS, us (a question, the median),
// questions, index bytes per conversation, and of R@10 the bounds R@10/low and
// R@10/high of its interval.
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

// WriteText writes scores as a table, a line a ranker and category, with the
// interval of R@10.
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
