package soma_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

// dying is an adapter that makes so many writes and then dies: what comes later
// fails and changes nothing. That an engine makes each write whole or not at all
// is what its own suite proves, by killing processes.
type dying struct {
	storage.Adapter
	left int
}

var errDead = errors.New("the process is dead")

func (d *dying) spend() error {
	if d.left--; d.left < 0 {
		return errDead
	}
	return nil
}

func (d *dying) Apply(ctx context.Context, ops ...storage.Op) error {
	if err := d.spend(); err != nil {
		return err
	}
	return d.Adapter.Apply(ctx, ops...)
}

func (d *dying) Scan(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error] {
	return storage.Scan(ctx, d.Adapter, prefix, opts)
}

func (d *dying) Find(ctx context.Context, q storage.Query) iter.Seq2[storage.Entry, error] {
	return storage.Find(ctx, d.Adapter, q)
}

func (d *dying) EnsureIndex(ctx context.Context, fields ...string) error {
	return storage.EnsureIndex(ctx, d.Adapter, fields...)
}

// TestCrash lets the process die between any two writes of what changes more
// than one entity. What is there afterwards is consistent, and the same call
// completes it.
func TestCrash(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(w *world, s *soma.Store) error
		done func(w *world)
	}{
		"promote": {func(w *world, s *soma.Store) error {
			_, err := s.As(anna).Promote(w.Context(), "idea", digestOf(w.Context(), s, "idea"), "")
			if _, refused := errors.AsType[*soma.GovernanceError](err); refused {
				err = nil // it was promoted before it died
			}
			return err
		}, func(w *world) {
			w.same("canon", w.consult(soma.Enforce, ""), []string{"canon-idea"})
		}},
		"supersede": {func(w *world, s *soma.Store) error {
			_, err := s.As(anna).Promote(w.Context(), "idea", digestOf(w.Context(), s, "idea"), "")
			if _, refused := errors.AsType[*soma.GovernanceError](err); err == nil || refused {
				_, err = s.As(anna).Supersede(w.Context(), "canon-idea", "idea-two", digestOf(w.Context(), s, "idea-two"), "better")
			}
			if _, refused := errors.AsType[*soma.GovernanceError](err); refused {
				err = nil // it was done before it died
			}
			return err
		}, func(w *world) {
			w.same("canon", w.consult(soma.Enforce, ""), []string{"canon-idea-two"})
		}},
		"decay": {func(w *world, s *soma.Store) error {
			w.add(100 * 24 * time.Hour)
			_, err := s.As(soma.Worker("decay")).ProcessDecay(w.Context())
			return err
		}, func(w *world) {
			w.same("left to decay", w.ids(w.Query(w.Context(), soma.Query{Layer: soma.Working, Team: "red"})), []string(nil))
		}},
		"migrate": {func(w *world, s *soma.Store) error {
			got, err := s.MigrateToLayers(w.Context())
			if err == nil && got.Warnings != nil {
				err = errDead
			}
			return err
		}, func(w *world) {
			w.same("without a layer", len(w.ids(w.Query(w.Context(), soma.Query{Type: "agent", Layer: soma.Archive}))), 3)
		}},
		"forget": {func(w *world, s *soma.Store) error {
			_, err := s.As(anna).Forget(w.Context(), "event", "x")
			if errors.Is(err, soma.ErrNotFound) {
				err = nil
			}
			return err
		}, func(w *world) {
			w.same("left", w.ids(w.Query(w.Context(), soma.Query{Text: "event idea plan", Team: "red"})), []string{"plan-0", "plan-1", "plan-2"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			eachEngine(t, func(w *world) {
				for writes := 0; ; writes++ {
					w.clear()
					w.create(harvester, archived("event", "what happened"))
					w.create(synthesizer, w.proposed("idea", 0.5, "event"))
					w.create(synthesizer, w.proposed("idea two", 0.5, "event"))
					for i := range 3 {
						w.create(teamContext, w.worked(fmt.Sprint("plan ", i), "red"))
						w.check(storage.Set(w.Context(), w.db, fmt.Sprint("agent/old-", i), []byte(`{"name":"old","status":"active"}`)))
					}
					if _, err := w.Sync(w.Context()); err != nil {
						w.Fatal(err)
					}
					db := &dying{w.db, writes}
					s, err := soma.Open(w.Context(), db, &soma.Options{Now: w.now})
					w.check(err)
					err = c.do(w, s)
					s.Close()
					w.open()
					w.consistent()
					if err == nil && db.left >= 0 {
						c.done(w)
						return
					}
					if !errors.Is(err, errDead) {
						w.Fatalf("after %d writes: %v", writes, err)
					}
					w.check(c.do(w, w.Store))
					w.consistent()
					c.done(w)
				}
			})
		})
	}
}

// meanwhile is an adapter that lets somebody do something before the batch that
// deletes a key.
type meanwhile struct {
	*dying
	key string
	do  func()
}

func (m *meanwhile) Apply(ctx context.Context, ops ...storage.Op) error {
	if slices.ContainsFunc(ops, func(op storage.Op) bool { return op.Key == m.key && op.Delete }) && m.do != nil {
		do := m.do
		m.do = nil
		do()
	}
	return m.dying.Apply(ctx, ops...)
}

// breaking is an adapter in which a document is broken after it was found.
type breaking struct {
	*dying
	key string
}

func (b *breaking) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	if key == b.key {
		return nil, "", &storage.CorruptError{Key: key, Reason: "half of it is there"}
	}
	return b.dying.Get(ctx, key)
}

