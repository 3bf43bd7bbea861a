package soma_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/badger"
	"github.com/stratamem/strata/storage/bolt"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/vault"
)

var (
	harvester   = soma.Worker("harvester")
	teamContext = soma.Worker("team-context")
	synthesizer = soma.Worker("synthesizer")
	anna        = soma.Person("anna")
)

// clock is a time that tests set.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// world is a store on an engine, with a clock.
type world struct {
	*testing.T
	*soma.Store
	db storage.Adapter
	*clock
	dir    string // of the engine
	engine string
}

// eachEngine runs a test on every engine.
func eachEngine(t *testing.T, f func(w *world)) {
	for _, engine := range []string{"mem", "bolt", "badger", "vault"} {
		t.Run(engine, func(t *testing.T) { f(newWorld(t, engine)) })
	}
}

func newWorld(t *testing.T, engine string) *world {
	t.Helper()
	w := &world{T: t, clock: &clock{t: time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)}, dir: t.TempDir()}
	w.engine = engine
	w.reopen()
	return w
}

// reopen opens the engine and the store again, after the engine was closed.
func (w *world) reopen() {
	w.Helper()
	var err error
	switch w.engine {
	case "mem":
		w.db = mem.New()
	case "bolt":
		w.db, err = bolt.Open(w.Context(), filepath.Join(w.dir, "soma.db"), &bolt.Options{Durability: storage.None})
	case "badger":
		w.db, err = badger.Open(w.Context(), w.dir, &badger.Options{Durability: storage.None})
	case "vault":
		w.db, err = vault.Open(w.Context(), w.dir, &vault.Options{Durability: storage.None, Files: []string{soma.GovernancePrefix}})
	}
	w.check(err)
	w.Cleanup(func() { w.db.Close() })
	w.open()
}

