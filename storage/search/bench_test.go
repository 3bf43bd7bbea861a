package search_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/bolt"
	"github.com/stratamem/strata/storage/search"
)

// talk makes turns of 5 to 40 words whose frequencies fall as those of a
// language do, in sessions of 20 turns.
func talk(n int, seed uint64) []search.Doc {
	rng := rand.New(rand.NewPCG(seed, 1))
	zipf := rand.NewZipf(rng, 1.07, 8, 40_000)
	start := time.Date(2025, 1, 1, 9, 0, 0, 0, time.UTC)
	docs := make([]search.Doc, n)
	for i := range docs {
		var b strings.Builder
		for range 5 + rng.IntN(36) {
			fmt.Fprintf(&b, "%s ", spell(zipf.Uint64()))
		}
		docs[i] = search.Doc{
			ID: fmt.Sprintf("turn-%07d", i), Session: fmt.Sprintf("session-%d", i/20), Speaker: []string{"Ada", "Ben"}[i%2],
			Type: "message", Time: start.Add(time.Duration(i) * time.Minute), Text: b.String(),
		}
	}
	return docs
}

// spell makes a word of a number.
func spell(n uint64) string {
	b := []byte{'z'}
	for n++; n > 0; n /= 14 {
		b = append(b, "bcdfgklmnprstv"[n%14], "aeiou"[n%5])
	}
	return string(b)
}

func questions(n int) []string {
	rng := rand.New(rand.NewPCG(7, 7))
	zipf := rand.NewZipf(rng, 1.07, 8, 40_000)
	list := make([]string, n)
	for i := range list {
		var w []string
		for range 4 + rng.IntN(4) {
			w = append(w, spell(zipf.Uint64()))
		}
		list[i] = "When did Ada " + strings.Join(w, " ") + "?"
	}
	return list
}

func boltStore(tb testing.TB) storage.Adapter {
	store, err := bolt.Open(tb.Context(), filepath.Join(tb.TempDir(), "bench.db"), &bolt.Options{Durability: storage.Process})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = store.Close() })
	return store
}

func fill(tb testing.TB, scope storage.Scoped, docs []search.Doc, batch int) *search.Index {
	ix := must(search.New(nil))(tb)
	for part := range slices.Chunk(docs, batch) {
		add(tb, ix, scope, part...)
	}
	return ix
}

func add(tb testing.TB, ix *search.Index, scope storage.Scoped, docs ...search.Doc) {
	tb.Helper()
	ops, err := ix.Append(context.Background(), scope, docs...)
	if err == nil {
		err = scope.Apply(context.Background(), ops...)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func must[T any](v T, err error) func(tb testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

func BenchmarkSearch(b *testing.B) {
	for _, n := range []int{600, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			scope := storage.Scope(boltStore(b), "_search/a")
			docs := talk(n, 1)
			fill(b, scope, docs, 300)
			b.Run("open", func(b *testing.B) {
				for b.Loop() {
					ix := must(search.New(nil))(b)
					if got := must(ix.Len(b.Context(), scope))(b); got != n {
						b.Fatalf("index has %d documents, want %d", got, n)
					}
				}
			})
			b.Run("query", func(b *testing.B) {
				ix := must(search.New(nil))(b)
				must(ix.Len(b.Context(), scope))(b)
				asked := questions(64)
				var took []time.Duration
				for i := 0; b.Loop(); i++ {
					start := time.Now()
					must(ix.Search(b.Context(), scope, search.Query{Text: asked[i%len(asked)]}))(b)
					took = append(took, time.Since(start))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			})
			b.Run("append", func(b *testing.B) {
				ix := must(search.New(nil))(b)
				must(ix.Len(b.Context(), scope))(b)
				more := talk(20_000, 2)
				i := 0
				for b.Loop() {
					d := more[i%len(more)]
					d.ID = fmt.Sprintf("more-%d", i)
					d.Session = fmt.Sprintf("more-%d", i/20)
					add(b, ix, scope, d)
					i++
				}
			})
		})
	}
}
