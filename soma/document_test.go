package soma_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// lax is an engine that gives documents which no engine may take, as one by others
// may have them from elsewhere.
type lax struct {
	storage.Adapter
	document string
}

func (l *lax) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	value, version, err := l.Adapter.Get(ctx, key)
	if err == nil && key == "insight/a" && l.document != "" {
		value = []byte(l.document)
	}
	return value, version, err
}

// TestAmbiguousDocument: a document that readers of JSON take for different things is
// damage, and is none of them.
func TestAmbiguousDocument(t *testing.T) {
	db := &lax{Adapter: mem.New()}
	defer db.Close()
	s, err := soma.Open(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := storage.Set(t.Context(), db, "insight/a", []byte(`{"type":"insight","id":"a","name":"A","layer":"archive","status":"active"}`)); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Read(t.Context(), "a"); err != nil || e.Status != "active" {
		t.Fatalf("Read: %+v, %v", e, err)
	}
	for _, document := range []string{
		`{"type":"insight","id":"a","name":"A","status":"active","layer":"archive","layer":"canon"}`,
		`{"type":"insight","id":"a","name":"A","status":"active","layer":"archive","l\u0061yer":"canon"}`,
		`{"type":"insight","id":"a","name":"\ud800","status":"active","layer":"archive"}`,
		`{"type":"insight","id":"a","name":"` + "\xff" + `","status":"active","layer":"archive"}`,
		`{"type":"insight","id":"a"`,
	} {
		db.document = document
		if e, err := s.Read(t.Context(), "a"); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("Read of %s: %+v, %v, want ErrCorrupt", document, e, err)
		}
		for e, err := range s.Query(t.Context(), soma.Query{}) {
			if !errors.Is(err, storage.ErrCorrupt) {
				t.Errorf("Query of %s: %+v, %v, want ErrCorrupt", document, e, err)
			}
		}
	}
}