// openVault opens the store of entities of a vault, with no clock of a world.
func openVault(t *testing.T, dir string, opts *vault.Options) (*vault.Store, *soma.Store) {
	t.Helper()
	db, err := vault.Open(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s, err := soma.Open(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return db, s
}

// open opens the store of entities again.
func (w *world) open() {
	w.Helper()
	if w.Store != nil {
		w.Store.Close()
	}
	s, err := soma.Open(w.Context(), w.db, &soma.Options{Now: w.now})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { s.Close() })
	w.Store = s
}

func (w *world) check(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) create(actor soma.Actor, e *soma.Entity) *soma.Entity {
	w.Helper()
	made, err := w.As(actor).Create(w.Context(), e)
	w.check(err)
	return made
}

func (w *world) read(id string) *soma.Entity {
	w.Helper()
	e, err := w.Read(w.Context(), id)
	w.check(err)
	return e
}

// digestOf returns the digest of an entity as it is now, or one of nothing.
func digestOf(ctx context.Context, s *soma.Store, id string) string {
	e, err := s.Read(ctx, id)
	if err != nil {
		return "nothing"
	}
	return e.Digest()
}

// promote and supersede decide on what is there now.
func (w *world) promote(actor soma.Actor, id, reason string) (*soma.Entity, error) {
	return w.As(actor).Promote(w.Context(), id, digestOf(w.Context(), w.Store, id), reason)
}

func (w *world) supersede(old, by, reason string) (*soma.Entity, error) {
	return w.As(anna).Supersede(w.Context(), old, by, digestOf(w.Context(), w.Store, by), reason)
}

// ids collects the ids of a sequence of entities, sorted.
func (w *world) ids(seq iter.Seq2[*soma.Entity, error]) []string {
	w.Helper()
	var ids []string
	for e, err := range seq {
		w.check(err)
		ids = append(ids, e.ID)
	}
	slices.Sort(ids)
	return ids
}

func (w *world) same(what string, got, want any) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// archived, worked and proposed make entities of a layer that are as they should be.
func archived(name, body string) *soma.Entity {
	return &soma.Entity{Type: "decision", Name: name, Layer: soma.Archive, Body: body}
}

func (w *world) worked(name, team string) *soma.Entity {
	return &soma.Entity{Type: "insight", Name: name, Layer: soma.Working, Team: team, DecayAt: w.ComputeL2DecayAt(w.now()), Body: "body of " + name}
}

func (w *world) proposed(name string, confidence float64, evidence ...any) *soma.Entity {
	if evidence == nil {
		evidence = []any{}
	}
	return &soma.Entity{
		Type: "insight", Name: name, Layer: soma.Emerging, DecayAt: w.ComputeL3DecayAt(w.now()), Body: "body of " + name,
		Fields: map[string]any{soma.FieldConfidence: confidence, soma.FieldEvidence: evidence},
	}
}

// TestPermissions is the whole table of the contract, printed.
func TestPermissions(t *testing.T) {
	yes := map[string]soma.Layer{
		"harvester": soma.Archive, "reconciler": soma.Archive, "team-context": soma.Working, "synthesizer": soma.Emerging,
		"cartographer": soma.Emerging, "governance": soma.Canon, "policy-bridge": "", "decay": "", "migration": "",
	}
	w := newWorld(t, "mem")
	for _, worker := range []string{"harvester", "reconciler", "team-context", "synthesizer", "cartographer", "governance", "policy-bridge", "decay", "migration"} {
		row := []string{fmt.Sprintf("%-14s", worker)}
		for _, layer := range soma.Layers {
			want := yes[worker] == layer
			if got := soma.CanWrite(worker, layer); got != want {
				t.Errorf("CanWrite(%s, %s) = %t", worker, layer, got)
			}
			e := w.proposed(worker+" "+string(layer), 0.5)
			e.Layer = layer
			switch layer {
			case soma.Archive, soma.Canon:
				e.DecayAt = time.Time{}
				if layer == soma.Archive {
					break
				}
				e.Fields[soma.FieldRatifiedBy], e.Fields[soma.FieldRatifiedAt], e.Fields[soma.FieldOrigin] = "x", "2026-01-01T00:00:00.000Z", "y"
			case soma.Working:
				e.Team = "red"
			}
			before := w.dump()
			_, err := w.As(soma.Worker(worker)).Create(w.Context(), e)
			denied := err != nil
			if refused, ok := errors.AsType[*soma.PermissionError](err); denied && (!ok || refused.Worker != worker || refused.Layer != layer) {
				t.Errorf("%s in %s: %v", worker, layer, err)
			}
			if denied == want {
				t.Errorf("%s in %s: create gives %v", worker, layer, err)
			}
			if denied {
				w.same("the store after a refusal", w.dump(), before)
			}
			row = append(row, fmt.Sprintf("%s %-5t", layer, want))
		}
		t.Log(strings.Join(row, "  "))
	}
	for _, c := range []struct {
		actor soma.Actor
		layer soma.Layer
		team  string
		ok    bool
	}{
		{soma.Agent("planner", "red"), soma.Archive, "", true},
		{soma.Agent("planner", "red"), soma.Archive, "red", true},
		{soma.Agent("planner", "red"), soma.Archive, "blue", false},
		{soma.Agent("planner", "red"), soma.Working, "red", true},
		{soma.Agent("planner", "red"), soma.Working, "blue", false},
		{soma.Agent("planner", ""), soma.Working, "", false},
		{soma.Agent("planner", "red"), soma.Emerging, "", false},
		{soma.Agent("planner", "red"), soma.Canon, "", false},
		{anna, soma.Archive, "", true},
		{anna, soma.Emerging, "", true},
		{anna, soma.Canon, "", false},
		{soma.Person(""), soma.Archive, "", false},
		{soma.Worker("nobody"), soma.Archive, "", false},
		{harvester, "limbo", "", false},
	} {
		e := w.proposed(fmt.Sprint("by ", c), 0.5)
		e.Layer, e.Team = c.layer, c.team
		if c.layer == soma.Archive {
			e.DecayAt = time.Time{}
		}
		_, err := w.As(c.actor).Create(w.Context(), e)
		if _, refused := errors.AsType[*soma.PermissionError](err); (err == nil) != c.ok || refused == c.ok {
			t.Errorf("%v in %s of %q: %v", c.actor, c.layer, c.team, err)
		}
	}
}

// dump returns what is stored, keys and values.
func (w *world) dump() map[string]string {
	w.Helper()
	all := make(map[string]string)
	for e, err := range storage.Scan(w.Context(), w.db, "", nil) {
		w.check(err)
		all[e.Key] = string(e.Value)
	}
	return all
}

func TestFields(t *testing.T) {
	w := newWorld(t, "mem")
	actors := map[soma.Layer]soma.Actor{soma.Archive: harvester, soma.Working: teamContext, soma.Emerging: synthesizer}
	for _, c := range []struct {
		name  string
		make  func(e *soma.Entity)
		field string // at fault; empty: none
	}{
		{"archive", func(e *soma.Entity) { *e = *archived("a", "") }, ""},
		{"archive decays", func(e *soma.Entity) { *e = *archived("a", ""); e.DecayAt = w.now() }, "decay_at"},
		{"archive decays oddly", func(e *soma.Entity) {
			*e = *archived("a", "")
			e.Fields = map[string]any{"decay_at": "soon"}
		}, "decay_at"},
		{"working", func(e *soma.Entity) { *e = *w.worked("b", "red") }, ""},
		{"working without a team", func(e *soma.Entity) { *e = *w.worked("b", "") }, "team_id"},
		{"working without decay", func(e *soma.Entity) { *e = *w.worked("b", "red"); e.DecayAt = time.Time{} }, "decay_at"},
		{"emerging", func(e *soma.Entity) { *e = *w.proposed("c", 0.5) }, ""},
		{"confidence 0", func(e *soma.Entity) { *e = *w.proposed("c0", 0) }, ""},
		{"confidence 1", func(e *soma.Entity) { *e = *w.proposed("c1", 1) }, ""},
		{"confidence over 1", func(e *soma.Entity) { *e = *w.proposed("c", 1.01) }, "confidence_score"},
		{"confidence below 0", func(e *soma.Entity) { *e = *w.proposed("c", -0.1) }, "confidence_score"},
		{"confidence NaN", func(e *soma.Entity) { *e = *w.proposed("c", nan()) }, "confidence_score"},
		{"confidence as text", func(e *soma.Entity) { *e = *w.proposed("c", 0); e.Fields["confidence_score"] = "high" }, "confidence_score"},
		{"no evidence", func(e *soma.Entity) { *e = *w.proposed("c", 0); delete(e.Fields, "evidence_links") }, "evidence_links"},
		{"evidence of a number", func(e *soma.Entity) { *e = *w.proposed("c", 0, 7.0) }, "evidence_links"},
		{"evidence of both kinds", func(e *soma.Entity) { *e = *w.proposed("c2", 0, "x", map[string]any{"id": "y", "type": "decision"}) }, ""},
		{"no name", func(e *soma.Entity) { *e = *archived("", ""); e.ID = "x" }, "name"},
		{"no id", func(e *soma.Entity) { *e = *archived("!!!", "") }, "id"},
		{"long id", func(e *soma.Entity) { *e = *archived("n", ""); e.ID = strings.Repeat("é", 200) }, "id"},
		{"type", func(e *soma.Entity) { *e = *archived("n", ""); e.Type = "../x" }, "type"},
		{"status", func(e *soma.Entity) { *e = *archived("n", ""); e.Status = "enforcing" }, "status"},
		{"status of a type of one's own", func(e *soma.Entity) { *e = *archived("n1", ""); e.Type = "recipe"; e.Status = "active" }, ""},
		{"wrong status of a type of one's own", func(e *soma.Entity) { *e = *archived("n", ""); e.Type = "recipe"; e.Status = "done" }, "status"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var e soma.Entity
			c.make(&e)
			_, err := w.As(actors[e.Layer]).Create(t.Context(), &e)
			fault, ok := errors.AsType[*soma.FieldError](err)
			if c.field == "" && err != nil || c.field != "" && (!ok || fault.Field != c.field) {
				t.Errorf("got %v, want a fault of %q", err, c.field)
			}
		})
	}
}

