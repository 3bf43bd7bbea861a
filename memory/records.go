package memory

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/stratamem/strata/storage"
)

// Records are the entries that a layer keeps besides its state, in one scope:
// documents, an index, what is too large or too numerous for a state. Hooks
// read them here and write them with [Change.Put] and [Change.Delete]; writes
// of earlier hooks in the same turn are visible already. Keys are relative to
// the scope: "/" joins segments, and storage.EscapeSegment turns any text into
// a segment.
//
// Records shows the store as of the phase to which it was given, although
// others may write it; it is safe for concurrent use.
type Records struct {
	m       *Memory
	prefix  string
	pending []write // not in the store yet; sorted, one for each key
}

// Key returns the full key of a record, as it is in the store: for an item's
// Refs.
func (r *Records) Key(key string) string { return r.prefix + key }

// Space distinguishes the Records of one scope, between two clears, in one
// Memory from all others. Layers use it as a key for what they cache about
// them.
type Space struct {
	m      *Memory
	prefix string
}

// Space returns the space to which r belongs.
func (r *Records) Space() Space { return Space{r.m, r.prefix} }

// Limits returns how much may be in a change: what the store accepts of a key
// and a value and, if its batches are smaller than usual, the layer's share of
// a batch, besides its state. A larger change is applied only if the other
// layers leave room.
func (r *Records) Limits() storage.Limits { return r.m.bounds.change.Below(r.prefix) }

// Get returns the value of key, or an error that is [storage.ErrNotFound].
func (r *Records) Get(ctx context.Context, key string) ([]byte, error) {
	if i, ok := r.find(key); ok {
		if r.pending[i].delete {
			return nil, &storage.KeyError{Op: "get", Key: r.prefix + key, Err: storage.ErrNotFound}
		}
		return slices.Clone(r.pending[i].value), nil
	}
	ctx, span := r.m.tracing.search(ctx, r.prefix, key)
	value, _, err := r.m.store.Get(ctx, r.prefix+key)
	if errors.Is(err, storage.ErrNotFound) {
		span.end(0, nil)
	} else {
		span.end(1, err)
	}
	return value, err
}

// List yields the keys that start with prefix, in byte order.
func (r *Records) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for e, err := range r.merge(prefix, nil, func(yield func(storage.Entry, error) bool) {
			for key, err := range r.m.store.List(ctx, r.prefix+prefix) {
				if !yield(storage.Entry{Key: key}, err) {
					return
				}
			}
		}) {
			if !yield(e.Key, err) {
				return
			}
		}
	}
}

// Scan yields the entries whose keys start with prefix, without versions. A nil
// opts scans everything, ascending. After in opts is relative too.
func (r *Records) Scan(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		var o, full storage.ScanOptions
		if opts != nil {
			o = *opts
		}
		full.Reverse = o.Reverse
		if o.After != "" {
			full.After = r.prefix + o.After
		}
		if len(r.pending) == 0 {
			full.Limit = o.Limit
		}
		ctx, span := r.m.tracing.search(ctx, r.prefix, "")
		n := 0
		for e, err := range r.merge(prefix, &o, storage.Scan(ctx, r.m.store, r.prefix+prefix, &full)) {
			if err != nil {
				span.end(n, err)
				yield(storage.Entry{}, err)
				return
			}
			n++
			if !yield(e, nil) || n == o.Limit {
				break
			}
		}
		span.end(n, nil)
	}
}

// merge overlays stored entries with the pending writes, and makes keys
// relative.
func (r *Records) merge(prefix string, opts *storage.ScanOptions, stored iter.Seq2[storage.Entry, error]) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		order := strings.Compare
		pending := r.under(prefix, opts)
		if opts != nil && opts.Reverse {
			slices.Reverse(pending)
			order = func(a, b string) int { return strings.Compare(b, a) }
		}
		next := func() bool {
			w := pending[0]
			pending = pending[1:]
			return w.delete || yield(storage.Entry{Key: w.key, Value: slices.Clone(w.value)}, nil)
		}
		for e, err := range stored {
			if err != nil {
				yield(storage.Entry{}, err)
				return
			}
			key := strings.TrimPrefix(e.Key, r.prefix)
			for len(pending) > 0 && order(pending[0].key, key) < 0 {
				if !next() {
					return
				}
			}
			if len(pending) > 0 && pending[0].key == key {
				if !next() {
					return
				}
				continue
			}
			if !yield(storage.Entry{Key: key, Value: e.Value}, nil) {
				return
			}
		}
		for len(pending) > 0 {
			if !next() {
				return
			}
		}
	}
}

// under returns the pending writes below prefix and beyond opts.After.
func (r *Records) under(prefix string, opts *storage.ScanOptions) []write {
	var under []write
	for _, w := range r.pending {
		if !strings.HasPrefix(w.key, prefix) {
			continue
		}
		if opts != nil && opts.After != "" {
			if o := strings.Compare(w.key, opts.After); o == 0 || (o < 0) != opts.Reverse {
				continue
			}
		}
		under = append(under, w)
	}
	return under
}

func (r *Records) find(key string) (int, bool) {
	return slices.BinarySearchFunc(r.pending, key, func(w write, key string) int { return strings.Compare(w.key, key) })
}

// with returns the records with further pending writes.
func (r *Records) with(writes []write) *Records {
	next := &Records{m: r.m, prefix: r.prefix, pending: slices.Clone(r.pending)}
	for _, w := range writes {
		if i, ok := next.find(w.key); ok {
			next.pending[i] = w
		} else {
			next.pending = slices.Insert(next.pending, i, w)
		}
	}
	return next
}
