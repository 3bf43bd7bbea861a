package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/backup"
)

// copyOptions are the flags of copy.
type copyOptions struct {
	src, dst string
	resume   bool
	json     bool
	quiet    bool
}

const storesHelp = "A store is named as engine:where: bolt:agent.db, badger:DIR, vault:DIR; a plain path is bolt's."

func copyCommand(t *tool) *cobra.Command {
	var o copyOptions
	cmd := &cobra.Command{
		Use:   "copy SRC DST",
		Short: "Copy a store to another engine, and verify the copy",
		Long: `Copies everything in a store into another, of the same engine or a different
one: documents, records, and which fields are indexed. Then reads both and
compares them, entry by entry. The source is only read; it should not be written
meanwhile.

` + storesHelp + `

A vault that is made is for its owner alone, unless everyone may read the source.
The destination must be new or empty. A copy that was interrupted, also by
kill -9, goes on with --resume: what is there already and equal is not written
again.`,
		Example: "  strata copy bolt:agent.db vault:notes\n  strata copy agent.db badger:agent --resume",
		Args:    exactly(2, "a source and a destination"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.src, o.dst = args[0], args[1]
			return copyStore(cmd.Context(), t, &o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.resume, "resume", false, "continue an interrupted copy")
	transferFlags(cmd, &o.json, &o.quiet)
	return cmd
}

// transferFlags are the flags of all verbs that move a whole store.
func transferFlags(cmd *cobra.Command, json, quiet *bool) {
	cmd.Flags().BoolVar(json, "json", false, "print the result as JSON")
	cmd.Flags().BoolVarP(quiet, "quiet", "q", false, "show no progress and no result")
}

func copyStore(ctx context.Context, t *tool, o *copyOptions) error {
	src, dst := storePath(o.src), storePath(o.dst)
	switch {
	case src == "" || dst == "":
		return usagef("copy: a mem: store is empty and forgets: name a store that lasts")
	case src == dst:
		return usagef("copy: %s is source and destination", o.src)
	case isBelow(src, dst) || isBelow(dst, src):
		return usagef("copy: one store is inside the other: name a destination elsewhere")
	}
	return inspectStore(ctx, o.src, func(from storage.Adapter) (err error) {
		if err := t.keepOut(o.dst, src); err != nil {
			return err
		}
		to, err := openStore(ctx, o.dst)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, to.Close()) }()
		show := newTransfer(t, o.quiet)
		opts := &backup.CopyOptions{Resume: o.resume}
		passes := [2]*pace{show.pace("copied"), show.pace("verified")}
		var written int64
		opts.Progress = func(p backup.CopyProgress) {
			pass := passes[0]
			if p.Verifying {
				pass = passes[1]
			}
			written = p.Written
			pass.at(p.Done, p.Total)
		}
		tally, err := backup.Copy(ctx, to, from, opts)
		show.clear()
		if err != nil {
			if ctx.Err() != nil {
				fmt.Fprintf(t.err, "strata: a part is copied: 'strata copy --resume %s %s' goes on\n", shellQuote(o.src), shellQuote(o.dst))
			}
			return err
		}
		return show.result(o.json, "copied and verified", &moved{Tally: tally, Written: &written})
	})
}

// transfer shows the progress of a verb that moves a whole store, and what it
// did.
type transfer struct {
	t     *tool
	quiet bool
	line  *progress
	start time.Time
}

func newTransfer(t *tool, quiet bool) *transfer {
	line := &progress{s: newScreen(t.err, t.env)}
	if quiet {
		line.s = &screen{}
	}
	return &transfer{t: t, quiet: quiet, line: line, start: time.Now()}
}

func (x *transfer) pace(verb string) *pace { return &pace{p: x.line, verb: verb} }

func (x *transfer) clear() { x.line.clear() }

// moved is what a verb that moves a store did.
type moved struct {
	backup.Tally
	Written *int64 `json:"written,omitempty"` // keys that were not there with an equal value already
}

func (x *transfer) result(asJSON bool, verb string, m *moved) error {
	switch {
	case asJSON:
		return printJSON(x.t.out, m)
	case x.quiet:
		return nil
	}
	_, err := fmt.Fprintf(x.t.out, "%s %s and %s, %s, in %s\nsha256 %s\n", verb, plural(int(m.Documents), "document", "documents"),
		plural(int(m.Records), "record", "records"), byteText(m.Bytes), time.Since(x.start).Round(10*time.Millisecond), m.Digest)
	return err
}
