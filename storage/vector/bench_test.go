package vector_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/vector"
)

const crowdDim = 384

// fill makes an index of the first n of 100,000 vectors of 384 dimensions.
func fill(b *testing.B, store storage.Adapter, n int) (*vector.Index, storage.Scoped, [][]float32) {
	b.Helper()
	b.Cleanup(func() { _ = store.Close() })
	points, asked := crowd()
	scope := storage.Scope(store, "_vectors/a")
	ix := must(vector.New("model", crowdDim))(b)
	for part := range slices.Chunk(named(points[:n], 0), 4000) {
		upsert(b, ix, scope, part...)
	}
	return ix, scope, asked
}

func median(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)/2]
}

// BenchmarkSearch searches in turns by default and exactly.
func BenchmarkSearch(b *testing.B) {
	for _, n := range []int{600, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ix, scope, asked := fill(b, mem.New(), n)
			search := func(took []time.Duration, q vector.Query) []time.Duration {
				start := time.Now()
				must(ix.Search(b.Context(), scope, q))(b)
				return append(took, time.Since(start))
			}
			var usual, exact []time.Duration
			for i := 0; b.Loop(); i++ {
				v := asked[i%len(asked)]
				usual = search(usual, vector.Query{Vector: v})
				if i%10 == 0 {
					exact = search(exact, vector.Query{Vector: v, Exact: true})
				}
			}
			b.ReportMetric(float64(median(usual).Nanoseconds())/1e3, "p50-µs")
			b.ReportMetric(float64(median(exact).Nanoseconds())/1e3, "exact-p50-µs")
			b.ReportMetric(float64(median(exact))/float64(median(usual)), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkOpen reads an index of 100,000 in a bolt file, and tells what it
// takes in the store and in memory.
func BenchmarkOpen(b *testing.B) {
	const n = 100_000
	_, scope, _ := fill(b, boltStore(b, filepath.Join(b.TempDir(), "a.db")), n)
	size := 0
	for e, err := range scope.Scan(b.Context(), "", nil) {
		must(0, err)(b)
		size += len(e.Key) + len(e.Value)
	}
	var held float64
	var took []time.Duration
	for b.Loop() {
		before := heap()
		ix := must(vector.New("model", crowdDim))(b)
		start := time.Now()
		if got := must(ix.Len(b.Context(), scope))(b); got != n {
			b.Fatalf("index has %d vectors, want %d", got, n)
		}
		took = append(took, time.Since(start))
		held = float64(heap()) - float64(before)
		runtime.KeepAlive(ix)
	}
	b.ReportMetric(float64(median(took).Microseconds())/1e3, "p50-ms")
	b.ReportMetric(held/n, "memory-B/vector")
	b.ReportMetric(float64(size)/n, "stored-B/vector")
	b.ReportMetric(0, "ns/op")
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkUpsert appends one vector at a time to a bolt file, merges included.
func BenchmarkUpsert(b *testing.B) {
	for _, n := range []int{0, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ix, scope, _ := fill(b, boltStore(b, filepath.Join(b.TempDir(), "a.db")), n)
			more, _ := clouds[3].make(5000, 0, crowdDim, 2)
			var took []time.Duration
			written := 0
			for i := 0; b.Loop(); i++ {
				p := vector.Point{ID: fmt.Sprintf("turn-%07d", n+i), Vector: more[i%len(more)]}
				start := time.Now()
				ops := must(ix.Upsert(b.Context(), scope, p))(b)
				apply(b, ix, scope, ops)
				took = append(took, time.Since(start))
				for _, op := range ops {
					written += len(op.Key) + len(op.Value)
				}
			}
			all := time.Duration(0)
			for _, d := range took {
				all += d
			}
			b.ReportMetric(float64(all.Nanoseconds())/1e3/float64(len(took)), "mean-µs")
			b.ReportMetric(float64(median(took).Nanoseconds())/1e3, "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-µs")
			b.ReportMetric(float64(written)/float64(len(took)), "written-B/op")
			b.ReportMetric(0, "ns/op")
		})
	}
}