func nan() float64 {
	zero := 0.0
	return zero / zero
}

func TestCreate(t *testing.T) {
	eachEngine(t, func(w *world) {
		first := w.create(harvester, &soma.Entity{
			Type: "decision", Name: "Ärger mit  Retries!", Layer: soma.Archive, Tags: []string{"api"}, Body: "why\n",
			Fields: map[string]any{"choice": "wait", "nested": map[string]any{"a": []any{"<b>"}}},
		})
		if first.ID != "ärger-mit-retries" || first.Status != "active" || first.SourceWorker != "harvester" || !first.Created.Equal(w.now()) {
			w.Errorf("made %+v", first)
		}
		w.add(time.Hour)
		got := w.read("ärger-mit-retries")
		w.same("what is read", got, first)
		w.same("read by type/id", w.read("decision/ärger-mit-retries"), first)

		// The same again changes nothing, another one with a derived id gets a
		// number, one with the id itself is refused.
		again := w.create(harvester, &soma.Entity{
			Type: "decision", Name: "Ärger mit  Retries!", Layer: soma.Archive, Tags: []string{"api"}, Body: "why\n",
			Fields: map[string]any{"choice": "wait", "nested": map[string]any{"a": []any{"<b>"}}},
		})
		w.same("the same again", again, first)
		other := w.create(harvester, archived("Ärger mit Retries", "other"))
		if other.ID != "ärger-mit-retries-2" {
			w.Errorf("the other has id %q", other.ID)
		}
		clash := &soma.Entity{Type: "insight", ID: first.ID, Name: "x", Layer: soma.Archive}
		if _, err := w.As(harvester).Create(w.Context(), clash); !errors.Is(err, soma.ErrExists) {
			w.Errorf("an id of another type: %v", err)
		}
		if n, err := w.Count(w.Context()); n != 2 || err != nil {
			w.Errorf("count = %d, %v", n, err)
		}

		updated, err := w.As(anna).Update(w.Context(), first.ID, map[string]any{"body": "because", "choice": nil, "owner": "ops"})
		w.check(err)
		if updated.Body != "because" || updated.Fields["choice"] != nil || updated.Text("owner") != "ops" || !updated.Updated.After(first.Updated) || !updated.Created.Equal(first.Created) {
			w.Errorf("updated %+v", updated)
		}
		w.same("read after the update", w.read(first.ID), updated)
		for _, c := range []struct {
			patch map[string]any
			want  string
		}{
			{map[string]any{"layer": "canon"}, "permission"},
			{map[string]any{"proposal_status": "promoted"}, "permission"},
			{map[string]any{"decay_at": "2020-01-01T00:00:00.000Z"}, "permission"},
			{map[string]any{"id": "y"}, "field"},
			{map[string]any{"created": "2020-01-01T00:00:00.000Z"}, "field"},
			{map[string]any{"status": "enforcing"}, "field"},
			{map[string]any{"name": nil}, "field"},
		} {
			before := w.dump()
			_, err := w.As(anna).Update(w.Context(), first.ID, c.patch)
			_, permission := errors.AsType[*soma.PermissionError](err)
			_, field := errors.AsType[*soma.FieldError](err)
			if permission != (c.want == "permission") || field != (c.want == "field") {
				w.Errorf("%v: %v", c.patch, err)
			}
			w.same("the store after a refused update", w.dump(), before)
		}

		w.check(w.As(anna).Remove(w.Context(), other.ID, "not needed"))
		if _, err := w.Read(w.Context(), other.ID); !errors.Is(err, soma.ErrNotFound) {
			w.Errorf("read what was removed: %v", err)
		}
		var past []string
		for v, err := range w.History(w.Context(), other.ID) {
			w.check(err)
			past = append(past, v.Op+" "+v.Actor+" "+v.Reason)
		}
		w.same("history", past, []string{"create worker:harvester ", "remove person:anna not needed"})
		// The id is free again.
		w.create(harvester, &soma.Entity{Type: "insight", ID: other.ID, Name: "new", Layer: soma.Archive})
	})
}

