package storage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
)

func unsupported(op string, a Adapter) error {
	return fmt.Errorf("%s: %T: %w", op, a, ErrUnsupported)
}

// Scan yields the entries whose keys start with prefix, in byte order or
// against it. nil opts scan everything. On an engine that is no [Scanner] it
// lists the keys and gets each, leaving out those that are deleted meanwhile.
func Scan(ctx context.Context, a Adapter, prefix string, opts *ScanOptions) iter.Seq2[Entry, error] {
	if s, ok := a.(Scanner); ok {
		return s.Scan(ctx, prefix, opts)
	}
	if opts == nil {
		opts = &ScanOptions{}
	}
	return func(yield func(Entry, error) bool) {
		n := 0
		for key, err := range scanKeys(ctx, a, prefix, opts) {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			value, version, err := a.Get(ctx, key)
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !yield(Entry{Key: key, Value: value, Version: version}, nil) {
				return
			}
			if n++; n == opts.Limit {
				return
			}
		}
	}
}

// Groups yields the groups that the keys with a prefix are of, in byte order, each
// once. of returns the group of a key, what all of its keys have before a "/",
// or false for a key that is of none. It reads an entry for each group, not those
// that it has.
func Groups(ctx context.Context, a Adapter, prefix string, of func(key string) (group string, ok bool)) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for after, more := "", true; more; {
			more = false
			for e, err := range Scan(ctx, a, prefix, &ScanOptions{After: after, Limit: 1}) {
				if err != nil {
					yield("", err)
					return
				}
				more, after = true, e.Key
				if group, ok := of(e.Key); ok {
					if !yield(group, nil) {
						return
					}
					after = group + "0" // the byte after "/": beyond all of it
				}
			}
		}
	}
}

// scanKeys is the List of the keys that opts admits, in the order of opts.
func scanKeys(ctx context.Context, a Adapter, prefix string, opts *ScanOptions) iter.Seq2[string, error] {
	if !opts.Reverse {
		return func(yield func(string, error) bool) {
			for key, err := range a.List(ctx, prefix) {
				if err == nil && opts.After != "" && key <= opts.After {
					continue
				}
				if !yield(key, err) || err != nil {
					return
				}
			}
		}
	}
	return func(yield func(string, error) bool) {
		var keys []string
		for key, err := range a.List(ctx, prefix) {
			if err != nil {
				yield("", err)
				return
			}
			if opts.After == "" || key < opts.After {
				keys = append(keys, key)
			}
		}
		for _, key := range slices.Backward(keys) {
			if !yield(key, nil) {
				return
			}
		}
	}
}

// Find yields the documents that q selects, in key order. On an engine that is
// no [Finder] it scans the documents with the prefix and tests each.
func Find(ctx context.Context, a Adapter, q Query) iter.Seq2[Entry, error] {
	if f, ok := a.(Finder); ok {
		return f.Find(ctx, q)
	}
	return func(yield func(Entry, error) bool) {
		n := 0
		for e, err := range Scan(ctx, a, q.Prefix, nil) {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !q.Match(e.Key, e.Value) {
				continue
			}
			if !yield(e, nil) {
				return
			}
			if n++; n == q.Limit {
				return
			}
		}
	}
}

// EnsureIndex declares top-level fields for [Find]. On an engine that is no
// [Finder] it does nothing: Find reads every document there.
func EnsureIndex(ctx context.Context, a Adapter, fields ...string) error {
	if f, ok := a.(Finder); ok {
		return f.EnsureIndex(ctx, fields...)
	}
	return nil
}

// Watch subscribes to changes of keys that start with prefix; see [Watcher].
// An engine that is no Watcher gives [ErrUnsupported].
func Watch(ctx context.Context, a Adapter, prefix string) (iter.Seq2[Event, error], error) {
	w, ok := a.(Watcher)
	if !ok {
		return nil, unsupported("watch", a)
	}
	return w.Watch(ctx, prefix)
}

// StatsOf describes the store. An engine that is no [Statter] gives
// [ErrUnsupported].
func StatsOf(ctx context.Context, a Adapter) (Stats, error) {
	s, ok := a.(Statter)
	if !ok {
		return Stats{}, unsupported("stats", a)
	}
	return s.Stats(ctx)
}

// Check reads the whole store and yields the damage it finds; nothing yielded
// means sound. An engine that is no [Checker] gives [ErrUnsupported].
func Check(ctx context.Context, a Adapter) iter.Seq2[Fault, error] {
	if c, ok := a.(Checker); ok {
		return c.Check(ctx)
	}
	return func(yield func(Fault, error) bool) {
		yield(Fault{}, unsupported("check", a))
	}
}

// Unreadable yields what stands in the place of documents with the prefix and
// cannot be read as one; see [UnreadableLister]. Who must not overlook a document
// asks for it beside [Find]. An engine that is no UnreadableLister yields nothing:
// it leaves nothing out, and damage there is an error of Get, Scan and Find.
func Unreadable(ctx context.Context, a Adapter, prefix string) iter.Seq2[Fault, error] {
	if l, ok := a.(UnreadableLister); ok {
		return l.Unreadable(ctx, prefix)
	}
	return func(func(Fault, error) bool) {}
}

// Compact gives back space that deleted and replaced values held. An engine
// that is no [Compacter] gives [ErrUnsupported].
func Compact(ctx context.Context, a Adapter) error {
	c, ok := a.(Compacter)
	if !ok {
		return unsupported("compact", a)
	}
	return c.Compact(ctx)
}

// Snapshot returns the store as it is at one moment; see [Snapshotter]. The
// caller closes it. An engine that is no Snapshotter gives [ErrUnsupported].
func Snapshot(ctx context.Context, a Adapter) (Adapter, error) {
	s, ok := a.(Snapshotter)
	if !ok {
		return nil, unsupported("snapshot", a)
	}
	return s.Snapshot(ctx)
}
