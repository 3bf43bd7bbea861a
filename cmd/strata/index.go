package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/docs"
	"github.com/stratamem/strata/storage/search"
	"github.com/stratamem/strata/storage/vector"
)

func indexCommand(t *tool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "index",
		Short: "Look after the search indexes of a store",
		Long: `Looks after the search indexes of a store: those of the layers that recall, one
for each of their scopes.`,
		Example: "  strata index check --db agent.db\n  strata index rebuild --db agent.db",
	}
	addVerbs(cmd, indexCheckCommand(t), indexRebuildCommand(t))
	return cmd
}

func indexCheckCommand(t *tool) *cobra.Command {
	var db string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Read every index and say what is wrong",
		Long: `Reads every index and says what is wrong with it: what is damaged, what exists
but cannot be found, and what would be found but is gone. Changes nothing.`,
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
		for f, err := range faultsOfBoth(search.Check(ctx, storage.Scope(store, name)), vector.Check(ctx, storage.Scope(store, name+"/v"))) {
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
	for place, err := range docs.Places(ctx, store) {
		if err != nil {
			return err
		}
		c, err := docs.Open(store, place.Owner, place.Name, nil)
		if err != nil {
			return err
		}
		indexes++
		here := 0
		for f, err := range c.Check(ctx) {
			if err != nil {
				return err
			}
			here++
			fmt.Fprintf(t.out, "%s: %s: %s\n", printable(f.Key), printable(f.Reason), f.Repair)
		}
		if here == 0 {
			fmt.Fprintf(t.out, "documents %q: ok\n", place.Name)
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

// faultsOfBoth yields the faults of an index of words, and of the index of
// vectors next to it.
func faultsOfBoth(words, vectors iter.Seq2[storage.Fault, error]) iter.Seq2[storage.Fault, error] {
	return func(yield func(storage.Fault, error) bool) {
		for f, err := range words {
			if !yield(f, err) {
				return
			}
		}
		for f, err := range vectors {
			f.Key = "v/" + f.Key
			if !yield(f, err) {
				return
			}
		}
	}
}

func indexRebuildCommand(t *tool) *cobra.Command {
	var db, language string
	var vectors bool
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Rebuild every index from its documents",
		Long: `Rebuilds every index from its documents. Nobody else should write the store
meanwhile. If it is interrupted, run it again: until then some documents are not
found, but none is lost.

--vectors is for a change of the embedding model: it drops the vectors of all
layers, which make new ones, some with every turn.`,
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
				if vectors {
					if n, err = dropVectors(ctx, store, name); err != nil {
						return fmt.Errorf("index rebuild: %w", err)
					}
					fmt.Fprintf(t.out, "%s: %d documents wait for vectors\n", printable(name), n)
				}
			}
			for place, err := range docs.Places(ctx, store) {
				if err != nil {
					return fmt.Errorf("index rebuild: %w", err)
				}
				c, err := docs.Open(store, place.Owner, place.Name, nil)
				if err != nil {
					return fmt.Errorf("index rebuild: %w", err)
				}
				n, err := c.Rebuild(ctx)
				if err != nil {
					return fmt.Errorf("index rebuild: %w", err)
				}
				fmt.Fprintf(t.out, "documents %q: %d passages\n", place.Name, n)
			}
			return nil
		},
	}
	dbFlag(cmd, &db, dbHelp+" (required)")
	cmd.Flags().BoolVar(&vectors, "vectors", false, "drop the vectors, which the layers then make again")
	cmd.Flags().StringVar(&language, "language", "english", "language of stemming and stop words")
	return cmd
}

// dropVectors deletes the vectors next to an index, if it has any, and marks
// all its documents as waiting for one: see layers.SemanticRecall.
func dropVectors(ctx context.Context, store storage.Adapter, name string) (n int, err error) {
	if _, _, err := store.Get(ctx, name+"/v/head"); errors.Is(err, storage.ErrNotFound) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	var ops []storage.Op
	apply := func(most int) error {
		if len(ops) < most {
			return nil
		}
		err := store.Apply(ctx, ops...)
		ops = nil
		return err
	}
	for key, err := range store.List(ctx, name+"/d/") {
		if err != nil {
			return n, err
		}
		n++
		ops = append(ops, storage.Put(name+"/w/"+strings.TrimPrefix(key, name+"/d/"), nil))
		if err := apply(1000); err != nil {
			return n, err
		}
	}
	for key, err := range store.List(ctx, name+"/v/") {
		if err != nil {
			return n, err
		}
		ops = append(ops, storage.Remove(key))
		if err := apply(1000); err != nil {
			return n, err
		}
	}
	return n, apply(1)
}

// indexesOf yields the prefixes of the indexes among the records of layers,
// or of one layer. It reads an entry for every scope of a layer.
func indexesOf(ctx context.Context, store storage.Adapter, layer string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		prefix := "_layers/"
		if layer != "" {
			prefix += storage.EscapeSegment(layer) + "/"
		}
		for name, err := range storage.Groups(ctx, store, prefix, recordsPrefix) {
			if err != nil {
				yield("", err)
				return
			}
			switch _, _, err := store.Get(ctx, name+"/head"); {
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

// recordsPrefix returns the prefix of the layer's records to which a key
// belongs: _layers/<layer>/<kind>/<id>/r<clears>.
func recordsPrefix(key string) (string, bool) {
	parts := strings.SplitN(key, "/", 6)
	if len(parts) < 6 || !strings.HasPrefix(parts[4], "r") {
		return "", false
	}
	return strings.Join(parts[:5], "/"), true
}
