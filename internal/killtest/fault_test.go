package killtest_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/backup"
	"github.com/stratamem/strata/storage/bolt"
	"github.com/stratamem/strata/storage/mem"
)

// faults are engines that each do one thing wrong, over bolt.
var faults = map[string]func(ctx context.Context, s *bolt.Store) (storage.Adapter, error){
	"a batch is applied in two halves": func(_ context.Context, s *bolt.Store) (storage.Adapter, error) {
		return &changed{s, func(ctx context.Context, ops []storage.Op) error {
			half := len(ops) / 2
			if err := s.Apply(ctx, ops[:half]...); err != nil {
				return err
			}
			return s.Apply(ctx, heedless(ops[half:])...)
		}}, nil
	},
	"a batch is acknowledged before it is applied": func(ctx context.Context, s *bolt.Store) (storage.Adapter, error) {
		e := &early{Store: mem.New(), later: make(chan []storage.Op, 1<<16)}
		if _, err := backup.Copy(ctx, e.Store, s, nil); err != nil {
			return nil, err
		}
		go func() {
			for ops := range e.later {
				if err := s.Apply(ctx, ops...); err != nil {
					panic(err)
				}
			}
		}()
		return e, nil
	},
	"preconditions are not heeded": func(_ context.Context, s *bolt.Store) (storage.Adapter, error) {
		return &changed{s, func(ctx context.Context, ops []storage.Op) error { return s.Apply(ctx, heedless(ops)...) }}, nil
	},
	"records of governance are dropped": dropping(func(op storage.Op, _ int64) bool {
		return strings.HasPrefix(op.Key, "_canon/") || strings.HasPrefix(op.Key, "_governance/")
	}),
	"the state of a layer is dropped now and then": dropping(func(op storage.Op, n int64) bool {
		return strings.HasPrefix(op.Key, "_layers/ledger-thread/") && strings.HasSuffix(op.Key, "/state") && n%10 == 0
	}),
	"the record of a layer is dropped now and then": dropping(func(op storage.Op, n int64) bool {
		return strings.HasPrefix(op.Key, "_layers/semantic-recall/") && n%30 == 0
	}),
	"what is forgotten keeps its history": dropping(func(op storage.Op, _ int64) bool {
		return strings.HasPrefix(op.Key, "_history/") && op.Delete
	}),
	"links are not taken out": dropping(func(op storage.Op, _ int64) bool {
		return strings.HasPrefix(op.Key, "_links/") && op.Delete
	}),
	"the end of a run is dropped": dropping(func(op storage.Op, n int64) bool {
		return strings.HasPrefix(op.Key, "_runs/") && bytes.Contains(op.Value, []byte(`"outcome"`)) && n%3 == 0
	}),
}

func faulty(ctx context.Context, db storage.Adapter, fault string) (storage.Adapter, error) {
	if fault == "" {
		return db, nil
	}
	return faults[fault](ctx, db.(*bolt.Store))
}

// changed is an engine whose batches are applied in another way.
type changed struct {
	*bolt.Store
	apply func(ctx context.Context, ops []storage.Op) error
}

func (c *changed) Apply(ctx context.Context, ops ...storage.Op) error { return c.apply(ctx, ops) }

// dropping returns a fault that leaves operations out, by what they are and how
// many like them there were.
func dropping(drop func(op storage.Op, n int64) bool) func(context.Context, *bolt.Store) (storage.Adapter, error) {
	return func(_ context.Context, s *bolt.Store) (storage.Adapter, error) {
		var n atomic.Int64
		return &changed{s, func(ctx context.Context, ops []storage.Op) error {
			return s.Apply(ctx, slices.DeleteFunc(slices.Clone(ops), func(op storage.Op) bool { return drop(op, n.Add(1)) })...)
		}}, nil
	}
}

// heedless returns operations without their preconditions, which the caller may
// keep.
func heedless(ops []storage.Op) []storage.Op {
	ops = slices.Clone(ops)
	for i := range ops {
		ops[i].Check, ops[i].Value = false, slices.Clone(ops[i].Value)
	}
	return ops
}

// early acknowledges what is in memory, and applies it later.
type early struct {
	*mem.Store
	mu    sync.Mutex
	later chan []storage.Op
}

func (e *early) Apply(ctx context.Context, ops ...storage.Op) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.Store.Apply(ctx, ops...); err != nil {
		return err
	}
	e.later <- heedless(ops)
	return nil
}

// TestFaults: each fault is found within a few kills.
func TestFaults(t *testing.T) {
	const most = 50
	for _, fault := range slices.Sorted(maps.Keys(faults)) {
		t.Run(fault, func(t *testing.T) {
			kills := 0
			for kills < most {
				life := newLife(t, "bolt", rand.Uint64(), fault)
				problems, err := life.run(t, storeLife)
				kills += life.Kills
				if err := os.RemoveAll(life.dir); err != nil {
					t.Error(err)
				}
				if err != nil || len(problems) > 0 {
					first, _, _ := strings.Cut(fmt.Sprintf("%s%v", bytes.Join(problems[:min(1, len(problems))], nil), err), "\n")
					t.Logf("found after %d kills: %.300s", kills, first)
					return
				}
			}
			t.Errorf("not found in %d kills", kills)
		})
	}
}
