package soma_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

// TestTypes: a type is of lower case letters, digits and hyphens, and begins with a letter.
func TestTypes(t *testing.T) {
	w := newWorld(t, "mem")
	for kind, ok := range map[string]bool{
		"a": true, "z": true, "az": true, "a0": true, "a9": true, "a-z": true, "a-": true, "insight": true, "b52-plan": true,
		"": false, "0": false, "9a": false, "-": false, "-a": false, "A": false, "aZ": false, "a_b": false, "a/b": false, "a b": false, "a{": false, "a`": false, "a:": false, "a.": false, "é": false, "a\u00e9": false,
	} {
		e := archived("of type "+kind, "body")
		e.Type = kind
		_, err := w.As(harvester).Create(w.Context(), e)
		if ok != (err == nil) {
			t.Errorf("type %q: %v", kind, err)
		}
	}
}

// TestLongIDs: an id has at most as many bytes, escaped, as a key has room for.
func TestLongIDs(t *testing.T) {
	w := newWorld(t, "mem")
	longest := 0
	for n := 100; n < 400; n++ {
		e := archived("long", "body")
		e.ID = strings.Repeat("x", n)
		_, err := w.As(harvester).Create(w.Context(), e)
		if err == nil {
			longest = n
		} else if refused, found := errors.AsType[*soma.FieldError](err); !found || refused.Field != "id" {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	e := archived("long", "body")
	e.ID = strings.Repeat("%", longest/3+1) // which is three bytes, escaped
	if _, err := w.As(harvester).Create(w.Context(), e); err == nil {
		t.Errorf("an id of %d bytes was taken, and of %d escaped", longest, 3*len(e.ID))
	}
	_, err := w.As(harvester).Create(w.Context(), func() *soma.Entity { e := archived("long", "body"); e.ID = strings.Repeat("y", longest+1); return e }())
	if want := "it has over " + strconv.Itoa(longest) + " bytes"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestTakenNames: an id that is made of a name gets the next number that is free, and so does
// that of canon.
func TestTakenNames(t *testing.T) {
	w := newWorld(t, "mem")
	for i, want := range []string{"idea", "idea-2", "idea-3", "idea-4"} {
		e := w.proposed("idea", 0.5)
		e.Body = strings.Repeat("x", 50+i)
		made := w.create(synthesizer, e)
		w.same("id", made.ID, want)
		canon, err := w.promote(anna, made.ID, "")
		w.check(err)
		w.same("canon", canon.ID, "canon-"+want[:4]+strings.TrimPrefix(want, "idea"))
	}
}

// TestRatifiedFile: a document that a person wrote and another takes as it is has the reviewer's
// name, and keeps what it says of where it is from.
func TestRatifiedFile(t *testing.T) {
	w := newWorld(t, "mem")
	for id, document := range map[string]string{
		"canon-bare": `{"name":"bare","layer":"canon","status":"active","created":"2026-01-01T00:00:00.000Z","updated":"2026-01-01T00:00:00.000Z","body":"Do."}`,
		"canon-full": `{"name":"full","layer":"canon","status":"active","created":"2026-01-01T00:00:00.000Z","updated":"2026-01-01T00:00:00.000Z","body":"Do.","source_worker":"harvester","origin_l3_id":"idea","ratified_by":"ben","ratified_at":"2026-01-01T00:00:00.000Z"}`,
	} {
		w.check(storage.Set(w.Context(), w.db, "insight/"+id, []byte(document)))
		w.check(w.As(anna).Ratify(w.Context(), id, "it is right"))
		e := w.read(id)
		origin, worker := id, "governance"
		if id == "canon-full" {
			origin, worker = "idea", "harvester"
		}
		w.same(id, []string{e.Text(soma.FieldOrigin), e.SourceWorker, e.Text(soma.FieldRatifiedBy)}, []string{origin, worker, "anna"})
	}
	w.same("withheld", w.withheld(), []string(nil))
}
