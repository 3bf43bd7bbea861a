package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stratamem/strata/storage"
)

// Query is a question to an index.
type Query struct {
	Text   string
	Filter Filter
	// Limit is the maximum number of documents; 0 means 10.
	Limit int
	// Around is how many neighbours before and after a document come with it; 0
	// means 1, negative none.
	Around int
	// Floor replaces that of [Ranking]; negative means none.
	Floor float64
	// Cut leaves out documents that score less than this fraction of the best one;
	// 0 leaves out none. 0.4 removes what is useless in a prompt: on the tuning
	// conversations of docs/recall.md it costs 0.003 of the evidence in 1,024
	// tokens, whereas 0.6 costs 0.04.
	Cut float64
	// Similar has the cosines between documents and the question, by ID, as found
	// in an accompanying index of vectors. They count with the weight in
	// [Ranking], and find even a document that shares no word.
	Similar map[string]float64
	// Rank reorders the documents found, at most 50, or leaves some out. If it
	// fails or panics, the order by score is used and the result says so. Anything
	// it returns that it was not given is ignored.
	Rank func(ctx context.Context, text string, hits []Hit) ([]Hit, error)
}

// Filter narrows a search. If a list is not empty, a document must match one of
// its elements.
type Filter struct {
	Sessions, Speakers, Types, Layers, Scopes []string
	From, To                                  time.Time // From ≤ time < To; zero is open
	// Exclude reports whether a document, given its ID, is unwanted, for example
	// because it is in the prompt already. Its words still count for its
	// neighbours. It may be called more than once for a document.
	Exclude func(id string) bool
	// ExcludeFrom is the time of the oldest document that Exclude may exclude, if
	// known: for older ones Exclude is not called, and their IDs are not read.
	ExcludeFrom time.Time
}

// Hit is a document that was found.
type Hit struct {
	Doc
	Score float64
	Parts Parts
	// Before and After are its neighbours in its session, in order.
	Before, After []Doc
}

// Parts are the summands of a score, weights included.
type Parts struct {
	Words      float64 `json:"words"`
	Session    float64 `json:"session,omitempty"`
	Neighbours float64 `json:"neighbours,omitempty"` // adjacent documents
	Speaker    float64 `json:"speaker,omitempty"`
	Date       float64 `json:"date,omitempty"`
	When       float64 `json:"when,omitempty"`
	Answer     float64 `json:"answer,omitempty"`
	Far        float64 `json:"far,omitempty"` // neighbours two away
	Similar    float64 `json:"similar,omitempty"`
}

func (p *Parts) sum() float64 {
	return p.Words + p.Session + p.Neighbours + p.Speaker + p.Date + p.When + p.Answer + p.Far + p.Similar
}

// Result is the answer to a query.
type Result struct {
	Hits []Hit // best first
	// Evidence is how much there is for the best document, measured as for the
	// floor, whether above it or not.
	Evidence float64
	// Note says why there are no hits, or that Rank failed; otherwise it is empty.
	Note string
}

const (
	defaultLimit = 10
	ranked       = 50 // number of documents passed to Rank
)

// Search returns the documents that answer a question best, if any do. A
// document that is deleted meanwhile is left out.
func (ix *Index) Search(ctx context.Context, r storage.Reader, q Query) (Result, error) {
	if q.Limit <= 0 {
		q.Limit = defaultLimit
	}
	if q.Around == 0 {
		q.Around = 1
	}
	want := q.Limit
	if q.Rank != nil {
		want = max(want, ranked)
	}
	var found []found
	var res Result
	if err := ix.view(ctx, r, func(l *reading) error {
		found, res = ix.find(l, &q, want)
		return nil
	}); err != nil {
		return Result{}, err
	}
	texts := shelf{r: r, bundled: ix.bundled, recent: &ix.unpacked}
	for _, f := range found {
		h := Hit{Score: f.score, Parts: f.parts}
		var err error
		if h.Doc, err = texts.read(ctx, f.id); errors.Is(err, storage.ErrNotFound) {
			continue
		} else if err != nil {
			return Result{}, err
		}
		if h.Before, err = texts.all(ctx, f.before); err != nil {
			return Result{}, err
		}
		if h.After, err = texts.all(ctx, f.after); err != nil {
			return Result{}, err
		}
		res.Hits = append(res.Hits, h)
	}
	if q.Rank != nil && len(res.Hits) > 0 {
		if hits, err := rerank(ctx, &q, res.Hits); err == nil {
			res.Hits = hits
		} else if ctx.Err() != nil {
			return Result{}, ctx.Err()
		} else {
			res.Note = "ordered by score, rank failed: " + err.Error()
		}
	}
	res.Hits = res.Hits[:min(len(res.Hits), q.Limit)]
	return res, nil
}

// rerank calls Rank, and accepts only what it was given, each once.
func rerank(ctx context.Context, q *Query, hits []Hit) (list []Hit, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	left := make(map[string]bool)
	for i := range hits {
		left[hits[i].ID] = true
	}
	list, err = q.Rank(ctx, q.Text, slices.Clone(hits))
	return slices.DeleteFunc(slices.Clone(list), func(h Hit) bool {
		wanted := left[h.ID]
		delete(left, h.ID)
		return !wanted
	}), err
}

// Read returns a document of an index, or an error that is
// [storage.ErrNotFound].
func Read(ctx context.Context, r storage.Reader, id string) (Doc, error) {
	return (&shelf{r: r}).read(ctx, id)
}

// narrows reports whether there is a condition that most documents may fail.
func (f *Filter) narrows() bool {
	return len(f.Sessions)+len(f.Speakers)+len(f.Types)+len(f.Layers)+len(f.Scopes) > 0 || !f.From.IsZero() || !f.To.IsZero()
}

// admits returns a test of documents by number, or nil if all pass.
func (f *Filter) admits(l *reading, p *picture) func(n uint32) bool {
	var tests []func(n uint32) bool
	for label, texts := range [entryLabels][]string{f.Sessions, f.Speakers, f.Types, f.Layers, f.Scopes} {
		if len(texts) == 0 {
			continue
		}
		wanted := make(map[uint32]bool)
		for _, t := range texts {
			if n, ok := p.names.of[t]; ok {
				wanted[n] = true
			}
		}
		tests = append(tests, func(n uint32) bool { return wanted[p.label(label, n)] })
	}
	if from := f.From; !from.IsZero() {
		tests = append(tests, func(n uint32) bool { return p.flags[n]&flagTimed != 0 && p.times[n] >= from.UnixMilli() })
	}
	if to := f.To; !to.IsZero() {
		tests = append(tests, func(n uint32) bool { return p.flags[n]&flagTimed != 0 && p.times[n] < to.UnixMilli() })
	}
	if f.Exclude != nil {
		from := int64(math.MinInt64)
		if !f.ExcludeFrom.IsZero() {
			from = f.ExcludeFrom.UnixMilli()
		}
		tests = append(tests, func(n uint32) bool { return p.times[n] < from || !f.Exclude(p.id(l, n)) })
	}
	if len(tests) == 0 {
		return nil
	}
	return func(n uint32) bool {
		for _, t := range tests {
			if !t(n) {
				return false
			}
		}
		return true
	}
}
