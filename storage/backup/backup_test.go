package backup_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/backup"
	"github.com/stratamem/strata/storage/mem"
)

// FuzzRestore: no input panics, what is refused changes nothing, and what is
// taken comes out again.
func FuzzRestore(f *testing.F) {
	m := mem.New()
	for key, value := range map[string]string{"doc/a": `{"f":"1"}`, "doc/%": `{}`, "_rec/a": "\x00\xff", "_rec/b": ""} {
		if err := storage.Set(context.Background(), m, key, []byte(value)); err != nil {
			f.Fatal(err)
		}
	}
	var text bytes.Buffer
	if _, err := backup.Write(context.Background(), m, &text); err != nil {
		f.Fatal(err)
	}
	f.Add(text.Bytes())
	f.Add(text.Bytes()[:text.Len()/2])
	f.Add([]byte(`{"format":"strata-backup","version":1}` + "\n" + `{"end":true}` + "\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		m := mem.New()
		tally, err := backup.Restore(t.Context(), m, bytes.NewReader(in), nil)
		if err != nil {
			if !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrFormat) && !errors.Is(err, storage.ErrNewer) && !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("Restore: %v", err)
			}
			for key := range m.List(t.Context(), "") {
				t.Errorf("a refused backup set %q", key)
			}
			return
		}
		var out bytes.Buffer
		again, err := backup.Write(t.Context(), m, &out)
		if err != nil {
			t.Fatal(err)
		}
		if again.Documents != tally.Documents || again.Records != tally.Records {
			t.Errorf("restored %+v, backed up %+v", tally, again)
		}
	})
}
