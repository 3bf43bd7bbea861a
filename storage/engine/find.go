package engine

import (
	"context"
	"iter"
	"strings"

	"github.com/stratamem/strata/storage"
)

// Find answers q: with page if q has a condition on a field, or else with scan,
// keeping only documents. page reads the next n hits of a plan and reports
// whether more may follow.
func Find(ctx context.Context, q storage.Query,
	page func(p *Plan, n int) ([]storage.Entry, bool, error),
	scan func(context.Context, string, *storage.ScanOptions) iter.Seq2[storage.Entry, error],
) iter.Seq2[storage.Entry, error] {
	if len(q.Equal) == 0 && q.Range == nil {
		if strings.HasPrefix(q.Prefix, "_") {
			return func(func(storage.Entry, error) bool) {} // records only
		}
		opts := &storage.ScanOptions{Limit: q.Limit}
		if q.Prefix == "" {
			opts.After = "`" // records sort before it, documents after it
		}
		return scan(ctx, q.Prefix, opts)
	}
	return func(yield func(storage.Entry, error) bool) {
		p := NewPlan(q)
		read := func(n int) ([]storage.Entry, bool, error) { return page(p, n) }
		for e, err := range Pages(ctx, max(q.Limit, 0), read) {
			if !yield(e, err) {
				return
			}
		}
	}
}
