package killtest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

// desk is where knowledge is proposed, decided, kept and forgotten. The ids of
// what it makes say what belongs together:
//
//	decision/event-<x>   what happened; its body has a secret
//	insight/idea-<x>     or policy/idea-<x>, a proposal that cites event-<x>
//	policy/canon-idea-…  what became of that; its condition blocks the tool tool-<x>
//	insight/work-<x>     what a team is at
//
// where <x> is the round and a number. A proposal cites its event alone, or the
// event base beside it, which is never forgotten.
type desk struct {
	*world
	n, worked int
	notes     atomic.Int64
}

const baseEvent = "event-base"

// entity returns the parts that all have: the secret is in every text but the
// name, of which the id is made.
func entity(kind, id, secret string, layer soma.Layer) *soma.Entity {
	return &soma.Entity{
		Type: kind, ID: id, Name: strings.ReplaceAll(id, "-", " "), Layer: layer, Tags: []string{"killtest", secret},
		Body: "# Of " + secret + "\n\nIt was " + secret + " all along.\n", Fields: map[string]any{"secret": secret},
	}
}

func (d *desk) propose(ctx context.Context, rnd *rand.Rand) error {
	<-d.work
	if d.n == 0 {
		base := &soma.Entity{Type: "decision", ID: baseEvent, Name: "base", Layer: soma.Archive, Body: "It all began here.\n"}
		if _, err := d.soma.As(soma.Worker("harvester")).Create(ctx, base); err != nil {
			return err
		}
	}
	d.n++
	x := fmt.Sprintf("%d-%d", d.round, d.n)
	secret := d.token('z', 'e', d.n)
	if err := d.create(ctx, "harvester", entity("decision", "event-"+x, secret, soma.Archive)); err != nil {
		return err
	}
	kind, id, secret := "insight", "idea-"+x, d.token('z', 'i', d.n)
	if rnd.IntN(3) > 0 {
		kind = "policy"
	}
	e := entity(kind, id, secret, soma.Emerging)
	if kind == "policy" {
		e.Fields["condition"] = fmt.Sprintf("tool == %q", toolOf(id))
		e.Fields["enforcement"] = []string{"error", "abort"}[rnd.IntN(2)]
	}
	evidence := []any{"event-" + x}
	if rnd.IntN(2) == 0 {
		evidence = append(evidence, baseEvent)
	}
	e.Fields[soma.FieldEvidence], e.Fields[soma.FieldConfidence] = evidence, rnd.Float64()
	e.DecayAt = time.Now().Add(time.Hour)
	if rnd.IntN(4) == 0 {
		e.DecayAt = time.Now().Add(time.Duration(rnd.IntN(10)) * time.Millisecond)
	}
	return d.create(ctx, "synthesizer", e)
}

func toolOf(id string) string { return strings.Replace(id, "idea-", "tool-", 1) }

func (d *desk) create(ctx context.Context, worker string, e *soma.Entity) error {
	say(begun, "create", e.ID, e.Type, e.Text("secret"), len(e.Evidence()))
	err := settle(func() error { _, err := d.soma.As(soma.Worker(worker)).Create(ctx, e); return err })
	if err != nil {
		return err
	}
	say(done, "create", e.ID)
	return nil
}

