package badger_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	direct "github.com/dgraph-io/badger/v4"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/badger"
)

// The benchmarks compare: each iteration is a short round of the store and one
// of the other, which goes first in turn, so that what else the machine does
// hits both. x is the median over the rounds of the store's time by the
// other's: below 1 the store is faster. The other is badger itself with its
// default options, if nothing else is said. Run them with -benchtime 50x.

func benchKey(i int) string { return fmt.Sprintf("doc/%06d", i*7919%100_003) }

func benchDocument(i int) []byte {
	return fmt.Appendf(nil, `{"type":"doc","layer":"l%d","status":"s%d","tags":["t%d","u%d"],"team_id":"%d","body":"%s"}`,
		i%7, i%100, i%31, i%1009, i%13, strings.Repeat("lorem ipsum ", 75))
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

func openStore(b *testing.B, opts *badger.Options, fields ...string) *badger.Store {
	b.Helper()
	s, err := badger.Open(b.Context(), filepath.Join(b.TempDir(), "store"), opts)
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
		set := func(s *badger.Store) func(i int) error {
			return func(i int) error { return storage.Set(ctx, s, benchKey(i), benchDocument(i)) }
		}
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			db := openDirect(b, true)
			compare(b, writers, 32*writers, set(openStore(b, nil)), func(i int) error {
				return db.Update(func(txn *direct.Txn) error { return txn.Set([]byte(benchKey(i)), benchDocument(i)) })
			})
		})
		b.Run(fmt.Sprintf("%d/indexed", writers), func(b *testing.B) { // the other is the store without indexes
			indexed := openStore(b, nil, "type", "layer", "status", "tags", "team_id")
			compare(b, writers, 32*writers, set(indexed), set(openStore(b, nil)))
		})
	}
}

func BenchmarkRead(b *testing.B) {
	ctx := b.Context()
	const n = 100_000
	s := openStore(b, &badger.Options{Durability: storage.None}, "status")
	db := openDirect(b, false)
	var ops []storage.Op
	for i := range n {
		if ops = append(ops, storage.Put(benchKey(i), benchDocument(i))); len(ops) < 1000 {
			continue
		}
		err := s.Apply(ctx, ops...)
		err = errors.Join(err, db.Update(func(txn *direct.Txn) error {
			for _, op := range ops {
				if err := txn.Set([]byte(op.Key), op.Value); err != nil {
					return err
				}
			}
			return nil
		}))
		if err != nil {
			b.Fatal(err)
		}
		ops = ops[:0]
	}
	get := func(txn *direct.Txn, key string) error {
		item, err := txn.Get([]byte(key))
		if err == nil {
			_, err = item.ValueCopy(nil)
		}
		return err
	}
	scan := func(int) error {
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
	}
	find := func(int) (err error) {
		found := 0
		for _, err = range s.Find(ctx, storage.Query{Equal: map[string]string{"status": "s7"}}) {
			found++
		}
		if err == nil && found != n/100 {
			err = fmt.Errorf("found %d", found)
		}
		return err
	}
	b.Run("get", func(b *testing.B) {
		compare(b, 1, 200, func(i int) error {
			_, _, err := s.Get(ctx, benchKey(i%n))
			return err
		}, func(i int) error {
			return db.View(func(txn *direct.Txn) error { return get(txn, benchKey(i%n)) })
		})
	})
	b.Run("scan1000", func(b *testing.B) {
		compare(b, 1, 1, func(int) (err error) {
			for _, err = range s.Scan(ctx, "doc/", &storage.ScanOptions{Limit: 1000}) {
			}
			return err
		}, scan)
	})
	b.Run("find1000", func(b *testing.B) { compare(b, 1, 1, find, scan) })
	b.Run("find1000/gets", func(b *testing.B) { // the other gets the same documents by their keys, in order
		var keys []string
		for i := 7; i < n; i += 100 {
			keys = append(keys, benchKey(i))
		}
		slices.Sort(keys)
		compare(b, 1, 1, find, func(int) error {
			return db.View(func(txn *direct.Txn) error {
				for _, key := range keys {
					if err := get(txn, key); err != nil {
						return err
					}
				}
				return nil
			})
		})
	})
}
