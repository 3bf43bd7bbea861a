package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/bench"
	"github.com/stratamem/strata/bench/locomo"
)

func benchCommand(t *tool) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure Strata on this machine",
		Example: "  strata bench turn\n  strata bench storage --n 10000",
	}
	addVerbs(cmd, benchTurnCommand(t), benchStorageCommand(t), benchRecallCommand(t), benchSearchCommand(t), benchTokensCommand(t))
	return cmd
}

// benchTurnOptions are the flags of bench turn.
type benchTurnOptions struct {
	layers   string
	turns    int
	data     string
	engines  []string
	live     int
	dir      string
	json     bool
	markdown bool
}

func benchTurnCommand(t *tool) *cobra.Command {
	var o benchTurnOptions
	cmd := &cobra.Command{
		Use:   "turn",
		Short: "Measure one turn, over a long life, and how much of each prompt a cache can reuse",
		Long: `With --layers ready: what a turn costs with WorkingMemory, Entity, Observations,
Episodic and SemanticRecall at their defaults and prompts of 32,000 tokens, per
thousand turns of one person's threads: Project and Commit, bytes passed to the
store and to write calls, the size of the store relative to the text in it,
heap, and the share of each layer. --data names a file in LoCoMo's format whose
chats are played, and repeated with other names and numbers; without it a
generated agent works with tools. Then one run of --live turns. About three
minutes for all engines; --engines, --turns and --live reduce that.

With --layers synthetic: append a user item of 400 characters, recall of five
layers of 1,200 characters each, budgets, assembling under a policy of 128,000
tokens, and the commit to a store. Wall time as p50 and p99, CPU time, and
allocations per turn. Then, over 40 turns, the share of each prompt that was the
start of the previous one, and what a provider bills: uncached × 1.25 + cached ×
0.1 characters. About a minute.

The machine should have nothing else to do.`,
		Example: "  strata bench turn\n  strata bench turn --json > turn.json\n  strata bench turn --layers ready --data chats.json --engines mem,bolt --turns 3000",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd.Flags().Changed); err != nil {
				return err
			}
			return t.benchTurn(cmd.Context(), &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.layers, "layers", "synthetic", "layers to measure: synthetic or ready")
	f.IntVar(&o.turns, "turns", 0, "turns to measure in each case (default 2000; ready: 10000 on mem, 6000 on bolt, 3000 on badger and vault)")
	f.StringVar(&o.data, "data", "", "ready: file in LoCoMo's format to play")
	f.StringSliceVar(&o.engines, "engines", bench.ReadyEngines, "ready: engines to measure")
	f.IntVar(&o.live, "live", 10_000, "ready: turns of the one live run; 0 leaves it out")
	f.StringVar(&o.dir, "dir", "", "ready: directory for the stores (default that for temporary files)")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.markdown, "markdown", false, "ready: print tables for a README")
	return cmd
}

// check refuses flags that do not go together.
func (o *benchTurnOptions) check(set func(flag string) bool) error {
	switch {
	case o.layers != "synthetic" && o.layers != "ready":
		return usagef("bench turn: --layers %q is neither synthetic nor ready", o.layers)
	case set("turns") && o.turns <= 0:
		return usagef("bench turn: --turns %d is not a positive number", o.turns)
	case o.json && o.markdown:
		return usagef("bench turn: --json and --markdown both want the standard output")
	case o.live < 0:
		return usagef("bench turn: --live %d is negative", o.live)
	}
	for _, flag := range []string{"data", "engines", "live", "dir", "markdown"} {
		if set(flag) && o.layers != "ready" {
			return usagef("bench turn: --%s needs --layers ready", flag)
		}
	}
	return nil
}

func (t *tool) benchTurn(ctx context.Context, o *benchTurnOptions) error {
	var progress func(string)
	if live := newScreen(t.err, t.env); live.live() {
		progress = func(name string) { fmt.Fprintf(t.err, "\r\x1b[Kmeasuring %s", name) }
		defer fmt.Fprint(t.err, "\r\x1b[K")
	}
	r, err := o.measure(ctx, progress)
	if err != nil {
		return err
	}
	switch {
	case o.json:
		return r.WriteJSON(t.out)
	case o.markdown:
		return r.WriteMarkdown(t.out)
	}
	return r.WriteText(t.out)
}

func (o *benchTurnOptions) measure(ctx context.Context, progress func(string)) (*bench.Report, error) {
	if o.layers == "synthetic" {
		return bench.Turn(ctx, &bench.TurnOptions{Turns: o.turns, Progress: progress})
	}
	ready := &bench.ReadyOptions{Engines: o.engines, Turns: o.turns, Live: o.live, Dir: o.dir, Progress: progress}
	if o.live == 0 {
		ready.Live = -1
	}
	if o.data != "" {
		var err error
		if ready.Data, err = locomo.Load(o.data); err != nil {
			return nil, fmt.Errorf("bench turn: %w", err)
		}
	}
	return bench.Ready(ctx, ready)
}
