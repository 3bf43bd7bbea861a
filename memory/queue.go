package memory

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// queues are where the runs of one Memory wait for each other to write a key:
// the head of a lineage, or the state of a layer. The first to come writes
// first; a run whose keys nobody else uses never waits. Without queues, the
// fastest would always write a contested key, and the others would try ten
// times and give up.
//
// A batch enters with all of its keys, in byte order, so that no two batches
// wait for each other. While it is inside, no hook runs, and it waits for
// nothing that belongs to a run.
type queues struct {
	mu   sync.Mutex
	held map[string][]chan struct{} // by key held by a batch: the waiters, in order
}

// enter waits until no other batch holds one of keys, which must be sorted, and
// then holds them. If ctx ends first, it holds none.
func (q *queues) enter(ctx context.Context, keys []string) error {
	n := 0
	for {
		var mine chan struct{}
		if n, mine = q.hold(keys, n); mine == nil {
			return nil
		}
		select {
		case <-mine: // the key was handed over
			n++
		case <-ctx.Done():
			if !q.withdraw(keys[n], mine) {
				n++
			}
			q.leave(keys[:n])
			return ctx.Err()
		}
	}
}

// hold takes the keys after the first n. It returns how many are held then and,
// if that is not all, a channel that is closed when the next one is.
func (q *queues) hold(keys []string, n int) (int, chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ; n < len(keys); n++ {
		waiting, busy := q.held[keys[n]]
		if busy {
			mine := make(chan struct{})
			q.held[keys[n]] = append(waiting, mine)
			return n, mine
		}
		if q.held == nil {
			q.held = make(map[string][]chan struct{})
		}
		q.held[keys[n]] = nil
	}
	return n, nil
}

// withdraw removes a waiter from the queue for a key, and reports whether it
// was still waiting.
func (q *queues) withdraw(key string, mine chan struct{}) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.held[key], mine)
	if i < 0 {
		return false
	}
	q.held[key] = slices.Delete(q.held[key], i, i+1)
	return true
}

// leave hands each key to the one who has waited longest for it.
func (q *queues) leave(keys []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range keys {
		waiting := q.held[key]
		if len(waiting) == 0 {
			delete(q.held, key)
			continue
		}
		q.held[key] = waiting[1:]
		close(waiting[0])
	}
}

// moves counts, by key, the batches of one Memory that may have changed it, so
// that the holder of a key knows whether what it read earlier is outdated. Keys
// share counters: a false alarm costs a read.
type moves [1 << 10]atomic.Uint64

// of returns the counter of a key. Read it before reading the key.
func (m *moves) of(key string) *atomic.Uint64 {
	sum := uint32(2166136261) // FNV-1a
	for i := range len(key) {
		sum = (sum ^ uint32(key[i])) * 16777619
	}
	return &m[sum%uint32(len(m))]
}
