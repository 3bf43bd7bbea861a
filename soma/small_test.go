package soma_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/storagetest"
)

// TestSmallStore: knowledge lives in a store that takes little: it is created, changed,
// reviewed, found and forgotten, and what is too large for it is refused with what to do,
// and changes nothing.
func TestSmallStore(t *testing.T) {
	db := storagetest.Limited(mem.New(), storagetest.Small)
	defer db.Close()
	s, err := soma.Open(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	anna := s.As(soma.Person("anna"))
	for i := range 120 {
		_, err := s.As(soma.Worker("harvester")).Create(t.Context(), &soma.Entity{
			Type: "insight", Name: fmt.Sprint("Event ", i), Layer: soma.Archive, Body: fmt.Sprintf("Delivery number%d of sand came late.", i),
		})
		check(err)
	}
	var found []string
	for e, err := range s.Query(t.Context(), soma.Query{Text: "number77 sand"}) {
		check(err)
		found = append(found, e.ID)
	}
	if len(found) == 0 || found[0] != "event-77" {
		t.Errorf("found %v", found)
	}
	for i := range 40 { // versions, all of which are forgotten with it
		_, err := anna.Update(t.Context(), "event-77", map[string]any{"body": fmt.Sprint("Text ", i)})
		check(err)
	}
	before := map[string]bool{}
	for key, err := range db.List(t.Context(), "") {
		check(err)
		before[key] = true
	}
	for field, value := range map[string]string{"body": strings.Repeat("sand and stone. ", 300), "name": strings.Repeat("n", 5000)} {
		_, err := anna.Update(t.Context(), "event-5", map[string]any{field: value})
		if !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "give the entity a shorter text") {
			t.Errorf("Update with a large %s: %v", field, err)
		}
	}
	for key, err := range db.List(t.Context(), "") {
		check(err)
		delete(before, key)
	}
	if len(before) > 0 {
		t.Errorf("refused changes removed %v", before)
	}
	out, err := anna.Forget(t.Context(), "event-77", "asked to")
	check(err)
	if out.Records < 41 {
		t.Errorf("%d records were forgotten", out.Records)
	}
	for e, err := range storage.Scan(t.Context(), db, "", nil) {
		check(err)
		if strings.Contains(string(e.Value), "number77 ") || strings.HasPrefix(e.Key, "_history/insight/event-77/") {
			t.Errorf("%s is left of what was forgotten", e.Key)
		}
	}
	check(s.Rebuild(t.Context()))
	found = nil
	for e, err := range s.Query(t.Context(), soma.Query{Text: "number78 sand"}) {
		check(err)
		found = append(found, e.ID)
	}
	if len(found) == 0 || found[0] != "event-78" {
		t.Errorf("after Rebuild found %v", found)
	}
}
