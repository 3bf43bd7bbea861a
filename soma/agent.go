package soma

import (
	"context"
	"errors"
	"fmt"
)

// guidance and happening are the types of package layers, which are aliases of
// these: the two packages do not know each other.
type (
	guidance = struct {
		Key        string
		Name, Text string
		Proposed   bool
		Confidence float64
		Unsure     bool
	}
	happening = struct {
		ID, Type, Name, Status, Team, Body string
		Tags                               []string
		Fields                             map[string]any
	}
)

// Guide returns what a layer has for a team, in the form that layers.Knowledge
// puts before an agent: canon in force, all of it; pending proposals by their
// confidence; the team's working entities, the newest first; of the archive what
// bears on the query; and as "rules" what of canon and of pending proposals bears
// on the query.
func (s *Store) Guide(ctx context.Context, layer, team, query string, limit int) ([]guidance, error) {
	q := Query{Team: team, Limit: limit}
	if layer == "rules" {
		return s.rules(ctx, team, query, limit)
	}
	intent := map[Layer]Intent{Canon: Enforce, Emerging: Advise, Working: Brief, Archive: Route}[Layer(layer)]
	switch Layer(layer) {
	case Canon:
		q.Limit = 0
	case Archive:
		if query == "" {
			return nil, nil
		}
		q.Text, q.floor = query, floor
	}
	list, err := s.Consult(ctx, intent, q)
	if err != nil {
		return nil, err
	}
	var out []guidance
	for _, g := range list {
		out = append(out, guide(g.Entity))
	}
	return out, nil
}

func (s *Store) rules(ctx context.Context, team, query string, limit int) ([]guidance, error) {
	var out []guidance
	if query == "" {
		return nil, nil
	}
	for e, err := range s.Query(ctx, Query{Team: team, Text: query, floor: floor}) {
		if err != nil {
			return nil, err
		}
		if !holds(e) && (e.Layer != Emerging || e.proposalStatus() != Pending) {
			continue
		}
		if out = append(out, guide(e)); len(out) == limit {
			break
		}
	}
	return out, nil
}

// guide is what an entity says to an agent.
func guide(e *Entity) guidance {
	g := guidance{Key: e.Key(), Name: e.Name, Text: e.Body}
	if g.Proposed = e.Layer == Emerging; g.Proposed {
		c, ok := e.Confidence()
		g.Confidence, g.Unsure = c, !ok
	}
	return g
}

// floor is the least of what a query asks for that an entity must have to be put
// before an agent; see search.Query.
const floor = 0.25

// Harvest keeps what an agent did in the archive, as the worker harvester, in
// order, and returns how much of the list it has taken: what is over the
// [MaxCreates] of one run is to be given again, and so is what comes after an
// error. What has an id that is taken is left alone: ids are the same for the
// same. What can never be an entity counts as taken, and is an error.
func (s *Store) Harvest(ctx context.Context, list []happening) (taken int, err error) {
	w := s.As(Worker("harvester"))
	var refused error
	for i, h := range list {
		_, err := w.Create(ctx, &Entity{
			Type: h.Type, ID: h.ID, Name: h.Name, Status: h.Status, Team: h.Team, Body: h.Body, Tags: h.Tags, Fields: h.Fields, Layer: Archive,
		})
		switch {
		case err == nil, errors.Is(err, ErrExists):
		case errors.Is(err, ErrCreateLimit):
			return i, refused
		case errors.As(err, new(*FieldError)), errors.As(err, new(*PermissionError)):
			refused = errors.Join(refused, fmt.Errorf("harvest: %w", err))
		default:
			return i, errors.Join(refused, fmt.Errorf("harvest: %w", err))
		}
	}
	return len(list), refused
}
