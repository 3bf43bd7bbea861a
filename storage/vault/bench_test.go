package vault_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/vault"
)

// The benchmarks named plain write files of the same content by a temporary
// file, fsync, rename and fsync of the directory each.

func benchKey(i int) string { return fmt.Sprintf("doc/%06d", i*7919%1_000_003) }

func benchDocument(i int) []byte {
	return fmt.Appendf(nil, `{"type":"doc","status":"s%d","layer":"l","tags":["a","b"],"body":"%s"}`, i%100, strings.Repeat("lorem ipsum ", 80))
}

// concurrently shares b.N calls of f among writers.
func concurrently(b *testing.B, writers int, f func(i int) error) {
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < b.N; i += writers {
				if err := f(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func benchOpen(b testing.TB, dir string, d storage.Durability) *vault.Store {
	b.Helper()
	s, err := vault.Open(context.Background(), dir, &vault.Options{Durability: d, Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func plain(dir string, i int) error {
	temp := filepath.Join(dir, fmt.Sprintf(".tmp.%d", i))
	f, err := os.Create(temp)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(benchDocument(i)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(dir, fmt.Sprintf("%06d.md", i*7919%1_000_003))); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func BenchmarkCreate(b *testing.B) {
	ctx := b.Context()
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("full/%d", writers), func(b *testing.B) {
			s := benchOpen(b, b.TempDir(), storage.Full)
			defer s.Close()
			concurrently(b, writers, func(i int) error { return storage.Set(ctx, s, benchKey(i), benchDocument(i)) })
		})
		b.Run(fmt.Sprintf("full/%d/plain", writers), func(b *testing.B) {
			dir := b.TempDir()
			concurrently(b, writers, func(i int) error { return plain(dir, i) })
		})
		b.Run(fmt.Sprintf("process/%d", writers), func(b *testing.B) {
			s := benchOpen(b, b.TempDir(), storage.Process)
			defer s.Close()
			concurrently(b, writers, func(i int) error { return storage.Set(ctx, s, benchKey(i), benchDocument(i)) })
		})
	}
}

// filled makes a vault of n documents once for all benchmarks.
func filled(b *testing.B, n int) string {
	b.Helper()
	fillMu.Lock()
	defer fillMu.Unlock()
	if dir, ok := fills[n]; ok {
		return dir
	}
	dir, err := os.MkdirTemp("", "strata-vault-bench")
	if err != nil {
		b.Fatal(err)
	}
	s := benchOpen(b, dir, storage.None)
	if err := s.EnsureIndex(b.Context(), "type", "status", "layer", "tags"); err != nil {
		b.Fatal(err)
	}
	var ops []storage.Op
	for i := range n {
		ops = append(ops, storage.Put(benchKey(i), benchDocument(i)))
		if len(ops) == 1000 || i == n-1 {
			if err := s.Apply(b.Context(), ops...); err != nil {
				b.Fatal(err)
			}
			ops = ops[:0]
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	fills[n] = dir
	return dir
}

var (
	fillMu sync.Mutex
	fills  = map[int]string{}
)

func TestMain(m *testing.M) {
	code := m.Run()
	for _, dir := range fills {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// BenchmarkCreateTail reports percentiles of creates in a vault that is small
// and in one that is not.
func BenchmarkCreateTail(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := benchOpen(b, filled(b, n), storage.Full)
			defer s.Close()
			took := make([]time.Duration, 0, b.N)
			b.ResetTimer()
			for i := range b.N {
				start := time.Now()
				if err := storage.Set(b.Context(), s, fmt.Sprintf("new/%d-%d", i, b.N), benchDocument(i)); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			b.StopTimer()
			for i := range b.N {
				if i%1000 == 0 {
					var ops []storage.Op
					for j := i; j < min(b.N, i+1000); j++ {
						ops = append(ops, storage.Remove(fmt.Sprintf("new/%d-%d", j, b.N)))
					}
					if err := s.Apply(b.Context(), ops...); err != nil {
						b.Fatal(err)
					}
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := filled(b, 100_000)
	for b.Loop() {
		s := benchOpen(b, dir, storage.Full)
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkRebuild(b *testing.B) {
	s := benchOpen(b, filled(b, 100_000), storage.Full)
	defer s.Close()
	for b.Loop() {
		if err := s.Rebuild(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	ctx := b.Context()
	const n = 100_000
	dir := filled(b, n)
	s := benchOpen(b, dir, storage.Full)
	defer s.Close()
	b.Run("get", func(b *testing.B) {
		concurrently(b, 1, func(i int) error {
			_, _, err := s.Get(ctx, benchKey(i%n))
			return err
		})
	})
	b.Run("get/plain", func(b *testing.B) {
		concurrently(b, 1, func(i int) error {
			_, err := os.ReadFile(filepath.Join(dir, benchKey(i%n)+".md"))
			return err
		})
	})
	b.Run("find1000", func(b *testing.B) {
		concurrently(b, 1, func(int) (err error) {
			found := 0
			for _, err = range s.Find(ctx, storage.Query{Equal: map[string]string{"status": "s7"}}) {
				found++
			}
			if err == nil && found != n/100 {
				err = fmt.Errorf("found %d", found)
			}
			return err
		})
	})
	b.Run("list1000", func(b *testing.B) {
		concurrently(b, 1, func(int) (err error) {
			found := 0
			for _, err = range s.List(ctx, "doc/") {
				if found++; found == 1000 {
					break
				}
			}
			return err
		})
	})
}
