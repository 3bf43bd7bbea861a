package engine

import (
	"context"
	"iter"
)

// The sizes of a page: it starts small, because many loops end early, and
// doubles.
const (
	firstPage = 32
	lastPage  = 1024
	// PageBytes is how many bytes of values a page should hold at most.
	PageBytes = 64 << 10
)

// Pages turns a function that reads one page into a sequence. read returns up
// to n more items and whether more may follow; it opens and closes its own
// transaction, so that none is open while the loop body runs. limit ends the
// sequence after so many items; 0 means no limit.
func Pages[T any](ctx context.Context, limit int, read func(n int) (items []T, more bool, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		left := limit
		for size := firstPage; ; size = min(2*size, lastPage) {
			if err := ctx.Err(); err != nil {
				yield(zero, err)
				return
			}
			n := size
			if limit > 0 {
				n = min(n, left)
			}
			items, more, err := read(n)
			if err != nil {
				yield(zero, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if left -= len(items); !more || limit > 0 && left <= 0 {
				return
			}
		}
	}
}
