package layers

import (
	"context"
	"errors"
	"fmt"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
	"github.com/stratamem/strata/storage/vector"
)

// Embedding is a model that turns texts into vectors.
type Embedding struct {
	// Model is its name. Vectors of different models cannot be compared. If it
	// differs from that of the index, only words count, and the note says so,
	// until "strata index rebuild --vectors" has dropped the old vectors.
	Model      string
	Dimensions int
	// Embed returns a vector for each text, in order. It receives at most 80 texts
	// of about 1,000 bytes. If it fails, the texts are found by their words, and
	// embedding them is tried again in later turns.
	Embed func(ctx context.Context, texts []string) ([][]float32, error)
}

// vectors are the vectors of a layer's passages, stored among its records.
type vectors struct {
	*Embedding
	calls   *calls
	indexes indexes[vector.Index]
}

const (
	vectorPrefix  = "v/"
	unembedded    = "w/"
	maxUnembedded = 40 // retried per turn
	neighbours    = 50 // of the question
)

func newVectors(e *Embedding, c *calls) *vectors {
	return &vectors{Embedding: e, calls: c, indexes: indexes[vector.Index]{
		make: func() (*vector.Index, error) { return vector.New(e.Model, e.Dimensions) },
	}}
}

// embed calls the model.
func (v *vectors) embed(ctx context.Context, x *memory.Execution, texts []string) ([][]float32, error) {
	list, err := attempt(ctx, v.calls, x, func(ctx context.Context) ([][]float32, error) { return v.Embed(ctx, texts) })
	if err == nil && len(list) != len(texts) {
		err = fmt.Errorf("embed returns %d vectors for %d texts", len(list), len(texts))
	}
	return list, err
}

// add returns c with the vectors of new passages and of some waiting ones.
// Passages without a vector keep waiting.
func (v *vectors) add(ctx context.Context, x *memory.Execution, records *memory.Records, c memory.Change[struct{}], docs []search.Doc) (memory.Change[struct{}], error) {
	waiting, gone, err := v.waiting(ctx, records)
	if err != nil {
		return c, err
	}
	for _, key := range gone {
		c = c.Delete(key)
	}
	all := append(waiting, docs...)
	if len(all) == 0 {
		return c, nil
	}
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = all[i].Text
	}
	points := make([]vector.Point, len(all))
	list, failure := v.embed(ctx, x, texts)
	var ops []storage.Op
	if failure == nil {
		for i := range all {
			points[i] = vector.Point{ID: all[i].ID, Vector: list[i]}
		}
		ix, err := v.indexes.of(records)
		if err != nil {
			return c, err
		}
		ops, failure = ix.Upsert(ctx, below{records, vectorPrefix}, points...)
	}
	if failure != nil { // the model failed, or it is not the model of the index
		x.Event("passages wait for their vectors")
		for i := range docs {
			c = c.Put(unembedded+storage.EscapeSegment(docs[i].ID), nil)
		}
		return c, nil
	}
	for i := range waiting {
		c = c.Delete(unembedded + storage.EscapeSegment(waiting[i].ID))
	}
	return written(c, vectorPrefix, ops), nil
}

// waiting returns some of the passages that wait for their vectors, and the
// keys of records whose passage is gone.
func (v *vectors) waiting(ctx context.Context, records *memory.Records) (docs []search.Doc, gone []string, err error) {
	for entry, err := range records.Scan(ctx, unembedded, &storage.ScanOptions{Limit: maxUnembedded}) {
		if err != nil {
			return nil, nil, err
		}
		var d search.Doc
		id, err := storage.UnescapeSegment(entry.Key[len(unembedded):])
		if err == nil {
			d, err = search.Read(ctx, records, id)
		}
		switch {
		case err == nil:
			docs = append(docs, d)
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrCorrupt), errors.Is(err, storage.ErrInvalid):
			gone = append(gone, entry.Key)
		default:
			return nil, nil, err
		}
	}
	return docs, gone, nil
}

// similar returns the cosines of the passages closest to a question.
func (v *vectors) similar(ctx context.Context, x *memory.Execution, records *memory.Records, text string, exclude func(id string) bool) (map[string]float64, error) {
	ix, err := v.indexes.of(records)
	if err != nil {
		return nil, err
	}
	r := below{records, vectorPrefix}
	if n, err := ix.Len(ctx, r); n == 0 || err != nil {
		return nil, err
	}
	list, err := v.embed(ctx, x, []string{text})
	if err != nil {
		return nil, err
	}
	q := vector.Query{Vector: list[0], Limit: neighbours}
	if exclude != nil {
		q.Filter = func(id string) bool { return !exclude(id) }
	}
	hits, err := ix.Search(ctx, r, q)
	if err != nil {
		return nil, err
	}
	cosines := make(map[string]float64, len(hits))
	for _, h := range hits {
		cosines[h.ID] = h.Score
	}
	return cosines, nil
}
