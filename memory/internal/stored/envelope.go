package stored

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/stratamem/strata/internal/addition"
	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/storage"
)

// Envelope is the value of a layer's state key. Clears counts how often the
// layer was cleared in this scope; its records have a prefix with that number,
// so that clearing any number of records changes only this value. The records
// of earlier numbers are purged afterwards.
//
// A long state that grows is stored as an addition: Base is the digest of the
// state before, which is stored under the base key, and Added has the steps of
// an [addition.Addition], whose fresh bytes follow the envelope after a
// newline. When these become many, the state becomes the base. The same happens
// when the state loses part of the base: what a state no longer says must not
// be kept.
type Envelope struct {
	V      int             `json:"v"`
	Format int             `json:"format,omitempty"` // Spec.Format of the layer that wrote the state
	Clears int             `json:"clears,omitempty"`
	State  json.RawMessage `json:"state,omitempty"` // absent: cleared, or only records were written
	Base   string          `json:"base,omitempty"`
	Added  []int           `json:"added,omitempty"`

	base     []byte // the bytes with the digest Base
	baseSize int    // its stored size
	fresh    []byte // of the addition, until State is built
}

const (
	envelopeFormat = 2 // 1 has no Base

	leastBased = 1 << 10 // size of the smallest state with a base
)

// Holds reports whether the envelope refers to the memory of state.
func (e *Envelope) Holds(state []byte) bool {
	same := func(b []byte) bool { return len(b) > 0 && len(state) > 0 && &b[0] == &state[0] }
	return same(e.State) || same(e.base)
}

// BaseKey returns the key of the base of the state stored under key.
func BaseKey(stateKey string) string { return strings.TrimSuffix(stateKey, "state") + "base" }

// appendHead appends the envelope without the state.
func (e *Envelope) appendHead(b []byte, v int) []byte {
	b = strconv.AppendInt(append(b, `{"v":`...), int64(v), 10)
	if e.Format > 0 {
		b = append(b, `,"format":`...)
		b = strconv.AppendInt(b, int64(e.Format), 10)
	}
	if e.Clears > 0 {
		b = append(b, `,"clears":`...)
		b = strconv.AppendInt(b, int64(e.Clears), 10)
	}
	return b
}

// appendWhole appends the record with the state in it.
func (e *Envelope) appendWhole(b []byte) []byte {
	b = e.appendHead(b, 1)
	if e.State != nil {
		b = append(b, `,"state":`...)
		b = append(b, e.State...)
	}
	return append(b, '}')
}

// based returns the record with what was added to the base.
func (e *Envelope) based(a addition.Addition) []byte {
	b := e.appendHead(make([]byte, 0, len(a.Fresh)+16*len(a.Steps)+128), envelopeFormat)
	b = append(append(append(b, `,"base":"`...), e.Base...), `","added":[`...)
	for i, n := range a.Steps {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return append(append(b, "]}\n"...), a.Fresh...)
}

// Store returns how to store an envelope that replaces another, and the op that
// goes with it, if any. buffer is reused.
func (e *Envelope) Store(key string, was *Envelope, buffer *[]byte) (record []byte, ops []storage.Op) {
	grows := false
	if len(e.State) >= leastBased && was.State != nil && e.Clears == was.Clears {
		var a addition.Addition
		if was.Base == "" {
			_, grows = addition.Find(was.State, e.State)
		} else if a, grows = addition.Find(was.base, e.State); grows {
			e.Base, e.base, e.baseSize = was.Base, was.base, was.baseSize
			if record = pack.Pack(new([]byte), e.based(a)); len(record) <= e.baseSize/2 {
				return record, nil
			}
		} else {
			grows = len(was.State) > len(was.base) // it grew before, and now lost something
		}
	}
	if !grows { // a state that is always replaced needs no base
		if was.Base != "" {
			ops = append(ops, storage.Remove(BaseKey(key)))
		}
		*buffer = e.appendWhole((*buffer)[:0])
		if record = pack.Pack(new([]byte), *buffer); &record[0] == &(*buffer)[0] {
			record = bytes.Clone(record)
		}
		return record, ops
	}
	base := pack.Pack(new([]byte), e.State)
	e.Base, e.base, e.baseSize = Digest(e.State), e.State, len(base)
	all := addition.Addition{Steps: []int{len(e.State), 0}}
	return pack.Pack(new([]byte), e.based(all)), append(ops, storage.Put(BaseKey(key), base))
}

var errRebased = errors.New("the base is that of another state")

// ReadEnvelope reads an envelope with its state. read returns its stored bytes;
// they are nil with an error, or if the envelope need not be read. If a writer
// replaces the base meanwhile, ReadEnvelope reads both again.
func ReadEnvelope(ctx context.Context, store storage.Adapter, key string, read func() ([]byte, error)) (*Envelope, error) {
	var before []byte
	for {
		raw, err := read()
		if err != nil || raw == nil {
			return nil, err
		}
		e, err := decodeEnvelope(key, raw)
		if err != nil {
			return nil, err
		}
		err = e.loadState(ctx, store, key)
		if !errors.Is(err, errRebased) {
			return e, err
		}
		if before != nil && bytes.Equal(before, raw) {
			return nil, &storage.CorruptError{Key: BaseKey(key), Reason: "the base of the state is missing", Repair: "restore a backup, or delete the state"}
		}
		before = raw
	}
}

func decodeEnvelope(key string, stored []byte) (*Envelope, error) {
	e := new(Envelope)
	record, err := pack.Unpack(stored)
	if err == nil {
		head, fresh, based := bytes.Cut(record, []byte("\n"))
		if based = based && bytes.HasPrefix(head, []byte(`{"v":2,`)); based {
			record = head
		}
		if err = json.Unmarshal(record, e); based {
			e.fresh = fresh
		}
	}
	if err != nil {
		return nil, &storage.CorruptError{Key: key, Reason: err.Error()}
	}
	if e.V > envelopeFormat {
		return nil, &FormatError{Key: key, Have: e.V, Supported: envelopeFormat}
	}
	return e, nil
}

// loadState builds the state from a base and what was added.
func (e *Envelope) loadState(ctx context.Context, store storage.Adapter, key string) error {
	if e.Base == "" {
		return nil
	}
	stored, _, err := store.Get(ctx, BaseKey(key))
	if errors.Is(err, storage.ErrNotFound) {
		return errRebased
	}
	if err != nil {
		return err
	}
	base, err := pack.Unpack(stored)
	if err != nil {
		return &storage.CorruptError{Key: BaseKey(key), Reason: err.Error()}
	}
	if Digest(base) != e.Base {
		return errRebased
	}
	state, ok := addition.Addition{Steps: e.Added, Fresh: e.fresh}.Apply(base)
	if !ok || !json.Valid(state) {
		return &storage.CorruptError{Key: key, Reason: "the addition does not fit the stored base"}
	}
	e.State, e.base, e.baseSize = state, base, len(stored)
	e.Added, e.fresh = nil, nil
	return nil
}
