package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

func migrateCommand(t *tool) *cobra.Command {
	var db string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring documents from before the layers up to date",
		Long: `Moves entities without a layer to the archive, and the review state, which older
stores keep in status, to proposal_status. Canon ratified before there were
decision records gets one, which travels with a vault in git. Nothing else
changes, and a second run changes nothing. What cannot be read is reported and
left alone: then the exit status is 1.

In the history the actor is worker:migration.`,
		Example: "  strata migrate --db vault:notes\n  strata migrate --db agent.db --json",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return writeKnowledge(ctx, "migrate", db, func(s *soma.Store, _ storage.Adapter) error {
				m, err := s.MigrateToLayers(ctx)
				if err != nil {
					return err
				}
				return t.printMigrated(&m, asJSON)
			})
		},
	}
	knowledgeFlag(cmd, &db)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (t *tool) printMigrated(m *soma.Migrated, asJSON bool) error {
	m.Warnings = orEmpty(m.Warnings)
	if asJSON {
		if err := printJSON(t.out, m); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(t.out, "migrated %s, %s as they should be\n", plural(m.Migrated, "entity", "entities"), thousands(m.Skipped))
		if m.Converted > 0 {
			fmt.Fprintf(t.out, "converted %s\n", plural(m.Converted, "decision", "decisions"))
		}
		for _, w := range m.Warnings {
			fmt.Fprintln(t.err, "strata:", printable(w))
		}
	}
	if len(m.Warnings) > 0 {
		return fmt.Errorf("%s left alone", plural(len(m.Warnings), "entity was", "entities were"))
	}
	return nil
}
