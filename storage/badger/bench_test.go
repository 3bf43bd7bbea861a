package badger_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	direct "github.com/dgraph-io/badger/v4"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/badger"
)

// The benchmarks named direct do the same to badger itself, with its default
// options.

func benchKey(i int) string { return fmt.Sprintf("doc/%06d", i*7919%100_003) }

func benchDocument(i int) []byte {
	return fmt.Appendf(nil, `{"type":"doc","status":"s%d","body":"%s"}`, i%100, strings.Repeat("lorem ipsum ", 80))
}

func openDirect(b *testing.B, sync bool) *direct.DB {
	b.Helper()
	db, err := direct.Open(direct.DefaultOptions(filepath.Join(b.TempDir(), "direct")).WithSyncWrites(sync).WithLogger(nil))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	return db
}

func openStore(b *testing.B, opts *badger.Options) *badger.Store {
	b.Helper()
	s, err := badger.Open(b.Context(), filepath.Join(b.TempDir(), "store"), opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
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

func BenchmarkSet(b *testing.B) {
	ctx := b.Context()
	for _, level := range []struct {
		name string
		d    storage.Durability
	}{{"full", storage.Full}, {"process", storage.Process}} {
		for _, writers := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", level.name, writers), func(b *testing.B) {
				s := openStore(b, &badger.Options{Durability: level.d})
				concurrently(b, writers, func(i int) error { return s.Set(ctx, benchKey(i), benchDocument(i)) })
			})
			b.Run(fmt.Sprintf("%s/%d/indexed", level.name, writers), func(b *testing.B) {
				s := openStore(b, &badger.Options{Durability: level.d})
				if err := s.EnsureIndex(ctx, "type", "layer", "status", "tags", "team_id"); err != nil {
					b.Fatal(err)
				}
				concurrently(b, writers, func(i int) error {
					return s.Set(ctx, benchKey(i), fmt.Appendf(nil,
						`{"type":"doc","layer":"l%d","status":"s%d","tags":["t%d","u%d"],"team_id":"%d","body":"%s"}`,
						i%7, i%100, i%31, i%1009, i%13, strings.Repeat("lorem ipsum ", 75)))
				})
			})
			b.Run(fmt.Sprintf("%s/%d/direct", level.name, writers), func(b *testing.B) {
				db := openDirect(b, level.d == storage.Full)
				concurrently(b, writers, func(i int) error {
					return db.Update(func(txn *direct.Txn) error { return txn.Set([]byte(benchKey(i)), benchDocument(i)) })
				})
			})
		}
	}
}

func BenchmarkRead(b *testing.B) {
	ctx := b.Context()
	const n = 100_000
	s := openStore(b, &badger.Options{Durability: storage.None})
	db := openDirect(b, false)
	if err := s.EnsureIndex(ctx, "status"); err != nil {
		b.Fatal(err)
	}
	var ops []storage.Op
	for i := range n {
		if ops = append(ops, storage.Put(benchKey(i), benchDocument(i))); len(ops) < 1000 {
			continue
		}
		if err := s.Apply(ctx, ops...); err != nil {
			b.Fatal(err)
		}
		err := db.Update(func(txn *direct.Txn) error {
			for _, op := range ops {
				if err := txn.Set([]byte(op.Key), op.Value); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		ops = ops[:0]
	}
	b.Run("get", func(b *testing.B) {
		concurrently(b, 1, func(i int) error {
			_, err := s.Get(ctx, benchKey(i%n))
			return err
		})
	})
	b.Run("get/direct", func(b *testing.B) {
		concurrently(b, 1, func(i int) error {
			return db.View(func(txn *direct.Txn) error {
				item, err := txn.Get([]byte(benchKey(i % n)))
				if err == nil {
					_, err = item.ValueCopy(nil)
				}
				return err
			})
		})
	})
	b.Run("scan1000", func(b *testing.B) {
		concurrently(b, 1, func(int) (err error) {
			for _, err = range s.Scan(ctx, "doc/", &storage.ScanOptions{Limit: 1000}) {
			}
			return err
		})
	})
	b.Run("scan1000/direct", func(b *testing.B) {
		concurrently(b, 1, func(int) error {
			return db.View(func(txn *direct.Txn) error {
				it := txn.NewIterator(direct.DefaultIteratorOptions)
				defer it.Close()
				i := 0
				for it.Seek([]byte("doc/")); it.Valid() && i < 1000; it.Next() {
					it.Item().KeyCopy(nil)
					if _, err := it.Item().ValueCopy(nil); err != nil {
						return err
					}
					i++
				}
				return nil
			})
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
}
