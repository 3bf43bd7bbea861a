package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"

	"github.com/stratamem/strata/storage"
)

// Tally sums up the content of a store or backup. Two with the same Digest
// hold the same keys with equal values, whatever engine they are in.
type Tally struct {
	Documents int64 `json:"documents"`
	Records   int64 `json:"records"`
	Bytes     int64 `json:"bytes"` // of keys and values, documents in canonical form
	// Digest is the SHA-256, in hex, of all entries in key order: the length of
	// the key as a uvarint, the key, then the value in the same way, documents in
	// canonical form.
	Digest string `json:"digest"`
}

// TallyOf reads the whole store.
func TallyOf(ctx context.Context, a storage.Adapter) (Tally, error) {
	t := newTallier()
	for e, err := range storage.Scan(ctx, a, "", nil) {
		if err != nil {
			return Tally{}, err
		}
		value, err := agreed(e)
		if err != nil {
			return Tally{}, err
		}
		t.add(e.Key, value)
	}
	return t.sum(), nil
}

// agreed returns the value of an entry in the form on which engines agree.
func agreed(e storage.Entry) ([]byte, error) {
	if !storage.IsDocument(e.Key) {
		return e.Value, nil
	}
	value, err := storage.Canonical(e.Value)
	if err != nil {
		return nil, &storage.KeyError{Op: "read", Key: e.Key, Err: err}
	}
	return value, nil
}

type tallier struct {
	t Tally
	h hash.Hash
}

func newTallier() *tallier { return &tallier{h: sha256.New()} }

func (t *tallier) add(key string, value []byte) {
	if storage.IsDocument(key) {
		t.t.Documents++
	} else {
		t.t.Records++
	}
	t.t.Bytes += int64(len(key) + len(value))
	var b [binary.MaxVarintLen64]byte
	t.h.Write(binary.AppendUvarint(b[:0], uint64(len(key))))
	t.h.Write([]byte(key))
	t.h.Write(binary.AppendUvarint(b[:0], uint64(len(value))))
	t.h.Write(value)
}

func (t *tallier) sum() Tally {
	out := t.t
	out.Digest = hex.EncodeToString(t.h.Sum(nil))
	return out
}

// ensureEmpty returns an error if a store holds anything.
func ensureEmpty(ctx context.Context, a storage.Adapter, rule string) error {
	for key, err := range a.List(ctx, "") {
		if err != nil {
			return err
		}
		return &storage.InvalidError{Key: key, Rule: rule}
	}
	return nil
}

// declaredIn returns the declared fields of a store, if the store reveals them.
func declaredIn(ctx context.Context, a storage.Adapter) ([]string, error) {
	st, err := storage.StatsOf(ctx, a)
	if err != nil && !errors.Is(err, storage.ErrUnsupported) {
		return nil, err
	}
	return st.Indexes, nil
}

func sameValue(a, b storage.Entry) (bool, error) {
	if bytes.Equal(a.Value, b.Value) {
		return true, nil
	}
	if !storage.IsDocument(a.Key) {
		return false, nil
	}
	x, err := agreed(a)
	if err != nil {
		return false, err
	}
	y, err := agreed(b)
	return bytes.Equal(x, y), err
}
