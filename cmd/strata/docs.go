package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/docs"
	"github.com/stratamem/strata/storage/docs/source"
)

// docsOptions are the flags of the verbs of docs.
type docsOptions struct {
	db         string
	collection string
	resource   string
	language   string
	exclude    []string
	limit      int
	json       bool
	quiet      bool
}

func docsCommand(t *tool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "docs",
		Short: "Keep documents to show to agents",
		Long: `Keeps collections of documents in a store: Markdown, text, HTML and source code,
cut into passages that are found by their words. An agent's RAG layer shows those
that answer a message, with file and lines.

` + storesHelp,
		Example: "  strata docs add manuals README.md --db agent.db\n  strata docs search 'how do I grease the bearing' --db agent.db",
	}
	addVerbs(cmd, docsAddCommand(t), docsListCommand(t), docsRemoveCommand(t), docsSearchCommand(t))
	return cmd
}

// docsFlags adds the flags that select the collection and the output format.
func docsFlags(cmd *cobra.Command, o *docsOptions) {
	f := cmd.Flags()
	f.StringVar(&o.collection, "collection", docs.DefaultName, "name of the collection")
	f.StringVar(&o.resource, "resource", "", "whose collection: a resource (default everyone's)")
	f.BoolVar(&o.json, "json", false, "print JSON")
}

// atLeast requires n arguments or more.
func atLeast(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return usagef("docs %s: wants %s", cmd.Name(), what)
		}
		return nil
	}
}

func (o *docsOptions) owner() docs.Owner {
	if o.resource == "" {
		return docs.Owner{}
	}
	return docs.Owner{Kind: "resource", ID: o.resource}
}

func (o *docsOptions) open(store storage.Adapter) (*docs.Collection, error) {
	return docs.Open(store, o.owner(), o.collection, &docs.Options{Language: o.language})
}

// inspectDocs opens a store to read an existing collection and calls f with it.
func inspectDocs(ctx context.Context, verb, spec string, o *docsOptions, f func(c *docs.Collection) error) error {
	return withDocs(ctx, verb, spec, openRead, func(store storage.Adapter) error {
		c, err := o.open(store)
		if err != nil {
			return err
		}
		there, err := c.Exists(ctx)
		if err != nil {
			return err
		}
		if there {
			return f(c)
		}
		var names []string
		for p, err := range docs.Places(ctx, store) {
			if err != nil {
				return err
			}
			if p.Owner == o.owner() {
				names = append(names, p.Name)
			}
		}
		if len(names) == 0 {
			return errors.New("the store has no documents: 'strata docs add PATH --db STORE' puts them in")
		}
		return fmt.Errorf("there is no collection %q: there are %s", o.collection, strings.Join(names, ", "))
	})
}

// withDocs opens a store with opener and calls f with it.
func withDocs(ctx context.Context, verb, spec string, opener func(context.Context, string) (storage.Adapter, error), f func(store storage.Adapter) error) (err error) {
	if storePath(spec) == "" {
		return usagef("docs %s: a mem: store is empty and forgets: name a store that lasts", verb)
	}
	store, err := opener(ctx, spec)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("docs %s: %w: name a store that is there: 'strata docs add' makes one", verb, err)
	}
	if err != nil {
		return fmt.Errorf("docs %s: %w", verb, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := f(store); err != nil {
		return fmt.Errorf("docs %s: %w", verb, err)
	}
	return nil
}

func docsAddCommand(t *tool) *cobra.Command {
	var o docsOptions
	cmd := &cobra.Command{
		Use:   "add PATH... --db STORE",
		Short: "Put files and folders in, or bring them up to date",
		Long: `Puts the documents of files and folders into a collection. Unchanged files are
not read again; what is gone from a folder is removed. A document is named by
the path given, joined with the relative path below it: give the same path
again, from the same directory, when files have changed.

In folders, names that begin with "." are skipped, links are not followed, and
files that are not text or are over 4 MiB are named and skipped; the rest
continues.`,
		Example: "  strata docs add manuals README.md --db agent.db\n  strata docs add src --db vault:notes --collection code --exclude '*_test.go' --exclude testdata",
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.docsAdd(cmd.Context(), o.db, args, &o)
		},
	}
	storeArg(cmd, &o.db, 0, atLeast(1, "a store and files or folders"))
	docsFlags(cmd, &o)
	f := cmd.Flags()
	f.StringArrayVar(&o.exclude, "exclude", nil, "leave out files and folders of this name or path; a pattern with * ? [a-z]")
	f.StringVar(&o.language, "language", "", "language of a new collection, for stemming (default english)")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "show no progress and no result")
	return cmd
}

