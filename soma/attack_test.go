package soma_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

// onHandAndMem runs a test on the plainest engine, and on the one whose documents
// are files.
func onHandAndMem(t *testing.T, f func(w *world)) {
	for _, engine := range []string{"mem", "vault"} {
		t.Run(engine, func(t *testing.T) { f(newWorld(t, engine)) })
	}
}

var (
	red  = soma.Agent("planner", "red")
	blue = soma.Agent("planner", "blue")

	// ofReviews are the fields that governance alone sets.
	ofReviews = []string{
		"reviewed_by", "reviewed_at", "review_reason", "retired_at", "proposal_status",
		"ratified_by", "ratified_at", "ratified_digest", "ratified_", "origin_l3_id",
	}
	// writers are who writes where.
	writers = map[soma.Layer][]soma.Actor{
		soma.Archive:  {harvester, soma.Worker("reconciler"), red, anna},
		soma.Working:  {teamContext, red, anna},
		soma.Emerging: {synthesizer, soma.Worker("cartographer"), anna},
	}
)

// of makes an entity of a layer that is as it should be.
func (w *world) of(layer soma.Layer, name string) *soma.Entity {
	switch layer {
	case soma.Archive:
		return archived(name, "body of "+name)
	case soma.Working:
		return w.worked(name, "red")
	}
	return w.proposed(name, 0.5)
}

// refused tests that an error is a PermissionError, about a field if one is
// named, and that the store is as it was, unless before is nil.
func (w *world) refused(what, field string, err error, before map[string]string) {
	w.Helper()
	var denied *soma.PermissionError
	if !errors.As(err, &denied) || denied.Field != field || !strings.Contains(err.Error(), field) {
		w.Errorf("%s: %v, want a PermissionError for %q", what, err, field)
	}
	if before != nil {
		w.same("the store after "+what, w.dump(), before)
	}
}

// Nobody but governance sets what governance decides: each field, by each verb,
// of each writer, in each layer.
func TestFieldsOfReviews(t *testing.T) {
	onHandAndMem(t, func(w *world) {
		for layer, actors := range writers {
			for i, actor := range actors {
				there := w.create(actor, w.of(layer, fmt.Sprint("there ", i)))
				// A file may have what no writer may write.
				byHand := make(map[string]string)
				for j, field := range append(slices.Clone(ofReviews), "decayed_from") {
					e := w.create(actor, w.of(layer, fmt.Sprint("by hand ", i, j)))
					byHand[field] = e.ID
					if field == "proposal_status" && layer == soma.Emerging {
						continue // it has one
					}
					document, _, err := w.db.Get(w.Context(), e.Key())
					w.check(err)
					w.check(storage.Set(w.Context(), w.db, e.Key(), []byte(strings.Replace(string(document), `{"type"`, `{"`+field+`":"x","type"`, 1))))
				}
				before := w.dump()
				create := func(field string, v any) {
					e := w.of(layer, "new")
					if e.Fields == nil {
						e.Fields = make(map[string]any)
					}
					e.Fields[field] = v
					_, err := w.As(actor).Create(w.Context(), e)
					w.refused(fmt.Sprintf("create %s with %s %v by %v", layer, field, v, actor), field, err, nil)
				}
				update := func(id, field string, v any) {
					_, err := w.As(actor).Update(w.Context(), id, map[string]any{"body": "x", field: v})
					w.refused(fmt.Sprintf("update %s with %s %v by %v", layer, field, v, actor), field, err, nil)
				}
				for field, id := range byHand {
					for _, v := range []any{"rejected", "promoted", 1, []string{"pending"}, map[string]any{"x": "y"}, true} {
						create(field, v)
						update(there.ID, field, v)
					}
					create(field, nil)
					update(id, field, nil)
				}
				update(there.ID, "decay_at", "2099-01-01T00:00:00.000Z")
				update(there.ID, "source_worker", "governance")
				update(there.ID, "source_worker", nil)
				w.same(fmt.Sprintf("the store after %v in %s", actor, layer), w.dump(), before)
			}
		}
		for _, worker := range []string{"migration", "decay", "policy-bridge", "person", "agent", ""} {
			for _, layer := range soma.Layers {
				e := w.of(layer, "by nobody")
				e.Layer = layer
				if _, err := w.As(soma.Worker(worker)).Create(w.Context(), e); !errors.As(err, new(*soma.PermissionError)) && worker != "agent" {
					w.Errorf("the worker %q creates in %s: %v", worker, layer, err)
				}
			}
		}
	})
}

