package mem_test

import (
	"fmt"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// BenchmarkApply is the batch that a turn commits: a layer's state, a log item
// and a turn record, 3 KB together.
func BenchmarkApply(b *testing.B) {
	s := mem.New()
	ctx := b.Context()
	state := make([]byte, 1200)
	logItem, turn := make([]byte, 900), make([]byte, 900)
	for i := range 1000 {
		storage.Set(ctx, s, fmt.Sprintf("_threads/t/%08d", i), logItem)
	}
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprintf("_threads/t/%08d", i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		err := s.Apply(ctx, storage.Put("_layers/notes/state", state),
			storage.Put(keys[i%len(keys)], logItem), storage.Put("_runs/r/turn", turn))
		if err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkSetDocument(b *testing.B) {
	s := mem.New()
	ctx := b.Context()
	s.EnsureIndex(ctx, "type", "status")
	doc := fmt.Appendf(nil, `{"type":"insight","status":"active","tags":["a","b"],"body":"%01000d"}`, 7)
	b.ReportAllocs()
	for b.Loop() {
		if err := storage.Set(ctx, s, "insight/a", doc); err != nil {
			b.Fatal(err)
		}
	}
}
