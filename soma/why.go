package soma

import (
	"context"
	"errors"
)

// Reason says why an entity is there: who made it, when and why, and of what.
type Reason struct {
	ID      string   // that was asked for, or cited
	Entity  *Entity  // nil: it is gone
	Link    string   // the type of the link that leads here; "" for the first
	Made    Version  // its first version; N is 0 if the history does not know
	Decided *Version // the review that promoted or rejected it, if there was one
	Changed bool     // since it was cited
	From    []Reason // what it cites, and the proposal that canon was made of
}

// Why returns the chain of evidence of an entity, down to what cites nothing.
// Each entity is followed once.
func (s *Store) Why(ctx context.Context, id string) (*Reason, error) {
	e, err := s.Read(ctx, id)
	if err != nil {
		return nil, err
	}
	r := &Reason{ID: e.ID, Entity: e}
	return r, s.why(ctx, r, map[string]bool{e.ID: true})
}

func (s *Store) why(ctx context.Context, r *Reason, had map[string]bool) error {
	if r.Entity == nil {
		return nil
	}
	for v, err := range s.versions(ctx, r.Entity.Key(), nil) {
		if err != nil {
			return err
		}
		if r.Made.N == 0 {
			r.Made = v
		}
		if v.Op == OpPromote || v.Op == OpReject {
			r.Decided = &v
		}
	}
	_, cited, err := s.Evidence(ctx, r.Entity.Type+"/"+r.Entity.ID)
	if err != nil {
		return err
	}
	var next []Reason
	if origin := r.Entity.Text(FieldOrigin); origin != "" {
		e, err := s.Read(ctx, origin)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		next = append(next, Reason{ID: bareID(origin), Entity: e, Link: LinkOrigin})
	}
	for _, c := range cited {
		next = append(next, Reason{ID: c.ID, Entity: c.Entity, Link: LinkEvidence, Changed: c.Changed})
	}
	for i := range next {
		if had[next[i].ID] {
			continue
		}
		had[next[i].ID] = true
		if err := s.why(ctx, &next[i], had); err != nil {
			return err
		}
		r.From = append(r.From, next[i])
	}
	return nil
}
