package bolt_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/bolt"
	"go.etcd.io/bbolt"
)

// The benchmarks named direct do the same to bbolt itself.

func benchKey(i int) string { return fmt.Sprintf("doc/%06d", i*7919%100_003) }

func benchDocument(i int) []byte {
	return fmt.Appendf(nil, `{"type":"doc","status":"s%d","body":"%s"}`, i%100, strings.Repeat("lorem ipsum ", 80))
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
				s, err := bolt.Open(ctx, filepath.Join(b.TempDir(), "b.db"), &bolt.Options{Durability: level.d})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				concurrently(b, writers, func(i int) error { return s.Set(ctx, benchKey(i), benchDocument(i)) })
			})
			b.Run(fmt.Sprintf("%s/%d/direct", level.name, writers), func(b *testing.B) {
				db, err := bbolt.Open(filepath.Join(b.TempDir(), "b.db"), 0o600, &bbolt.Options{
					NoSync: level.d != storage.Full, FreelistType: bbolt.FreelistMapType,
				})
				if err != nil {
					b.Fatal(err)
				}
				defer db.Close()
				concurrently(b, writers, func(i int) error {
					return db.Update(func(tx *bbolt.Tx) error {
						bucket, err := tx.CreateBucketIfNotExists([]byte("data"))
						if err != nil {
							return err
						}
						return bucket.Put([]byte(benchKey(i)), benchDocument(i))
					})
				})
			})
		}
	}
}

func BenchmarkRead(b *testing.B) {
	ctx := b.Context()
	const n = 20_000
	path := filepath.Join(b.TempDir(), "b.db")
	s, err := bolt.Open(ctx, path, &bolt.Options{Durability: storage.None})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	direct, err := bbolt.Open(path+".direct", 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	defer direct.Close()
	var ops []storage.Op
	for i := range n {
		if ops = append(ops, storage.Put(benchKey(i), benchDocument(i))); len(ops) < 1000 {
			continue
		}
		if err := s.Apply(ctx, ops...); err != nil {
			b.Fatal(err)
		}
		err := direct.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("data"))
			for _, op := range ops {
				if err == nil {
					err = bucket.Put([]byte(op.Key), op.Value)
				}
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		ops = ops[:0]
	}
	if err := s.EnsureIndex(ctx, "status"); err != nil {
		b.Fatal(err)
	}
	b.Run("get", func(b *testing.B) {
		concurrently(b, 1, func(i int) error {
			_, err := s.Get(ctx, benchKey(i%n))
			return err
		})
	})
	b.Run("get/direct", func(b *testing.B) {
		concurrently(b, 1, func(i int) error {
			return direct.View(func(tx *bbolt.Tx) error {
				bytes.Clone(tx.Bucket([]byte("data")).Get([]byte(benchKey(i % n))))
				return nil
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
			return direct.View(func(tx *bbolt.Tx) error {
				c := tx.Bucket([]byte("data")).Cursor()
				i := 0
				for k, v := c.First(); k != nil && i < 1000; k, v = c.Next() {
					_, _ = string(k), bytes.Clone(v)
					i++
				}
				return nil
			})
		})
	})
	b.Run("find200", func(b *testing.B) {
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
