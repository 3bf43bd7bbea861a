package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/bench"
)

// benchStorageOptions are the flags of bench storage.
type benchStorageOptions struct {
	bench.StorageOptions
	json     bool
	markdown bool
	html     string
}

func benchStorageCommand(t *tool) *cobra.Command {
	var o benchStorageOptions
	cmd := &cobra.Command{
		Use:   "storage",
		Short: "Measure the storage engines, compared with what they are built on",
		Long: `Measures the storage engines, each compared with direct use of its database in
the same run: bbolt, badger, and for the vault a temporary file, fsync, rename
and fsync of the directory for each document. Documents have 1 KiB; every write
is on disk before it counts. Both sides are measured in short alternating
rounds.

A ratio is relative to direct use: for writes a multiple of its rate, for
everything else a multiple of its time.

About ten minutes for all engines at both sizes; the machine should have nothing
else to do. Name the disk that you would use with --dir: the directory for
temporary files may be in memory, where a sync costs nothing.`,
		Example: "  strata bench storage --engines bolt,vault --n 10000\n  strata bench storage --dir . --html storage.html",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.json && o.markdown:
				return usagef("bench storage: --json and --markdown both want the standard output")
			case o.Rounds <= 0:
				return usagef("bench storage: --rounds %d is not a positive number", o.Rounds)
			case o.Round <= 0:
				return usagef("bench storage: --round %s is not a positive time", o.Round)
			}
			return t.benchStorage(cmd.Context(), &o)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.Engines, "engines", bench.StorageEngines, "engines to measure")
	f.IntSliceVar(&o.Sizes, "n", []int{10_000, 100_000}, "documents in the store")
	f.StringVar(&o.Dir, "dir", "", "directory for the stores (default that for temporary files)")
	f.DurationVar(&o.Round, "round", 150*time.Millisecond, "time of one round of one side")
	f.IntVar(&o.Rounds, "rounds", 8, "rounds of each side")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.markdown, "markdown", false, "print a table for a README")
	f.StringVar(&o.html, "html", "", "write a report with plots to a file")
	return cmd
}

func (t *tool) benchStorage(ctx context.Context, o *benchStorageOptions) error {
	if live := newScreen(t.err, t.env); live.live() {
		o.Progress = func(name string) { fmt.Fprintf(t.err, "\r\x1b[Kmeasuring %s", name) }
		defer fmt.Fprint(t.err, "\r\x1b[K")
	}
	if o.html != "" { // before spending minutes on it
		if err := writeWhole(o.html, func(io.Writer) error { return nil }); err != nil {
			return fmt.Errorf("bench storage: %w", err)
		}
	}
	r, err := bench.Storage(ctx, &o.StorageOptions)
	if err != nil {
		if o.html != "" {
			err = errors.Join(err, os.Remove(o.html))
		}
		return err
	}
	if o.html != "" {
		if err := writeWhole(o.html, r.WriteHTML); err != nil {
			return fmt.Errorf("bench storage: %w", err)
		}
		fmt.Fprintf(t.err, "strata: the report is in %s\n", printable(strings.TrimSpace(o.html)))
	}
	switch {
	case o.json:
		return r.WriteJSON(t.out)
	case o.markdown:
		return r.WriteMarkdown(t.out)
	}
	return r.WriteText(t.out)
}
