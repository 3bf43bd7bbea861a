package bolt_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/bolt"
	"go.etcd.io/bbolt"
)

// The benchmarks compare: each iteration is a short round of the store and one
// of the other, which goes first in turn, so that what else the machine does
// hits both. x is the median over the rounds of the store's time by the
// other's: below 1 the store is faster. The other is bbolt itself, if nothing
// else is said. Run them with -benchtime 50x.

func benchPlace(i int) int { return i * 7919 % 100_003 }

func benchKey(i int) string { return fmt.Sprintf("doc/%06d", benchPlace(i)) }

// Documents of one status are far from each other, those of one shelf are
// neighbours.
func benchDocument(i int) []byte {
	return fmt.Appendf(nil, `{"type":"doc","layer":"l%d","status":"s%d","shelf":"%d","tags":["t%d","u%d"],"team_id":"%d","body":"%s"}`,
		i%7, i%100, benchPlace(i)/1000, i%31, i%1009, i%13, strings.Repeat("lorem ipsum ", 75))
}

func openDirect(b *testing.B, sync bool) *bbolt.DB {
	b.Helper()
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "direct.db"), 0o600, &bbolt.Options{NoSync: !sync, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	return db
}

// put sets keys in one commit.
func put(db *bbolt.DB, ops ...storage.Op) error {
	return db.Update(func(tx *bbolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists([]byte("data"))
		for i := 0; i < len(ops) && err == nil; i++ {
			err = bucket.Put([]byte(ops[i].Key), ops[i].Value)
		}
		return err
	})
}

func openStore(b *testing.B, opts *bolt.Options, fields ...string) *bolt.Store {
	b.Helper()
	s, err := bolt.Open(b.Context(), filepath.Join(b.TempDir(), "store.db"), opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	if err := s.EnsureIndex(b.Context(), fields...); err != nil {
		b.Fatal(err)
	}
	return s
}

// compare has writers call each function calls times a round, with a number
// that no call had before.
func compare(b *testing.B, writers, calls int, store, other func(i int) error) {
	var ratios []float64
	var took [2]time.Duration
	next := [2]int{}
	for round := 0; b.Loop(); round++ {
		var now [2]time.Duration
		for side := range 2 {
			side = (side + round) % 2
			from, f := next[side], [2]func(int) error{store, other}[side]
			next[side] += calls
			start := time.Now()
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for i := from + w; i < from+calls; i += writers {
						if err := f(i); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			now[side] = time.Since(start)
			took[side] += now[side]
		}
		ratios = append(ratios, float64(now[0])/float64(now[1]))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x")
	for side, name := range []string{"store-µs", "other-µs"} {
		b.ReportMetric(float64(took[side].Microseconds())/float64(next[side]), name)
	}
}

func BenchmarkSet(b *testing.B) {
	ctx := b.Context()
	for _, writers := range []int{1, 16} {
		set := func(s *bolt.Store) func(i int) error {
			return func(i int) error { return storage.Set(ctx, s, benchKey(i), benchDocument(i)) }
		}
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			db := openDirect(b, true)
			compare(b, writers, 8*writers, set(openStore(b, nil)), func(i int) error {
				return put(db, storage.Put(benchKey(i), benchDocument(i)))
			})
		})
		b.Run(fmt.Sprintf("%d/indexed", writers), func(b *testing.B) { // the other is the store without indexes
			indexed := openStore(b, nil, "type", "layer", "status", "tags", "team_id")
			compare(b, writers, 8*writers, set(indexed), set(openStore(b, nil)))
		})
	}
}

func BenchmarkRead(b *testing.B) {
	ctx := b.Context()
	const n = 100_000
	s := openStore(b, &bolt.Options{Durability: storage.None}, "status", "shelf")
	db := openDirect(b, false)
	var ops []storage.Op
	for i := range n {
		if ops = append(ops, storage.Put(benchKey(i), benchDocument(i))); len(ops) < 1000 {
			continue
		}
		err := errors.Join(s.Apply(ctx, ops...), put(db, ops...))
		if err != nil {
			b.Fatal(err)
		}
		ops = ops[:0]
	}
	scan := func(int) error {
		return db.View(func(tx *bbolt.Tx) error {
			c := tx.Bucket([]byte("data")).Cursor()
			i := 0
			for k, v := c.Seek([]byte("doc/")); k != nil && i < 1000; k, v = c.Next() {
				_, _ = string(k), bytes.Clone(v)
				i++
			}
			return nil
		})
	}
	find := func(field, value string) func(int) error {
		return func(int) (err error) {
			found := 0
			for _, err = range s.Find(ctx, storage.Query{Equal: map[string]string{field: value}}) {
				found++
			}
			if err == nil && (found < 990 || found > 1000) { // three keys are nobody's
				err = fmt.Errorf("found %d", found)
			}
			return err
		}
	}
	b.Run("get", func(b *testing.B) {
		compare(b, 1, 200, func(i int) error {
			_, _, err := s.Get(ctx, benchKey(i%n))
			return err
		}, func(i int) error {
			return db.View(func(tx *bbolt.Tx) error {
				bytes.Clone(tx.Bucket([]byte("data")).Get([]byte(benchKey(i % n))))
				return nil
			})
		})
	})
	b.Run("scan1000", func(b *testing.B) {
		compare(b, 1, 1, func(int) (err error) {
			for _, err = range s.Scan(ctx, "doc/", &storage.ScanOptions{Limit: 1000}) {
			}
			return err
		}, scan)
	})
	b.Run("find1000/near", func(b *testing.B) { compare(b, 1, 1, find("shelf", "50"), scan) })
	b.Run("find1000/far", func(b *testing.B) { compare(b, 1, 1, find("status", "s7"), scan) })
	b.Run("find1000/far/gets", func(b *testing.B) { // the other gets the same documents by their keys, in order
		var keys []string
		for i := 7; i < n; i += 100 {
			keys = append(keys, benchKey(i))
		}
		slices.Sort(keys)
		compare(b, 1, 1, find("status", "s7"), func(int) error {
			return db.View(func(tx *bbolt.Tx) error {
				bucket := tx.Bucket([]byte("data"))
				for _, key := range keys {
					bytes.Clone(bucket.Get([]byte(key)))
				}
				return nil
			})
		})
	})
}
