package memory

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// queues are where the runs of one Memory wait for one another to write a key:
// the head of a lineage, the state of a layer. Who comes first writes first; who
// waits for no key of another never waits. A key that is contested would else be
// written by whoever is quickest, and the others would try ten times and give up.
//
// A batch enters with all of its keys, in byte order, so that no two wait for
// each other. While it is inside no hook runs, and it waits for nothing that
// belongs to a run.
type queues struct {
	mu   sync.Mutex
	held map[string][]chan struct{} // by key that a batch holds: who waits for it, in order
}

// enter waits until no other batch holds one of keys, which are sorted, and holds
// them. If ctx ends before, it holds none.
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

// hold takes the keys after the first n. It returns how many are held then, and,
// if that is not all, what is closed when the next one is.
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

// withdraw takes somebody out of the queue for a key, and reports whether it
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

// leave hands each key to who has waited longest for it.
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

// moves count, by key, the batches of one Memory that may have changed it, so that
// who holds a key knows whether what it read before is out of date. Keys share
// counters: to be told so wrongly costs a read.
type moves [1 << 10]atomic.Uint64

// of returns the counter of a key. It is read before the key is.
func (m *moves) of(key string) *atomic.Uint64 {
	sum := uint32(2166136261) // FNV-1a
	for i := range len(key) {
		sum = (sum ^ uint32(key[i])) * 16777619
	}
	return &m[sum%uint32(len(m))]
}
