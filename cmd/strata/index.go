package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

func indexCommand(t *tool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "index",
		Short: "Look after the search indexes of a store",
		Long: `Looks after the search indexes of a store: those of the layers that recall, one
in each of their scopes.`,
		Example: "  strata index check --db agent.db\n  strata index rebuild --db agent.db",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("index: unknown verb %q: there are check and rebuild", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(indexCheckCommand(t), indexRebuildCommand(t))
	return cmd
}

func indexCheckCommand(t *tool) *cobra.Command {
	var db string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Read every index and say what is wrong",
		Long: `Reads every index and says what is wrong with it: what is damaged, what is not
found though it is there, what would be found and is gone. Changes nothing.`,
		Example: "  strata index check --db agent.db",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return inspect(cmd.Context(), "index check", db, func(store storage.Adapter) error {
				return t.indexCheck(cmd.Context(), store)
			})
		},
	}
	dbFlag(cmd, &db, dbHelp+" (required)")
	return cmd
}

func (t *tool) indexCheck(ctx context.Context, store storage.Adapter) error {
	faults, indexes := 0, 0
	for name, err := range indexesOf(ctx, store, "") {
		if err != nil {
			return err
		}
		indexes++
		here := 0
		for f, err := range search.Check(ctx, storage.Scope(store, name)) {
			if err != nil {
				return err
			}
			here++
			fmt.Fprintf(t.out, "%s/%s: %s: %s\n", printable(name), printable(f.Key), printable(f.Reason), f.Repair)
		}
		if here == 0 {
			fmt.Fprintf(t.out, "%s: ok\n", printable(name))
		}
		faults += here
	}
	if faults > 0 {
		return fmt.Errorf("%d faults in %d indexes", faults, indexes)
	}
	if indexes == 0 {
		fmt.Fprintln(t.err, "strata: the store has no index")
	}
	return nil
}

func indexRebuildCommand(t *tool) *cobra.Command {
	var db, language string
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Make every index anew from its documents",
		Long: `Makes every index anew from its documents. Nobody else should write the store
meanwhile. If it is interrupted, run it again: until then some documents are not
found, but none is lost.`,
		Example: "  strata index rebuild --db agent.db",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx := cmd.Context()
			if err := inspect(ctx, "index rebuild", db, func(storage.Adapter) error { return nil }); err != nil {
				return err
			}
			store, err := openStore(ctx, db)
			if err != nil {
				return fmt.Errorf("index rebuild: %w", err)
			}
			defer func() { err = errors.Join(err, store.Close()) }()
			for name, err := range indexesOf(ctx, store, "") {
				if err != nil {
					return fmt.Errorf("index rebuild: %w", err)
				}
				n, err := search.Rebuild(ctx, storage.Scope(store, name), &search.Options{Language: language})
				if err != nil {
					return fmt.Errorf("index rebuild: %w", err)
				}
				fmt.Fprintf(t.out, "%s: %d documents\n", printable(name), n)
			}
			return nil
		},
	}
	dbFlag(cmd, &db, dbHelp+" (required)")
	cmd.Flags().StringVar(&language, "language", "english", "language of stemming and stop words")
	return cmd
}

// indexesOf yields the prefixes of the indexes among the records of layers,
// or of one layer. It reads an entry for every scope of a layer.
func indexesOf(ctx context.Context, store storage.Adapter, layer string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		prefix := "_layers/"
		if layer != "" {
			prefix += storage.EscapeSegment(layer) + "/"
		}
		for after, more := "", true; more; {
			more = false
			for e, err := range storage.Scan(ctx, store, prefix, &storage.ScanOptions{After: after, Limit: 1}) {
				if err != nil {
					yield("", err)
					return
				}
				more, after = true, e.Key
				name, ok := recordsOf(e.Key)
				if !ok {
					continue
				}
				after = name + "0" // the byte after "/": beyond all its records
				switch _, err := store.Get(ctx, name+"/head"); {
				case errors.Is(err, storage.ErrNotFound):
				case err != nil:
					yield("", err)
					return
				case !yield(name, nil):
					return
				}
			}
		}
	}
}

// recordsOf returns the prefix of the layer's records that a key is one of:
// _layers/<layer>/<kind>/<id>/r<clears>.
func recordsOf(key string) (string, bool) {
	parts := strings.SplitN(key, "/", 6)
	if len(parts) < 6 || !strings.HasPrefix(parts[4], "r") {
		return "", false
	}
	return strings.Join(parts[:5], "/"), true
}
