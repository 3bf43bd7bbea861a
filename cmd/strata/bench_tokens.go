package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/bench"
	"github.com/stratamem/strata/projection/tiktoken"
	"github.com/stratamem/strata/projection/tiktoken/reference"
)

func benchTokensCommand(t *tool) *cobra.Command {
	var asJSON bool
	var rounds int
	cmd := &cobra.Command{
		Use:   "tokens",
		Short: "Measure how fast tokens are counted, compared with tiktoken-go",
		Long: `Measures how fast tokens of o200k_base are counted: 1 MB each of English, of
code, of Chinese, Japanese and Korean, of these mixed, and of one letter. It
prints MB/s, the ratio to github.com/pkoukk/tiktoken-go in the same run, and ms
for the 1 MB. The first line is the cost of the first use, in time and in memory
that stays. The texts are generated, the same in every run.

Some seconds; the machine should have nothing else to do.`,
		Example: "  strata bench tokens\n  strata bench tokens --json > tokens.json",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rounds <= 0 {
				return usagef("bench tokens: --rounds %d is not a positive number", rounds)
			}
			return t.benchTokens(cmd.Context(), rounds, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().IntVar(&rounds, "rounds", 5, "rounds of both sides in each case; the best counts")
	return cmd
}

func (t *tool) benchTokens(ctx context.Context, rounds int, asJSON bool) error {
	opts := &bench.TokensOptions{Rounds: rounds}
	if live := newScreen(t.err, t.env); live.live() {
		opts.Progress = func(name string) { fmt.Fprintf(t.err, "\r\x1b[Kmeasuring %s", name) }
		defer fmt.Fprint(t.err, "\r\x1b[K")
	}
	library, err := reference.New(tiktoken.O200K)
	if err != nil {
		return fmt.Errorf("bench tokens: %w", err)
	}
	r, err := bench.Tokens(ctx, library, opts)
	if err != nil {
		return err
	}
	if asJSON {
		return r.WriteJSON(t.out)
	}
	return r.WriteText(t.out)
}
