package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

func decayCommand(t *tool) *cobra.Command {
	var db string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "decay",
		Short: "Move knowledge that is due to the archive",
		Long: `Moves working and emerging entities to the archive whose decay_at has come. They
keep their ids, so that links still lead to them. Proposals that a person has
promoted or rejected stay. Those whose decay_at is missing, or not a time, stay
as well and are reported: then the exit status is 1.

In the history the actor is worker:decay. Run it as often as you like: once a
day is enough.`,
		Example: "  strata decay --db agent.db\n  strata decay --db vault:notes --json",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return writeKnowledge(ctx, "decay", db, func(s *soma.Store, _ storage.Adapter) error {
				d, err := s.As(soma.Worker("decay")).ProcessDecay(ctx)
				if printed := t.printDecayed(&d, asJSON); err == nil {
					err = printed
				}
				return err
			})
		},
	}
	knowledgeFlag(cmd, &db)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// printDecayed prints what was moved, even if the rest was not.
func (t *tool) printDecayed(d *soma.Decayed, asJSON bool) error {
	d.Moved, d.Bad = orEmpty(d.Moved), orEmpty(d.Bad)
	if asJSON {
		if err := printJSON(t.out, d); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(t.out, "moved %s to the archive\n", plural(len(d.Moved), "entity", "entities"))
		for _, name := range d.Moved {
			fmt.Fprintln(t.out, "   ", escape(name, false))
		}
		for _, name := range d.Bad {
			fmt.Fprintln(t.err, "strata: it has no time of decay:", escape(name, false))
		}
	}
	if len(d.Bad) > 0 {
		return fmt.Errorf("%s no decay_at that is a time: mend it by hand", plural(len(d.Bad), "entity has", "entities have"))
	}
	return nil
}

// orEmpty returns a list that is never null in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
