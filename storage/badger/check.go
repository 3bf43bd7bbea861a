package badger

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/dgraph-io/badger/v4"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

// mostFaults bounds the memory of a check; a store with more faults is beyond
// repair.
const mostFaults = 10_000

// Check implements [storage.Checker]. It verifies the checksums of all tables
// and values, and compares index and counts with the documents, as they are
// when it begins. Writes do not wait for it.
func (s *Store) Check(ctx context.Context) iter.Seq2[storage.Fault, error] {
	return func(yield func(storage.Fault, error) bool) {
		faults, err := s.check(ctx)
		for _, f := range faults {
			if !yield(f, nil) {
				return
			}
		}
		if err != nil {
			yield(storage.Fault{}, err)
		}
	}
}

func (s *Store) check(ctx context.Context) ([]storage.Fault, error) {
	still, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	c := checker{s: still, ctx: ctx}
	err = still.view(ctx, func(*badger.Txn) error { return c.tables() })
	if err == nil && len(c.faults) == 0 { // otherwise the content of damaged tables is not examined
		err = still.view(ctx, c.content)
	}
	var damage *storage.CorruptError
	if errors.As(err, &damage) {
		c.fault(damage.Key, damage.Reason, damage.Repair)
		err = nil
	}
	return c.faults, errors.Join(err, still.Close())
}

type checker struct {
	s      *Store
	ctx    context.Context
	faults []storage.Fault
}

func (c *checker) fault(key, reason, repair string) {
	if len(c.faults) < mostFaults {
		c.faults = append(c.faults, storage.Fault{Key: key, Path: c.s.path, Reason: reason, Repair: repair})
	}
}

// tables runs badger's own check of its tables.
func (c *checker) tables() error {
	if err := c.s.db.VerifyChecksum(); err != nil {
		c.fault("", "tables: "+err.Error(), repairStore)
	}
	return nil
}

// content checks the content of the tables.
func (c *checker) content(txn *badger.Txn) error {
	const rebuild = "copy the store to a new directory"
	var n state
	entries, damaged := 0, false
	fields := *c.s.fields.Load()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceData}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		key := string(it.Item().Key()[1:])
		*n.count(key)++
		var p page
		p.s, p.txn = c.s, txn
		if _, err := p.addItem(key, it.Item()); err != nil {
			damaged = true
			c.fault(key, reasonChecksum, "replace or delete what has this key, or restore a backup")
			continue
		}
		value := p.entries[0].Value
		if err := storage.ValidateEntry(key, value); err != nil {
			c.fault(key, err.Error(), "delete the key, or restore a backup")
			continue
		}
		if !storage.IsDocument(key) {
			continue
		}
		for _, entry := range engine.Entries(key, value, fields) {
			entries++
			if _, err := txn.Get(indexKey(entry)); err != nil {
				c.fault(key, "the document is missing from the index", rebuild)
			}
		}
	}
	now := c.s.state.Load()
	if now.documents != n.documents || now.records != n.records {
		c.fault("", fmt.Sprintf("the store counts %d documents and %d records, it has %d and %d",
			now.documents, now.records, n.documents, n.records), rebuild)
	}
	have := 0
	eachEntry(txn, []byte{spaceIndex}, func([]byte) bool {
		have++
		return true
	})
	if !damaged && c.s.loose.Load()%2 == 0 && have > entries {
		c.fault("", fmt.Sprintf("the index has %d entries without a document", have-entries), rebuild)
	}
	return nil
}
