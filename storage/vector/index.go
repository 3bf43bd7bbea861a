package vector

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/stratamem/strata/storage"
)

// Reader is where an index is kept: the namespace of a store as a
// [storage.Scoped], or anything that reads like one. Keys are relative.
type Reader interface {
	Get(ctx context.Context, key string) ([]byte, error)
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
	Scan(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error]
}

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
// caller does, alone or with others in one batch, by [Index.Apply] or as writes
// of a layer. What they say is in the index when the batch is, all of it or
// nothing. They have no preconditions, for none is needed: of changes to one ID
// that two writers make without knowing of each other, one holds, the same for
// all readers.
type Index struct {
	model    string
	dim      int
	rotation *rotation

	mu      sync.RWMutex
	picture *picture
	parts   map[string]*part // by key
	head    string           // as last read
	deep    string
	partial bool      // a read was not finished
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
	ix.reset()
	return ix, nil
}

func (ix *Index) reset() {
	ix.picture, ix.parts, ix.head, ix.deep = newPicture(ix.dim), make(map[string]*part), "", ""
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
func (ix *Index) Len(ctx context.Context, r Reader) (int, error) {
	if err := ix.view(ctx, r); err != nil {
		return 0, err
	}
	defer ix.mu.RUnlock()
	return ix.picture.len(), nil
}

// Missing returns those of ids that have no vector, in their order: what is
// still to be embedded, for example after a time in which the model was out of
// reach.
func (ix *Index) Missing(ctx context.Context, r Reader, ids ...string) ([]string, error) {
	if err := ix.view(ctx, r); err != nil {
		return nil, err
	}
	defer ix.mu.RUnlock()
	var missing []string
	for _, id := range ids {
		if _, ok := ix.picture.find(id); !ok {
			missing = append(missing, id)
		}
	}
	return missing, nil
}

// view brings the picture up to date with the store and locks it for reading:
// without an error, the caller unlocks it.
func (ix *Index) view(ctx context.Context, r Reader) error {
	for {
		if err := ix.refresh(ctx, r); err != nil {
			return err
		}
		ix.mu.RLock()
		if !ix.partial {
			return nil
		}
		ix.mu.RUnlock() // between the two another goroutine began to read, and failed
	}
}

// refresh brings the picture up to date with the store.
func (ix *Index) refresh(ctx context.Context, r Reader) error {
	head, err := record(ctx, r, headKey)
	if err != nil {
		return err
	}
	same := func() bool { return head == ix.head && !ix.partial }
	ix.mu.RLock()
	done := same()
	ix.mu.RUnlock()
	if done {
		return nil
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if same() { // another goroutine was first
		return nil
	}
	ix.partial = true
	// A writer may be at work: a segment that a list shows may be gone when it
	// is read, merged into one that the list has not. Then look again.
	for range 8 {
		if err = ix.read(ctx, r); !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, errMoved) {
			break
		}
	}
	if err == nil && ix.picture.stale {
		ix.reset()
		err = ix.read(ctx, r)
	}
	ix.partial = err != nil
	return err
}

var errMoved = errors.New("read vectors: others change them all the time")

// record reads a record that may be absent.
func record(ctx context.Context, r Reader, key string) (string, error) {
	value, err := r.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read vectors: %w", err)
	}
	return string(value), nil
}

// read lists the segments of the levels that changed, loads those that are new
// and drops those that are gone. What it notes of the store is older than what
// it reads of it, so that it misses no change; after an error it notes nothing,
// and what is loaded stays for the next attempt.
func (ix *Index) read(ctx context.Context, r Reader) error {
	head, err := record(ctx, r, headKey)
	if err != nil {
		return err
	}
	deep, err := record(ctx, r, deepKey)
	if err != nil {
		return err
	}
	count := levels
	if deep == ix.deep {
		count = 1
	}
	there := make(map[string]bool)
	if len(ix.parts) == 0 && count > 1 { // values are wanted of all
		for e, err := range r.Scan(ctx, "s/", nil) {
			if err != nil {
				return fmt.Errorf("read vectors: %w", err)
			}
			there[e.Key] = true
			if err := ix.load(e.Key, e.Value); err != nil {
				return err
			}
		}
	} else if err := ix.update(ctx, r, count, there); err != nil {
		return err
	}
	if again, err := record(ctx, r, deepKey); err != nil {
		return err
	} else if again != deep {
		return errMoved
	}
	for key, l := range ix.parts {
		if !there[key] && levelOf(key) < count {
			ix.picture.unload(l)
			delete(ix.parts, key)
		}
	}
	ix.picture.settle()
	ix.head, ix.deep = head, deep
	return nil
}

// update loads the new segments of the lowest levels and notes which are there.
func (ix *Index) update(ctx context.Context, r Reader, count int, there map[string]bool) error {
	var fresh []string
	for level := range count {
		for key, err := range r.List(ctx, segmentPrefix(level)) {
			if err != nil {
				return fmt.Errorf("read vectors: %w", err)
			}
			there[key] = true
			if ix.parts[key] == nil {
				fresh = append(fresh, key)
			}
		}
	}
	for _, key := range fresh {
		value, err := r.Get(ctx, key)
		if err != nil {
			return fmt.Errorf("read vectors: %w", err)
		}
		if err := ix.load(key, value); err != nil {
			return err
		}
	}
	return nil
}

func (ix *Index) load(key string, value []byte) error {
	if ix.parts[key] != nil {
		return nil
	}
	s, err := ix.decode(key, value)
	if err != nil {
		return err
	}
	ix.parts[key] = ix.picture.load(s)
	return nil
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

// Apply makes operations of an index that is kept in a namespace of a store, as
// one batch.
func (ix *Index) Apply(ctx context.Context, s storage.Scoped, ops []storage.Op) error {
	full := slices.Clone(ops)
	for i := range full {
		full[i].Key = s.Key(full[i].Key)
	}
	return storage.Apply(ctx, s.Adapter(), full...)
}