func TestHostileIDs(t *testing.T) {
	eachEngine(t, func(w *world) {
		for _, id := range []string{"../../etc/passwd", "a/b", "CON", "Upper", "upper", "x\x00y", "_ids", ".", "..", "ノート", "a%2Fb", "-"} {
			e := archived("n", "")
			e.ID = id
			w.create(harvester, e)
			if got := w.read("decision/" + id); got.ID != id {
				w.Errorf("%q came back as %q", id, got.ID)
			}
		}
		if n, err := w.Count(w.Context()); n != 12 || err != nil {
			w.Errorf("count = %d, %v", n, err)
		}
		for _, id := range []string{"", "no such", strings.Repeat("x", 5000), "decision/", "\xff", "_ids/upper"} {
			if _, err := w.Read(w.Context(), id); !errors.Is(err, soma.ErrNotFound) {
				w.Errorf("read %.20q: %v", id, err)
			}
		}
	})
}

func TestDigest(t *testing.T) {
	made := func(change func(e *soma.Entity)) string {
		e := archived("a", "one\n\ntwo")
		e.ID, e.Fields = "a", map[string]any{"choice": "wait", "n": json.Number("1")}
		change(e)
		return e.Digest()
	}
	base := made(func(*soma.Entity) {})
	if len(base) != 64 {
		t.Errorf("digest %q", base)
	}
	for _, body := range []string{"one\n\ntwo\n", "one\r\n\r\ntwo\r\n\r\n", "one  \n\t\ntwo \t"} {
		if made(func(e *soma.Entity) { e.Body = body }) != base {
			t.Errorf("%q is folded to something else", body)
		}
	}
	for name, change := range map[string]func(e *soma.Entity){
		"body":              func(e *soma.Entity) { e.Body = "one\ntwo" },
		"indented":          func(e *soma.Entity) { e.Body = " one\n\ntwo" },
		"name":              func(e *soma.Entity) { e.Name = "b" },
		"name with a blank": func(e *soma.Entity) { e.Name = "a " },
		"field":             func(e *soma.Entity) { e.Fields["choice"] = "wait\n" },
		"type of a field":   func(e *soma.Entity) { e.Fields["n"] = "1" },
		"tags":              func(e *soma.Entity) { e.Tags = []string{"x"} },
		"decay":             func(e *soma.Entity) { e.DecayAt = time.Unix(1, 0) },
	} {
		if made(change) == base {
			t.Errorf("a change of %s is none", name)
		}
	}
	if got := made(func(e *soma.Entity) { e.Fields["n"] = nan() }); got != "" {
		t.Errorf("what has no JSON form has the digest %s", got)
	}
}

