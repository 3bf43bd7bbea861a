package soma

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/stratamem/strata/storage"
)

// candidate is an entity that a scan looks at: of its document, which was checked as
// a whole, the type, the id, the layer and the fields that the scan decides by are
// decoded. Most go no further.
type candidate struct {
	*Entity
	rest []byte // the document; nil if all of it is decoded
}

// whole returns the entity with all of its fields.
func (c *candidate) whole() *Entity {
	if c.rest == nil {
		return c.Entity
	}
	e := &Entity{Type: c.Type, ID: c.ID}
	e.fill(c.rest)
	return e
}

// wholes yields the entities of a sequence with all of their fields, until an error.
func wholes(all iter.Seq2[*candidate, error]) iter.Seq2[*Entity, error] {
	return func(yield func(*Entity, error) bool) {
		for c, err := range all {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(c.whole(), nil) {
				return
			}
		}
	}
}

// find yields the entities whose declared fields have these values, unratified
// canon too, with the fields that have names; canon is whole, for it is judged as a
// whole. A document that cannot be read is an error that names it.
func (s *Store) find(ctx context.Context, equal map[string]string, kind string, names ...string) iter.Seq2[*candidate, error] {
	return func(yield func(*candidate, error) bool) {
		q := storage.Query{Equal: equal}
		if kind != "" {
			q.Prefix = kind + "/"
		}
		r := s.reader()
		for entry, err := range s.documents(ctx, q) {
			if err != nil {
				yield(nil, fmt.Errorf("query entities: %w", err))
				return
			}
			c, err := r.candidate(ctx, entry.Key, entry.Value, names)
			if err == nil && c.Unratified { // or a decision was made since
				switch again, failed := r.load(ctx, entry.Key); {
				case errors.Is(failed, ErrNotFound):
					continue
				case errors.Is(failed, storage.ErrCorrupt): // it was broken since, and stays withheld
				case failed != nil:
					c, err = nil, failed
				default:
					c.Entity = again.Entity
				}
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// candidate decodes the fields of a document that have names, and all of canon.
func (r *reader) candidate(ctx context.Context, key string, document []byte, names []string) (*candidate, error) {
	e, err := decode(key, document, names...)
	switch {
	case err != nil:
		return nil, corrupt(key, err)
	case e.Layer != Canon:
		return &candidate{e, document}, nil
	}
	e, err = r.decode(ctx, key, document)
	return &candidate{Entity: e}, err
}

// documents yields the documents that q selects.
func (s *Store) documents(ctx context.Context, q storage.Query) iter.Seq2[storage.Entry, error] {
	if !s.bare {
		return storage.Find(ctx, s.db, q)
	}
	return func(yield func(storage.Entry, error) bool) {
		for entry, err := range storage.Scan(ctx, s.db, q.Prefix, &storage.ScanOptions{After: "`"}) { // before all types, behind all records
			if err == nil && !q.Match(entry.Key, entry.Value) {
				continue
			}
			if !yield(entry, err) || err != nil {
				return
			}
		}
	}
}
