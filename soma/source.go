package soma

import (
	"context"
	"slices"
	"strings"
	"time"
)

// PolicySource answers what guards ask before an agent goes on. It never fails:
// what cannot be read counts as unknown.
type PolicySource struct {
	s      *Store
	window time.Duration
}

// PolicySource returns the answers of a store, over a sliding window of time; 0
// means 7 days.
func (s *Store) PolicySource(window time.Duration) *PolicySource {
	if window <= 0 {
		window = 7 * 24 * time.Hour
	}
	return &PolicySource{s, window}
}

// executions yields the executions of an agent in the window, in no order.
func (p *PolicySource) executions(ctx context.Context, agent string) []*Entity {
	var list []*Entity
	from := p.s.now().Add(-p.window)
	for e, err := range p.s.find(ctx, map[string]string{"layer": string(Archive)}, "execution", 0) {
		if err == nil && e.Text("agent_id") == agent && !e.Created.Before(from) {
			list = append(list, e)
		}
	}
	return list
}

// RecentFailureRate returns how many of the executions of an agent in the window
// that have ended failed, from 0 to 1; 0 if there are none.
func (p *PolicySource) RecentFailureRate(ctx context.Context, agent string) float64 {
	ended, failed := 0, 0
	for _, e := range p.executions(ctx, agent) {
		switch e.Status {
		case "failed":
			ended++
			failed++
		case "completed":
			ended++
		}
	}
	if ended == 0 {
		return 0
	}
	return float64(failed) / float64(ended)
}

// IsKnownBottleneck tells whether a pending proposal or canon in force with the
// tag bottleneck is about a node: by its field node_id, or by its name.
func (p *PolicySource) IsKnownBottleneck(ctx context.Context, node string) bool {
	for e, err := range p.s.find(ctx, map[string]string{"tags": "bottleneck"}, "", 0) {
		if err != nil || e.Unratified || e.Text("node_id") != node && e.Name != node {
			continue
		}
		if holds(e) || e.Layer == Emerging && e.proposalStatus() == Pending {
			return true
		}
	}
	return false
}

// LastConformanceScore returns the field conformance_score of the newest
// execution of an agent in the window that has one, and false if none has.
func (p *PolicySource) LastConformanceScore(ctx context.Context, agent string) (float64, bool) {
	score, ok := 0.0, false
	var last time.Time
	for _, e := range p.executions(ctx, agent) {
		if n, has := e.Number("conformance_score"); has && (!ok || e.Created.After(last)) {
			score, ok, last = n, true, e.Created
		}
	}
	return score, ok
}

// AgentProfile returns the entity of an agent, or nil.
func (p *PolicySource) AgentProfile(ctx context.Context, agent string) *Entity {
	for _, id := range []string{"agent/" + agent, "agent/" + Slug(agent)} {
		if e, err := p.s.Read(ctx, id); err == nil && !e.Unratified {
			return e
		}
	}
	return nil
}

// Constraint is a canon policy that a machine can check.
type Constraint struct {
	ID          string `json:"id"` // of the canon entry
	Name        string `json:"name"`
	Condition   string `json:"condition"`   // see package guard
	Enforcement string `json:"enforcement"` // info, warn, error or abort
	Message     string `json:"message"`     // the first line of the body
}

// Constraints returns the policies of canon in force for a team that have a
// condition, by id. One without an enforcement, or with one that is unknown,
// blocks: its enforcement is error.
func (p *PolicySource) Constraints(ctx context.Context, team string) []Constraint {
	var list []Constraint
	for e, err := range p.s.find(ctx, map[string]string{"layer": string(Canon)}, "policy", 0) {
		if err != nil || e.Unratified || !holds(e) || !e.visible(team) || e.Text("condition") == "" {
			continue
		}
		c := Constraint{e.ID, e.Name, e.Text("condition"), e.Text("enforcement"), firstLine(e.Body)}
		if !slices.Contains([]string{"info", "warn", "error", "abort"}, c.Enforcement) {
			c.Enforcement = "error"
		}
		list = append(list, c)
	}
	return list
}

// firstLine returns the first line of a text that is not empty, without the
// marks of a heading.
func firstLine(text string) string {
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(strings.TrimLeft(l, "# \t")); l != "" {
			return l
		}
	}
	return ""
}