func TestCreateLimit(t *testing.T) {
	w := newWorld(t, "mem")
	run := w.As(harvester)
	for i := range soma.MaxCreates {
		_, err := run.Create(w.Context(), archived(fmt.Sprint("d", i), ""))
		w.check(err)
	}
	if _, err := run.Create(w.Context(), archived("d5", "")); err != nil {
		t.Errorf("what is there already counts: %v", err)
	}
	if _, err := run.Create(w.Context(), archived("one more", "")); !errors.Is(err, soma.ErrCreateLimit) {
		t.Errorf("one more: %v", err)
	}
	if _, err := run.Update(w.Context(), "d5", map[string]any{"body": "x"}); err != nil {
		t.Errorf("an update counts: %v", err)
	}
	for i := range 150 {
		_, err := run.Limit(-1).Create(w.Context(), archived(fmt.Sprint("backfill ", i), ""))
		w.check(err)
	}
	if _, err := w.As(harvester).Create(w.Context(), archived("one more", "")); err != nil {
		t.Errorf("the next run: %v", err)
	}
}

func TestQuery(t *testing.T) {
	eachEngine(t, func(w *world) {
		for i := range 6 {
			e := archived(fmt.Sprintf("old %d", i), "")
			e.Tags = []string{"all", fmt.Sprint("mod", i%2)}
			w.create(harvester, e)
			w.add(time.Minute)
		}
		w.create(teamContext, w.worked("red plan", "red"))
		w.create(teamContext, w.worked("blue plan", "blue"))
		w.create(synthesizer, w.proposed("idea", 0.7))
		begin := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
		for _, c := range []struct {
			q    soma.Query
			want []string
		}{
			{soma.Query{Layer: soma.Archive, Tag: "mod1"}, []string{"old-1", "old-3", "old-5"}},
			{soma.Query{Type: "decision", Offset: 4}, []string{"old-4", "old-5"}},
			{soma.Query{Type: "decision", Offset: 1, Limit: 2}, []string{"old-1", "old-2"}},
			{soma.Query{Layer: soma.Working}, nil},
			{soma.Query{Layer: soma.Working, Team: "red"}, []string{"red-plan"}},
			{soma.Query{Layer: soma.Working, Team: soma.AllTeams}, []string{"blue-plan", "red-plan"}},
			{soma.Query{Type: "insight", Team: "blue"}, []string{"blue-plan", "idea"}},
			{soma.Query{Type: "decision", CreatedFrom: begin.Add(time.Minute), CreatedTo: begin.Add(3 * time.Minute)}, []string{"old-1", "old-2"}},
			{soma.Query{Status: "superseded"}, nil},
		} {
			w.same(fmt.Sprintf("%+v", c.q), w.ids(w.Query(w.Context(), c.q)), c.want)
		}
	})
}

