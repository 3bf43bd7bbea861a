package soma

import (
	"context"
	"errors"
	"fmt"
)

// guidance and happening are aliases of the types of package layers: neither
// package knows the other.
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

// Guide returns what a layer has for a team, in the form in which
// layers.Knowledge puts it before an agent: all canon in force; pending
// proposals by confidence; the team's working entities, newest first; archived
// entities that bear on the query; and, as "rules", the canon and pending
// proposals that bear on the query.
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

// guide returns what an entity says to an agent.
func guide(e *Entity) guidance {
	g := guidance{Key: e.Key(), Name: e.Name, Text: e.Body}
	if g.Proposed = e.Layer == Emerging; g.Proposed {
		c, ok := e.Confidence()
		g.Confidence, g.Unsure = c, !ok
	}
	return g
}

// floor is the smallest share of a query that an entity must match to be put
// before an agent; see search.Query.
const floor = 0.25

// Harvest archives what an agent did, in order, as the worker harvester, and
// returns how many elements of the list it handled. The rest, whatever exceeds
// [MaxCreates] per run or follows an error, is to be passed again. An element
// whose ID is taken is skipped, for IDs are derived from what they name. An
// element that can never be an entity counts as handled and is an error.
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
