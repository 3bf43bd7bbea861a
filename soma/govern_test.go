package soma_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

func TestReview(t *testing.T) {
	eachEngine(t, func(w *world) {
		w.create(harvester, archived("incident", "It was the retries."))
		weak := w.create(synthesizer, w.proposed("Weak idea", 0.2, "incident"))
		w.add(time.Minute)
		strong := w.create(synthesizer, w.proposed("Strong idea", 0.9, "incident", "gone"))
		rule := w.proposed("Back off", 0.9)
		rule.Type = "policy"
		w.create(synthesizer, rule)
		pending := func() (ids []string) {
			list, err := w.Pending(w.Context())
			w.check(err)
			for _, e := range list {
				ids = append(ids, e.ID)
			}
			return ids
		}
		w.same("pending", pending(), []string{"back-off", "strong-idea", "weak-idea"})

		e, cited, err := w.Evidence(w.Context(), strong.ID)
		w.check(err)
		if e.ID != strong.ID || len(cited) != 2 || cited[0].Entity == nil || cited[0].Changed || cited[1].Entity != nil {
			w.Errorf("evidence %+v", cited)
		}
		_, err = w.As(anna).Update(w.Context(), "incident", map[string]any{"body": "It was not."})
		w.check(err)
		if _, cited, err = w.Evidence(w.Context(), strong.ID); err != nil || !cited[0].Changed {
			w.Errorf("edited evidence does not show: %+v, %v", cited, err)
		}

		w.add(time.Minute)
		canon, err := w.promote(anna, strong.ID, "seen twice")
		w.check(err)
		if canon.ID != "canon-strong-idea" || canon.Layer != soma.Canon || canon.Text(soma.FieldRatifiedBy) != "anna" ||
			!canon.Time(soma.FieldRatifiedAt).Equal(w.now()) || canon.Text(soma.FieldOrigin) != strong.ID || !canon.DecayAt.IsZero() {
			w.Errorf("canon %+v", canon)
		}
		w.same("canon as stored", w.read(canon.ID), canon)
		if got := w.read(strong.ID); got.Layer != soma.Emerging || got.Text(soma.FieldProposalStatus) != soma.Promoted || got.Text("reviewed_by") != "anna" {
			w.Errorf("the proposal is %+v", got)
		}
		policy, err := w.promote(anna, "back-off", "")
		w.check(err)
		if policy.Status != "enforcing" {
			w.Errorf("a policy in canon is %s", policy.Status)
		}
		w.check(w.As(anna).Reject(w.Context(), weak.ID, "thin"))
		if got := w.read(weak.ID); got.Text(soma.FieldProposalStatus) != soma.Rejected || got.Text("review_reason") != "thin" {
			w.Errorf("the rejected one is %+v", got)
		}
		w.same("pending", pending(), []string(nil))

		for name, f := range map[string]func() error{
			"unknown id":          func() error { _, err := w.promote(anna, "nobody", ""); return err },
			"not emerging":        func() error { _, err := w.promote(anna, "incident", ""); return err },
			"promoted already":    func() error { _, err := w.promote(anna, strong.ID, ""); return err },
			"rejected already":    func() error { return w.As(anna).Reject(w.Context(), weak.ID, "again") },
			"empty reviewer":      func() error { _, err := w.promote(soma.Person(" "), weak.ID, ""); return err },
			"worker":              func() error { _, err := w.promote(synthesizer, weak.ID, ""); return err },
			"agent":               func() error { return w.As(soma.Agent("x", "red")).Reject(w.Context(), weak.ID, "x") },
			"empty reason":        func() error { return w.As(anna).Reject(w.Context(), weak.ID, " ") },
			"supersede itself":    func() error { _, err := w.supersede(canon.ID, canon.ID, "x"); return err },
			"supersede no one":    func() error { _, err := w.supersede("nobody", canon.ID, "x"); return err },
			"supersede, L3":       func() error { _, err := w.supersede(canon.ID, strong.ID, "x"); return err },
			"retire no reason":    func() error { return w.As(anna).Retire(w.Context(), canon.ID, "") },
			"retire by worker":    func() error { return w.As(synthesizer).Retire(w.Context(), canon.ID, "x") },
			"ratify the ratified": func() error { return w.As(anna).Ratify(w.Context(), canon.ID, "x") },
		} {
			before := w.dump()
			if _, ok := errors.AsType[*soma.GovernanceError](f()); !ok {
				w.Errorf("%s is not refused: %v", name, f())
			}
			w.same("the store after "+name, w.dump(), before)
		}
		if _, err := w.As(anna).Update(w.Context(), canon.ID, map[string]any{"body": "x"}); err == nil {
			w.Error("canon is edited in place")
		}
		if err := w.As(anna).Remove(w.Context(), canon.ID, "x"); err == nil {
			w.Error("canon is removed")
		}

		_, err = w.supersede(canon.ID, policy.ID, "better")
		w.check(err)
		if got := w.read(canon.ID); got.Status != "superseded" {
			w.Errorf("superseded canon is %s", got.Status)
		}
		if got := w.read(policy.ID); got.Unratified || !slices.ContainsFunc(got.Links(), func(l soma.Link) bool { return l.To == canon.ID && l.Type == soma.LinkSupersedes }) {
			w.Errorf("what superseded it is %+v", got)
		}
		w.same("in force", w.consult(soma.Enforce, ""), []string{policy.ID})

		// A proposal that waits is promoted in the place of what holds.
		later := w.create(synthesizer, w.proposed("Later idea", 0.8, "incident"))
		inPlace, err := w.supersede(policy.ID, later.ID, "better still")
		w.check(err)
		w.same("in the place of a policy", w.read("canon-later-idea"), inPlace)
		if got := w.read(later.ID); got.Text(soma.FieldProposalStatus) != soma.Promoted || inPlace.Unratified || inPlace.Text(soma.FieldOrigin) != later.ID {
			w.Errorf("the proposal is %+v, canon %+v", got, inPlace)
		}
		w.same("in force", w.consult(soma.Enforce, ""), []string{inPlace.ID})
		for name, ids := range map[string][2]string{
			"what no longer holds":      {policy.ID, inPlace.ID},
			"by what was promoted":      {inPlace.ID, later.ID},
			"by what no longer holds":   {inPlace.ID, policy.ID},
			"by what is in the archive": {inPlace.ID, "incident"},
		} {
			before := w.dump()
			if _, err := w.supersede(ids[0], ids[1], "x"); !errors.As(err, new(*soma.GovernanceError)) {
				w.Errorf("supersede %s is not refused: %v", name, err)
			}
			w.same("the store after supersede "+name, w.dump(), before)
		}
		w.check(w.As(anna).Retire(w.Context(), inPlace.ID, "over"))
		w.same("in force", w.consult(soma.Enforce, ""), []string(nil))
		var ops []string
		for v, err := range w.History(w.Context(), policy.ID) {
			w.check(err)
			ops = append(ops, v.Op+" "+v.Actor+" "+v.Reason)
		}
		w.same("history of a canon entry", ops, []string{"create person:anna ", "supersede person:anna better", "supersede person:anna better still"})
	})
}

