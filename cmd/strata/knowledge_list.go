package main

import (
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

// selection are the flags that select entities.
type selection struct {
	kind, layer, status, tag, team string
}

func (o *selection) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.kind, "type", "", "only of this type")
	f.StringVar(&o.layer, "layer", "", "only of this layer: archive, working, emerging or canon")
	f.StringVar(&o.status, "status", "", "only of this status")
	f.StringVar(&o.tag, "tag", "", "only with this tag")
}

// query returns the selection as a query, for all teams if none is named.
func (o *selection) query(verb string) (soma.Query, error) {
	layer, err := knownLayer(verb, o.layer)
	q := soma.Query{Type: o.kind, Layer: layer, Status: o.status, Tag: o.tag, Team: o.team}
	if o.team == "" {
		q.Team = soma.AllTeams
	}
	return q, err
}

// listOptions are the flags of knowledge list and search.
type listOptions struct {
	selection
	db    string
	asOf  string
	limit int
	json  bool
}

func (o *listOptions) flags(cmd *cobra.Command, limit int, unlimited string) {
	knowledgeFlag(cmd, &o.db)
	o.selection.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.team, "team", "", "only what this team sees: its own, and entities without a team (default all)")
	f.IntVar(&o.limit, "limit", limit, "maximum number"+unlimited)
	f.BoolVar(&o.json, "json", false, "print JSON")
}

func knowledgeListCommand(t *tool) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the entities of the knowledge store",
		Long: `Lists entities by type and id: the layer, the status, when they last changed (UTC),
and their names. Canon that nobody has ratified is not listed: 'strata review
list' shows it.

--as-of lists them as they were at a time, according to the history in the
store. An edit by hand appears once 'strata knowledge sync' or a change has
noticed it.`,
		Example: "  strata knowledge list --db vault:notes\n  strata knowledge list --db agent.db --layer canon --team core --json\n  strata knowledge list --db agent.db --as-of 2026-01-31",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, at, err := o.query("knowledge list", time.Now())
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			return readKnowledge(ctx, "knowledge list", o.db, func(s *soma.Store) error {
				seq := s.Query(ctx, q)
				if !at.IsZero() {
					seq = s.AsOf(at).Query(ctx, q)
				}
				return t.printEntities(seq, o.json, nil)
			})
		},
	}
	o.flags(cmd, 0, " (default all)")
	cmd.Flags().StringVar(&o.asOf, "as-of", "", "as they were then: 2026-01-31, 2026-01-31T08:00:00Z, or a time ago such as 90m")
	return cmd
}

func (o *listOptions) query(verb string, now time.Time) (soma.Query, time.Time, error) {
	q, err := o.selection.query(verb)
	if err != nil {
		return q, time.Time{}, err
	}
	if o.limit < 0 {
		return q, time.Time{}, usagef("%s: --limit %d is negative", verb, o.limit)
	}
	q.Limit = o.limit
	at, err := momentFlag(verb+": --as-of", o.asOf, now)
	return q, at, err
}

func knowledgeSearchCommand(t *tool) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "search QUERY",
		Short: "Search the names and texts of entities",
		Long: `Searches the names and texts of entities by words, in any of their forms, best
first. Files of a vault that were edited by hand are found as they are now.`,
		Example: "  strata knowledge search 'deploy friday' --db vault:notes\n  strata knowledge search retries --db agent.db --layer canon --json",
		Args:    exactly(1, "a query (in quotes)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, _, err := o.query("knowledge search", time.Now())
			if err != nil {
				return err
			}
			if q.Text = args[0]; q.Text == "" {
				return usagef("knowledge search: the query is empty")
			}
			ctx := cmd.Context()
			return readKnowledge(ctx, "knowledge search", o.db, func(s *soma.Store) error {
				return t.printEntities(s.Query(ctx, q), o.json, func(p *screen, e *soma.Entity) {
					if e.Body != "" {
						p.printf("    %s\n", p.paint(faint, preview(e.Body, p.width()-4)))
					}
				})
			})
		},
	}
	o.flags(cmd, 10, "; 0 for all")
	return cmd
}

// printEntities prints a line for each entity, and below it whatever more
// prints.
func (t *tool) printEntities(seq iter.Seq2[*soma.Entity, error], asJSON bool, more func(p *screen, e *soma.Entity)) error {
	p := newScreen(t.out, t.env)
	all := []map[string]any{}
	n := 0
	for e, err := range seq {
		if err != nil {
			return err
		}
		n++
		if asJSON {
			all = append(all, documentOf(e))
			continue
		}
		p.entity(e)
		if more != nil {
			more(p, e)
		}
	}
	if asJSON {
		return printJSON(t.out, all)
	}
	if n == 0 {
		fmt.Fprintln(t.err, "strata: there is nothing to show")
	}
	return p.err
}

// entity prints an entity on one line.
func (s *screen) entity(e *soma.Entity) {
	at := "                "
	if !e.Updated.IsZero() {
		at = e.Updated.UTC().Format("2006-01-02 15:04")
	}
	lead := pad(preview(string(e.Layer), 8), 8) + "  " + pad(preview(e.Status, 10), 10) + "  "
	name := pad(escape(entityName(e), false), 28) + "  "
	s.printf("%s  %s%s%s\n", s.paint(faint, at), s.paint(layerColor(e.Layer), lead), s.paint(bold, name),
		preview(e.Name, max(s.width()-columns(lead)-columns(name)-18, 20)))
}

func layerColor(l soma.Layer) color {
	switch l {
	case soma.Canon:
		return green
	case soma.Emerging:
		return yellow
	case soma.Working:
		return cyan
	}
	return plain
}

func knowledgeSyncCommand(t *tool) *cobra.Command {
	var db string
	var reindex bool
	cmd := &cobra.Command{
		Use:   "sync",
		Short: "Take edits made by hand into the history",
		Long: `Takes documents that people wrote, changed or deleted by hand into the history,
the links and the search of the knowledge store, and says how many there were.
It reads every entity. Changes made through the store need no sync.

With --reindex the search index is rebuilt as well; nobody else should write the
store meanwhile.`,
		Example: "  strata knowledge sync --db vault:notes\n  strata knowledge sync --reindex --db agent.db",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return writeKnowledge(ctx, "knowledge sync", db, func(s *soma.Store, _ storage.Adapter) error {
				n, err := s.Sync(ctx)
				if err == nil && reindex {
					err = s.Rebuild(ctx)
				}
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(t.out, "took in %s\n", plural(n, "edit", "edits"))
				return err
			})
		},
	}
	knowledgeFlag(cmd, &db)
	cmd.Flags().BoolVar(&reindex, "reindex", false, "rebuild the search index")
	return cmd
}
