package vector_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/bolt"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/vector"
)

func boltStore(tb testing.TB, path string) storage.Adapter {
	tb.Helper()
	return must(bolt.Open(context.Background(), path, &bolt.Options{Durability: storage.Process}))(tb)
}

// TestModel changes an index at random, by two writers in turns, and compares
// what all readers find with a map of vectors, looked at one by one.
func TestModel(t *testing.T) {
	for _, dim := range []int{1, 2, 7, 64, 100} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("mem/%d/%d", dim, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := mem.New()
					model(t, dim, seed, 600, func() storage.Adapter {
						time.Sleep(13 * time.Hour)
						return store
					})
				})
			})
		}
	}
	t.Run("bolt", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a.db")
		var store storage.Adapter
		t.Cleanup(func() { must(0, store.Close())(t) })
		model(t, 33, 1, 250, func() storage.Adapter {
			if store != nil {
				must(0, store.Close())(t)
			}
			store = boltStore(t, path)
			return store
		})
	})
}

// model makes steps; reopen closes the store and opens it again, or lets time
// pass.
func model(t *testing.T, dim int, seed uint64, steps int, reopen func() storage.Adapter) {
	rng := rand.New(rand.NewPCG(seed, uint64(dim)))
	scope := storage.Scope(reopen(), "_vectors/a")
	fresh := func() *vector.Index { return must(vector.New("model", dim))(t) }
	writers := []*vector.Index{fresh(), fresh()}
	want := make(map[string][]float32)
	draw := func() []float32 {
		v := make([]float32, dim)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	// Few IDs, so that they are replaced and come back.
	id := func() string { return fmt.Sprint("id/", rng.IntN(60*int(seed)+40)) }
	for range steps {
		ix := writers[rng.IntN(len(writers))]
		switch n := rng.IntN(100); {
		case n < 60:
			var list []vector.Point
			for range 1 + rng.IntN(1+rng.IntN(40)) {
				list = append(list, vector.Point{ID: id(), Vector: draw()})
				want[list[len(list)-1].ID] = list[len(list)-1].Vector
			}
			upsert(t, ix, scope, list...)
		case n < 80:
			var list []string
			for range 1 + rng.IntN(1+rng.IntN(30)) {
				list = append(list, id())
				delete(want, list[len(list)-1])
			}
			remove(t, ix, scope, list...)
		case n < 82:
			must(0, ix.Compact(t.Context(), scope))(t)
		case n < 83:
			must(ix.Rebuild(t.Context(), scope, func(yield func(vector.Point, error) bool) {
				for _, id := range slices.Sorted(maps.Keys(want)) {
					if !yield(vector.Point{ID: id, Vector: want[id]}, nil) {
						return
					}
				}
			}))(t)
		case n < 86:
			scope = storage.Scope(reopen(), "_vectors/a")
		case n < 88:
			writers[rng.IntN(len(writers))] = fresh()
		default:
			compare(t, ix, scope, want, draw(), rng)
		}
	}
	for _, ix := range append(writers, fresh()) {
		compare(t, ix, scope, want, draw(), rng)
	}
	for f, err := range vector.Check(t.Context(), scope) {
		t.Errorf("check: %+v, %v", f, err)
	}
}

// slack is how far a score may be beside the cosine.
const slack = 1e-4

// compare looks at what a query finds.
func compare(t *testing.T, ix *vector.Index, scope storage.Scoped, want map[string][]float32, v []float32, rng *rand.Rand) {
	t.Helper()
	if n := must(ix.Len(t.Context(), scope))(t); n != len(want) {
		t.Fatalf("there are %d vectors, want %d", n, len(want))
	}
	q := vector.Query{Vector: v, Limit: 1 + rng.IntN(20), Exact: rng.IntN(3) == 0}
	exact := true
	if !q.Exact && rng.IntN(2) == 0 {
		q.Candidates = 1 + rng.IntN(30)
		exact = len(want) < 2*q.Candidates
	}
	admit := func(string) bool { return true }
	if rng.IntN(2) == 0 {
		salt := uint32(rng.IntN(100))
		admit = func(id string) bool { return (crc32.ChecksumIEEE([]byte(id))+salt)%3 > 0 }
		q.Filter = admit
	}
	among := admit
	if rng.IntN(4) == 0 {
		q.Only = append(slices.Sorted(maps.Keys(want))[:len(want)/2], "none")
		among = func(id string) bool { return admit(id) && slices.Contains(q.Only, id) }
		exact = true
	}
	hits := must(ix.Search(t.Context(), scope, q))(t)
	var points []vector.Point
	for id, v := range want {
		points = append(points, vector.Point{ID: id, Vector: v})
	}
	best := closest(points, v, q.Limit, among)
	if exact && len(hits) != len(best) || len(hits) > q.Limit {
		t.Fatalf("found %d, want %d", len(hits), len(best))
	}
	for i, h := range hits {
		if !among(h.ID) || want[h.ID] == nil || math.Abs(h.Score-cosine(want[h.ID], v)) > slack {
			t.Fatalf("found %+v, want a score of %.5f", h, cosine(want[h.ID], v))
		}
		if exact && h.Score < best[i].Score-slack {
			t.Fatalf("place %d has score %.5f, want %.5f", i, h.Score, best[i].Score)
		}
		if i > 0 && cmp.Or(cmp.Compare(h.Score, hits[i-1].Score), cmp.Compare(hits[i-1].ID, h.ID)) >= 0 {
			t.Fatalf("%+v comes before %+v", hits[i-1], h)
		}
	}
}

// FuzzSegment takes any bytes for the record of a segment.
func FuzzSegment(f *testing.F) {
	ix := must(vector.New("model", 2))(f)
	for i := range 33 {
		scope := storage.Scope(mem.New(), "_vectors")
		upsert(f, ix, scope, at("a", 0), at(fmt.Sprint("b", i), 10))
		remove(f, ix, scope, "a")
		for e, err := range scope.Scan(f.Context(), "s/", nil) {
			must(0, err)(f)
			value := e.Value[:len(e.Value)-4]
			f.Add(value, i%2 == 0)
			for at := 0; at < len(value) && i == 0; at++ {
				other := slices.Clone(value)
				other[at] += 1 << 5
				f.Add(other, true)
			}
		}
	}
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	f.Fuzz(func(t *testing.T, value []byte, whole bool) {
		if whole { // so that what is behind the check is reached
			value = binary.LittleEndian.AppendUint32(slices.Clip(value), crc32.Checksum(value, castagnoli))
		}
		scope := storage.Scope(mem.New(), "_vectors")
		must(0, scope.Apply(t.Context(), storage.Put("s/0/a", value)))(t)
		must(0, scope.Apply(t.Context(), storage.Put("head", []byte("a"))))(t)
		for _, err := range vector.Check(t.Context(), scope) {
			must(0, err)(t)
		}
		ix := must(vector.New("model", 2))(t)
		n, err := ix.Len(t.Context(), scope)
		if err != nil {
			_, mismatch := errors.AsType[*vector.MismatchError](err)
			if !mismatch && !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrNewer) && !errors.Is(err, storage.ErrFormat) {
				t.Errorf("read: %v", err)
			}
			return
		}
		// What was read is an index: it can be searched, changed and merged.
		must(ix.Search(t.Context(), scope, vector.Query{Vector: []float32{1, 0}, Candidates: 1}))(t)
		for i := range 33 {
			upsert(t, ix, scope, at(fmt.Sprint("new", i), float64(i)))
		}
		must(0, ix.Compact(t.Context(), scope))(t)
		late := must(vector.New("model", 2))(t)
		if again := must(late.Len(t.Context(), scope))(t); again != must(ix.Len(t.Context(), scope))(t) || again < n || again > n+33 {
			t.Errorf("read %d vectors, and %d after adding 33", n, again)
		}
	})
}