// consult returns the ids that an intent gives, and tests that it changes
// nothing.
func (w *world) consult(intent soma.Intent, team string) (ids []string) {
	w.Helper()
	list, err := w.Consult(w.Context(), intent, soma.Query{Team: team})
	w.check(err)
	for _, g := range list {
		ids = append(ids, g.ID)
	}
	return ids
}

// What becomes canon is what the reviewer has read.
func TestPromoteAsRead(t *testing.T) {
	eachEngine(t, func(w *world) {
		rule := w.create(synthesizer, w.proposed("old rule", 0.5))
		old, err := w.promote(anna, rule.ID, "")
		w.check(err)
		read := w.create(synthesizer, w.proposed("rule", 0.5))
		w.add(time.Second)
		_, err = w.As(synthesizer).Update(w.Context(), read.ID, map[string]any{"body": "Obey."})
		w.check(err)
		before := w.dump()
		promote := func(digest string) error {
			_, err := w.As(anna).Promote(w.Context(), read.ID, digest, "")
			return err
		}
		supersede := func(by, digest string) error {
			_, err := w.As(anna).Supersede(w.Context(), old.ID, by, digest, "x")
			return err
		}
		other := w.read(old.ID)
		other.Body = "other"
		for name, err := range map[string]error{
			"promote": promote(read.Digest()), "supersede": supersede(read.ID, read.Digest()),
		} {
			if changed, ok := errors.AsType[*soma.ChangedError](err); !ok || changed.ID != read.ID {
				w.Errorf("%s what was changed: %v", name, err)
			}
		}
		for name, err := range map[string]error{
			"promote": promote(""), "supersede": supersede(read.ID, ""),
		} {
			if _, ok := errors.AsType[*soma.GovernanceError](err); !ok {
				w.Errorf("%s what nobody has read: %v", name, err)
			}
		}
		w.same("the store", w.dump(), before)
		second := w.create(synthesizer, w.proposed("second rule", 0.5))
		by, err := w.promote(anna, second.ID, "")
		w.check(err)
		if _, ok := errors.AsType[*soma.ChangedError](supersede(by.ID, other.Digest())); !ok {
			w.Error("canon supersedes by the digest of something else")
		}
		w.check(supersede(read.ID, w.read(read.ID).Digest()))
		w.same("the canon entry", w.read("canon-rule").Body, "Obey.")
	})
}

