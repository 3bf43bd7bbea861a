package soma_test

import (
	order "cmp"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// pick returns one of a list.
func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// oddStore has entities below canon whose fields are as a person may write them, each
// there or not, and of the right kind or not.
func oddStore(t *testing.T, r *rand.Rand, now time.Time) *soma.Store {
	t.Helper()
	db := mem.New()
	s, err := soma.Open(t.Context(), db, &soma.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	moment := func() any {
		return pick[any](r, now.AddDate(0, 0, -r.IntN(4)).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339), "soon", 7, nil)
	}
	fields := map[string]func() any{
		"name":    func() any { return pick[any](r, "n1", "n2", 3) },
		"status":  func() any { return pick[any](r, "active", "failed", "completed", "promoted", "rejected", false) },
		"layer":   func() any { return pick[any](r, "archive", "archive", "working", "emerging", "emerging", 1) },
		"team_id": func() any { return pick[any](r, "core", "ops", []string{"core"}) },
		"tags": func() any {
			return pick[any](r, []string{"a", "bottleneck"}, []string{"b"}, "bottleneck", []any{"a", 1})
		},
		"created":                moment,
		"updated":                moment,
		"decay_at":               moment,
		"body":                   func() any { return pick[any](r, "See [[insight/e001]] and [[none]].", "Nothing.", 4) },
		"agent_id":               func() any { return pick[any](r, "planner", "planner", "tester", 1) },
		"node_id":                func() any { return pick[any](r, "n1", "n9", 1) },
		"conformance_score":      func() any { return pick[any](r, 0.5, r.Float64(), "high") },
		soma.FieldConfidence:     func() any { return pick[any](r, 0.5, r.Float64(), 7, "high") },
		soma.FieldProposalStatus: func() any { return pick[any](r, soma.Pending, soma.Promoted, soma.Rejected, "", 1) },
		soma.FieldEvidence: func() any {
			return pick[any](r, []string{"[[insight/e002]]"}, []any{map[string]any{"id": "gone"}}, "e003")
		},
		soma.FieldOrigin: func() any { return pick[any](r, "e004", "lost", 1) },
		"related":        func() any { return pick[any](r, []string{"insight/e005"}, []string{"insight/away"}, "e006") },
		"contradicts":    func() any { return pick[any](r, []string{"e007", "missing"}, "absent") },
		"supersedes":     func() any { return pick[any](r, []string{"e008"}, "former") },
		"relations":      func() any { return []any{map[string]any{"to": pick(r, "e009", "nowhere"), "type": "blocks"}} },
	}
	for i := range 80 {
		document := make(map[string]any)
		for name, value := range fields {
			if r.IntN(6) > 0 {
				document[name] = value()
			}
		}
		value, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		if err := storage.Set(t.Context(), db, fmt.Sprintf("%s/e%03d", pick(r, "insight", "execution", "execution", "decision"), i), value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestScansDecideAsOnTheWhole compares what is chosen by some fields of stored
// documents with what is chosen of entities that were decoded whole: as the history
// has them.
func TestScansDecideAsOnTheWhole(t *testing.T) {
	now := time.Date(2026, 5, 20, 9, 0, 0, 0, time.UTC)
	chosen := map[string]int{}
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := oddStore(t, r, now)
		defer s.Close()
		same := func(what string, got, want any) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d: %s: (-whole +scan)\n%s", seed, what, diff)
			}
		}
		all := func(seq iter.Seq2[*soma.Entity, error]) (list []*soma.Entity) {
			t.Helper()
			for e, err := range seq {
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, e)
			}
			return list
		}
		past := s.AsOf(now.Add(time.Hour))
		for range 40 {
			at := func() time.Time { return pick(r, time.Time{}, now.AddDate(0, 0, -r.IntN(4))) }
			q := soma.Query{
				Type: pick(r, "", "insight"), Status: pick(r, "", "", "active"), Layer: pick(r, "", soma.Archive, soma.Emerging),
				Tag: pick(r, "", "", "a"), Team: pick(r, "", "core", soma.AllTeams),
				CreatedFrom: at(), CreatedTo: at(), UpdatedFrom: at(), UpdatedTo: at(), Offset: r.IntN(2), Limit: r.IntN(6),
			}
			want := all(past.Query(t.Context(), q))
			same(fmt.Sprintf("%+v", q), all(s.Query(t.Context(), q)), want)
			chosen["query"] += len(want)
		}

		state := func(e *soma.Entity) string {
			if e.Text(soma.FieldProposalStatus) == "" && slices.Contains([]string{soma.Promoted, soma.Rejected}, e.Status) {
				return e.Status
			}
			return order.Or(e.Text(soma.FieldProposalStatus), soma.Pending)
		}
		confidence := func(e *soma.Entity) float64 {
			c, ok := e.Confidence()
			if !ok {
				return -1
			}
			return c
		}
		emerging := all(past.Query(t.Context(), soma.Query{Layer: soma.Emerging, Team: soma.AllTeams}))
		waiting := slices.DeleteFunc(slices.Clone(emerging), func(e *soma.Entity) bool { return state(e) != soma.Pending })
		slices.SortStableFunc(waiting, func(a, b *soma.Entity) int {
			return order.Or(order.Compare(confidence(b), confidence(a)), a.Created.Compare(b.Created), order.Compare(a.ID, b.ID))
		})
		pending, err := s.Pending(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		same("pending", pending, waiting)
		chosen["pending"] += len(pending)

		consult := func(intent soma.Intent, team string) (list []*soma.Entity) {
			t.Helper()
			found, err := s.Consult(t.Context(), intent, soma.Query{Team: team, Limit: 5})
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range found {
				list = append(list, g.Entity)
			}
			return list
		}
		first := func(list []*soma.Entity) []*soma.Entity { return list[:min(len(list), 5)] }
		seen := func(e *soma.Entity) bool {
			_, odd := e.Fields["team_id"]
			return !odd && (e.Team == "" || e.Team == "core")
		}
		same("advice", consult(soma.Advise, "core"), first(slices.DeleteFunc(waiting, func(e *soma.Entity) bool { return !seen(e) })))
		working := all(past.Query(t.Context(), soma.Query{Layer: soma.Working, Team: "core"}))
		slices.SortStableFunc(working, func(a, b *soma.Entity) int { return b.Updated.Compare(a.Updated) })
		same("brief", consult(soma.Brief, "core"), first(working))

		ended, failed, score, last := 0, 0, 0.0, time.Time{}
		for _, e := range all(past.Query(t.Context(), soma.Query{Layer: soma.Archive, Type: "execution", Team: soma.AllTeams, CreatedFrom: now.AddDate(0, 0, -2)})) {
			if e.Text("agent_id") != "planner" {
				continue
			}
			if e.Status == "failed" {
				failed++
			}
			if e.Status == "failed" || e.Status == "completed" {
				ended++
			}
			if n, ok := e.Number("conformance_score"); ok && e.Created.After(last) {
				score, last = n, e.Created
			}
		}
		guard := s.PolicySource(48 * time.Hour)
		same("failure rate", guard.RecentFailureRate(t.Context(), "planner"), float64(failed)/float64(max(ended, 1)))
		got, _ := guard.LastConformanceScore(t.Context(), "planner")
		same("conformance score", got, score)
		for _, node := range []string{"n1", "n2", "n9"} {
			want := slices.ContainsFunc(emerging, func(e *soma.Entity) bool {
				tagged := slices.Contains(e.Tags, "bottleneck") || e.Text("tags") == "bottleneck"
				return tagged && (e.Name == node || e.Text("node_id") == node) && state(e) == soma.Pending
			})
			same("bottleneck", guard.IsKnownBottleneck(t.Context(), node), want)
		}

		var dangling []string
		for _, e := range emerging {
			links, err := s.Links(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range links {
				if _, err := s.Read(t.Context(), l.To); err != nil {
					dangling = append(dangling, e.ID+" "+l.Type+" "+l.To)
				}
			}
		}
		broken, err := s.CheckDanglingReferences(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, d := range broken {
			found = append(found, d.Entity[len(d.Entity)-4:]+" "+d.Type+" "+d.Missing)
		}
		same("dangling", found, dangling)
		chosen["dangling"] += len(found)

		var moved, bad []string
		for _, layer := range []soma.Layer{soma.Working, soma.Emerging} {
			for _, e := range all(past.Query(t.Context(), soma.Query{Layer: layer, Team: soma.AllTeams})) {
				switch name := e.Type + "/" + e.ID; {
				case layer == soma.Emerging && state(e) != soma.Pending:
				case e.DecayAt.IsZero():
					bad = append(bad, name)
				case !e.DecayAt.After(now):
					moved = append(moved, name)
				}
			}
		}
		done, err := s.As(soma.Worker("decay")).ProcessDecay(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		same("decay", done, soma.Decayed{Moved: moved, Bad: bad})
		chosen["decay"] += len(moved)
	}
	for _, what := range []string{"query", "pending", "dangling", "decay"} {
		if chosen[what] < 40 {
			t.Errorf("%s chose %d entities in all: too few to tell", what, chosen[what])
		}
	}
}
