package vector_test

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/storagetest"
	"github.com/stratamem/strata/storage/vector"
)

// TestSmallStore: an index in a store that takes little has what one without limits
// has, over changes, a Compact and a Rebuild.
func TestSmallStore(t *testing.T) {
	for _, dim := range []int{2, 40, 384} {
		rng := rand.New(rand.NewPCG(7, uint64(dim)))
		ix, scope := open(t, dim)
		small := storage.Scope(storagetest.Limited(mem.New(), storagetest.Small), "_vectors/a")
		sx := must(vector.New("model", dim))(t)
		point := func() vector.Point {
			p := vector.Point{ID: fmt.Sprintf("p%d", rng.IntN(300)), Vector: make([]float32, dim)}
			for i := range p.Vector {
				p.Vector[i] = rng.Float32() - 0.5
			}
			return p
		}
		var questions []vector.Query
		for range 5 {
			questions = append(questions, vector.Query{Vector: point().Vector, Limit: 20})
		}
		alike := func(when string) {
			t.Helper()
			for _, q := range questions {
				want, got := must(ix.Search(t.Context(), scope, q))(t), must(sx.Search(t.Context(), small, q))(t)
				if ids(want) != ids(got) || len(want) == 0 {
					t.Errorf("%d dimensions, %s: found %s, want %s", dim, when, ids(got), ids(want))
				}
			}
			for f, err := range vector.Check(t.Context(), small) {
				t.Errorf("%d dimensions, %s: Check: %+v, %v", dim, when, f, err)
			}
		}
		for range 500 {
			if rng.IntN(4) == 0 {
				id := point().ID
				remove(t, ix, scope, id)
				remove(t, sx, small, id)
				continue
			}
			points := []vector.Point{point(), point(), point()}[:1+rng.IntN(3)]
			upsert(t, ix, scope, points...)
			upsert(t, sx, small, points...)
		}
		alike("after changes")
		if err := sx.Compact(t.Context(), small); err != nil {
			t.Fatal(err)
		}
		alike("compacted")
		list := make([]vector.Point, 200)
		for i := range list {
			list[i] = point()
		}
		source := iter.Seq2[vector.Point, error](func(yield func(vector.Point, error) bool) {
			for _, p := range list {
				if !yield(p, nil) {
					return
				}
			}
		})
		must(ix.Rebuild(t.Context(), scope, source))(t)
		must(sx.Rebuild(t.Context(), small, source))(t)
		alike("rebuilt")
	}
}

// TestVectorTooLarge: what the store cannot hold is refused with what to do.
func TestVectorTooLarge(t *testing.T) {
	small := storagetest.Limited(mem.New(), storagetest.Small)
	for _, test := range []struct {
		dim, points int
		want        string
	}{
		{1700, 1, ""},
		{1730, 1, "use fewer dimensions"},
		{384, 9, ""},
		{384, 12, "make several"},
	} {
		ix := must(vector.New("model", test.dim))(t)
		list := make([]vector.Point, test.points)
		for i := range list {
			list[i] = vector.Point{ID: strings.Repeat("i", 20) + fmt.Sprint(i), Vector: make([]float32, test.dim)}
			list[i].Vector[i] = 1
		}
		scope := storage.Scope(small, fmt.Sprint("_vectors/", test.dim))
		ops, err := ix.Upsert(t.Context(), scope, list...)
		if err == nil {
			err = scope.Apply(t.Context(), ops...)
		}
		if (err == nil) != (test.want == "") || err != nil && (!errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%d points of %d dimensions: %v, want %q", test.points, test.dim, err, test.want)
		}
	}
}
