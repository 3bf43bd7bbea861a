package vector_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/vector"
)

func upsert(tb testing.TB, ix *vector.Index, scope storage.Scoped, points ...vector.Point) {
	tb.Helper()
	apply(tb, ix, scope, must(ix.Upsert(context.Background(), scope, points...))(tb))
}

func remove(tb testing.TB, ix *vector.Index, scope storage.Scoped, ids ...string) {
	tb.Helper()
	apply(tb, ix, scope, must(ix.Delete(context.Background(), scope, ids...))(tb))
}

func apply(tb testing.TB, ix *vector.Index, scope storage.Scoped, ops []storage.Op) {
	tb.Helper()
	if err := scope.Apply(context.Background(), ops...); err != nil {
		tb.Fatal(err)
	}
}

func open(tb testing.TB, dim int) (*vector.Index, storage.Scoped) {
	tb.Helper()
	store := mem.New()
	tb.Cleanup(func() { _ = store.Close() })
	return must(vector.New("model", dim))(tb), storage.Scope(store, "_vectors/a")
}

func ids(hits []vector.Hit) string {
	var list []string
	for _, h := range hits {
		list = append(list, h.ID)
	}
	return strings.Join(list, " ")
}

// at is a point of the plane at an angle.
func at(id string, degrees float64) vector.Point {
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	return vector.Point{ID: id, Vector: []float32{float32(3 * cos), float32(3 * sin)}}
}

// TestWrittenAlike pins what the format rests on: the rotation of a version and
// its order of bytes. Stores hold such records.
func TestWrittenAlike(t *testing.T) {
	ix, scope := open(t, 3)
	ops := must(ix.Upsert(t.Context(), scope, vector.Point{ID: "ab", Vector: []float32{1, 2, 2}}, vector.Point{ID: "ac", Vector: []float32{0, 0, -5}}))(t)
	got := fmt.Sprintf("%s %x", ops[0].Key, ops[0].Value)
	const want = "s/0/ffff-c9fcd2a230cbf533cd5126db 01056d6f64656c0302000261620157dba7880101630111858b56cd7b6aedaa1a7ec5a0361f9cce001b11"
	if got != want {
		t.Errorf("wrote\n%s, want\n%s", got, want)
	}
}

func TestUpsertReplaces(t *testing.T) {
	ix, scope := open(t, 2)
	upsert(t, ix, scope, at("a", 0), at("b", 90))
	upsert(t, ix, scope, at("a", 10), at("a", 100))
	if ops := must(ix.Upsert(t.Context(), scope, at("a", 100), at("b", 90)))(t); len(ops) != 0 {
		t.Errorf("adding again what is there takes %d operations", len(ops))
	}
	if ops := must(ix.Delete(t.Context(), scope, "none"))(t); len(ops) != 0 {
		t.Errorf("deleting what is not there takes %d operations", len(ops))
	}
	east := vector.Query{Vector: at("", 0).Vector, MinScore: -2}
	if got := ids(must(ix.Search(t.Context(), scope, east))(t)); got != "b a" {
		t.Errorf("found %q, want the last a behind b", got)
	}
	remove(t, ix, scope, "a", "a", "none")
	if got := must(ix.Missing(t.Context(), scope, "b", "x", "a"))(t); !slices.Equal(got, []string{"x", "a"}) {
		t.Errorf("missing are %v", got)
	}
	upsert(t, ix, scope, at("a", 5))
	for name, other := range map[string]*vector.Index{"writer": ix, "late": must(vector.New("model", 2))(t)} {
		if got := ids(must(other.Search(t.Context(), scope, east))(t)); got != "a b" {
			t.Errorf("%s found %q, want what came back first", name, got)
		}
	}
}