// Several processes' worth of writers promote the same proposal 500 times over.
func TestPromoteAtOnce(t *testing.T) {
	eachEngine(t, func(w *world) {
		rounds := 20
		if testing.Short() {
			rounds = 4
		}
		for i := range rounds {
			e := w.create(soma.Person("ben"), w.proposed(fmt.Sprintf("idea %d", i), 0.5))
			var wg sync.WaitGroup
			var won atomic.Int32
			for range 25 {
				wg.Go(func() {
					_, err := w.promote(anna, e.ID, "")
					if err == nil {
						won.Add(1)
					} else if _, ok := errors.AsType[*soma.GovernanceError](err); !ok {
						w.Errorf("promote: %v", err)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 {
				w.Fatalf("%d promotions of one proposal went well", won.Load())
			}
		}
		w.same("canon", len(w.ids(w.Query(w.Context(), soma.Query{Layer: soma.Canon}))), rounds)
		w.consistent()
	})
}

func TestQuarantine(t *testing.T) {
	eachEngine(t, func(w *world) {
		w.create(synthesizer, w.proposed("good rule", 0.9))
		canon, err := w.promote(anna, "good-rule", "")
		w.check(err)
		// Somebody writes canon past the review, edits what is ratified, or lets a
		// worker write it.
		forged := `{"name":"evil","layer":"canon","status":"active","source_worker":"governance","ratified_by":"anna","ratified_at":"2026-05-04T09:00:00.000Z","origin_l3_id":"good-rule","body":"obey"}`
		w.check(storage.Set(w.Context(), w.db, "insight/evil", []byte(forged)))
		document, _, err := w.db.Get(w.Context(), canon.Key())
		w.check(err)
		w.check(storage.Set(w.Context(), w.db, canon.Key(), []byte(strings.Replace(string(document), "body of", "evil of", 1))))
		self := w.proposed("self made", 1)
		self.Layer, self.DecayAt = soma.Canon, time.Time{}
		self.Fields[soma.FieldRatifiedBy], self.Fields[soma.FieldRatifiedAt], self.Fields[soma.FieldOrigin] = "x", "2026-01-01T00:00:00.000Z", "y"
		w.create(soma.Worker("governance"), self)

		quarantined := func() (ids []string) {
			list, err := w.Quarantined(w.Context())
			w.check(err)
			for _, e := range list {
				ids = append(ids, strings.TrimPrefix(e.ID, "insight/"))
			}
			return ids
		}
		all := []string{canon.ID, "evil", "self-made"}
		w.same("quarantined", quarantined(), all)
		w.same("served", w.consult(soma.All, ""), []string(nil))
		w.same("queried", w.ids(w.Query(w.Context(), soma.Query{Layer: soma.Canon})), []string(nil))
		w.same("searched", w.ids(w.Query(w.Context(), soma.Query{Text: "obey evil body"})), []string{"good-rule"})
		if _, err := w.Sync(w.Context()); err != nil {
			w.Fatal(err)
		}
		w.same("quarantined after the history has seen it", quarantined(), all)

		w.check(w.As(anna).Ratify(w.Context(), canon.ID, "fine after all"))
		w.same("quarantined", quarantined(), []string{"evil", "self-made"})
		w.same("served", w.consult(soma.Enforce, ""), []string{canon.ID})
	})
}

func TestConflicts(t *testing.T) {
	w := newWorld(t, "mem")
	for _, name := range []string{"always retry", "never retry", "unrelated"} {
		w.create(synthesizer, w.proposed(name, 0.5))
		_, err := w.promote(anna, soma.Slug(name), "")
		w.check(err)
	}
	idea := w.proposed("retry once", 0.5)
	idea.Fields["contradicts"] = []any{"insight/canon-never-retry"}
	w.create(synthesizer, idea)
	w.create(harvester, &soma.Entity{Type: "contradiction", Name: "both", Layer: soma.Archive, Related: []string{"insight/retry-once", "insight/canon-always-retry"}})
	list, err := w.Conflicts(w.Context(), "retry-once")
	w.check(err)
	var ids []string
	for _, e := range list {
		ids = append(ids, e.ID)
	}
	w.same("conflicts", ids, []string{"canon-always-retry", "canon-never-retry"})
}

func TestConsult(t *testing.T) {
	w := newWorld(t, "mem")
	w.create(harvester, archived("past", ""))
	w.create(teamContext, w.worked("red plan", "red"))
	w.create(synthesizer, w.proposed("idea", 0.4))
	w.create(synthesizer, w.proposed("better idea", 0.6))
	w.create(synthesizer, w.proposed("law", 1))
	_, err := w.promote(anna, "law", "")
	w.check(err)
	before := w.dump()
	list, err := w.Consult(w.Context(), soma.All, soma.Query{Team: "red"})
	w.check(err)
	var got []string
	for _, g := range list {
		got = append(got, fmt.Sprintf("%s %s %s %g", g.ID, g.SourceLayer, g.SemanticWeight, g.Confidence))
	}
	w.same("all of red", got, []string{
		"canon-law canon mandatory 0", "better-idea emerging advisory 0.6", "idea emerging advisory 0.4",
		"red-plan working contextual 0", "past archive historical 0",
	})
	w.same("all without a team", w.consult(soma.All, ""), []string{"canon-law", "better-idea", "idea", "past"})
	w.same("brief of blue", w.consult(soma.Brief, "blue"), []string(nil))
	w.same("the store", w.dump(), before)
	for _, c := range []struct {
		intent soma.Intent
		team   string
	}{{soma.Brief, ""}, {"obey", "red"}, {soma.All, soma.AllTeams}} {
		if _, err := w.Consult(w.Context(), c.intent, soma.Query{Team: c.team}); err == nil {
			t.Errorf("%v is not refused", c)
		}
	}
}

// Whatever teams do, and whatever decays, none sees the text of another.
func TestTeamIsolation(t *testing.T) {
	eachEngine(t, func(w *world) {
		random := rand.New(rand.NewPCG(1, 2))
		teams := []string{"red", "blue", "Red", "red ", "*a"}
		for i := range 60 {
			team := teams[random.IntN(len(teams))]
			e := w.worked(fmt.Sprintf("plan %d", i), team)
			e.Body = "secret of team <" + team + "> and plans"
			if random.IntN(3) == 0 {
				e = w.proposed(fmt.Sprintf("idea %d", i), random.Float64())
				e.Team, e.Body = team, "secret of team <"+team+"> and ideas"
			}
			made := w.create(soma.Person("ben"), e)
			if made.Layer == soma.Emerging && random.IntN(2) == 0 {
				_, err := w.promote(anna, made.ID, "")
				w.check(err)
			}
			if random.IntN(4) == 0 {
				w.add(20 * 24 * time.Hour)
				_, err := w.As(soma.Worker("decay")).ProcessDecay(w.Context())
				w.check(err)
			}
		}
		for _, team := range append(teams, "", "green") {
			look := func(where string, e *soma.Entity) {
				if e.Team != "" && e.Team != team || strings.Contains(e.Body, "<") && !strings.Contains(e.Body, "<"+team+">") {
					w.Errorf("team %q sees %q by %s", team, e.Body, where)
				}
			}
			for _, intent := range []soma.Intent{soma.Enforce, soma.Advise, soma.Brief, soma.Route, soma.All} {
				for _, text := range []string{"", "secret plans ideas team"} {
					list, err := w.Consult(w.Context(), intent, soma.Query{Team: team, Text: text})
					if err != nil && !(intent == soma.Brief && team == "") {
						w.Fatal(err)
					}
					for _, g := range list {
						look(string(intent)+text, g.Entity)
					}
				}
			}
			for e, err := range w.Query(w.Context(), soma.Query{Team: team, Text: "secret"}) {
				w.check(err)
				look("search", e)
			}
		}
	})
}

func TestDecay(t *testing.T) {
	eachEngine(t, func(w *world) {
		day := 24 * time.Hour
		w.create(teamContext, w.worked("plan", "red"))
		w.create(teamContext, w.worked("used plan", "red"))
		for _, name := range []string{"idea", "kept", "dropped"} {
			w.create(synthesizer, w.proposed(name, 0.5, "plan"))
		}
		law, err := w.promote(anna, "kept", "")
		w.check(err)
		w.check(w.As(anna).Reject(w.Context(), "dropped", "x"))
		w.check(storage.Set(w.Context(), w.db, "insight/odd", []byte(`{"name":"odd","layer":"working","team_id":"red","decay_at":"soon"}`)))

		w.add(13 * day)
		w.check(w.As(anna).ExtendDecayOnAccess(w.Context(), "used-plan"))
		w.add(day)
		decayed, err := w.As(soma.Worker("decay")).ProcessDecay(w.Context())
		w.check(err)
		w.same("decayed", decayed, soma.Decayed{Moved: []string{"insight/plan"}, Bad: []string{"insight/odd"}})
		e := w.read("plan")
		if e.Layer != soma.Archive || e.Text(soma.FieldDecayedFrom) != "working" || !e.DecayAt.IsZero() || e.Team != "red" {
			w.Errorf("decayed to %+v", e)
		}
		dangling, err := w.CheckDanglingReferences(w.Context())
		if err != nil || len(dangling) != 0 {
			w.Errorf("dangling: %v, %v", dangling, err)
		}
		if _, cited, err := w.Evidence(w.Context(), law.ID); err != nil || cited[0].Changed {
			w.Errorf("evidence that decayed counts as changed: %+v, %v", cited, err)
		}
		w.add(76 * day)
		decayed, err = w.As(soma.Worker("decay")).ProcessDecay(w.Context())
		w.check(err)
		w.same("decayed after 90 days", decayed.Moved, []string{"insight/used-plan", "insight/idea"})
		again, err := w.As(soma.Worker("decay")).ProcessDecay(w.Context())
		w.check(err)
		w.same("decayed again", again.Moved, []string(nil))

		// A life is extended to ten times the layer's, and never shortened.
		w.create(teamContext, w.worked("long", "red"))
		begun := w.now()
		last := w.read("long").DecayAt
		for range 20 {
			w.add(10 * day)
			w.check(w.As(anna).ExtendDecayOnAccess(w.Context(), "long"))
			at := w.read("long").DecayAt
			if at.Before(last) {
				w.Errorf("shortened from %v to %v", last, at)
			}
			last = at
		}
		if want := begun.Add(140 * day); !last.Equal(want) {
			w.Errorf("lives until %v, want %v", last, want)
		}
		w.check(w.As(anna).ExtendDecayOnAccess(w.Context(), "plan"))
		if !w.read("plan").DecayAt.IsZero() {
			w.Error("the archive decays")
		}
	})
}

func TestMigrate(t *testing.T) {
	eachEngine(t, func(w *world) {
		w.check(storage.Set(w.Context(), w.db, "decision/old", []byte(`{"name":"old","status":"active","created":"2025-01-01T00:00:00.000Z","updated":"2025-02-01T00:00:00.000Z","odd":1.50,"body":"x"}`)))
		w.check(storage.Set(w.Context(), w.db, "insight/asked", []byte(`{"name":"asked","layer":"emerging","status":"rejected","confidence_score":1,"evidence_links":[],"source_worker":"synthesizer","decay_at":"2027-01-01T00:00:00.000Z"}`)))
		w.check(storage.Set(w.Context(), w.db, "decision/layered", []byte(`{"name":"layered","layer":"archive"}`)))
		if list, err := w.Pending(w.Context()); err != nil || len(list) != 0 {
			w.Errorf("what an older vault rejected is pending: %v, %v", list, err)
		}
		got, err := w.MigrateToLayers(w.Context())
		w.check(err)
		w.same("migrated", got, soma.Migrated{Migrated: 2, Skipped: 1})
		document, _, err := w.db.Get(w.Context(), "decision/old")
		w.check(err)
		want, _ := storage.Canonical([]byte(`{"type":"decision","id":"old","layer":"archive","source_worker":"migration","name":"old","status":"active","created":"2025-01-01T00:00:00.000Z","updated":"2025-02-01T00:00:00.000Z","odd":1.50,"body":"x"}`))
		canonical, _ := storage.Canonical(document)
		w.same("the document", string(canonical), string(want))
		if e := w.read("asked"); e.Text(soma.FieldProposalStatus) != soma.Rejected || e.Status != "active" {
			w.Errorf("the proposal is %+v", e)
		}
		before := w.dump()
		got, err = w.MigrateToLayers(w.Context())
		w.check(err)
		w.same("migrated again", got, soma.Migrated{Skipped: 3})
		w.same("the store", w.dump(), before)
	})
}

func TestForget(t *testing.T) {
	eachEngine(t, func(w *world) {
		const secret = "hunter2"
		w.create(harvester, archived("leak", "the password is "+secret))
		w.create(harvester, archived("other", "harmless"))
		_, err := w.As(anna).Update(w.Context(), "leak", map[string]any{"body": "it was " + secret, "note": secret})
		w.check(err)
		w.create(synthesizer, &soma.Entity{
			Type: "insight", Name: "derived", Layer: soma.Emerging, DecayAt: w.ComputeL3DecayAt(w.now()), Body: "so it is " + secret,
			Fields: map[string]any{soma.FieldConfidence: 0.5, soma.FieldEvidence: []any{"leak"}},
		})
		_, err = w.promote(anna, "derived", "")
		w.check(err)
		w.create(synthesizer, w.proposed("both", 0.5, "leak", "other"))
		w.same("found", len(w.ids(w.Query(w.Context(), soma.Query{Text: secret}))), 3)

		for name, f := range map[string]func() error{
			"a worker":  func() error { _, err := w.As(harvester).Forget(w.Context(), "leak", "x"); return err },
			"no reason": func() error { _, err := w.As(anna).Forget(w.Context(), "leak", ""); return err },
			"no one":    func() error { _, err := w.As(anna).Forget(w.Context(), "nobody", "x"); return err },
		} {
			if f() == nil {
				w.Errorf("%s may forget", name)
			}
		}
		got, err := w.As(anna).Forget(w.Context(), "leak", "a leak")
		w.check(err)
		var ids []string
		for _, e := range got.Entities {
			ids = append(ids, e.ID+" < "+e.Cause)
		}
		slices.Sort(ids)
		w.same("forgotten", ids, []string{"canon-derived < leak", "derived < leak", "leak < "})
		w.same("unlinked", got.Unlinked, []string{"insight/both"})
		for key, value := range w.dump() {
			if strings.Contains(value, secret) {
				w.Errorf("%s still has it", key)
			}
		}
		w.same("found", w.ids(w.Query(w.Context(), soma.Query{Text: secret})), []string(nil))
		for _, id := range []string{"leak", "derived", "canon-derived"} {
			if _, err := w.Read(w.Context(), id); !errors.Is(err, soma.ErrNotFound) {
				w.Errorf("%s is still there: %v", id, err)
			}
			for v := range w.History(w.Context(), id) {
				if v.Entity != nil {
					w.Errorf("%s has a history", id)
				}
			}
		}
		if e := w.read("both"); len(e.Evidence()) != 1 {
			w.Errorf("still cites %v", e.Evidence())
		}
		dead, err := w.Tombstones(w.Context())
		w.check(err)
		if len(dead) != 3 || dead[2].ID != "leak" || dead[2].Actor != "person:anna" || len(dead[2].Digest) != 64 || dead[2].Reason != "a leak" {
			w.Errorf("tombstones %+v", dead)
		}
		dangling, err := w.CheckDanglingReferences(w.Context())
		if err != nil || len(dangling) != 0 {
			w.Errorf("dangling: %v, %v", dangling, err)
		}
		if _, err := w.Sync(w.Context()); err != nil {
			w.Error(err)
		}
		all, err := forgetAll(w.Context(), w.Store, w.As(anna), soma.Query{Layer: soma.Archive}, "all of it")
		if err != nil || len(all.Entities) != 2 {
			w.Errorf("forget all: %+v, %v", all, err)
		}
	})
}

// After a compaction no file of the store holds what was forgotten.
func TestForgottenFiles(t *testing.T) {
	for _, engine := range []string{"bolt", "badger", "vault"} {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t, engine)
			const secret = "correct horse battery staple"
			for i := range 5 {
				w.create(soma.Person("ben"), archived(fmt.Sprint("leak ", i), secret+fmt.Sprint(i)))
				_, err := w.As(anna).Update(w.Context(), fmt.Sprint("leak-", i), map[string]any{"body": secret})
				w.check(err)
				w.create(soma.Person("ben"), archived(fmt.Sprint("other ", i), strings.Repeat("harmless ", 1000)))
			}
			_, err := forgetAll(w.Context(), w.Store, w.As(anna), soma.Query{Text: secret}, "a leak")
			w.check(err)
			w.check(storage.Compact(w.Context(), w.db))
			w.Store.Close()
			w.check(w.db.Close())
			w.check(filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				data, err := os.ReadFile(path)
				for _, word := range []string{secret, "horse"} {
					if at := bytes.Index(data, []byte(word)); at >= 0 {
						t.Errorf("%s has it: %.100q", d.Name(), data[max(at-50, 0):])
						return err
					}
				}
				return err
			}))
		})
	}
}

// Writers that change, forget and create at once leave an index that agrees with
// what there is.
func TestWritersAtOnce(t *testing.T) {
	eachEngine(t, func(w *world) {
		const each = 30
		var wg sync.WaitGroup
		for i := range 4 {
			for j := range each {
				w.create(soma.Person("ben"), archived(fmt.Sprintf("old %d %d", i, j), "text of before"))
			}
		}
		for i := range 4 {
			wg.Go(func() {
				for j := range each {
					id := fmt.Sprintf("old-%d-%d", i, j)
					var err error
					switch j % 3 {
					case 0:
						_, err = w.As(anna).Update(w.Context(), id, map[string]any{"body": "text of after"})
					case 1:
						_, err = w.As(anna).Forget(w.Context(), id, "x")
					case 2:
						_, err = w.As(anna).Create(w.Context(), archived(fmt.Sprintf("new %d %d", i, j), "text of now"))
					}
					if err != nil {
						w.Errorf("%s: %v", id, err)
					}
				}
			})
		}
		wg.Wait()
		w.consistent()
		w.same("found", len(w.ids(w.Query(w.Context(), soma.Query{Text: "text"}))), 4*each)
	})
}
