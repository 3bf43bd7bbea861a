package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

// forgetOptions are the flags of forget.
type forgetOptions struct {
	selection
	db, as, reason     string
	compact, yes, json bool
}

func forgetCommand(t *tool) *cobra.Command {
	var o forgetOptions
	cmd := &cobra.Command{
		Use:   "forget [ID]",
		Short: "Delete knowledge for good, with everything derived from it",
		Long: `Deletes an entity with its history and its search entries, and what was derived
from it alone: entities that cite nothing else, and canon made from those. A
tombstone remains, without the text: the digest, who, when and why. Entities
that also cite other evidence stay and lose the link; what they say about it in
their own words stays too.

Without an ID, --type, --layer, --status, --tag and --team select entities;
--team selects only entities of that team, not those without a team.

With --compact, which rewrites the store and can take a while, the text also
leaves the files of the store. Backups, copies, the version control of a vault,
and conversations that quoted it are not touched.

It cannot be undone, so it asks on a terminal, and requires --yes elsewhere.`,
		Example: "  strata forget insight/anna-salary --db vault:notes --as ben --reason 'Anna asked for it' --compact\n  strata forget --team core --tag customer-x --db agent.db --as ben --reason 'contract ended' --yes",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("forget: too many arguments: wants one entity, or flags that select some")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.forget(cmd.Context(), args, &o)
		},
	}
	knowledgeFlag(cmd, &o.db)
	actorFlag(cmd, &o.as)
	o.selection.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.team, "team", "", "only entities of this team")
	f.StringVar(&o.reason, "reason", "", "why, for the tombstone (required)")
	f.BoolVar(&o.compact, "compact", false, "rewrite the store, so that no file of it holds the text")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (t *tool) forget(ctx context.Context, args []string, o *forgetOptions) error {
	actor, err := t.person("forget", o.as)
	if err != nil {
		return err
	}
	q, err := o.query("forget")
	switch scoped := o.selection != (selection{}); {
	case err != nil:
		return err
	case strings.TrimSpace(o.reason) == "":
		return usagef("forget: --reason is missing: it is what the tombstone says")
	case len(args) == 0 && !scoped:
		return usagef("forget: says not what: name an entity, or select some by --type, --layer, --status, --tag or --team")
	case len(args) == 1 && scoped:
		return usagef("forget: an entity is named and others are selected: do one after the other")
	case !o.yes && !t.interactive():
		return usagef("forget: there is nobody to ask, and it cannot be undone: add --yes")
	}
	return writeKnowledge(ctx, "forget", o.db, func(s *soma.Store, store storage.Adapter) error {
		ids := args
		if len(args) == 0 {
			if ids, err = s.Forgettable(ctx, q); err != nil {
				return err
			}
		}
		if !o.yes && len(ids) > 0 {
			fmt.Fprintf(t.err, "to be forgotten, with what was derived from it alone:\n    %s\n", escape(strings.Join(ids[:min(len(ids), 20)], ", "), false))
			if len(ids) > 20 {
				fmt.Fprintf(t.err, "    and %s\n", plural(len(ids)-20, "other", "others"))
			}
			if ok, err := confirm(t.in, t.err, "Forget for good?"); err != nil || !ok {
				return errors.Join(err, errors.New("nothing was forgotten"))
			}
		}
		w := s.As(actor)
		var done soma.Forgotten
		if len(ids) == 1 { // then its absence is an error
			done, err = w.Forget(ctx, ids[0], o.reason)
		} else {
			done, err = w.ForgetEach(ctx, ids, o.reason)
		}
		compacted := false
		if err == nil && o.compact {
			err = storage.Compact(ctx, store)
			compacted = err == nil
		}
		// Report what was deleted, even if not everything was.
		return errors.Join(err, t.printForgotten(&done, compacted, o.json))
	})
}

func (t *tool) printForgotten(f *soma.Forgotten, compacted, asJSON bool) error {
	f.Entities, f.Unlinked = orEmpty(f.Entities), orEmpty(f.Unlinked)
	if asJSON {
		return printJSON(t.out, struct {
			*soma.Forgotten
			Compacted bool `json:"compacted"`
		}{f, compacted})
	}
	fmt.Fprintf(t.out, "forgot %s\n", plural(len(f.Entities), "entity", "entities"))
	for i := range f.Entities {
		e := &f.Entities[i]
		text := e.Type + "/" + e.ID
		if e.Cause != "" {
			text += "  derived from " + e.Cause
		}
		fmt.Fprintln(t.out, "   ", escape(text, false))
	}
	if len(f.Unlinked) > 0 {
		fmt.Fprintf(t.out, "took a link out of %s\n", plural(len(f.Unlinked), "entity", "entities"))
		for _, name := range f.Unlinked {
			fmt.Fprintln(t.out, "   ", escape(name, false))
		}
	}
	fmt.Fprintf(t.out, "deleted %s of history, search and links\n", plural(f.Records, "record", "records"))
	switch {
	case compacted:
		fmt.Fprintln(t.out, "compacted: the files of the store hold it no longer")
	case len(f.Entities) > 0:
		fmt.Fprintln(t.err, "strata: files of the store may still hold the text, until it is compacted: --compact does so")
	}
	return nil
}

// interactive reports whether there is somebody to ask.
func (t *tool) interactive() bool {
	f, ok := t.in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// confirm asks a question, and accepts only y or yes as yes.
func confirm(in io.Reader, out io.Writer, question string) (bool, error) {
	if _, err := fmt.Fprintf(out, "%s [y/N] ", question); err != nil {
		return false, err
	}
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}