// decide makes a decision and says how it went. That another was faster, or that
// there is nothing left to decide about, is no failure.
func decide(verb string, args []any, f func() error) error {
	say(begun, verb, args...)
	err := settle(f)
	_, governed := errors.AsType[*soma.GovernanceError](err)
	_, denied := errors.AsType[*soma.PermissionError](err)
	_, changed := errors.AsType[*soma.ChangedError](err)
	if errors.Is(err, storage.ErrCorrupt) { // a person has broken a file, which is to be mended first
		say(told, "spoilt", args...)
		say(refused, verb, args...)
		return nil
	}
	if governed || denied || changed || errors.Is(err, soma.ErrNotFound) {
		say(refused, verb, args...)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	say(done, verb, args...)
	return nil
}

func one[T any](rnd *rand.Rand, list []T) (x T, ok bool) {
	if len(list) == 0 {
		return x, false
	}
	return list[rnd.IntN(len(list))], true
}

// review returns what a reviewer does.
func (d *desk) review(name string) func(ctx context.Context, rnd *rand.Rand) error {
	w := d.soma.As(soma.Person(name))
	return func(ctx context.Context, rnd *rand.Rand) error {
		<-d.work
		pending, err := d.soma.Pending(ctx)
		if err != nil {
			return err
		}
		e, ok := one(rnd, pending)
		if !ok || !strings.HasPrefix(e.ID, "idea-") {
			return nil
		}
		if rnd.IntN(8) == 0 {
			return d.ratify(ctx, w)
		}
		held, err := d.soma.Consult(ctx, soma.Enforce, soma.Query{Team: team})
		if err != nil {
			return err
		}
		c, some := one(rnd, held)
		switch n := rnd.IntN(10); {
		case n == 0 && some:
			return decide("retire", []any{c.Text(soma.FieldOrigin)}, func() error { return w.Retire(ctx, c.ID, "it is over") })
		case n == 1 && some:
			return decide("supersede", []any{e.ID, c.Text(soma.FieldOrigin)}, func() error {
				_, err := w.Supersede(ctx, c.ID, e.ID, e.Digest(), "it is better")
				return err
			})
		case n < 4:
			return decide("reject", []any{e.ID}, func() error { return w.Reject(ctx, e.ID, "no") })
		}
		return decide("promote", []any{e.ID}, func() error { _, err := w.Promote(ctx, e.ID, e.Digest(), "yes"); return err })
	}
}

// ratify takes canon as a person has reworded it.
func (d *desk) ratify(ctx context.Context, w *soma.Writer) error {
	list, err := d.soma.Quarantined(ctx)
	if err != nil {
		return err
	}
	for _, h := range list {
		if e := h.Entity; e != nil && strings.Contains(e.Body, askRatify) {
			return decide("ratify", []any{e.Text(soma.FieldOrigin)}, func() error { return w.Ratify(ctx, e.ID, "it reads better") })
		}
	}
	return nil
}

// keep keeps what the team is at: it makes it, notes on it, drops it and lets it
// decay.
func (d *desk) keep(ctx context.Context, rnd *rand.Rand) error {
	<-d.work
	switch n := rnd.IntN(8); {
	case n < 2 || d.worked == 0:
		d.worked++
		e := entity("insight", fmt.Sprintf("work-%d-%d", d.round, d.worked), d.token('z', 'k', d.worked), soma.Working)
		e.Team, e.DecayAt = team, time.Now().Add(time.Hour)
		if rnd.IntN(3) == 0 {
			e.DecayAt = time.Now().Add(time.Duration(rnd.IntN(10)) * time.Millisecond)
		}
		return d.create(ctx, "team-context", e)
	case n == 3:
		return d.readNotes(ctx, rnd)
	case n == 2:
		out, err := d.soma.As(soma.Worker("decay")).ProcessDecay(ctx)
		for _, key := range out.Moved {
			_, id, _ := strings.Cut(key, "/")
			say(done, "decay", id)
		}
		return err
	}
	var works []*soma.Entity
	for e, err := range d.soma.Query(ctx, soma.Query{Layer: soma.Working, Team: team}) {
		if err != nil {
			return err
		}
		works = append(works, e)
	}
	e, ok := one(rnd, works)
	w := d.soma.As(soma.Worker("team-context"))
	switch {
	case !ok:
		return nil
	case rnd.IntN(6) == 0:
		return decide("remove", []any{e.ID}, func() error { return w.Remove(ctx, e.ID, "done") })
	case rnd.IntN(6) == 0:
		if err := w.ExtendDecayOnAccess(ctx, e.ID); err != nil && !errors.Is(err, soma.ErrNotFound) {
			return err
		}
		return nil
	}
	note := int64(d.round)*1_000_000 + d.notes.Add(1) // grows with every round
	return decide("note", []any{e.ID, note}, func() error {
		_, err := w.Update(ctx, e.ID, map[string]any{"note": fmt.Sprint(note)})
		return err
	})
}

// readNotes marks a note that a person has written as read, while that person
// may be editing it.
func (d *desk) readNotes(ctx context.Context, rnd *rand.Rand) error {
	var notes []*soma.Entity
	for e, err := range d.soma.Query(ctx, soma.Query{Tag: sharedTag}) {
		if err != nil {
			return err
		}
		notes = append(notes, e)
	}
	e, ok := one(rnd, notes)
	if !ok {
		return nil
	}
	return decide("read", []any{e.ID}, func() error {
		_, err := d.soma.As(soma.Person("bert")).Update(ctx, e.ID, map[string]any{"read": fmt.Sprint(d.notes.Add(1))})
		return err
	})
}

// forget forgets an event, and with it what was derived from it alone.
func (d *desk) forget(ctx context.Context, rnd *rand.Rand) error {
	if <-d.work; rnd.IntN(5) > 0 {
		return nil
	}
	var ideas []*soma.Entity
	for e, err := range d.soma.Query(ctx, soma.Query{Tag: "killtest"}) {
		if err != nil {
			return err
		}
		if strings.HasPrefix(e.ID, "idea-") {
			ideas = append(ideas, e)
		}
	}
	e, ok := one(rnd, ideas)
	if !ok {
		return nil
	}
	event := strings.Replace(e.ID, "idea-", "event-", 1)
	return decide("forget", []any{event}, func() error {
		_, err := d.soma.As(soma.Person("anna")).Forget(ctx, event, "somebody asked")
		return err
	})
}
