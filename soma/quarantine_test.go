package soma_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// governed makes a store with two canon entries, a document of a team, and canon
// that somebody wrote past the review.
func governed(t *testing.T) (*soma.Store, *soma.Writer) {
	t.Helper()
	ctx, db := t.Context(), mem.New()
	s, err := soma.Open(ctx, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := s.As(soma.Person("anna"))
	create := func(e *soma.Entity) {
		t.Helper()
		if _, err := w.Create(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	create(&soma.Entity{Type: "decision", ID: "shared", Name: "Shared", Layer: soma.Archive})
	create(&soma.Entity{Type: "decision", ID: "own", Name: "Own", Layer: soma.Archive, Team: "core", Related: []string{"decision/shared"}})
	for _, id := range []string{"a", "b"} {
		create(&soma.Entity{Type: "insight", ID: id, Name: id, Layer: soma.Emerging, DecayAt: s.ComputeL3DecayAt(time.Now()), Fields: map[string]any{
			soma.FieldConfidence: 0.5, soma.FieldEvidence: []any{"shared"},
		}})
		if _, err := w.Promote(ctx, id, digestOf(ctx, s, id), ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := storage.Set(ctx, db, "insight/canon-forged", []byte(`{"name":"Forged","layer":"canon","status":"active","team_id":"core"}`)); err != nil {
		t.Fatal(err)
	}
	return s, w
}

// No decision but ratify takes in canon that was written past a review.
func TestQuarantineHolds(t *testing.T) {
	s, w := governed(t)
	ctx := t.Context()
	supersede := func(old, by string) error {
		_, err := w.Supersede(ctx, old, by, digestOf(ctx, s, by), "r")
		return err
	}
	for name, err := range map[string]error{
		"supersede by it": supersede("canon-a", "canon-forged"),
		"supersede it":    supersede("canon-forged", "canon-a"),
		"retire it":       w.Retire(ctx, "canon-forged", "r"),
	} {
		if _, ok := errors.AsType[*soma.GovernanceError](err); !ok {
			t.Errorf("%s: %v, want a GovernanceError", name, err)
		}
	}
	if _, err := s.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	past := s.AsOf(time.Now().Add(time.Hour))
	if e, err := past.Read(ctx, "canon-forged"); err != nil || !e.Unratified {
		t.Errorf("the past has forged canon as ratified: %v, %v", e, err)
	}
	canon := func() (n int) {
		for _, err := range past.Query(ctx, soma.Query{Layer: soma.Canon, Team: soma.AllTeams}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	if n := canon(); n != 2 {
		t.Errorf("the past has %d canon entries, want 2", n)
	}
}

// forgetAll forgets what a query selects.
func forgetAll(ctx context.Context, s *soma.Store, w *soma.Writer, q soma.Query, reason string) (soma.Forgotten, error) {
	ids, err := s.Forgettable(ctx, q)
	if err != nil {
		return soma.Forgotten{}, err
	}
	return w.ForgetEach(ctx, ids, reason)
}

// What a team has is forgotten with the team, and what is of all is not.
func TestForgetTeam(t *testing.T) {
	s, w := governed(t)
	f, err := forgetAll(t.Context(), s, w, soma.Query{Team: "core"}, "r")
	if err != nil || len(f.Entities) != 2 {
		t.Errorf("forgot %v, %v, want own and canon-forged", f.Entities, err)
	}
	if _, err := s.Read(t.Context(), "canon-a"); err != nil {
		t.Error(err)
	}
}

func TestLinksOfAllTeams(t *testing.T) {
	s, _ := governed(t)
	for team, want := range map[string]int{"": 4, "ops": 4, "core": 5, soma.AllTeams: 5} {
		n := 0
		for _, err := range s.FindLinked(t.Context(), "shared", team) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		near, err := s.Neighbors(t.Context(), "shared", team, 1)
		if n != want || len(near) != want || err != nil {
			t.Errorf("team %q: %d link to it, %d are near, %v, want %d", team, n, len(near), err, want)
		}
	}
}