func TestAppendIsSmall(t *testing.T) {
	const n, dim = 3000, 64
	points, _ := clouds[0].make(n, 0, dim, 9)
	ix, scope := open(t, dim)
	ops, size, largest := 0, 0, 0
	for _, p := range named(points, 0) {
		list := must(ix.Upsert(t.Context(), scope, p))(t)
		apply(t, ix, scope, list)
		ops, largest = ops+len(list), max(largest, len(list))
		for _, op := range list {
			size += len(op.Value)
		}
	}
	if got := float64(ops) / n; got > 5 {
		t.Errorf("an append has %.1f operations", got)
	}
	if largest > 70 {
		t.Errorf("an append has %d operations", largest)
	}
	// Three times its vector and ID, and its two marks.
	if got, want := float64(size)/n, 3*float64(2*dim+16)+2*24+30; got > want {
		t.Errorf("an append writes %.0f bytes, want %.0f", got, want)
	}
	if segments, _ := stored(t, scope, nil); segments > 32+32+3 {
		t.Errorf("there are %d segments", segments)
	}
}

// stored returns how many segments there are that hold what, or at all if it is
// nil, and their size.
func stored(t *testing.T, scope storage.Scoped, what []byte) (segments, size int) {
	for e, err := range scope.Scan(t.Context(), "s/", nil) {
		must(0, err)(t)
		if what == nil || bytes.Contains(e.Value, what) {
			segments++
			size += len(e.Value)
		}
	}
	return segments, size
}

// TestSupersededGoes writes the same IDs again and again, then deletes most.
func TestSupersededGoes(t *testing.T) {
	const n, dim = 2500, 64
	ix, scope := open(t, dim)
	for round := range uint64(5) {
		points, _ := clouds[0].make(n, 0, dim, round)
		for part := range slices.Chunk(named(points, 0), 25) {
			upsert(t, ix, scope, part...)
		}
	}
	if _, size := stored(t, scope, nil); size > 3*n*(2*dim+16) {
		t.Errorf("%d vectors written five times take %d bytes", n, size)
	}
	for i := range n - 10 {
		remove(t, ix, scope, fmt.Sprintf("turn-%07d", i))
	}
	if _, size := stored(t, scope, nil); size > n*(2*dim+16) {
		t.Errorf("%d deletions leave %d bytes", n-10, size)
	}
	if err := ix.Compact(t.Context(), scope); err != nil {
		t.Fatal(err)
	}
	if segments, size := stored(t, scope, nil); segments != 1 || size > 10*(2*dim+16)+32 {
		t.Errorf("compacted, 10 vectors take %d bytes in %d segments", size, segments)
	}
	for name, other := range map[string]*vector.Index{"writer": ix, "late": must(vector.New("model", dim))(t)} {
		if n := must(other.Len(t.Context(), scope))(t); n != 10 {
			t.Errorf("compacted, %s has %d vectors, want 10", name, n)
		}
	}
}

// TestStaleMerge applies a merge that was prepared before a deletion and many
// merges of others, and a day later lets the deletion go.
func TestStaleMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ix, scope := open(t, 2)
		upsert(t, ix, scope, at("secret", 1))
		for i := range 30 {
			upsert(t, ix, scope, at(fmt.Sprint("a", i), float64(i)))
		}
		stale := must(ix.Upsert(t.Context(), scope, at("z", 7)))(t) // merges 32
		if len(stale) < 30 {
			t.Fatalf("there are %d operations: no merge", len(stale))
		}
		other := must(vector.New("model", 2))(t)
		remove(t, other, scope, "secret")
		time.Sleep(time.Hour)
		more := func(from int) {
			for i := range 1100 {
				upsert(t, other, scope, at(fmt.Sprint("b", from+i), float64(i)))
			}
		}
		more(0)
		apply(t, ix, scope, stale)
		has := func() bool {
			late := must(vector.New("model", 2))(t)
			for name, ix := range map[string]*vector.Index{"writer": ix, "other": other, "late": late} {
				if got := must(ix.Missing(t.Context(), scope, "secret", "z"))(t); !slices.Equal(got, []string{"secret"}) {
					t.Errorf("%s misses %v, want what was deleted", name, got)
				}
			}
			n, _ := stored(t, scope, []byte("secret"))
			return n > 0
		}
		if !has() {
			t.Error("the deletion is forgotten already")
		}
		time.Sleep(25 * time.Hour)
		more(2000)
		must(0, other.Compact(t.Context(), scope))(t)
		if has() {
			t.Error("what was deleted is still in the store")
		}
	})
}
