package vector_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/vector"
)

func TestMismatch(t *testing.T) {
	ix, scope := open(t, 2)
	upsert(t, ix, scope, at("a", 0))
	for _, c := range []struct {
		model string
		dim   int
	}{{"model-2", 2}, {"model", 3}} {
		other := must(vector.New(c.model, c.dim))(t)
		_, err := other.Len(t.Context(), scope)
		mismatch, ok := errors.AsType[*vector.MismatchError](err)
		want := vector.MismatchError{Model: "model", WantedModel: c.model, Dimensions: 2, WantedDimensions: c.dim}
		if !ok || *mismatch != want || !strings.Contains(err.Error(), "strata index rebuild") {
			t.Fatalf("opened for %s with %d dimensions: %v", c.model, c.dim, err)
		}
		if _, err := other.Upsert(t.Context(), scope, vector.Point{ID: "b", Vector: make([]float32, c.dim)}); err == nil {
			t.Error("an upsert of another model is accepted")
		}
	}
	other := must(vector.New("model-3", 3))(t)
	source := func(yield func(vector.Point, error) bool) {
		shared := []float32{0, 0, 0} // a source may use its memory again
		for i := range 3 {
			clear(shared)
			shared[i] = 1
			if !yield(vector.Point{ID: fmt.Sprint(i), Vector: shared}, nil) {
				return
			}
		}
	}
	if n := must(other.Rebuild(t.Context(), scope, source))(t); n != 3 {
		t.Errorf("rebuilt %d points", n)
	}
	if got := ids(must(other.Search(t.Context(), scope, vector.Query{Vector: []float32{1, 3, 2}}))(t)); got != "1 2 0" {
		t.Errorf("found %q after rebuilding", got)
	}
	if _, err := ix.Len(t.Context(), scope); err == nil {
		t.Error("the index of the model before still reads")
	}
}

func TestRebuildFails(t *testing.T) {
	ix, scope := open(t, 2)
	upsert(t, ix, scope, at("old", 0))
	down := errors.New("the model is out of reach")
	source := func(fail bool) iter.Seq2[vector.Point, error] {
		return func(yield func(vector.Point, error) bool) {
			_ = yield(at("a", 0), nil) && yield(at("b", 1), nil) && fail && yield(vector.Point{}, down)
		}
	}
	if n, err := ix.Rebuild(t.Context(), scope, source(true)); n != 2 || !errors.Is(err, down) {
		t.Errorf("rebuilt %d: %v", n, err)
	}
	if got := must(ix.Missing(t.Context(), scope, "old", "a", "b", "c"))(t); !slices.Equal(got, []string{"old", "c"}) {
		t.Errorf("missing are %v", got)
	}
	if n, err := ix.Rebuild(t.Context(), scope, source(false)); n != 2 || err != nil {
		t.Errorf("rebuilt %d: %v", n, err)
	}
}

func TestDamage(t *testing.T) {
	ctx := t.Context()
	ix, scope := open(t, 2)
	upsert(t, ix, scope, at("a", 0))
	upsert(t, ix, scope, at("b", 0))
	var keys []string
	for key, err := range scope.List(ctx, "s/") {
		must(0, err)(t)
		keys = append(keys, key)
	}
	sound := must(scope.Get(ctx, keys[0]))(t)
	for name, c := range map[string]struct {
		value []byte
		want  error
	}{
		"cut":     {sound[:len(sound)-3], storage.ErrCorrupt},
		"empty":   {nil, storage.ErrCorrupt},
		"flipped": {append(append(slices.Clone(sound[:8]), sound[8]^1), sound[9:]...), storage.ErrCorrupt},
		"newer":   {append([]byte{9}, sound[1:]...), storage.ErrNewer},
	} {
		must(0, scope.Apply(ctx, storage.Put(keys[0], c.value)))(t)
		_, err := must(vector.New("model", 2))(t).Len(ctx, scope)
		if !errors.Is(err, c.want) || errors.Is(err, storage.ErrCorrupt) && !strings.Contains(err.Error(), "strata index check") {
			t.Errorf("%s: %v", name, err)
		}
		faults := 0
		for f, err := range vector.Check(ctx, scope) {
			must(0, err)(t)
			if f.Key != keys[0] || f.Repair == "" {
				t.Errorf("%s: fault %+v", name, f)
			}
			faults++
		}
		if faults != 1 {
			t.Errorf("%s: check finds %d faults", name, faults)
		}
	}
	other := must(vector.New("other", 2))(t)
	beside := storage.Scope(mem.New(), "_vectors")
	upsert(t, other, beside, at("c", 0))
	for e, err := range beside.Scan(ctx, "s/", nil) {
		must(0, err)(t)
		must(0, scope.Apply(ctx, storage.Put(keys[0], e.Value)))(t)
	}
	for f, err := range vector.Check(ctx, scope) {
		must(0, err)(t)
		if !strings.Contains(f.Reason, `"other"`) || !strings.Contains(f.Reason, `"model"`) {
			t.Errorf("two models: fault %+v", f)
		}
	}
	if n := must(ix.Rebuild(ctx, scope, func(yield func(vector.Point, error) bool) { yield(at("a", 0), nil) }))(t); n != 1 {
		t.Errorf("rebuilt %d points", n)
	}
	for f, err := range vector.Check(ctx, scope) {
		t.Errorf("check after rebuilding: %+v, %v", f, err)
	}
	if n := must(ix.Len(ctx, scope))(t); n != 1 {
		t.Errorf("rebuilt, there are %d vectors", n)
	}
}