// TestBrokenMeanwhile: a document that a person breaks while it is read fails no
// query.
func TestBrokenMeanwhile(t *testing.T) {
	eachEngine(t, func(w *world) {
		w.create(synthesizer, w.proposed("idea", 0.5))
		w.check(storage.Set(w.Context(), w.db, "insight/by-hand", []byte(`{"name":"by hand","layer":"canon","status":"active"}`)))
		s, err := soma.Open(w.Context(), &breaking{&dying{w.db, math.MaxInt}, "insight/by-hand"}, &soma.Options{Now: w.now})
		w.check(err)
		defer s.Close()
		w.same("found", w.ids(s.Query(w.Context(), soma.Query{Type: "insight"})), []string{"idea"})

		w.create(harvester, archived("event", "of the hand"))
		w.ids(w.Query(w.Context(), soma.Query{Text: "hand"})) // which is in the index now
		s, err = soma.Open(w.Context(), &breaking{&dying{w.db, math.MaxInt}, "decision/event"}, &soma.Options{Now: w.now})
		w.check(err)
		defer s.Close()
		w.same("found by its text", w.ids(s.Query(w.Context(), soma.Query{Text: "hand"})), []string(nil))
	})
}

// TestForgetMeanwhile: what others make of an entity while it is being forgotten
// goes with it.
func TestForgetMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		key string // that is about to be deleted
		do  func(w *world) error
	}{
		"a proposal is promoted": {"insight/idea", func(w *world) error {
			_, err := w.As(anna).Promote(w.Context(), "idea", w.read("idea").Digest(), "")
			return err
		}},
		"a proposal is rejected": {"insight/idea", func(w *world) error { return w.As(anna).Reject(w.Context(), "idea", "no") }},
		"the event is edited": {"decision/event", func(w *world) error {
			_, err := w.As(anna).Update(w.Context(), "event", map[string]any{"note": "Zyzzyva"})
			return err
		}},
		"the event is searched for": {"decision/event", func(w *world) error {
			w.Store.Close() // so that all is looked at
			w.ids(w.Query(w.Context(), soma.Query{Text: "nothing"}))
			return nil
		}},
		"a proposal that cites another is promoted": {"insight/idea", func(w *world) error {
			_, err := w.As(anna).Promote(w.Context(), "later", w.read("later").Digest(), "")
			return err
		}},
		"the event is removed": {"decision/event", func(w *world) error { return w.As(anna).Remove(w.Context(), "event", "x") }},
	} {
		t.Run(name, func(t *testing.T) {
			eachEngine(t, func(w *world) {
				w.create(harvester, archived("event", "Zyzzyva"))
				w.create(harvester, archived("other", ""))
				w.create(synthesizer, w.proposed("later", 0.5, "event", "other"))
				idea := w.proposed("idea", 0.5, "event")
				idea.Body = "of Zyzzyva"
				w.create(synthesizer, idea)
				w.forgetsEvent(&meanwhile{&dying{w.db, math.MaxInt}, c.key, func() { w.check(c.do(w)) }})
				w.consistent()
			})
		})
	}
}

// forgetsEvent forgets the event over an adapter, after which nothing has its text.
func (w *world) forgetsEvent(db storage.Adapter) {
	w.Helper()
	s, err := soma.Open(w.Context(), db, &soma.Options{Now: w.now})
	w.check(err)
	defer s.Close()
	if _, err := s.As(anna).Forget(w.Context(), "event", "x"); err != nil {
		w.Fatal(err)
	}
	for key, value := range w.dump() {
		if strings.Contains(value, "Zyzzyva") {
			w.Errorf("%s has the text", key)
		}
	}
}

// clear empties the store.
func (w *world) clear() {
	w.Helper()
	w.Store.Close()
	for key, err := range w.db.List(w.Context(), "") {
		w.check(err)
		w.check(storage.Delete(w.Context(), w.db, key))
	}
	w.open()
}

