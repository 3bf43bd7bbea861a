package soma

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
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

// executions returns the executions of an agent in the window, in no order, with the
// fields that its methods read.
func (p *PolicySource) executions(ctx context.Context, agent string) []*candidate {
	var list []*candidate
	from := p.s.now().Add(-p.window)
	for e, err := range p.s.find(ctx, map[string]string{"layer": string(Archive)}, "execution", "agent_id", "created", "status", "conformance_score") {
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

// IsKnownBottleneck reports whether a pending proposal or canon in force with
// the tag bottleneck is about a node: by its field node_id, or by its name.
func (p *PolicySource) IsKnownBottleneck(ctx context.Context, node string) bool {
	for e, err := range p.s.find(ctx, map[string]string{"tags": "bottleneck"}, "", "node_id", "name", "status", FieldProposalStatus) {
		if err != nil || e.Unratified || e.Text("node_id") != node && e.Name != node {
			continue
		}
		if holds(e.Entity) || e.Layer == Emerging && e.proposalStatus() == Pending {
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

// Constraint is a canon policy that a machine can check, or what stands in for
// one that is withheld.
type Constraint struct {
	ID          string    `json:"id"` // of the canon entry, or the path of a file that may be one
	Name        string    `json:"name"`
	Condition   string    `json:"condition"`   // see package guard
	Enforcement string    `json:"enforcement"` // info, warn, error or abort
	Message     string    `json:"message"`     // the first line of the body; of what is withheld, why, and what to do
	Withheld    *Withheld `json:"-"`           // nil: the policy is in force as it was ratified
}

// Constraints returns the policies of canon in force for a team that have a
// condition, by id. One without an enforcement, or with one that is unknown,
// blocks: its enforcement is error.
//
// What cannot be judged is blocked. A policy that differs from what was ratified,
// is missing, cannot be read, or is the subject of decisions that contradict each
// other, is replaced by what the last decisions have on record: their
// conditions, with the enforcement warn for info and warn, and error for all
// others but abort. Where there is no such record, as for canon that nobody has
// decided about and for a file that cannot be told from a policy, every call is
// blocked, of all teams. A policy on record without a condition was against no
// call, and blocks none: [Store.Quarantined] lists it.
//
// An error means that the policies could not be looked for. Who guards calls
// blocks all of them then: see guard.Closed.
func (p *PolicySource) Constraints(ctx context.Context, team string) ([]Constraint, error) {
	all, err := p.s.entries(ctx, "policy")
	if err != nil {
		return nil, fmt.Errorf("read constraints: %w", err)
	}
	var list []Constraint
	for _, x := range all {
		if x.held != nil {
			list = append(list, x.held.constraints(team)...)
			continue
		}
		e := x.e
		if !holds(e) || e.Team != "" && e.Team != team || e.condition() == "" { // a team that cannot be read: for all
			continue
		}
		c := Constraint{ID: e.ID, Name: e.Name, Condition: e.condition(), Enforcement: e.Text("enforcement"), Message: firstLine(e.Body)}
		if !slices.Contains([]string{"info", "warn", "error", "abort"}, c.Enforcement) {
			c.Enforcement = "error"
		}
		list = append(list, c)
	}
	return list, nil
}

// condition returns what a policy is against, "" for nothing. One that is no
// text, as a person may write true, is its JSON: a guard reads it, or blocks.
func (e *Entity) condition() string {
	v, ok := e.Fields["condition"]
	if s, text := v.(string); text || !ok || v == nil {
		return s
	}
	value, err := json.Marshal(v)
	if err != nil { // what was read has a form
		return "true"
	}
	return string(value)
}

// constraints returns what stands in for a policy that is withheld.
func (h *Withheld) constraints(team string) []Constraint {
	name := cmp.Or(h.ID, h.Path, "a file")
	place := name
	if h.ID != "" && h.Path != "" {
		place += " (" + h.Path + ")"
	}
	var list []Constraint
	stand := func(condition, enforcement, effect string) {
		c := Constraint{ID: bareID(name), Name: name, Condition: condition, Enforcement: enforcement, Withheld: h}
		c.Message = fmt.Sprintf("%s is withheld, and %s until a person decides: %s: %s", place, effect, h.Reason, h.Repair)
		if !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	if st := h.decided; st == nil || len(st.damaged) > 0 || len(st.heads) == 0 {
		stand("true", "error", "every call is blocked")
		return list
	}
	for _, d := range h.decided.heads {
		inForce := d.Holds || h.Doubt == Contradicting || h.Entity != nil && h.Entity.Text(fieldRetiredAt) == ""
		if !inForce || d.Condition == "" || d.Team != "" && d.Team != team {
			continue
		}
		switch d.Enforcement {
		case "info", "warn":
			stand(d.Condition, "warn", "calls that it was against are warned of")
		case "abort":
			stand(d.Condition, "abort", "calls that it was against are blocked")
		default:
			stand(d.Condition, "error", "calls that it was against are blocked")
		}
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
