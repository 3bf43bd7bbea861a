package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/bench"
	"github.com/stratamem/strata/bench/locomo"
	"github.com/stratamem/strata/bench/recall"
	"github.com/stratamem/strata/projection/tiktoken"
	"github.com/stratamem/strata/storage/search"
)

// benchRecallOptions are the flags of bench recall.
type benchRecallOptions struct {
	data   string
	split  []string
	rivals string
	json   bool
}

func benchRecallCommand(t *tool) *cobra.Command {
	var o benchRecallOptions
	cmd := &cobra.Command{
		Use:   "recall",
		Short: "Measure how well questions find the turns that answer them",
		Long: `Measures how well questions about conversations find the turns that answer them,
on a file in LoCoMo's format, in two ways.

Rankers of turns: recall of a question's evidence among the first 1 to 50 turns,
and in prompts of 256 to 8,192 tokens (o200k_base), MRR and nDCG@10, with the 95
% interval of R@10. Rows: the default; without its floor; plain BM25; plain with
each cue alone; without each cue. Categories: 1 multi-hop, 2 temporal, 3
open-domain, 4 single-hop; 5, adversarial, is reported separately.

Through the layers (cases layer/ and both/, the latter with WorkingMemory): the
conversations are committed through memory, as turns with roles, tool calls and
results, and each question is asked in a thread of its own: the share of its
evidence that a prompt of 512, 1,500 and 4,096 tokens shows, and among the first
1 and 10 messages; if the file says what is irrelevant, the share of what is
shown that bears on the question (precision); and among questions that need
nothing (category 6) the share that get nothing (silent). For comparison, plain
BM25 over messages and over excerpts of 25 to 40 words, in which a user's words
count three times.

A separate program measures bleve and SQLite, which are large: cd
bench/recall/rivals && go run . --data FILE > rivals.json, and --rivals adds
that to the table.

docs/recall.md says what this shows and what it does not.`,
		Example: "  strata bench recall --data locomo10.json\n  strata bench recall --data locomo10.json --split conv-26,conv-30 --json > recall.json",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.data == "" {
				return usagef("bench recall: --data is missing: name a file in the form of LoCoMo")
			}
			return t.benchRecall(cmd.Context(), &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.data, "data", "", "file in LoCoMo's format (required)")
	f.StringSliceVar(&o.split, "split", nil, "only these conversations, by sample_id")
	f.StringVar(&o.rivals, "rivals", "", "scores of others, as bench/recall/rivals prints them")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (t *tool) benchRecall(ctx context.Context, o *benchRecallOptions) error {
	data, err := locomo.Load(o.data)
	if err != nil {
		return fmt.Errorf("bench recall: %w", err)
	}
	tokens, err := tiktoken.New("o200k_base")
	if err != nil {
		return fmt.Errorf("bench recall: %w", err)
	}
	opts := &recall.Options{Split: o.split, Count: tokens.Count}
	if live := newScreen(t.err, t.env); live.live() {
		opts.Progress = func(name string) { fmt.Fprintf(t.err, "\r\x1b[Kmeasuring %s", name) }
		defer fmt.Fprint(t.err, "\r\x1b[K")
	}
	scores, err := recall.Run(ctx, data, opts)
	if err != nil {
		return err
	}
	through, err := recall.Layers(ctx, data, &recall.LayersOptions{Split: o.split, Tokenizer: tokens, Progress: opts.Progress})
	if err != nil {
		return err
	}
	if o.rivals != "" {
		text, err := os.ReadFile(o.rivals)
		if err != nil {
			return fmt.Errorf("bench recall: %w", err)
		}
		var others []recall.Score
		if err := json.Unmarshal(text, &others); err != nil {
			return fmt.Errorf("bench recall: read rivals: %w", err)
		}
		scores = append(scores, others...)
	}
	unanswerable := slices.ContainsFunc(data, func(c locomo.Conversation) bool {
		return slices.ContainsFunc(c.Questions, func(q locomo.Question) bool { return len(q.Evidence) == 0 })
	})
	var floor *recall.FloorScore
	if unanswerable && o.split == nil {
		f, err := recall.Floor(ctx, data, search.Ranking{})
		if err != nil {
			return err
		}
		floor = &f
	}
	if o.json {
		r := recall.Report(scores)
		if floor != nil {
			r.Rows = append(r.Rows, bench.Row{Case: "default/floor", Metric: "unanswerable", Value: float64(floor.Unanswerable)},
				bench.Row{Case: "default/floor", Metric: "silent", Value: floor.Silent}, bench.Row{Case: "default/floor", Metric: "lost", Value: floor.Lost})
		}
		recall.ReportLayers(r, through)
		return r.WriteJSON(t.out)
	}
	if err := recall.WriteText(t.out, scores); err != nil {
		return err
	}
	fmt.Fprintln(t.out)
	if err := recall.WriteLayers(t.out, through); err != nil {
		return err
	}
	if floor != nil {
		_, err = fmt.Fprintf(t.out, "\nfloor: nothing is found for %.0f %% of %d unanswerable questions; it costs %.1f %% recall on the others\n",
			100*floor.Silent, floor.Unanswerable, 100*floor.Lost)
	}
	return err
}

func benchSearchCommand(t *tool) *cobra.Command {
	var asJSON bool
	var sizes []int
	cmd := &cobra.Command{
		Use:   "search",
		Short: "Measure the search index: questions, appends, opening",
		Long: `Measures the search index in a bolt file: questions over one scope of 600,
10,000 and 100,000 turns, appends of one turn each, merging included, the first
read of the index, and its size. About half a minute.`,
		Example: "  strata bench search\n  strata bench search --sizes 1000 --json",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, n := range sizes {
				if n <= 0 {
					return usagef("bench search: --sizes %d is not a positive number", n)
				}
			}
			r, err := recall.Speed(cmd.Context(), sizes)
			if err != nil {
				return err
			}
			if asJSON {
				return r.WriteJSON(t.out)
			}
			return r.WriteText(t.out)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().IntSliceVar(&sizes, "sizes", nil, "turns in the index (default 600,10000,100000)")
	return cmd
}
