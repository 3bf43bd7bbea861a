package vault

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

// view is a readable store: the state at one moment, with the files or a
// snapshot's copy of them.
type view struct {
	st    *state
	root  string
	store *Store   // whose files they are
	spool *os.File // of a snapshot
}

// source calls a function with a view that is valid while it runs.
type source func(ctx context.Context, fresh bool, f func(view) error) error

// entry reads the value of a key. It returns false if it is gone or not a
// document.
func (v view) entry(key string, it item) (storage.Entry, bool, error) {
	e := storage.Entry{Key: key}
	if it.doc == nil {
		value, err := it.record(key)
		e.Value, e.Version = value, it.version()
		return e, err == nil, err
	}
	d := it.doc
	if d.bad != "" {
		if storage.IsDocument(key) {
			return e, false, nil
		}
		return e, false, corrupt(key, d.path(v.root), noDocument("%s", d.bad))
	}
	text, err := v.text(d)
	if err == nil {
		e.Value, err = valueOf(key, d.dir, d.name, text)
	}
	var alien *errNoDocument
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return e, false, nil
	case errors.As(err, &alien) && storage.IsDocument(key):
		return e, false, nil // changed since: the next look at the file reports it
	case err != nil:
		return e, false, corrupt(key, d.path(v.root), err)
	}
	sum := digestOf(text)
	e.Version = sum.version()
	if v.store != nil && sum == d.digest && d.unseen {
		v.store.seen(key, sum)
	}
	return e, true, nil
}

func (v view) text(d *doc) ([]byte, error) {
	if v.spool == nil {
		text, _, err := v.store.readText(d.dir, d.name)
		return text, err
	}
	text := make([]byte, d.text.size)
	_, err := v.spool.ReadAt(text, d.text.at)
	return text, err
}

// walk visits the next n items of span, fewer if they fill a page, and narrows
// span to the rest. It reports whether there may be any.
func walk(st *state, span *engine.Span, n int, visit func(key string, it item) (size int, err error)) (more bool, err error) {
	left, size := n, 0
	step := func(key string, it item) bool {
		if span.Skips(key) || it.doc != nil && it.doc.bad != "" && storage.IsDocument(key) {
			return true
		}
		if !span.Holds(key) {
			return false
		}
		if left == 0 || size > engine.PageBytes {
			more = true
			return false
		}
		var k int
		if k, err = visit(key, it); err != nil {
			return false
		}
		span.Advance(key)
		left--
		size += k
		return true
	}
	switch {
	case !span.Reverse:
		st.items.Ascend(span.From, step)
	case span.From == "":
		st.items.Reverse(step)
	default:
		st.items.Descend(span.From, step)
	}
	return more, err
}

func listView(ctx context.Context, with source, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		span := engine.NewSpan(prefix, nil)
		fresh := true
		engine.Pages(ctx, 0, func(n int) (keys []string, more bool, err error) {
			err = with(ctx, fresh, func(v view) error {
				fresh = false
				more, err = walk(v.st, &span, n, func(key string, _ item) (int, error) {
					keys = append(keys, key)
					return 0, nil
				})
				return err
			})
			return keys, more, err
		})(yield)
	}
}

func scanView(ctx context.Context, with source, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		span := engine.NewSpan(prefix, opts)
		fresh := true
		engine.Pages(ctx, span.Limit, func(n int) (entries []storage.Entry, more bool, err error) {
			err = with(ctx, fresh, func(v view) error {
				fresh = false
				more, err = walk(v.st, &span, n, func(key string, it item) (int, error) {
					e, ok, err := v.entry(key, it)
					if ok {
						entries = append(entries, e)
					}
					return len(e.Value), err
				})
				return err
			})
			return entries, more, err
		})(yield)
	}
}

func findView(ctx context.Context, with source, q storage.Query) iter.Seq2[storage.Entry, error] {
	fresh := true
	return engine.Find(ctx, q, func(plan *engine.Plan, n int) (entries []storage.Entry, more bool, err error) {
		err = with(ctx, fresh, func(v view) error {
			fresh = false
			if err := engine.ValidateQuery(q, v.st.fields); err != nil {
				return err
			}
			size := 0
			for hit := range plan.Hits(func() engine.Cursor { return newCursor(v.st) }) {
				if it, ok := v.st.items.Get(hit.Key); ok {
					e, ok, err := v.entry(hit.Key, it)
					if err != nil {
						return err
					}
					if ok && (!hit.Verify && e.Version == it.version() || q.Match(hit.Key, e.Value)) {
						entries = append(entries, e)
						size += len(e.Value)
					}
				}
				if n--; n == 0 || size > engine.PageBytes {
					more = true
					break
				}
			}
			return nil
		})
		return entries, more, err
	}, func(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error] {
		return scanView(ctx, with, prefix, opts)
	})
}
