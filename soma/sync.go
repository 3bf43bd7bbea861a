package soma

import (
	"context"
	"errors"
	"fmt"

	"github.com/stratamem/strata/storage"
)

// Sync takes what people have changed by hand into the history, the links and the
// index: new, changed and deleted documents. It reads every entity and returns
// how many it took in. Text that was written and replaced between two calls is
// in no history.
func (s *Store) Sync(ctx context.Context) (n int, err error) {
	r := s.reader()
	take := func(key string) error {
		took, err := s.takeIn(ctx, r, key)
		if took && err == nil {
			n++
		}
		if err != nil && !errors.Is(err, storage.ErrCorrupt) { // which is for Check to report
			return fmt.Errorf("take in edits: %w", err)
		}
		return nil
	}
	for entry, err := range storage.Scan(ctx, s.db, "", &storage.ScanOptions{After: "`"}) {
		if err != nil {
			return n, fmt.Errorf("take in edits: %w", err)
		}
		if err := take(entry.Key); err != nil {
			return n, err
		}
	}
	for key, err := range s.pastKeys(ctx, "") {
		if err != nil {
			return n, fmt.Errorf("take in edits: %w", err)
		}
		if err := take(key); err != nil {
			return n, err
		}
	}
	return n, nil
}

// takeIn takes in one entity, if it is not what the history says.
func (s *Store) takeIn(ctx context.Context, r *reader, key string) (took bool, err error) {
	err = s.change(ctx, func(b *batch) error {
		took = false
		last, err := s.lastVersion(ctx, key)
		if err != nil {
			return err
		}
		e, err := r.load(ctx, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if e == nil && last.Digest == "" {
			return nil
		}
		if e != nil && (e.digest() == last.Digest || last.says(e.Entity)) {
			return b.relinkMissing(ctx, e.Entity)
		}
		took = true
		return b.seen(ctx, key, e, last)
	})
	return took, err
}
