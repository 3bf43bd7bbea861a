package vector

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/stratamem/strata/internal/levels"
	"github.com/stratamem/strata/storage"
)

// Point is a vector and what it is of.
type Point struct {
	// ID is the caller's, at most 300 bytes: the ID of a document in another
	// index, for example.
	ID string
	// Vector is the caller's too, and is neither kept nor changed.
	Vector []float32
}

const (
	// MaxDimensions is how many dimensions a vector may have.
	MaxDimensions = 1 << 14
	maxName       = 300 // bytes of an ID or of the name of a model
)

// Index is a picture in memory of an index in a store. It may be used by
// several goroutines at once, all with the same scope of a store, and by any
// number of processes beside; searches run at once, and wait only while what
// changed is read. Every method reads first what changed in the store, a record
// where nothing did; the first one reads all segments. Then it keeps two bytes
// and a bit a dimension and about 150 bytes for each vector.
//
// The methods that change an index return operations and do not make them: the
// caller does, alone or with others in one batch, by [storage.Scoped.Apply] or as writes
// of a layer. What they say is in the index when the batch is, all of it or
// nothing. They have no preconditions, for none is needed: of changes to one ID
// that two writers make without knowing of each other, one holds, the same for
// all readers.
type Index struct {
	model    string
	dim      int
	rotation *rotation

	set     levels.Set[*part]
	picture *picture  // under set
	scratch sync.Pool // of *scratch
}

// New returns an index of vectors that a model makes, of which nothing is read
// yet. Vectors of different models have nothing to do with each other, even if
// they have as many dimensions: the name should tell versions of a model apart
// as well. It has at most 300 bytes; dim is from 1 to [MaxDimensions].
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

// MismatchError says that an index holds vectors of another model, or of other
// dimensions, than it is opened for. Make it anew from what the vectors are of,
// see [Index.Rebuild], or open it as what it is.
type MismatchError struct {
	Model, WantedModel           string // stored, and opened for
	Dimensions, WantedDimensions int
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("read vectors: they are of model %q with %d dimensions, not of %q with %d: run strata index rebuild --vectors, or use that model",
		e.Model, e.Dimensions, e.WantedModel, e.WantedDimensions)
}

// Len returns how many vectors the index has.
func (ix *Index) Len(ctx context.Context, r storage.Reader) (int, error) {
	if err := ix.set.View(ctx, r); err != nil {
		return 0, err
	}
	defer ix.set.RUnlock()
	return ix.picture.len(), nil
}

// Missing returns those of ids that have no vector, in their order: what is
// still to be embedded, for example after a time in which the model was out of
// reach.
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
