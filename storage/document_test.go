package storage_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stratamem/strata/storage"
)

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		` {"b" : 1, "a" : [ 1.10 , -0, 1E5 ] } `:         `{"a":[1.10,-0,1E5],"b":1}`,
		`{"é":1,"z":2,"\u0061":3,"":4}`:                  `{"":4,"a":3,"z":2,"é":1}`,
		`"\u003c\/\u0026\u2028\ud83d\ude42\u0000\u001F"`: "\"</&\u2028🙂\\u0000\\u001f\"",
		`"\b\f\n\r\t\"\\\u0008\u000a"`:                   `"\b\f\n\r\t\"\\\b\n"`,
		"\"\x7f\"":                                       "\"\x7f\"",
		`{"x":{"b":{},"a":[]},"y":[{"d":1,"c":2}]}`:      `{"x":{"a":[],"b":{}},"y":[{"c":2,"d":1}]}`,
		`null`: `null`, `true`: `true`, `[]`: `[]`, `0`: `0`,
	} {
		got, err := storage.Canonical([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("Canonical(%s) = %s, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{``, `{`, `01`, `{"a":1,"a":1}`, `"\ud800"`, "\"\xff\"", `1 2`, `nul`, strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)} {
		if got, err := storage.Canonical([]byte(in)); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("Canonical(%.50q) = %.50s, %v, want ErrInvalid", in, got, err)
		}
	}
}

// FuzzCanonical compares with encoding/json, which is laxer: it takes
// duplicate names, lone surrogates and invalid UTF-8.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,2.50,{"b":null}],"":"\u00e9\ud83d\ude42"}`, `[[],{}]`, `"\ud800"`, `{"a":1,"a":2}`, `-0.1e+7`, "\"\xff\"",
		`"0123456\"890123456789"`, `{"a":"1234567` + "\n" + `"}`, `"1234567\`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := storage.Canonical(in)
		if err != nil {
			if json.Valid(in) && !strings.Contains(err.Error(), "duplicate") && !strings.Contains(err.Error(), "surrogate") &&
				!strings.Contains(err.Error(), "UTF-8") && !strings.Contains(err.Error(), "deep") {
				t.Fatalf("Canonical refuses %q: %v", in, err)
			}
			return
		}
		if !json.Valid(in) {
			t.Fatalf("Canonical takes %q", in)
		}
		again, err := storage.Canonical(got)
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("Canonical of %q is %q, of that %q, %v", in, got, again, err)
		}
		if diff := cmp.Diff(decode(t, in), decode(t, got)); diff != "" {
			t.Errorf("Canonical changes %q:\n%s", in, diff)
		}
		var small bytes.Buffer
		if err := json.Compact(&small, got); err != nil || !bytes.Equal(small.Bytes(), got) {
			t.Errorf("Canonical of %q has white space: %q", in, got)
		}
		// What is a document has fields that do not panic, and matches alike.
		q := storage.Query{Equal: map[string]string{"a": "1"}}
		if storage.ValidateEntry("doc/a", in) == nil && q.Match("doc/a", in) != q.Match("doc/a", got) {
			t.Errorf("%q and its canonical form %q match differently", in, got)
		}
	})
}

func decode(t *testing.T, in []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(in))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func BenchmarkValidateEntry(b *testing.B) {
	doc := []byte(`{"type":"insight","status":"active","tags":["a","b"],"created":"2026-01-01T00:00:00Z","body":"` + strings.Repeat("lorem ipsum dolor ", 50) + `"}`)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if err := storage.ValidateEntry("insight/a", doc); err != nil {
			b.Fatal(err)
		}
	}
}