// consistent tests that all that is derived agrees with the entities.
func (w *world) consistent() {
	w.Helper()
	w.ids(w.Query(w.Context(), soma.Query{Text: "nothing"})) // brings the index up to date
	if n, err := w.Sync(w.Context()); n != 0 || err != nil {
		w.Errorf("the history lacks %d changes, %v", n, err)
	}
	for e, err := range w.Query(w.Context(), soma.Query{Team: soma.AllTeams}) {
		w.check(err)
		if got := w.read(e.ID); got.Key() != e.Key() {
			w.Errorf("the id of %s leads to %s", e.Key(), got.Key())
		}
		for _, l := range e.Links() {
			found := false
			for from, err := range w.FindLinked(w.Context(), l.To, soma.AllTeams) {
				w.check(err)
				found = found || from.ID == e.ID
			}
			if !found && e.Team == "" {
				w.Errorf("the link from %s to %s is not found", e.ID, l.To)
			}
		}
		promoted := e.Text(soma.FieldProposalStatus) == soma.Promoted
		canon, err := w.Read(w.Context(), "canon-"+e.ID)
		if promoted != (err == nil) || err == nil && canon.Unratified {
			w.Errorf("%s is promoted: %t, its canon: %v, %v", e.ID, promoted, canon, err)
		}
	}
	for f, err := range search.Check(w.Context(), storage.Scope(w.db, "_search/")) {
		w.Errorf("the index has a fault: %v, %v", f, err)
	}
}

// before runs f once before the first batch that it is given.
type before struct {
	*dying
	f func()
}

func (b *before) Apply(ctx context.Context, ops ...storage.Op) error {
	if f := b.f; f != nil {
		b.f = nil
		f()
	}
	return b.dying.Apply(ctx, ops...)
}

// TestTextEntersOnce: of two searches that find a text missing from the index one
// brings it in, so that who changes the text at the same moment takes all of it
// out.
func TestTextEntersOnce(t *testing.T) {
	eachEngine(t, func(w *world) {
		open := func(f func()) *soma.Store {
			s, err := soma.Open(w.Context(), &before{&dying{w.db, math.MaxInt}, f}, &soma.Options{Now: w.now})
			w.check(err)
			w.Cleanup(func() { s.Close() })
			return s
		}
		find := func(s *soma.Store) {
			for _, err := range s.Query(w.Context(), soma.Query{Text: "Zyzzyva"}) {
				w.check(err)
			}
		}
		edit := func(e *soma.Entity) {
			value, _, err := w.db.Get(w.Context(), e.Key())
			w.check(err)
			w.check(storage.Set(w.Context(), w.db, e.Key(), bytes.Replace(value, []byte("as it was made"), []byte("Zyzzyva"), 1)))
		}
		one, two := w.create(harvester, archived("one", "as it was made")), w.create(harvester, archived("two", "as it was made"))
		w.Store.Close() // so that all is looked at
		edit(one)
		planned, landed, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		change := open(func() { close(planned); <-landed })
		find(open(func() { // this search is about to bring the text of one in
			edit(two)
			find(w.Store) // and that one brings both in
			go func() {
				_, err := change.As(anna).Update(w.Context(), "one", map[string]any{"name": "Weevil"})
				done <- err
			}()
			select {
			case <-planned:
			case err := <-done:
				w.Fatalf("the change is not tried: %v", err)
			}
		}))
		close(landed)
		w.check(<-done)
		_, err := w.Sync(w.Context())
		w.check(err)
		for f, err := range search.Check(w.Context(), storage.Scope(w.db, "_search/")) {
			w.Errorf("the index has a fault: %+v, %v", f, err)
		}
		w.consistent()
	})
}

// listed runs f once after the texts of an entity were listed.
type listed struct {
	*dying
	f func()
}

func (l *listed) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for key, err := range l.dying.List(ctx, prefix) {
			if !yield(key, err) {
				return
			}
		}
		if f := l.f; f != nil && strings.HasPrefix(prefix, "_search/d/") {
			l.f = nil
			f()
		}
	}
}

// TestForgetBesideASearch: a text that a search brings in while its entity is being
// forgotten, an older one of a person's, goes with it.
func TestForgetBesideASearch(t *testing.T) {
	eachEngine(t, func(w *world) {
		e := w.create(harvester, archived("event", "as it was made"))
		edit := func(text string) {
			value, _, err := w.db.Get(w.Context(), e.Key())
			w.check(err)
			value = regexp.MustCompile(`"body":"[^"]*"`).ReplaceAll(value, []byte(`"body":"`+text+`"`))
			w.check(storage.Set(w.Context(), w.db, e.Key(), value))
		}
		w.forgetsEvent(&listed{&dying{w.db, math.MaxInt}, func() {
			edit("Zyzzyva")
			w.Store.Close() // so that all is looked at
			w.ids(w.Query(w.Context(), soma.Query{Text: "nothing"}))
			edit("as it was made")
		}})
	})
}
