package stored

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/stratamem/strata/internal/appendjson"
	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/storage"
)

// Format is the version of the records of threads. Since 2, turns, epochs and
// states may be packed; since 3, an epoch is a state of package projection; since
// 4, it is part of the head, and items may be remembered data. Only heads and
// epochs carry the version, and heads are read first.
const Format = 4

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

// FormatError is declared in package thread.
type FormatError struct {
	Key       string
	Have      int
	Supported int
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("read %q: format %d is newer than %d: use the version that wrote it", e.Key, e.Have, e.Supported)
}

// Head is the position of a lineage. Every turn writes it, on condition that it
// has not changed, so that turns follow one another.
type Head struct {
	V         int    `json:"v"`
	Turn      int    `json:"turn"`            // the last
	First     int    `json:"first"`           // the first that is kept
	Execution string `json:"execution"`       // that wrote it
	Whole     bool   `json:"whole,omitempty"` // the log of that execution is all turns
	Epoch     []byte `json:"epoch,omitempty"` // where its next projection continues, packed
}

// HasEpoch reports whether the epoch is part of the head, not a separate record.
func (h *Head) HasEpoch() bool { return h.V >= 4 }

// HeadSize returns an upper bound of the size of a head, given those of its epoch
// and of the execution's id, all in bytes.
func HeadSize(epoch, id int) int { return 128 + 2*id + base64.StdEncoding.EncodedLen(epoch) }

// Append appends the encoding of the head in the newest format.
func (h *Head) Append(b []byte) []byte {
	b = append(b, `{"v":4`...)
	b = appendjson.Int(b, "turn", h.Turn)
	b = appendjson.Int(b, "first", h.First)
	b = appendjson.Text(b, "execution", h.Execution)
	b = appendjson.Bool(b, "whole", h.Whole)
	if len(h.Epoch) > 0 {
		b = append(appendjson.Field(b, "epoch"), '"')
		b = append(base64.StdEncoding.AppendEncode(b, h.Epoch), '"')
	}
	return append(b, '}')
}

// Digest returns the first 128 bits of the SHA-256 of an encoding, in hex.
func Digest(encoded []byte) string {
	d := DigestHex(encoded)
	return string(d[:])
}

// DigestHex is Digest without allocating a string.
func DigestHex(encoded []byte) (d [32]byte) {
	sum := sha256.Sum256(encoded)
	hex.Encode(d[:], sum[:16])
	return d
}
