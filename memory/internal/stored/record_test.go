package stored_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// A head is encoded by hand: a field that is added to the type alone is lost.
func TestHeadIsEncodedWhole(t *testing.T) {
	want := stored.Head{V: stored.Format}
	v := reflect.ValueOf(&want).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case v.Type().Field(i).Name == "V":
		case f.Kind() == reflect.Int:
			f.SetInt(int64(i + 1))
		case f.Kind() == reflect.String:
			f.SetString("an \"id\"")
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.Type() == reflect.TypeFor[[]byte]():
			f.SetBytes([]byte("any \x00\xff bytes"))
		default:
			t.Fatalf("a field of kind %s is not in this test", f.Kind())
		}
	}
	got, err := stored.Decode[stored.Head]("key", want.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	_, err := stored.Decode[stored.Head]("key", []byte(`{"v":5}`))
	if format, ok := errors.AsType[*stored.FormatError](err); !ok || format.Have != 5 || format.Supported != stored.Format || format.Key != "key" {
		t.Errorf("got %v", err)
	}
	if _, err := stored.Decode[stored.Head]("key", []byte(`{`)); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

// What an envelope says is read again, whether its state has a base or not.
func TestEnvelopeIsStoredWhole(t *testing.T) {
	store := mem.New()
	state := func(n int) json.RawMessage {
		return append(append([]byte(`["`), bytes.Repeat([]byte("word "), n)...), `"]`...)
	}
	var was stored.Envelope
	for i, e := range []stored.Envelope{
		{Format: 2, Clears: 3},
		{Format: 2, Clears: 3, State: state(1)},
		{Format: 3, Clears: 3, State: state(500)}, // it grew: the first with a base
		{Format: 3, Clears: 3, State: state(510)},
		{Format: 3, Clears: 3, State: state(520)},
		{Format: 3, Clears: 4, State: state(2)},
	} {
		key := stored.StateKey("_layers/a/thread/t/")
		record, ops := e.Store(key, &was, new([]byte))
		if err := store.Apply(t.Context(), append(ops, storage.Put(key, record))...); err != nil {
			t.Fatal(err)
		}
		got, err := stored.ReadEnvelope(t.Context(), store, key, func() ([]byte, error) { return record, nil })
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, *got, cmpopts.IgnoreUnexported(stored.Envelope{}), cmpopts.IgnoreFields(stored.Envelope{}, "V")); diff != "" {
			t.Errorf("%d: %s", i, diff)
		}
		if based := i >= 2 && i <= 4; based != (got.Base != "") {
			t.Errorf("%d: base %q", i, got.Base)
		}
		was = *got
	}
}
