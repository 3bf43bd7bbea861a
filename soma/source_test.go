package soma_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

func TestPolicySource(t *testing.T) {
	eachEngine(t, func(w *world) {
		run := func(agent, status string, score any) {
			e := &soma.Entity{Type: "execution", Name: fmt.Sprint("run ", w.now().Unix(), agent), Status: status, Layer: soma.Archive, Fields: map[string]any{"agent_id": agent}}
			if score != nil {
				e.Fields["conformance_score"] = score
			}
			w.create(harvester, e)
			w.add(time.Minute)
		}
		p := w.PolicySource(24 * time.Hour)
		if got := p.RecentFailureRate(w.Context(), "planner"); got != 0 {
			w.Errorf("the rate of nothing is %v", got)
		}
		run("planner", "failed", 0.1)
		w.add(48 * time.Hour)
		run("planner", "failed", 0.9)
		run("planner", "completed", 0.7)
		run("planner", "completed", nil)
		run("planner", "completed", nil)
		run("planner", "running", nil)
		run("other", "failed", 0.2)
		// What a person has broken does not count.
		w.check(storage.Set(w.Context(), w.db, "execution/broken", []byte(`{"agent_id":["planner"],"layer":"archive","status":7,"created":"yesterday"}`)))
		if got := p.RecentFailureRate(w.Context(), "planner"); got != 0.25 {
			w.Errorf("failure rate %v, want 0.25", got)
		}
		if got, ok := p.LastConformanceScore(w.Context(), "planner"); got != 0.7 || !ok {
			w.Errorf("score %v, %t", got, ok)
		}
		if _, ok := p.LastConformanceScore(w.Context(), "nobody"); ok {
			w.Error("nobody has a score")
		}
		slow := w.proposed("the parser is slow", 0.5)
		slow.Tags, slow.Fields["node_id"] = []string{"bottleneck"}, "parser"
		w.create(synthesizer, slow)
		if !p.IsKnownBottleneck(w.Context(), "parser") || p.IsKnownBottleneck(w.Context(), "lexer") {
			w.Error("bottlenecks are not as noted")
		}
		w.check(w.As(anna).Reject(w.Context(), "the-parser-is-slow", "it is not"))
		if p.IsKnownBottleneck(w.Context(), "parser") {
			w.Error("what was rejected is a bottleneck")
		}
		w.create(harvester, &soma.Entity{Type: "agent", Name: "Planner", Layer: soma.Archive, Body: "plans"})
		if e := p.AgentProfile(w.Context(), "Planner"); e == nil || e.Body != "plans" {
			w.Errorf("profile %+v", e)
		}
		if e := p.AgentProfile(w.Context(), "nobody"); e != nil {
			w.Errorf("profile %+v", e)
		}

		policy := func(name, team, condition, enforcement string) {
			e := w.proposed(name, 1)
			e.Type, e.Team, e.Body = "policy", team, "# Say why\n\nmore"
			if condition != "" {
				e.Fields["condition"] = condition
			}
			if enforcement != "" {
				e.Fields["enforcement"] = enforcement
			}
			w.create(synthesizer, e)
			_, err := w.promote(anna, soma.Slug(name), "")
			w.check(err)
		}
		policy("no deploys", "", `tool == "deploy"`, "abort")
		policy("odd", "red", "true", "perhaps")
		policy("prose", "", "", "error")
		policy("old", "", "true", "warn")
		w.check(w.As(anna).Retire(w.Context(), "canon-old", "over"))
		constraints := func(team string) []soma.Constraint {
			list, err := p.Constraints(w.Context(), team)
			w.check(err)
			return list
		}
		w.same("constraints", constraints(""), []soma.Constraint{
			{ID: "canon-no-deploys", Name: "no deploys", Condition: `tool == "deploy"`, Enforcement: "abort", Message: "Say why"},
		})
		w.same("constraints of red", len(constraints("red")), 2)
		if c := constraints("red")[1]; c.Enforcement != "error" {
			w.Errorf("an unknown enforcement is %s", c.Enforcement)
		}
	})
}

func TestWhy(t *testing.T) {
	w := newWorld(t, "mem")
	w.create(harvester, archived("event", "it failed"))
	w.create(synthesizer, w.proposed("idea", 0.5, "event", "gone"))
	canon, err := w.promote(anna, "idea", "seen twice")
	w.check(err)
	_, err = w.As(anna).Update(w.Context(), "event", map[string]any{"body": "it did not"})
	w.check(err)
	why, err := w.Why(w.Context(), canon.ID)
	w.check(err)
	var lines []string
	var walk func(r *soma.Reason, depth int)
	walk = func(r *soma.Reason, depth int) {
		line := fmt.Sprintf("%d %s %s there=%t changed=%t by %s", depth, r.Link, r.ID, r.Entity != nil, r.Changed, r.Made.Actor)
		if r.Decided != nil {
			line += " decided by " + r.Decided.Actor + ": " + r.Decided.Reason
		}
		lines = append(lines, line)
		for i := range r.From {
			walk(&r.From[i], depth+1)
		}
	}
	walk(why, 0)
	w.same("why", lines, []string{
		"0  canon-idea there=true changed=false by person:anna",
		"1 origin idea there=true changed=false by worker:synthesizer decided by person:anna: seen twice",
		"2 evidence event there=true changed=true by worker:harvester",
		"2 evidence gone there=false changed=false by ",
	})
}
