package vector

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stratamem/strata/internal/levels"
	"github.com/stratamem/strata/storage"
)

// Point is a vector with an ID.
type Point struct {
	// ID is chosen by the caller, at most 300 bytes: the ID of a document in
	// another index, for example.
	ID string
	// Vector belongs to the caller, and is neither retained nor modified.
	Vector []float32
}

const (
	// MaxDimensions is how many dimensions a vector may have.
	MaxDimensions = 1 << 14
	maxName       = 300 // bytes of an ID or of the name of a model
)

// Index is an in-memory view of an index in a store. It is safe for concurrent
// use, always with the same scope of a store, and any number of processes may
// use the same index; searches run concurrently, and wait only while changes
// are read. Every method first reads what changed in the store, which is one
// record if nothing did; the first call reads all segments. The view takes two
// bytes and a bit per dimension and about 150 bytes for each vector.
//
// The methods that change an index return operations but do not apply them: the
// caller does, alone or with others in one batch, by [storage.Scoped.Apply] or
// as writes of a layer. The change takes effect with the batch, all of it or
// nothing. It needs no preconditions: of concurrent changes to one ID by two
// writers, one holds, the same for all readers.
type Index struct {
	model    string
	dim      int
	rotation *rotation

	set     levels.Set[*part]
	picture *picture  // guarded by set
	scratch sync.Pool // of *scratch
}

// New returns an index of vectors made by a model; it reads nothing yet.
// Vectors of different models are unrelated, even if they have the same number
// of dimensions, so the name should distinguish versions of a model as well. It
// has at most 300 bytes; dim is from 1 to [MaxDimensions].
func New(model string, dim int) (*Index, error) {
	if model == "" || len(model) > maxName || dim < 1 || dim > MaxDimensions {
		return nil, &storage.InvalidError{Rule: "index of vectors needs a model of at most 300 bytes, and 1 to 16,384 dimensions"}
	}
	ix := &Index{model: model, dim: dim, rotation: newRotation(dim)}
	ix.set = levels.Set[*part]{
		Name:  "vectors",
		Load:  ix.load,
		Drop:  func(p *part) { ix.picture.unload(p) },
		Ready: func() bool { ix.picture.settle(); return !ix.picture.stale },
		Reset: func() { ix.picture = newPicture(ix.dim) },
	}
	return ix, nil
}

func (ix *Index) load(_ context.Context, _ storage.Reader, key string, value []byte) (*part, error) {
	s, err := ix.decode(key, value)
	if err != nil {
		return nil, err
	}
	return ix.picture.load(s), nil
}

// MismatchError means that an index holds vectors of another model, or of other
// dimensions, than it is opened for. Rebuild it from what the vectors stand
// for, see [Index.Rebuild], or open it as what it is.
type MismatchError struct {
	Model, WantedModel           string // stored, and opened for
	Dimensions, WantedDimensions int
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("read vectors: they are of model %q with %d dimensions, not of %q with %d: run strata index rebuild --vectors, or use that model",
		e.Model, e.Dimensions, e.WantedModel, e.WantedDimensions)
}

// Len returns the number of vectors in the index.
func (ix *Index) Len(ctx context.Context, r storage.Reader) (int, error) {
	if err := ix.set.View(ctx, r); err != nil {
		return 0, err
	}
	defer ix.set.RUnlock()
	return ix.picture.len(), nil
}

// Missing returns those of ids that have no vector, in their order: what
// remains to be embedded, for example because the model was unavailable.
func (ix *Index) Missing(ctx context.Context, r storage.Reader, ids ...string) ([]string, error) {
	if err := ix.set.View(ctx, r); err != nil {
		return nil, err
	}
	defer ix.set.RUnlock()
	var missing []string
	for _, id := range ids {
		if _, ok := ix.picture.find(id); !ok {
			missing = append(missing, id)
		}
	}
	return missing, nil
}

// decode reads a segment of this index.
func (ix *Index) decode(key string, value []byte) (*segment, error) {
	s, err := decodeSegment(value)
	if errors.Is(err, errDamaged) {
		return nil, &storage.CorruptError{Key: key, Reason: "segment of vectors is damaged", Repair: "run strata index check, then strata index rebuild --vectors"}
	}
	if err != nil {
		return nil, err
	}
	if s.model != ix.model || s.dim != ix.dim {
		return nil, &MismatchError{Model: s.model, WantedModel: ix.model, Dimensions: s.dim, WantedDimensions: ix.dim}
	}
	return s, nil
}