// A proposal without a state of its review is of an older vault, which has it in
// the status: that is the review's as well.
func TestStatusOfReviews(t *testing.T) {
	onHandAndMem(t, func(w *world) {
		w.check(storage.Set(w.Context(), w.db, "insight/old", []byte(
			`{"name":"old","layer":"emerging","status":"active","source_worker":"x","decay_at":"2027-01-01T00:00:00.000Z","confidence_score":0.5,"evidence_links":[]}`)))
		before := w.dump()
		_, err := w.As(synthesizer).Update(w.Context(), "old", map[string]any{"status": "rejected"})
		w.refused("a rejection by status", "status", err, before)
		_, err = w.As(synthesizer).Update(w.Context(), "old", map[string]any{"status": "superseded"})
		w.check(err)
	})
}

// Whatever an author calls a field, canon that a person promotes is served, and
// what is like a field of a review is none.
func TestPromotedIsServed(t *testing.T) {
	onHandAndMem(t, func(w *world) {
		for i, field := range []string{
			" retired_at", "retired_at ", "RETIRED_AT", "Retired_At", "retired\u200b_at", "retired_at\u0000", "<<", "retired-at",
			"retired_at.x", "fields.retired_at", "\ufeffretired_at", "ratified", "{retired_at}", "retired_at:", "- retired_at", "? retired_at",
		} {
			e := w.proposed(fmt.Sprint("like ", i), 0.5)
			e.Fields[field] = map[string]any{"retired_at": "2026-01-01T00:00:00.000Z", "ratified_by": "x"}
			if strings.HasPrefix(field, "re") {
				e.Fields[field] = "2026-01-01T00:00:00.000Z"
			}
			made, err := w.As(synthesizer).Create(w.Context(), e)
			if err != nil {
				continue // the store has no such field
			}
			canon, err := w.promote(anna, made.ID, "")
			w.check(err)
			if got := w.consult(soma.Enforce, ""); !slices.Contains(got, canon.ID) {
				w.Errorf("with the field %q, canon is not served", field)
			}
		}
		// A file may have what no writer may write.
		w.check(storage.Set(w.Context(), w.db, "insight/by-hand", []byte(
			`{"name":"by hand","layer":"emerging","status":"active","source_worker":"x","decay_at":"2027-01-01T00:00:00.000Z","confidence_score":0.5,"evidence_links":["like-0"],`+
				`"retired_at":"2026-01-01T00:00:00.000Z","reviewed_by":"x","ratified_by":"x","ratified_digest":"x","origin_l3_id":"x","decayed_from":"working","review_reason":{"a":1}}`)))
		canon, err := w.promote(anna, "by-hand", "")
		w.check(err)
		if got := w.consult(soma.Enforce, ""); !slices.Contains(got, canon.ID) {
			w.Error("canon of a file that says it is retired is not served")
		}
		for _, field := range append(slices.Clone(ofReviews), "decayed_from") {
			own := map[string]string{"ratified_by": "anna", "ratified_at": "2026-05-04T09:00:00.000Z", "origin_l3_id": "by-hand"}[field]
			if got, ok := canon.Fields[field]; ok != (own != "") || ok && got != own {
				w.Errorf("canon has %s %v", field, got)
			}
		}
		if v := canon.Evidence(); len(v) != 1 || v[0].Digest == "" {
			w.Errorf("what canon cites has no digest: %+v", v)
		}
	})
}

