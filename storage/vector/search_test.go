package vector_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/vector"
)

func TestSearch(t *testing.T) {
	ix, scope := open(t, 2)
	upsert(t, ix, scope, at("east", 0), at("north", 90), at("west", 180), at("b", 45), at("a", 45), at("c", 40))
	east := at("", 0).Vector
	for _, c := range []struct {
		name  string
		query vector.Query
		want  string
	}{
		{"all, equals by id", vector.Query{Vector: east}, "east c a b north west"},
		{"limit", vector.Query{Vector: east, Limit: 3}, "east c a"},
		{"least score", vector.Query{Vector: east, MinScore: 0.7}, "east c a b"},
		{"filter", vector.Query{Vector: east, Limit: 2, Filter: func(id string) bool { return len(id) > 1 }}, "east north"},
		{"only", vector.Query{Vector: east, Only: []string{"west", "b", "none", "b"}}, "b west"},
		{"only some that pass", vector.Query{Vector: east, Only: []string{"west", "b"}, Filter: func(id string) bool { return id != "b" }}, "west"},
		{"only none", vector.Query{Vector: east, Only: []string{}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ids(must(ix.Search(t.Context(), scope, c.query))(t)); got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
	for _, h := range must(ix.Search(t.Context(), scope, vector.Query{Vector: at("", 45).Vector, Limit: 1}))(t) {
		if h.Score > 1 || h.Score < 0.9999 {
			t.Errorf("what is the same scores %v", h.Score)
		}
	}
}

func TestRefuses(t *testing.T) {
	for model, dim := range map[string]int{"": 2, "a": 0, "b": vector.MaxDimensions + 1, strings.Repeat("x", 301): 2} {
		if _, err := vector.New(model, dim); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("index of model %.10q with %d dimensions: %v", model, dim, err)
		}
	}
	ix, scope := open(t, 2)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, p := range map[string]vector.Point{
		"no id": at("", 1), "long id": at(strings.Repeat("x", 301), 1), "zero": {ID: "a", Vector: []float32{0, 0}},
		"not a number": {ID: "a", Vector: []float32{nan, 1}}, "infinite": {ID: "a", Vector: []float32{inf, 1}},
		"too short": {ID: "a", Vector: []float32{1}}, "too long": {ID: "a", Vector: []float32{1, 2, 3}}, "none": {ID: "a"},
	} {
		if _, err := ix.Upsert(t.Context(), scope, p); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("upsert of %s: %v", name, err)
		}
		if _, err := ix.Search(t.Context(), scope, vector.Query{Vector: p.Vector}); p.ID == "a" && !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("search for %s: %v", name, err)
		}
	}
	if _, err := ix.Search(t.Context(), scope, vector.Query{Vector: []float32{1, 0}, Limit: -1}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("search for less than nothing: %v", err)
	}
	if _, err := ix.Upsert(t.Context(), scope, make([]vector.Point, 2<<20)...); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("upsert of too much: %v", err)
	}
	large := must(vector.New("model", vector.MaxDimensions))(t)
	v := make([]float32, vector.MaxDimensions)
	v[5] = 1e30
	list := make([]vector.Point, 70)
	for i := range list {
		list[i] = vector.Point{ID: fmt.Sprint(i), Vector: slices.Clone(v)}
		list[i].Vector[i] -= 1e29
	}
	other := storage.Scope(scope.Adapter(), "_vectors/large")
	for part := range slices.Chunk(list, 7) {
		upsert(t, large, other, part...)
	}
	hits := must(large.Search(t.Context(), other, vector.Query{Vector: v, Limit: 1}))(t)
	if ids(hits) != "5" || hits[0].Score < 0.9999 {
		t.Errorf("of the most dimensions found %v", hits)
	}
}

func TestScopes(t *testing.T) {
	ix, scope := open(t, 2)
	other, beside := must(vector.New("other", 2))(t), storage.Scope(scope.Adapter(), "_vectors/b")
	upsert(t, ix, scope, at("a", 0))
	upsert(t, other, beside, at("b", 0))
	for want, got := range map[string][]vector.Hit{
		"a": must(ix.Search(t.Context(), scope, vector.Query{Vector: []float32{1, 0}}))(t),
		"b": must(other.Search(t.Context(), beside, vector.Query{Vector: []float32{1, 0}}))(t),
	} {
		if ids(got) != want {
			t.Errorf("found %v, want %s alone", got, want)
		}
	}
}

func TestCancel(t *testing.T) {
	points, asked := clouds[0].make(5000, 1, 64, 3)
	ix, scope := open(t, 64)
	upsert(t, ix, scope, named(points, 0)...)
	for _, exact := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		q := vector.Query{Vector: asked[0], Exact: exact, Candidates: 500, Limit: 5000, Filter: func(string) bool {
			calls++
			cancel()
			return false
		}}
		if _, err := ix.Search(ctx, scope, q); !errors.Is(err, context.Canceled) {
			t.Errorf("exact %v: %v", exact, err)
		}
		if calls > 1500 {
			t.Errorf("exact %v: went on for %d vectors", exact, calls)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := must(vector.New("model", 64))(t).Len(ctx, scope); !errors.Is(err, context.Canceled) {
		t.Errorf("read after the end: %v", err)
	}
	if n := must(ix.Len(t.Context(), scope))(t); n != 5000 {
		t.Errorf("after all that there are %d vectors", n)
	}
}

// TestFilterFindsEnough pins that a filter which admits few costs time and not
// hits, and that IDs are asked about once.
func TestFilterFindsEnough(t *testing.T) {
	points, asked := clouds[1].make(6003, 5, 64, 3)
	ix, scope := open(t, 64)
	all := named(points, 0)
	upsert(t, ix, scope, all...)
	for _, v := range asked {
		last := make(map[string]bool)
		for _, h := range closest(all, v, len(all), nil)[len(all)-5:] {
			last[h.ID] = true
		}
		for name, admit := range map[string]func(string) bool{
			"few":      func(id string) bool { return strings.HasSuffix(id, "77") },
			"the last": func(id string) bool { return last[id] },
		} {
			seen := make(map[string]int)
			hits := must(ix.Search(t.Context(), scope, vector.Query{Vector: v, Candidates: 200, Filter: func(id string) bool {
				seen[id]++
				return admit(id)
			}}))(t)
			if diff := cmp.Diff(ids(closest(all, v, 10, admit)), ids(hits)); diff != "" {
				t.Errorf("%s: found (-want +got):\n%s", name, diff)
			}
			for id, n := range seen {
				if n > 1 {
					t.Fatalf("%s: asked %d times about %s", name, n, id)
				}
			}
		}
	}
}

// TestAlike pins that a crowd of equal vectors is searched in order.
func TestAlike(t *testing.T) {
	ix, scope := open(t, 2)
	for n := range 5 {
		var list []vector.Point
		for i := range 1000 {
			list = append(list, at(fmt.Sprintf("%03d-%d", i, n), 30))
		}
		upsert(t, ix, scope, list...)
	}
	got := ids(must(ix.Search(t.Context(), scope, vector.Query{Vector: []float32{1, 0}, Limit: 7}))(t))
	if want := "000-0 000-1 000-2 000-3 000-4 001-0 001-1"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
}
