package soma

import (
	"context"
	"fmt"

	"github.com/stratamem/strata/storage"
)

// Migrated is what a migration did.
type Migrated struct {
	Migrated  int      `json:"migrated"`
	Skipped   int      `json:"skipped"`   // are as they should be
	Converted int      `json:"converted"` // records of decisions
	Warnings  []string `json:"warnings"`  // type/id: why it was left alone
}

// MigrateToLayers brings a store from before the layers up to date: entities
// without a layer become archive with the source worker migration, and proposals
// that have the state of their review in status get it in proposal_status. Nothing
// else of them changes. What people have ratified before there were records of
// decisions gets one. A second call changes nothing.
func (s *Store) MigrateToLayers(ctx context.Context) (Migrated, error) {
	var out Migrated
	r := s.reader()
	for key, err := range s.db.List(ctx, "") {
		if err != nil {
			return out, fmt.Errorf("migrate: %w", err)
		}
		if !storage.IsDocument(key) {
			continue
		}
		changed := false
		err := s.change(ctx, func(b *batch) error {
			changed = false
			e, err := r.load(ctx, key)
			if err != nil {
				return err
			}
			next := e.Clone()
			switch {
			case e.Layer == "" && e.Fields["layer"] == nil:
				next.Layer = Archive
				if next.SourceWorker == "" {
					next.SourceWorker = migration.Name
				}
			case e.Layer == Emerging && e.Text(FieldProposalStatus) == "" && e.proposalStatus() == e.Status:
				next.set(FieldProposalStatus, e.Status)
				next.Status = Statuses(e.Type)[0]
			default:
				return nil
			}
			changed = true
			return b.put(ctx, e, next, OpMigrate, migration, "")
		})
		switch {
		case ctx.Err() != nil:
			return out, ctx.Err()
		case err != nil:
			out.Warnings = append(out.Warnings, key+": "+err.Error())
		case changed:
			out.Migrated++
		default:
			out.Skipped++
		}
	}
	n, lost, err := s.convertAll(ctx)
	for _, id := range lost {
		out.Warnings = append(out.Warnings, id+": what was ratified is in no document and in no history: 'strata review ratify "+id+"' takes it as it is")
	}
	if out.Converted = n; err != nil {
		return out, fmt.Errorf("migrate: %w", err)
	}
	return out, nil
}