// What was decided stays as it was, whoever comes, and does not decay.
func TestDecidedIsFrozen(t *testing.T) {
	onHandAndMem(t, func(w *world) {
		w.create(harvester, archived("event", "x"))
		for _, name := range []string{"kept", "dropped"} {
			w.create(synthesizer, w.proposed(name, 0.5, "event"))
		}
		_, err := w.promote(anna, "kept", "")
		w.check(err)
		w.check(w.As(anna).Reject(w.Context(), "dropped", "thin"))
		w.add(1000 * 24 * time.Hour)
		before := w.dump()
		for _, id := range []string{"kept", "dropped"} {
			for _, actor := range []soma.Actor{synthesizer, soma.Worker("cartographer"), anna, soma.Person("ben")} {
				update := func(field string, value any) error {
					_, err := w.As(actor).Update(w.Context(), id, map[string]any{field: value})
					return err
				}
				for name, err := range map[string]error{
					"update body": update("body", "x"), "update name": update("name", "x"), "update tags": update("tags", []string{"x"}),
					"update confidence": update("confidence_score", 1), "update evidence": update("evidence_links", []string{}),
					"relate": w.As(actor).Relate(w.Context(), id, "event", "blocks", nil),
					"remove": w.As(actor).Remove(w.Context(), id, "x"),
				} {
					if decided, ok := errors.AsType[*soma.GovernanceError](err); !ok || decided.ID != id || !strings.Contains(err.Error(), "as it was decided") {
						w.Errorf("%s of %s by %v: %v", name, id, actor, err)
					}
				}
				w.check(w.As(actor).ExtendDecayOnAccess(w.Context(), id))
			}
		}
		decayed, err := w.As(soma.Worker("decay")).ProcessDecay(w.Context())
		w.check(err)
		w.same("decayed", decayed, soma.Decayed{})
		w.same("the store", w.dump(), before)
		if _, err := w.As(anna).Forget(w.Context(), "dropped", "it is to go"); err != nil {
			w.Errorf("forget what was rejected: %v", err)
		}
	})
}

// What another team has is not there, by any verb.
func TestTeamsOfWriters(t *testing.T) {
	onHandAndMem(t, func(w *world) {
		w.create(teamContext, w.worked("plan", "red"))
		secret := archived("secret", "of red")
		secret.Team = "red"
		w.create(harvester, secret)
		w.create(harvester, archived("shared", "of all"))
		idea := w.proposed("idea", 0.5)
		idea.Team = "red"
		w.create(synthesizer, idea)
		w.check(storage.Set(w.Context(), w.db, "decision/odd", []byte(`{"name":"odd","layer":"archive","status":"active","source_worker":"x","team_id":["red"],"body":"of red"}`)))
		own := archived("own", "of blue")
		own.Team = "blue"
		w.create(blue, own)
		before := w.dump()
		for _, id := range []string{"plan", "insight/plan", "secret", "decision/secret", "idea", "odd", "nothing", "decision/nothing"} {
			_, update := w.As(blue).Update(w.Context(), id, map[string]any{"body": "x", "retired_at": "x"})
			for name, err := range map[string]error{
				"update": update, "remove": w.As(blue).Remove(w.Context(), id, "x"),
				"relate":    w.As(blue).Relate(w.Context(), id, "own", "blocks", nil),
				"relate to": w.As(blue).Relate(w.Context(), "own", id, "blocks", nil),
				"extend":    w.As(blue).ExtendDecayOnAccess(w.Context(), id),
			} {
				if !errors.Is(err, soma.ErrNotFound) || errors.As(err, new(*soma.PermissionError)) || strings.ReplaceAll(err.Error(), id, "nothing") !=
					strings.ReplaceAll(w.missing(name, blue).Error(), "decision/nothing", "nothing") {
					w.Errorf("%s of %s by another team: %v", name, id, err)
				}
			}
			for name, f := range map[string]func() error{
				"forget":  func() error { _, err := w.As(blue).Forget(w.Context(), id, "x"); return err },
				"promote": func() error { _, err := w.As(blue).Promote(w.Context(), id, "x", ""); return err },
				"reject":  func() error { return w.As(blue).Reject(w.Context(), id, "x") },
				"retire":  func() error { return w.As(blue).Retire(w.Context(), id, "x") },
				"ratify":  func() error { return w.As(blue).Ratify(w.Context(), id, "x") },
				"supersede": func() error {
					_, err := w.As(blue).Supersede(w.Context(), id, id, "x", "x")
					return err
				},
			} {
				if err := f(); err == nil || errors.Is(err, soma.ErrNotFound) {
					w.Errorf("%s of %s by an agent: %v", name, id, err)
				}
			}
		}
		if _, err := w.As(blue).ProcessDecay(w.Context()); !errors.As(err, new(*soma.PermissionError)) {
			w.Errorf("an agent decays: %v", err)
		}
		w.same("the store", w.dump(), before)

		// Nor does what an agent cites say anything of it.
		citing := archived("citing", "x")
		citing.Fields = map[string]any{"evidence_links": []any{"secret", "shared", "nothing", "odd"}}
		got := w.create(blue, citing).Evidence()
		for i, seen := range []bool{false, true, false, false} {
			if (got[i].Digest != "") != seen {
				w.Errorf("cites %+v", got[i])
			}
		}
		// A team is not a field that an agent sets as it likes.
		sly := archived("sly", "x")
		sly.Fields = map[string]any{"team_id": "red"}
		before = w.dump()
		_, err := w.As(blue).Create(w.Context(), sly)
		w.refused("create for another team", "", err, before)
		for _, team := range []any{"red", nil, "blue"} {
			for _, id := range []string{"own", "shared"} {
				_, err := w.As(blue).Update(w.Context(), id, map[string]any{"team_id": team})
				if id == "own" && team == "blue" || id == "shared" && team == nil {
					w.check(err)
					continue
				}
				w.refused(fmt.Sprintf("move %s to %v", id, team), "team_id", err, nil)
			}
		}
	})
}

