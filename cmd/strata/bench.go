package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/bench"
)

func benchCommand(t *tool) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure Strata on this machine",
		Example: "  strata bench turn\n  strata bench storage --n 10000",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("bench: unknown benchmark %q: there are turn, storage, recall, search and tokens", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(benchTurnCommand(t), benchStorageCommand(t), benchRecallCommand(t), benchSearchCommand(t), benchTokensCommand(t))
	return cmd
}

func benchTurnCommand(t *tool) *cobra.Command {
	var asJSON bool
	var turns int
	cmd := &cobra.Command{
		Use:   "turn",
		Short: "Measure one turn, and how much of each prompt a cache can reuse",
		Long: `Measure one turn: append a user item of 400 characters, recall of five layers of
1,200 characters each, budgets, assembling under a policy of 128,000 tokens, and
the commit to a store. Wall time as p50 and p99, CPU time, and allocations per
turn. Then, over 40 turns, the share of each prompt that is the start of the one
before, and what a provider bills: uncached × 1.25 + cached × 0.1 characters.

A minute or so; the machine should have nothing else to do.`,
		Example: "  strata bench turn\n  strata bench turn --json > turn.json",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if turns <= 0 {
				return usagef("bench turn: --turns %d is not a positive number", turns)
			}
			return t.benchTurn(cmd.Context(), turns, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().IntVar(&turns, "turns", 2000, "turns to measure in each case")
	return cmd
}

func (t *tool) benchTurn(ctx context.Context, turns int, asJSON bool) error {
	opts := &bench.TurnOptions{Turns: turns}
	if live := newScreen(t.err, t.env); live.live() {
		opts.Progress = func(name string) { fmt.Fprintf(t.err, "\r\x1b[Kmeasuring %s", name) }
		defer fmt.Fprint(t.err, "\r\x1b[K")
	}
	r, err := bench.Turn(ctx, opts)
	if err != nil {
		return err
	}
	if asJSON {
		return r.WriteJSON(t.out)
	}
	return r.WriteText(t.out)
}