func (t *tool) docsAdd(ctx context.Context, spec string, paths []string, o *docsOptions) error {
	for _, pattern := range o.exclude {
		if _, err := path.Match(pattern, ""); err != nil {
			return usagef("docs add: --exclude %q is no pattern", pattern)
		}
	}
	for _, p := range paths { // before anything is created or changed
		if _, err := os.Stat(p); err != nil {
			return fmt.Errorf("docs add: %w", err)
		}
	}
	total := source.Report{Added: []string{}, Updated: []string{}, Removed: []string{}, Skipped: []source.Skipped{}}
	err := withDocs(ctx, "add", spec, openStore, func(store storage.Adapter) error {
		c, err := o.open(store)
		if err != nil {
			return err
		}
		line := &progress{s: newScreen(t.err, t.env)}
		if o.quiet {
			line.s = &screen{}
		}
		defer line.clear()
		n := 0
		opts := &source.Options{Exclude: o.excludes(storePath(spec)), Progress: func(name string) {
			n++
			line.set(int64(n), 0, func() string { return fmt.Sprintf("read %s, %s", plural(n, "file", "files"), printable(name)) })
		}}
		var faults []error
		for _, p := range paths {
			r, err := source.Update(ctx, c, p, opts)
			total.Added = append(total.Added, r.Added...)
			total.Updated = append(total.Updated, r.Updated...)
			total.Removed = append(total.Removed, r.Removed...)
			total.Skipped = append(total.Skipped, r.Skipped...)
			total.Unchanged += r.Unchanged
			if faults = append(faults, err); ctx.Err() != nil {
				break
			}
		}
		return errors.Join(faults...)
	})
	return errors.Join(err, t.printAdded(&total, o))
}

// excludes returns a function that reports whether to leave out a file: one
// that matches the patterns, or the store itself.
func (o *docsOptions) excludes(store string) func(name string) bool {
	return func(name string) bool {
		for _, pattern := range o.exclude {
			for _, text := range []string{name, path.Base(name)} {
				if ok, err := path.Match(strings.TrimSuffix(pattern, "/"), text); ok && err == nil {
					return true
				}
			}
		}
		return path.Base(name) == filepath.Base(store) && storePath("bolt:"+filepath.FromSlash(name)) == store
	}
}

// printAdded prints what was done.
func (t *tool) printAdded(r *source.Report, o *docsOptions) error {
	if o.json {
		return printJSON(t.out, r)
	}
	const most = 20
	for i, s := range r.Skipped {
		if i == most {
			fmt.Fprintf(t.err, "strata: skipped %d more: --json names them\n", len(r.Skipped)-most)
			break
		}
		fmt.Fprintf(t.err, "strata: skipped %s: %s\n", escape(s.Name, false), escape(s.Reason, false))
	}
	if o.quiet {
		return nil
	}
	_, err := fmt.Fprintf(t.out, "%s added, %s updated, %s removed, %s unchanged\n",
		thousands(len(r.Added)), thousands(len(r.Updated)), thousands(len(r.Removed)), thousands(r.Unchanged))
	return err
}

func docsListCommand(t *tool) *cobra.Command {
	var o docsOptions
	cmd := &cobra.Command{
		Use:     "list --db STORE",
		Short:   "List the documents of a collection",
		Long:    "Lists the documents of a collection: kind, passages, size, when it was modified, name.",
		Example: "  strata docs list --db agent.db\n  strata docs list --db agent.db --collection code --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return inspectDocs(cmd.Context(), "list", o.db, &o, func(c *docs.Collection) error {
				list, err := c.List(cmd.Context())
				if err != nil {
					return err
				}
				return t.docsList(list, &o)
			})
		},
	}
	storeArg(cmd, &o.db, 0, exactly(0, "no arguments"))
	docsFlags(cmd, &o)
	return cmd
}

