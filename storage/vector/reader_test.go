package vector_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/vector"
)

// TestPreparedTogether applies changes that do not know of each other.
func TestPreparedTogether(t *testing.T) {
	ix, scope := open(t, 2)
	upsert(t, ix, scope, at("a", 0), at("b", 90))
	east := vector.Query{Vector: []float32{1, 0}}
	one := must(ix.Upsert(t.Context(), scope, at("x", 10), at("a", 170)))(t)
	two := must(ix.Upsert(t.Context(), scope, at("y", 20), at("a", 175)))(t)
	three := must(ix.Delete(t.Context(), scope, "b"))(t)
	var got [2]string
	for i, order := range [][][]storage.Op{{one, two, three}, {three, two, one}} {
		copied, there := must(vector.New("model", 2))(t), storage.Scope(mem.New(), "_vectors")
		for e, err := range scope.Scan(t.Context(), "", nil) {
			must(0, err)(t)
			must(0, there.Apply(t.Context(), storage.Put(e.Key, e.Value)))(t)
		}
		for _, ops := range order {
			apply(t, copied, there, ops)
			must(copied.Len(t.Context(), there))(t)
		}
		hits := must(copied.Search(t.Context(), there, east))(t)
		if got[i] = fmt.Sprint(hits); ids(hits) != "x y a" || got[i] != got[0] {
			t.Errorf("in order %d found %s, want x, y, and a as %s", i, got[i], got[0])
		}
	}
}

// TestAllOrNothing pins that a change is one batch, which others join: one that
// fails leaves nothing of it, and readers never see a part.
func TestAllOrNothing(t *testing.T) {
	ix, scope := open(t, 2)
	upsert(t, ix, scope, at("a", 0))
	ops := must(ix.Upsert(t.Context(), scope, at("a", 90), at("b", 90)))(t)
	ops = append(ops, storage.Put("beside", nil).IfVersion("another"))
	if err := scope.Apply(t.Context(), ops...); !errors.Is(err, storage.ErrConflict) {
		t.Fatalf("a batch whose precondition fails: %v", err)
	}
	if got := ids(must(ix.Search(t.Context(), scope, vector.Query{Vector: []float32{1, 0}, MinScore: 0.5}))(t)); got != "a" {
		t.Errorf("found %q, want what was there before", got)
	}
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		reader := must(vector.New("model", 2))(t)
		wg.Go(func() {
			for {
				hits, err := reader.Search(t.Context(), scope, vector.Query{Vector: []float32{1, 0}, Only: []string{"left", "right"}})
				if err != nil || len(hits) == 1 || len(hits) == 2 && hits[0].Score != hits[1].Score {
					t.Errorf("saw a part of a change: %v, %v", hits, err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range 300 {
		if i%5 == 4 {
			remove(t, ix, scope, "left", "right")
		} else {
			upsert(t, ix, scope, at("left", float64(i)), at("right", float64(i)), at(fmt.Sprint(i), 1))
		}
	}
	close(done)
	wg.Wait()
}

// meanwhile is a store in which something happens after a key was read.
type meanwhile struct {
	storage.Scoped
	key string
	do  func()
}

func (m *meanwhile) Get(ctx context.Context, key string) ([]byte, error) {
	value, err := m.Scoped.Get(ctx, key)
	if do := m.do; do != nil && key == m.key {
		m.do = nil
		do()
	}
	return value, err
}

// TestMergeMeanwhile merges what a reader has while it reads what is new.
func TestMergeMeanwhile(t *testing.T) {
	for _, key := range []string{"head", "deep"} {
		writer, scope := open(t, 2)
		reader := must(vector.New("model", 2))(t)
		for i := range 20 {
			upsert(t, writer, scope, at(fmt.Sprint(i), 1))
		}
		must(reader.Len(t.Context(), scope))(t)
		upsert(t, writer, scope, at("new", 1))
		n := must(reader.Len(t.Context(), &meanwhile{scope, key, func() {
			for i := range 20 {
				upsert(t, writer, scope, at(fmt.Sprint("more", i), 1))
			}
		}}))(t)
		if n != 41 {
			t.Errorf("merged after %s was read: %d vectors, want 41", key, n)
		}
	}
}

// flaky is a store that fails now and then.
type flaky struct {
	storage.Scoped
	calls atomic.Int64
}

var errFlaky = errors.New("the store has a bad day")

func (f *flaky) Get(ctx context.Context, key string) ([]byte, error) {
	if strings.HasPrefix(key, "s/") && f.calls.Add(1)%3 == 0 {
		return nil, errFlaky
	}
	return f.Scoped.Get(ctx, key)
}

func (f *flaky) Scan(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		for e, err := range f.Scoped.Scan(ctx, prefix, opts) {
			if err == nil && f.calls.Add(1)%3 == 0 {
				yield(storage.Entry{}, errFlaky)
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestFailedReads pins that a read that fails half way leaves nothing behind
// that a search takes for the index.
func TestFailedReads(t *testing.T) {
	writer, scope := open(t, 2)
	ix, bad := must(vector.New("model", 2))(t), &flaky{Scoped: scope}
	failed := 0
	for i := range 300 {
		upsert(t, writer, scope, at(fmt.Sprint(i), float64(i)), at("same", float64(i)))
		if i%7 == 6 {
			remove(t, writer, scope, fmt.Sprint(i-3))
		}
		var wg sync.WaitGroup
		var errs [4]error
		for w := range errs {
			wg.Go(func() {
				var hits []vector.Hit
				hits, errs[w] = ix.Search(t.Context(), bad, vector.Query{Vector: []float32{1, 0}, Limit: 1000})
				if want := i + 2 - (i+1)/7; errs[w] == nil && len(hits) != want {
					t.Errorf("step %d: found %d, want %d", i, len(hits), want)
				}
			})
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil && !errors.Is(err, errFlaky) {
				t.Fatal(err)
			} else if err != nil {
				failed++
			}
		}
	}
	if failed == 0 {
		t.Error("no read failed")
	}
}

func TestTwoWriters(t *testing.T) {
	const n = 400
	_, scope := open(t, 2)
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			ix, err := vector.New("model", 2)
			for i := 0; i < n && err == nil; i++ {
				var ops []storage.Op
				ops, err = ix.Upsert(t.Context(), scope, at(fmt.Sprintf("%d-%d", w, i), float64(i)), at("shared", float64(w)))
				if i%4 == 3 && err == nil {
					ops, err = ix.Delete(t.Context(), scope, fmt.Sprintf("%d-%d", w, i-1))
				}
				if err == nil {
					err = scope.Apply(t.Context(), ops...)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	ix := must(vector.New("model", 2))(t)
	if got, want := must(ix.Len(t.Context(), scope))(t), 2*n/2+1; got != want {
		t.Errorf("index has %d vectors, want %d", got, want)
	}
	for f, err := range vector.Check(t.Context(), scope) {
		t.Errorf("check: %+v, %v", f, err)
	}
}