// missing is what a verb says of what is not there.
func (w *world) missing(verb string, actor soma.Actor) error {
	const id = "decision/nothing"
	switch verb {
	case "update":
		_, err := w.As(actor).Update(w.Context(), id, map[string]any{})
		return err
	case "remove":
		return w.As(actor).Remove(w.Context(), id, "x")
	case "relate":
		return w.As(actor).Relate(w.Context(), id, "own", "blocks", nil)
	case "relate to":
		return w.As(actor).Relate(w.Context(), "own", id, "blocks", nil)
	}
	return w.As(actor).ExtendDecayOnAccess(w.Context(), id)
}

// Who may extend what, and who may let decay.
func TestWhoDecays(t *testing.T) {
	onHandAndMem(t, func(w *world) {
		w.create(teamContext, w.worked("plan", "red"))
		w.create(synthesizer, w.proposed("idea", 0.5))
		w.create(harvester, archived("event", "x"))
		w.add(24 * time.Hour)
		for id, may := range map[string][]soma.Actor{"plan": {teamContext, red, anna}, "idea": {synthesizer, soma.Worker("cartographer"), anna}} {
			for _, actor := range []soma.Actor{harvester, teamContext, synthesizer, soma.Worker("cartographer"), soma.Worker("governance"), soma.Worker("decay"), soma.Worker("nobody"), red, anna, soma.Person("")} {
				w.add(time.Second)
				before := w.dump()
				err := w.As(actor).ExtendDecayOnAccess(w.Context(), id)
				if !slices.Contains(may, actor) {
					w.refused(fmt.Sprintf("extend %s by %v", id, actor), "", err, before)
				} else if err != nil || w.read(id).Updated != w.now() {
					w.Errorf("extend %s by %v: %v", id, actor, err)
				}
			}
		}
		w.add(1000 * 24 * time.Hour)
		for _, actor := range []soma.Actor{harvester, teamContext, synthesizer, soma.Worker("governance"), soma.Worker("migration"), red, soma.Person("")} {
			before := w.dump()
			_, err := w.As(actor).ProcessDecay(w.Context())
			w.refused(fmt.Sprintf("decay by %v", actor), "", err, before)
		}
		got, err := w.As(anna).ProcessDecay(w.Context())
		w.check(err)
		w.same("decayed by a person", got, soma.Decayed{Moved: []string{"insight/plan", "insight/idea"}})
	})
}

