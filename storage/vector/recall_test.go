package vector_test

import (
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/vector"
)

// TestRecall measures what the default number of candidates rests on: how many
// of the ten closest vectors, by float64, are found by numbers of candidates.
// STRATA_VECTORS is among how many vectors; the default was chosen with
// 100,000.
func TestRecall(t *testing.T) {
	const dim, limit = 384, 10
	n, questions, tried := 5000, 25, []int{20, 50, 200}
	large := os.Getenv("STRATA_VECTORS")
	if large != "" {
		n, questions, tried = must(strconv.Atoi(large))(t), 60, []int{20, 50, 100, 200, 500, 1000, 1500, 2000, 3000}
	}
	for _, c := range clouds {
		t.Run(c.name, func(t *testing.T) {
			points, asked := c.make(n, questions, dim, 5)
			scope := storage.Scope(mem.New(), "_vectors")
			ix := must(vector.New("model", dim))(t)
			all := named(points, 0)
			upsert(t, ix, scope, all[0]) // and codes are relative to it, for a while
			for part := range slices.Chunk(all, 1000) {
				upsert(t, ix, scope, part...)
			}
			truth := make([][]vector.Hit, len(asked))
			var first, last float64
			for i, v := range asked {
				truth[i] = closest(all, v, limit, nil)
				first += truth[i][0].Score / float64(len(asked))
				last += truth[i][limit-1].Score / float64(len(asked))
			}
			recall := func(q vector.Query) float64 {
				found := 0
				for i, v := range asked {
					q.Vector, q.Limit = v, limit
					hits := must(ix.Search(t.Context(), scope, q))(t)
					for _, want := range truth[i] {
						if slices.ContainsFunc(hits, func(h vector.Hit) bool { return h.ID == want.ID }) {
							found++
						}
					}
				}
				return float64(found) / float64(limit*len(asked))
			}
			t.Logf("cosines %.2f to %.2f", first, last)
			got := make(map[int]float64)
			for _, candidates := range tried {
				got[candidates] = recall(vector.Query{Candidates: candidates})
				t.Logf("%d candidates: recall@10 %.3f", candidates, got[candidates])
			}
			usual, exact := recall(vector.Query{}), recall(vector.Query{Exact: true})
			t.Logf("default: %.3f; exact: %.4f", usual, exact)
			type bound struct {
				what        string
				got, lo, hi float64
			}
			bounds := []bound{
				{"20 candidates: the points tell nothing unless they lose some", got[20], 0.7, 0.98},
				{"50 candidates: codes tell less than they did", got[50], 0.96, 1},
				{"the default number of candidates: too few", usual, 0.99, 1},
				{"all candidates: too little is kept of a vector", exact, 0.99, 1},
			}
			if large != "" { // the others are for few
				bounds = bounds[2:]
			}
			for _, b := range bounds {
				if b.got < b.lo || b.got > b.hi {
					t.Errorf("recall %.3f of %s", b.got, b.what)
				}
			}
		})
	}
}
