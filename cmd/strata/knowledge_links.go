package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

// linksOptions are the flags of knowledge links.
type linksOptions struct {
	db, team string
	types    []string
	depth    int
	json     bool
}

func knowledgeLinksCommand(t *tool) *cobra.Command {
	var o linksOptions
	cmd := &cobra.Command{
		Use:   "links [ID]",
		Short: "Follow the links around an entity, or find those that lead nowhere",
		Long: `Follows the links from and to an entity, nearest first, as far as --depth. Each
line has the distance, the last link on the way, and the entity that it leads
to.

Without an entity it lists the links of emerging and canon entities whose target
does not exist; if there are any, the exit status is 1.`,
		Example: "  strata knowledge links insight/retries --depth 2 --db vault:notes\n  strata knowledge links retries --type contradicts --db agent.db --json\n  strata knowledge links --db agent.db",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("knowledge links: too many arguments: wants one entity, or none")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.depth < 1 {
				return usagef("knowledge links: --depth %d is not at least 1", o.depth)
			}
			for _, flag := range []string{"depth", "type", "team"} {
				if len(args) == 0 && cmd.Flags().Changed(flag) {
					return usagef("knowledge links: --%s is of no use without an entity", flag)
				}
			}
			ctx := cmd.Context()
			return readKnowledge(ctx, "knowledge links", o.db, func(s *soma.Store) error {
				if len(args) == 0 {
					return t.printDangling(ctx, s, o.json)
				}
				return t.printNeighbors(ctx, s, args[0], &o)
			})
		},
	}
	knowledgeFlag(cmd, &o.db)
	f := cmd.Flags()
	f.IntVar(&o.depth, "depth", 1, "maximum number of links to follow")
	f.StringArrayVar(&o.types, "type", nil, "only along links of this type (may be repeated)")
	f.StringVar(&o.team, "team", soma.AllTeams, "only through entities that this team sees")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// neighbor is how JSON shows one.
type neighbor struct {
	Depth    int            `json:"depth"`
	Via      []soma.Link    `json:"via"`
	Document map[string]any `json:"document"`
}

func (t *tool) printNeighbors(ctx context.Context, s *soma.Store, id string, o *linksOptions) error {
	list, err := s.Neighbors(ctx, id, o.team, o.depth, o.types...)
	if err != nil {
		return err
	}
	if o.json {
		all := []neighbor{}
		for _, n := range list {
			all = append(all, neighbor{n.Depth, n.Via, documentOf(n.Entity)})
		}
		return printJSON(t.out, all)
	}
	if len(list) == 0 {
		fmt.Fprintln(t.err, "strata: there is nothing to show")
	}
	p := newScreen(t.out, t.env)
	for _, n := range list {
		last := n.Via[len(n.Via)-1]
		p.printf("%3d  %s  %s  %s\n", n.Depth, p.paint(faint, escape(fmt.Sprintf("%s %s → %s", last.From, last.Type, last.To), false)),
			p.paint(bold, escape(entityName(n.Entity), false)), escape(n.Entity.Name, false))
	}
	return p.err
}

func (t *tool) printDangling(ctx context.Context, s *soma.Store, asJSON bool) error {
	list, err := s.CheckDanglingReferences(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(t.out, orEmpty(list))
	} else {
		for _, d := range list {
			fmt.Fprintf(t.out, "%-8s  %s  %s → %s\n", d.Layer, escape(d.Entity, false), escape(d.Type, false), escape(d.Missing, false))
		}
	}
	if err == nil && len(list) > 0 {
		err = fmt.Errorf("%s nowhere: restore what is missing, or mend the entity", plural(len(list), "link leads", "links lead"))
	}
	return err
}

func knowledgeLinkCommand(t *tool) *cobra.Command {
	var db, as, kind string
	var sets []string
	cmd := &cobra.Command{
		Use:   "link FROM TO",
		Short: "Say how an entity relates to another",
		Long: `Adds a typed relation from an entity to another, or replaces the properties of the
one that is there. The type is a word of your own, such as blocks or contradicts:
'strata review' shows what canon a proposal contradicts.

Both are named by id or type/id. Canon is not edited: relate the other entity to
it instead.`,
		Example: "  strata knowledge link insight/no-friday-deploys insight/deploy-daily --type contradicts --db vault:notes --as anna",
		Args:    exactly(2, "two entities"),
		RunE: func(cmd *cobra.Command, args []string) error {
			actor, err := t.person("knowledge link", as)
			if err != nil {
				return err
			}
			if kind == "" {
				return usagef("knowledge link: --type is missing: a word that says how they relate")
			}
			properties, err := parseFields("knowledge link", "--property", sets)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			return writeKnowledge(ctx, "knowledge link", db, func(s *soma.Store, _ storage.Adapter) error {
				return s.As(actor).Relate(ctx, args[0], args[1], kind, properties)
			})
		},
	}
	knowledgeFlag(cmd, &db)
	actorFlag(cmd, &as)
	f := cmd.Flags()
	f.StringVar(&kind, "type", "", "how they relate (required)")
	f.StringArrayVar(&sets, "property", nil, "a property of the relation, as name=value (may be repeated)")
	return cmd
}
