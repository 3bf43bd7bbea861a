package bolt

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
	"go.etcd.io/bbolt"
)

// mostFaults bounds the memory of a check; a file with more faults is beyond
// repair.
const mostFaults = 10_000

// Check implements [storage.Checker]. It runs bbolt's check of its pages,
// verifies the checksum of every value, and compares index and counts with the
// documents. Writes wait while it reads; the loop body runs after that.
func (s *Store) Check(ctx context.Context) iter.Seq2[storage.Fault, error] {
	return func(yield func(storage.Fault, error) bool) {
		if s.closed.Load() {
			yield(storage.Fault{}, storage.ErrClosed)
			return
		}
		c := checker{ctx: ctx, path: s.path, fields: *s.fields.Load()}
		err := s.group.Exclusive(ctx, func() error {
			if err := s.view(ctx, c.pages); err != nil || len(c.faults) > 0 {
				return err // the content of damaged pages is not examined
			}
			return s.view(ctx, c.content)
		})
		var damage *storage.CorruptError
		if errors.As(err, &damage) {
			c.fault("", damage.Reason, damage.Repair)
			err = nil
		}
		for _, f := range c.faults {
			if !yield(f, nil) {
				return
			}
		}
		if err != nil {
			yield(storage.Fault{}, err)
		}
	}
}

type checker struct {
	ctx    context.Context
	path   string
	fields []string
	faults []storage.Fault
}

func (c *checker) fault(key, reason, repair string) {
	if len(c.faults) < mostFaults {
		c.faults = append(c.faults, storage.Fault{Key: key, Path: c.path, Reason: reason, Repair: repair})
	}
}

// pages runs bbolt's own check of its structure.
func (c *checker) pages(tx *bbolt.Tx) error {
	for err := range tx.Check() {
		c.fault("", err.Error(), repairFile)
	}
	return c.ctx.Err()
}

// content checks the content of the pages.
func (c *checker) content(tx *bbolt.Tx) error {
	const rebuild = "copy the store to a new file"
	var n counts
	index := tx.Bucket(bucketIndex)
	entries, damaged := 0, false
	cur := tx.Bucket(bucketData).Cursor()
	for k, frame := cur.First(); k != nil; k, frame = cur.Next() {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		key := string(k)
		*n.of(key)++
		_, value, ok := unseal(tx, key, frame)
		if !ok {
			damaged = true
			c.fault(key, reasonChecksum, "replace or delete what has this key, or restore a backup")
			continue
		}
		if err := storage.ValidateEntry(key, value); err != nil {
			c.fault(key, err.Error(), "delete the key, or restore a backup")
			continue
		}
		if !storage.IsDocument(key) {
			continue
		}
		for _, entry := range engine.Entries(key, value, c.fields) {
			entries++
			if index.Get([]byte(entry)) == nil {
				c.fault(key, "the document is missing from the index", rebuild)
			}
		}
	}
	if stored, err := readCounts(tx); err != nil || stored != n {
		c.fault("", fmt.Sprintf("the store counts %d documents and %d records, it has %d and %d",
			stored.documents, stored.records, n.documents, n.records), rebuild)
	}
	have := 0
	for cur, k := index.Cursor(), []byte(nil); ; have++ {
		if have == 0 {
			k, _ = cur.First()
		} else {
			k, _ = cur.Next()
		}
		if k == nil {
			break
		}
	}
	if tx.Bucket(bucketPieces) != nil && !damaged {
		if n := len(strays(tx)); n > 0 {
			c.fault("", fmt.Sprintf("there are %d pieces without a value", n), rebuild)
		}
	}
	if !damaged && have > entries {
		c.fault("", fmt.Sprintf("the index has %d entries without a document", have-entries), rebuild)
	}
	return nil
}

// Compact implements [storage.Compacter]. It copies the store to a new file
// next to the old one, which the new one then replaces; the disk must have
// space for both. Writes wait meanwhile. A crash leaves the old file or the new
// one. It does not work on Windows, where an open file cannot be replaced.
func (s *Store) Compact(ctx context.Context) error {
	if s.closed.Load() {
		return storage.ErrClosed
	}
	if s.opts.ReadOnly {
		return fmt.Errorf("compact %s: %w", s.path, storage.ErrReadOnly)
	}
	return s.group.Exclusive(ctx, func() error {
		if s.closed.Load() {
			return storage.ErrClosed
		}
		err := s.compact(ctx)
		if err != nil && !errors.Is(err, storage.ErrCorrupt) {
			err = fmt.Errorf("compact %s: %w", s.path, diskError(err))
		}
		return err
	})
}

func (s *Store) compactPath() string { return s.path + ".compact" }

func (s *Store) compact(ctx context.Context) (err error) {
	temp := s.compactPath()
	if err := os.WriteFile(temp, nil, 0o600); err != nil {
		return err
	}
	renamed := false
	defer func() {
		if !renamed {
			err = errors.Join(err, os.Remove(temp))
		}
	}()
	// Lock the new file from here on, so that nobody can take it between the
	// rename and the close of the old one.
	to, err := s.openFile(temp)
	if err != nil {
		return err
	}
	from := s.db.Load()
	err = guard(s.path, func() error { return bbolt.Compact(to, from, 4<<20) })
	if err == nil {
		err = to.Sync()
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = os.Rename(temp, s.path)
	}
	if err != nil {
		return errors.Join(err, to.Close())
	}
	renamed = true
	s.db.Store(to)
	return errors.Join(syncDir(filepath.Dir(s.path)), from.Close())
}
