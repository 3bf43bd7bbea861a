package soma

import (
	"context"
	"fmt"
	"slices"
)

// Intent is why an agent asks for knowledge.
type Intent string

// The intents, with the layer that answers and the weight of what it says.
const (
	Enforce Intent = "enforce" // canon: mandatory
	Advise  Intent = "advise"  // pending proposals: advisory
	Brief   Intent = "brief"   // the team's working layer: contextual
	Route   Intent = "route"   // archive: historical
	All     Intent = "all"     // each of them; working only with a team
)

// Weights are the semantic weights, by layer.
var weights = map[Layer]string{Canon: "mandatory", Emerging: "advisory", Working: "contextual", Archive: "historical"}

// Guidance is an entity with what it counts for.
type Guidance struct {
	*Entity
	SourceLayer    Layer   `json:"source_layer"`
	SemanticWeight string  `json:"semantic_weight"`      // mandatory, advisory, contextual, historical
	Confidence     float64 `json:"confidence,omitempty"` // of advice, in [0, 1]; 0 if it says none, see [Entity.Confidence]
}

// Consult returns what holds for a team on an intent: the strongest layer first,
// then advice by confidence, what says none last, and the rest the newest first. It changes nothing,
// takes no lock, and never shows a team what another team's is. q narrows it by
// type, status, tag, text, times and limit, which counts for each layer; its
// Team is the team that asks.
func (s *Store) Consult(ctx context.Context, intent Intent, q Query) ([]Guidance, error) {
	if q.Team == AllTeams {
		return nil, fmt.Errorf("consult: one team asks, not all")
	}
	var layers []Layer
	switch intent {
	case Enforce:
		layers = []Layer{Canon}
	case Advise:
		layers = []Layer{Emerging}
	case Brief:
		if q.Team == "" {
			return nil, fmt.Errorf("consult: %w", fault("team_id", "a brief is of a team"))
		}
		layers = []Layer{Working}
	case Route:
		layers = []Layer{Archive}
	case All:
		layers = []Layer{Canon, Emerging, Working, Archive}
	default:
		return nil, fmt.Errorf("consult: there is no intent %q: there are enforce, advise, brief, route and all", intent)
	}
	var out []Guidance
	for _, layer := range layers {
		if layer == Working && q.Team == "" {
			continue
		}
		list, err := s.consult(ctx, layer, q)
		if err != nil {
			return nil, fmt.Errorf("consult: %w", err)
		}
		out = append(out, list...)
	}
	return out, nil
}

func (s *Store) consult(ctx context.Context, layer Layer, q Query) ([]Guidance, error) {
	limit := q.Limit
	q.Layer, q.Limit = layer, 0
	ordersBy := []string{"updated"}
	if layer == Emerging {
		ordersBy = waitsBy
	}
	var list []*candidate
	for c, err := range q.page(s.candidates(ctx, &q, ordersBy...)) {
		if err != nil {
			return nil, err
		}
		if layer == Canon && !holds(c.Entity) || layer == Emerging && c.proposalStatus() != Pending {
			continue
		}
		if list = append(list, c); q.Text != "" && len(list) == limit {
			break
		}
	}
	switch {
	case q.Text != "":
	case layer == Emerging:
		sortByConfidence(list)
	default:
		slices.SortStableFunc(list, func(a, b *candidate) int { return b.Updated.Compare(a.Updated) })
	}
	if limit > 0 {
		list = list[:min(len(list), limit)]
	}
	var out []Guidance
	for _, c := range list {
		g := Guidance{Entity: c.whole(), SourceLayer: layer, SemanticWeight: weights[layer]}
		if layer == Emerging {
			g.Confidence, _ = g.Entity.Confidence()
		}
		out = append(out, g)
	}
	return out, nil
}