func (t *tool) docsList(list []docs.File, o *docsOptions) error {
	if o.json {
		return printJSON(t.out, orEmpty(list))
	}
	passages := 0
	for i := range list {
		f := &list[i]
		passages += f.Passages
		note := ""
		if f.Partial {
			note = "  (not whole: add it again)"
		}
		fmt.Fprintf(t.out, "%-8s %6d  %10s  %s  %s%s\n", f.Kind, f.Passages, byteText(f.Size),
			f.Modified.UTC().Format("2006-01-02 15:04"), escape(f.Name, false), note)
	}
	_, err := fmt.Fprintf(t.out, "%s, %s\n", plural(len(list), "document", "documents"), plural(passages, "passage", "passages"))
	return err
}

func docsRemoveCommand(t *tool) *cobra.Command {
	var o docsOptions
	cmd := &cobra.Command{
		Use:   "remove NAME... --db STORE",
		Short: "Remove documents from a collection",
		Long: `Removes documents from a collection, by the names that 'strata docs list'
prints, or by those of their folders. The files stay where they are.`,
		Example: "  strata docs remove manuals/pump.md --db agent.db\n  strata docs remove manuals --db agent.db",
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.docsRemove(cmd.Context(), o.db, args, &o)
		},
	}
	storeArg(cmd, &o.db, 0, atLeast(1, "a store and names of documents or folders"))
	docsFlags(cmd, &o)
	return cmd
}

func (t *tool) docsRemove(ctx context.Context, spec string, names []string, o *docsOptions) error {
	var gone []string
	err := inspectDocs(ctx, "remove", spec, o, func(c *docs.Collection) error {
		list, err := c.List(ctx)
		if err != nil {
			return err
		}
		for _, name := range names {
			n := len(gone)
			for i := range list {
				if docs.Below(path.Clean(filepath.ToSlash(name)), list[i].Name) {
					gone = append(gone, list[i].Name)
				}
			}
			if len(gone) == n {
				return fmt.Errorf("%s is not a document: 'strata docs list' names them", name)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return withDocs(ctx, "remove", spec, openStore, func(store storage.Adapter) error {
		c, err := o.open(store)
		if err == nil {
			gone, err = c.Remove(ctx, gone...)
		}
		if err != nil {
			return err
		}
		if o.json {
			return printJSON(t.out, gone)
		}
		_, err = fmt.Fprintf(t.out, "removed %s\n", plural(len(gone), "document", "documents"))
		return err
	})
}

func docsSearchCommand(t *tool) *cobra.Command {
	var o docsOptions
	cmd := &cobra.Command{
		Use:   "search QUERY... --db STORE",
		Short: "Search a collection, as an agent's layer does",
		Long: `Prints the passages that answer a query best, if any do, each with its file and
lines. It finds what an agent's RAG layer would.`,
		Example: "  strata docs search 'how do I grease the bearing' --db agent.db\n  strata docs search bearing --db agent.db --limit 3 --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.limit < 1 {
				return usagef("docs search: --limit %d is not positive", o.limit)
			}
			return inspectDocs(cmd.Context(), "search", o.db, &o, func(c *docs.Collection) error {
				res, err := c.Search(cmd.Context(), docs.Query{Text: strings.Join(args, " "), Limit: o.limit})
				if err != nil {
					return err
				}
				return t.printFound(&res, &o)
			})
		},
	}
	storeArg(cmd, &o.db, 0, atLeast(1, "a store and a query"))
	docsFlags(cmd, &o)
	cmd.Flags().IntVar(&o.limit, "limit", 5, "maximum number of passages")
	return cmd
}

func (t *tool) printFound(res *docs.Result, o *docsOptions) error {
	if o.json {
		return printJSON(t.out, orEmpty(res.Hits))
	}
	for i := range res.Hits {
		h := &res.Hits[i]
		if i > 0 {
			fmt.Fprintln(t.out)
		}
		head := fmt.Sprintf("%s  %.2f", escape(h.Cite(), false), h.Score)
		if h.Heading != "" {
			head += "  " + escape(h.Heading, false)
		}
		fmt.Fprintln(t.out, head)
		for l := range strings.SplitSeq(h.Text, "\n") {
			fmt.Fprintln(t.out, strings.TrimRight("    "+printable(l), " "))
		}
	}
	if len(res.Hits) == 0 {
		fmt.Fprintln(t.err, "strata: nothing found:", printable(res.Note))
	}
	return nil
}
