package engine

import (
	"context"
	"iter"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stratamem/strata/storage"
)

// Hub delivers the changes of one store to its watchers. The zero Hub is ready.
// A store publishes changes in the order in which it made them.
type Hub struct {
	// Buffer is how many undelivered events a watcher may have before further ones
	// become a single overflow event; 0 means 1,024.
	Buffer int

	watching atomic.Int32 // so that publishing to nobody costs one load
	mu       sync.Mutex
	subs     map[*subscriber]struct{}
	closed   bool
}

type subscriber struct {
	prefix string
	wake   chan struct{} // holds a token while there is something to read

	mu     sync.Mutex
	events []storage.Event
	lost   bool // the last of events is an overflow, which stands for all that follow
	closed bool
}

// Watched reports whether anyone would see an event. Engines ask before they
// build events.
func (h *Hub) Watched() bool { return h.watching.Load() > 0 }

// Publish delivers events to the watchers of their keys. It does not block.
func (h *Hub) Publish(events ...storage.Event) {
	if !h.Watched() {
		return
	}
	limit := h.Buffer
	if limit <= 0 {
		limit = 1024
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.subs {
		sub.add(events, limit)
	}
}

func (s *subscriber) add(events []storage.Event, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ev := range events {
		if s.lost || ev.Kind != storage.EventOverflow && !strings.HasPrefix(ev.Key, s.prefix) {
			continue
		}
		if len(s.events) >= limit {
			s.lost = true
			ev = storage.Event{Kind: storage.EventOverflow}
		}
		s.events = append(s.events, ev)
		s.signal()
	}
}

func (s *subscriber) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Watch implements [storage.Watcher].
func (h *Hub) Watch(ctx context.Context, prefix string) (iter.Seq2[storage.Event, error], error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sub := &subscriber{prefix: prefix, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, storage.ErrClosed
	}
	if h.subs == nil {
		h.subs = make(map[*subscriber]struct{})
	}
	h.subs[sub] = struct{}{}
	h.watching.Add(1)
	h.mu.Unlock()
	// A sequence that nobody ranges over is given up when ctx ends.
	stop := context.AfterFunc(ctx, func() { h.drop(sub) })
	return func(yield func(storage.Event, error) bool) {
		defer h.drop(sub)
		defer stop()
		for {
			events, closed := sub.take()
			for _, ev := range events {
				if ctx.Err() != nil {
					break
				}
				if !yield(ev, nil) {
					return
				}
			}
			switch {
			case ctx.Err() != nil:
				yield(storage.Event{}, ctx.Err())
				return
			case closed:
				yield(storage.Event{}, storage.ErrClosed)
				return
			}
			select {
			case <-ctx.Done():
			case <-sub.wake:
			}
		}
	}, nil
}

// take empties the buffer.
func (s *subscriber) take() (events []storage.Event, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events, s.events, s.lost = s.events, nil, false
	return events, s.closed
}

func (h *Hub) drop(sub *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.subs[sub]; ok {
		delete(h.subs, sub)
		h.watching.Add(-1)
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.closed = true
	sub.events = nil
	sub.signal()
}

// Close ends every watch with [storage.ErrClosed] once it has delivered its
// buffered events.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for sub := range h.subs {
		sub.mu.Lock()
		sub.closed = true
		sub.signal()
		sub.mu.Unlock()
	}
}
