package docs_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/bolt"
	"github.com/stratamem/strata/storage/docs"
)

// library makes documents of 20 passages of 150 words each, whose frequencies
// fall as those of a language do.
func library(n int) []docs.Document {
	rng := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(rng, 1.07, 8, 40_000)
	list := make([]docs.Document, n)
	for i := range list {
		texts := make([]string, 20)
		for j := range texts {
			var b strings.Builder
			for range 150 {
				fmt.Fprintf(&b, "w%d ", zipf.Uint64())
			}
			texts[j] = b.String()
		}
		list[i] = document(fmt.Sprintf("file%05d.md", i), texts...)
	}
	return list
}

// BenchmarkCollection: a search of 20,000 passages, and a document that changes
// among them.
func BenchmarkCollection(b *testing.B) {
	store, err := bolt.Open(b.Context(), filepath.Join(b.TempDir(), "db"), &bolt.Options{Durability: storage.Process})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	c, err := docs.Open(store, docs.Owner{}, "", nil)
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Put(b.Context(), library(1000)...); err != nil {
		b.Fatal(err)
	}
	b.Run("search", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			q := docs.Query{Text: fmt.Sprintf("w%d w%d w%d w%d", i%50, 100+i%400, 1000+i%3000, i%9000), Limit: 5}
			if _, err := c.Search(b.Context(), q); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("change", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			d := document("file00500.md", fmt.Sprintf("it says now %d", i), "and no more")
			if err := c.Put(b.Context(), d); err != nil {
				b.Fatal(err)
			}
		}
	})
}