func TestLinks(t *testing.T) {
	eachEngine(t, func(w *world) {
		a := w.create(harvester, archived("a", "see [[decision/b]] and [[decision/missing|that]]"))
		b := w.create(harvester, &soma.Entity{Type: "decision", Name: "b", Layer: soma.Archive, Related: []string{"decision/c"}})
		w.create(harvester, archived("c", ""))
		w.create(synthesizer, w.proposed("claim", 0.5, "a", map[string]any{"id": "gone", "type": "decision"}))
		w.create(teamContext, w.worked("secret", "red"))
		w.check(w.As(anna).Relate(w.Context(), "c", "secret", "explains", map[string]any{"how": "well"}))
		w.check(w.As(anna).Relate(w.Context(), "c", "secret", "explains", map[string]any{"how": "badly"}))

		w.same("linked to b", w.ids(w.FindLinked(w.Context(), "b", "")), []string{"a"})
		w.same("linked to what is missing", w.ids(w.FindLinked(w.Context(), "decision/missing", "")), []string{"a"})
		walk := func(id, team string, depth int, types ...string) (ids []string) {
			list, err := w.Neighbors(w.Context(), id, team, depth, types...)
			w.check(err)
			for _, n := range list {
				ids = append(ids, fmt.Sprint(n.Depth, n.Entity.ID))
			}
			slices.Sort(ids)
			return ids
		}
		w.same("one step", walk("a", "", 1), []string{"1b", "1claim"})
		w.same("two steps", walk("a", "", 2), []string{"1b", "1claim", "2c"})
		w.same("three steps without the team", walk("a", "", 3), []string{"1b", "1claim", "2c"})
		w.same("three steps of the team", walk("a", "red", 3), []string{"1b", "1claim", "2c", "3secret"})
		w.same("by type", walk("a", "red", 3, soma.LinkMentions, soma.LinkRelated), []string{"1b", "2c"})
		list, err := w.Neighbors(w.Context(), "secret", "red", 1)
		w.check(err)
		w.same("the relation", list[0].Via, []soma.Link{{From: "c", To: "secret", Type: "explains", Properties: map[string]any{"how": "badly"}}})

		dangling, err := w.CheckDanglingReferences(w.Context())
		w.check(err)
		w.same("dangling", dangling, []soma.Dangling{{Entity: "insight/claim", Layer: soma.Emerging, Missing: "gone", Type: soma.LinkEvidence}})

		// A link that is taken away is gone in both directions.
		_, err = w.As(anna).Update(w.Context(), a.ID, map[string]any{"body": "nothing"})
		w.check(err)
		w.same("linked to b", w.ids(w.FindLinked(w.Context(), b.ID, "")), []string(nil))
	})
	t.Run("wikilinks", func(t *testing.T) {
		got := soma.ExtractWikilinks("[[a/b]] [[c]] [[d/e|shown]] [[d/e#part]] [[A/b]] [[a/b]] [[x/y z]]")
		if diff := cmp.Diff([]string{"a/b", "d/e", "x/y z"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestHistory(t *testing.T) {
	eachEngine(t, func(w *world) {
		e := w.create(harvester, archived("plan", "first"))
		t0 := w.now()
		w.add(time.Hour)
		_, err := w.As(anna).Update(w.Context(), e.ID, map[string]any{"body": "second"})
		w.check(err)
		w.add(time.Hour)
		// By hand, past the store.
		document, _, err := w.db.Get(w.Context(), e.Key())
		w.check(err)
		w.check(storage.Set(w.Context(), w.db, e.Key(), []byte(strings.Replace(string(document), "second", "by hand", 1))))
		w.check(storage.Set(w.Context(), w.db, "decision/new", []byte(`{"name":"new","layer":"archive","created":"2026-05-01","body":"see [[decision/plan]]"}`)))
		n, err := w.Sync(w.Context())
		if n != 2 || err != nil {
			w.Errorf("sync takes in %d, %v", n, err)
		}
		if n, err := w.Sync(w.Context()); n != 0 || err != nil {
			w.Errorf("a second sync takes in %d, %v", n, err)
		}
		w.same("links of the new file", w.ids(w.FindLinked(w.Context(), "plan", "")), []string{"new"})
		w.add(time.Hour)
		w.check(storage.Delete(w.Context(), w.db, "decision/new"))
		if n, err := w.Sync(w.Context()); n != 1 || err != nil {
			w.Errorf("sync of a deletion takes in %d, %v", n, err)
		}
		w.same("links of the deleted file", w.ids(w.FindLinked(w.Context(), "plan", "")), []string(nil))
		w.check(w.As(anna).Remove(w.Context(), e.ID, "done"))

		var got []string
		for v, err := range w.History(w.Context(), "plan") {
			w.check(err)
			text := "nothing"
			if v.Entity != nil {
				text = v.Entity.Body
			}
			got = append(got, fmt.Sprintf("%d %s %s %s", v.N, v.Op, v.Actor, text))
		}
		w.same("history", got, []string{
			"1 create worker:harvester first", "2 update person:anna second", "3 edit person: by hand", "4 remove person:anna nothing",
		})
		for _, c := range []struct {
			at   time.Duration
			want string
		}{{-time.Second, ""}, {0, "first"}, {59 * time.Minute, "first"}, {time.Hour, "second"}, {2 * time.Hour, "by hand"}, {5 * time.Hour, ""}} {
			past, err := w.AsOf(t0.Add(c.at)).Read(w.Context(), "plan")
			if c.want == "" && !errors.Is(err, soma.ErrNotFound) || c.want != "" && (err != nil || past.Body != c.want) {
				w.Errorf("as of %v: %+v, %v", c.at, past, err)
			}
		}
		w.same("all as of two hours", w.ids(w.AsOf(t0.Add(2*time.Hour)).Query(w.Context(), soma.Query{Layer: soma.Archive})), []string{"new", "plan"})
		w.same("all as of the end", w.ids(w.AsOf(w.now()).Query(w.Context(), soma.Query{})), []string(nil))
	})
}

func TestSearch(t *testing.T) {
	eachEngine(t, func(w *world) {
		w.create(harvester, archived("retry storm", "The gateway retried without backoff."))
		w.create(teamContext, w.worked("red gateway", "red"))
		for i := range 70 { // enough for merges of the index
			w.create(soma.Person("ben"), archived(fmt.Sprint("filler ", i), "nothing of interest"))
		}
		find := func(text, team string) []string {
			return w.ids(w.Query(w.Context(), soma.Query{Text: text, Team: team}))
		}
		w.same("found", find("gateways retry", ""), []string{"retry-storm"})
		w.same("found by the team", find("gateway", "red"), []string{"red-gateway", "retry-storm"})
		_, err := w.As(anna).Update(w.Context(), "retry-storm", map[string]any{"body": "The balancer did."})
		w.check(err)
		w.same("the old text", find("backoff", ""), []string(nil))
		w.same("the new text", find("balancer", ""), []string{"retry-storm"})
		w.same("many", len(find("filler", "")), 70)
		w.check(w.As(anna).Remove(w.Context(), "retry-storm", "x"))
		w.same("after removal", find("balancer", ""), []string(nil))

		// By hand, while the store is open and while it was not.
		w.check(storage.Set(w.Context(), w.db, "decision/by-hand", []byte(`{"name":"note","layer":"archive","body":"walrus"}`)))
		for len(find("walrus", "")) == 0 {
			runtime.Gosched() // the index follows the store's events
		}
		w.same("by hand", find("walrus", ""), []string{"by-hand"})
		w.Store.Close()
		w.check(storage.Set(w.Context(), w.db, "decision/by-hand", []byte(`{"name":"note","layer":"archive","body":"narwhal"}`)))
		w.open()
		w.same("the old text by hand", find("walrus", ""), []string(nil))
		w.same("the new text by hand", find("narwhal", ""), []string{"by-hand"})
		w.check(w.Rebuild(w.Context()))
		w.same("after a rebuild", find("narwhal", ""), []string{"by-hand"})
		w.same("many after a rebuild", len(find("filler", "")), 70)
	})
}
