package stored

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/stratamem/strata/internal/appendjson"
	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/storage"
)

// Format is the version of the records of threads. From 2 on, turns, epochs and
// states may be packed, and from 3 on an epoch is a state of package projection;
// only heads and epochs say so, and heads are what is read first.
const Format = 3

// Decode reads the record that is stored under a key.
func Decode[T any](key string, data []byte) (*T, error) {
	var version struct {
		V int `json:"v"`
	}
	var rec T
	data, err := pack.Unpack(data)
	if err != nil {
		return nil, &storage.CorruptError{Key: key, Reason: err.Error()}
	}
	if err := json.Unmarshal(data, &rec); err != nil {
		return nil, &storage.CorruptError{Key: key, Reason: err.Error()}
	}
	if json.Unmarshal(data, &version); version.V > Format {
		return nil, &FormatError{Key: key, Have: version.V, Supported: Format}
	}
	return &rec, nil
}

// FormatError is what package thread says of it.
type FormatError struct {
	Key       string
	Have      int
	Supported int
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("read %q: format %d is newer than %d: use the version that wrote it", e.Key, e.Have, e.Supported)
}

// Head says where a lineage stands. Every turn writes it, checked against the
// version before, so that turns follow one another.
type Head struct {
	V         int    `json:"v"`
	Turn      int    `json:"turn"`            // the last
	First     int    `json:"first"`           // the first that is kept
	Execution string `json:"execution"`       // that wrote it
	Whole     bool   `json:"whole,omitempty"` // the log of that execution is all turns
}

// Append appends the encoding of the head, of the newest format.
func (h *Head) Append(b []byte) []byte {
	b = append(b, `{"v":3`...)
	b = appendjson.Int(b, "turn", h.Turn)
	b = appendjson.Int(b, "first", h.First)
	b = appendjson.Text(b, "execution", h.Execution)
	b = appendjson.Bool(b, "whole", h.Whole)
	return append(b, '}')
}

// Digest returns the first 128 bits of the SHA-256 of an encoding, in hex.
func Digest(encoded []byte) string {
	d := DigestHex(encoded)
	return string(d[:])
}

// DigestHex is Digest for who wants no string.
func DigestHex(encoded []byte) (d [32]byte) {
	sum := sha256.Sum256(encoded)
	hex.Encode(d[:], sum[:16])
	return d
}
