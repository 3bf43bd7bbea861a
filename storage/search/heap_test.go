package search_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/search"
)

// What an index holds in memory is what queries want of its segments, and not
// their bytes: of one new word in a document the whole of its segment was held.
func TestSegmentsAreNotHeld(t *testing.T) {
	ctx := context.Background()
	whole := mem.New()
	defer whole.Close()
	store := storage.Scope(whole, "_search/a")
	const docs, words = 60, 6000
	var text strings.Builder
	for i := range words {
		fmt.Fprintf(&text, "%c%05dx%d ", 'b'+i%20, i, i*i)
	}
	writer := must(search.New(nil))(t)
	for i := range docs { // fewer than are merged
		ops, err := writer.Append(ctx, store, search.Doc{ID: fmt.Sprintf("%d-%d", i%10, i), Text: fmt.Sprintf("%d %s", i, text.String())})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Apply(ctx, ops...); err != nil {
			t.Fatal(err)
		}
	}
	before := heap()
	reader := must(search.New(nil))(t)
	if n, err := reader.Len(ctx, store); err != nil || n != docs {
		t.Fatalf("%d documents, error %v", n, err)
	}
	held := heap() - before
	runtime.KeepAlive(reader)
	runtime.KeepAlive(writer)
	t.Logf("%d KB are held for %d postings", held>>10, docs*words)
	if most := uint64(docs * words * 10); held > most { // four bytes for each, the terms, and room to grow
		t.Errorf("%d KB are held, over %d", held>>10, most>>10)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