// A confidence that is none comes last and is shown as none, wherever proposals
// are listed.
func TestConfidenceOfFiles(t *testing.T) {
	onHandAndMem(t, func(w *world) {
		w.create(synthesizer, w.proposed("sure", 1))
		w.create(synthesizer, w.proposed("thin", 0))
		for i, c := range []string{`7`, `1.0000001`, `-0.1`, `1e400`, `-1e400`, `"1"`, `"NaN"`, `true`, `[1]`, `null`, ``} {
			field := `"confidence_score":` + c + `,`
			if c == "" {
				field = ""
			}
			w.check(storage.Set(w.Context(), w.db, fmt.Sprintf("insight/bad-%02d", i), []byte(
				`{"name":"bad","layer":"emerging","status":"active","source_worker":"x","decay_at":"2027-01-01T00:00:00.000Z",`+field+`"evidence_links":[],"body":"of proposals"}`)))
		}
		want := []string{"sure", "thin"}
		for i := range 11 {
			want = append(want, fmt.Sprintf("bad-%02d", i))
		}
		var pending []string
		list, err := w.Pending(w.Context())
		w.check(err)
		for _, e := range list {
			pending = append(pending, e.ID)
			if c, ok := e.Confidence(); ok != (e.Name != "bad") || !(c >= 0 && c <= 1) {
				w.Errorf("%s has the confidence %g, %t", e.ID, c, ok)
			}
		}
		w.same("pending", pending, want)
		w.same("advice", w.consult(soma.Advise, ""), want)
		advice, err := w.Consult(w.Context(), soma.Advise, soma.Query{})
		w.check(err)
		for _, g := range advice {
			if !(g.Confidence >= 0 && g.Confidence <= 1) || g.Name == "bad" && g.Confidence != 0 {
				w.Errorf("%s counts for %g", g.ID, g.Confidence)
			}
		}
		for _, layer := range []string{"emerging", "rules"} {
			list, err := w.Guide(w.Context(), layer, "", "proposals", 100)
			w.check(err)
			if len(list) < 11 {
				w.Errorf("%s guides by %d", layer, len(list))
			}
			for _, g := range list {
				if !(g.Confidence >= 0 && g.Confidence <= 1) || g.Unsure != (g.Name == "bad") {
					w.Errorf("%s: %s has %g, %t", layer, g.Key, g.Confidence, g.Unsure)
				}
			}
		}
	})
}

// A store of before may have canon with a team that cannot be read: its text is
// shown to nobody, and what it forbids is forbidden to all.
func TestTeamThatCannotBeRead(t *testing.T) {
	onHandAndMem(t, func(w *world) {
		document := []byte(`{"type":"policy","id":"odd","name":"odd","status":"enforcing","layer":"canon","source_worker":"governance","team_id":["red"],` +
			`"ratified_by":"anna","ratified_at":"2026-01-01T00:00:00.000Z","origin_l3_id":"x","condition":"true","enforcement":"abort","body":"Stop."}`)
		canonical, err := storage.Canonical(document)
		w.check(err)
		w.check(storage.Set(w.Context(), w.db, "policy/odd", document))
		w.check(storage.Set(w.Context(), w.db, "_canon/policy/odd", fmt.Appendf(nil, "%x", sha256.Sum256(canonical))))
		for _, team := range []string{"", "red", "blue"} {
			w.same("shown to "+team, w.consult(soma.Enforce, team), []string(nil))
			list, err := w.PolicySource(0).Constraints(w.Context(), team)
			if err != nil || len(list) != 1 || list[0].Enforcement != "abort" {
				w.Errorf("constraints of %q: %+v, %v", team, list, err)
			}
		}
	})
}
