package vector_test

import (
	"context"
	"fmt"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/vector"
)

func Example() {
	ctx := context.Background()
	store := mem.New()
	defer store.Close()
	scope := storage.Scope(store, "_vectors/notes")
	ix, err := vector.New("three-words/v1", 3) // sail, oven, tax
	if err != nil {
		fmt.Println(err)
		return
	}
	ops, err := ix.Upsert(ctx, scope,
		vector.Point{ID: "the boat", Vector: []float32{0.9, 0.1, 0}},
		vector.Point{ID: "the cake", Vector: []float32{0, 0.8, 0.1}},
		vector.Point{ID: "the ferry ticket", Vector: []float32{0.5, 0, 0.5}},
	)
	if err == nil {
		err = scope.Apply(ctx, ops...) // or put them in a batch with others
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	hits, err := ix.Search(ctx, scope, vector.Query{Vector: []float32{1, 0, 0}, MinScore: 0.3})
	for _, h := range hits {
		fmt.Printf("%s %.2f\n", h.ID, h.Score)
	}
	fmt.Println(err)
	// Output:
	// the boat 0.99
	// the ferry ticket 0.71
	// <nil>
}
