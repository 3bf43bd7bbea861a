package storage

import (
	"context"
	"iter"
	"slices"
	"strings"
)

// Reader is what can be read like a namespace of a store: a [Scoped], or the
// records of a layer. Keys are relative.
type Reader interface {
	Get(ctx context.Context, key string) ([]byte, error)
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
	Scan(ctx context.Context, prefix string, opts *ScanOptions) iter.Seq2[Entry, error]
	// Limits returns what one change of the namespace may have, where Key is of
	// relative keys, and the prefix counts in a batch too.
	Limits() Limits
}

// Scoped is a namespace of a store: everything under one prefix, with keys
// relative to it. It cannot reach outside. The zero Scoped is of no use; make
// one with [Scope].
type Scoped struct {
	a      Adapter
	prefix string
}

// Scope returns the namespace of a below prefix, for example "_layers/notes"
// or "insight". A "/" at its end makes no difference.
func Scope(a Adapter, prefix string) Scoped {
	return Scoped{a, strings.TrimSuffix(prefix, "/") + "/"}
}

// Key returns the full key of rel, for use in an [Op].
func (s Scoped) Key(rel string) string { return s.prefix + rel }

// Adapter returns the whole store, for a batch that has keys outside too.
func (s Scoped) Adapter() Adapter { return s.a }

// Limits returns what the store takes, for relative keys.
func (s Scoped) Limits() Limits { return LimitsOf(s.a).Below(s.prefix) }

// Apply is [Adapter] Apply with operations whose keys are relative.
func (s Scoped) Apply(ctx context.Context, ops ...Op) error {
	full := slices.Clone(ops)
	for i := range full {
		full[i].Key = s.Key(full[i].Key)
	}
	return s.a.Apply(ctx, full...)
}

// Get returns the value of a relative key, or an error that is [ErrNotFound].
func (s Scoped) Get(ctx context.Context, rel string) ([]byte, error) {
	value, _, err := s.a.Get(ctx, s.Key(rel))
	return value, err
}

// List is [Adapter] List with a relative prefix; it yields relative keys.
func (s Scoped) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for key, err := range s.a.List(ctx, s.Key(prefix)) {
			if !yield(strings.TrimPrefix(key, s.prefix), err) {
				return
			}
		}
	}
}

// Scan is the function [Scan] with a relative prefix; After and the keys of
// the entries are relative too.
func (s Scoped) Scan(ctx context.Context, prefix string, opts *ScanOptions) iter.Seq2[Entry, error] {
	var full ScanOptions
	if opts != nil {
		full = *opts
		if full.After != "" {
			full.After = s.Key(full.After)
		}
	}
	return func(yield func(Entry, error) bool) {
		for e, err := range Scan(ctx, s.a, s.Key(prefix), &full) {
			e.Key = strings.TrimPrefix(e.Key, s.prefix)
			if !yield(e, err) {
				return
			}
		}
	}
}
