package badger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/dgraph-io/badger/v4"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

// journal records what a change of several transactions, the only kind that is
// not atomic by itself, may leave behind when interrupted. It is written before
// the first of them and deleted after the last.
//
// Index entries that are too many for a transaction are added before their
// documents and removed after them. In between, the index has entries without a
// document, but never lacks one, so Find is right as long as it looks at the
// documents; see Store.loose.
type journal struct {
	Keys   []string `json:"keys,omitempty"`   // documents that may have surplus entries
	Fields []string `json:"fields,omitempty"` // fields that may have entries without being declared
}

// commitLarge commits a batch whose index entries do not fit in a transaction.
// The batch must be alone in w.
func (s *Store) commitLarge(w *writer, c *changes) error {
	var j journal
	for _, e := range c.data {
		if key := string(e.Key[1:]); e.Key[0] == spaceData && storage.IsDocument(key) {
			j.Keys = append(j.Keys, key)
		}
	}
	if err := s.begin(j); err != nil {
		return err
	}
	s.loose.Add(1)
	if err := s.load(false, c.added); err != nil {
		return err
	}
	w.addData(c)
	if err := w.commit(); err != nil {
		return err
	}
	// The batch is applied. What fails from here on is repaired by the next write
	// or, from the journal, by the next Open.
	if err := s.load(true, c.removed); err != nil {
		return nil
	}
	if err := s.end(nil); err == nil {
		s.loose.Add(1)
	}
	return nil
}

// begin writes the journal.
func (s *Store) begin(j journal) error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	txn := s.db.NewTransaction(true)
	defer txn.Discard()
	if err := txn.Set(keyJournal, text); err != nil {
		return fmt.Errorf("write %s: %w", s.path, err)
	}
	return s.send(txn)
}

// end deletes the journal and, unless fields is nil, declares them.
func (s *Store) end(fields []string) error {
	txn := s.db.NewTransaction(true)
	defer txn.Discard()
	err := txn.Delete(keyJournal)
	if err == nil && fields != nil {
		var text []byte
		if text, err = json.Marshal(fields); err == nil {
			err = txn.Set(keyFields, text)
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", s.path, err)
	}
	return s.send(txn)
}

// load adds or removes index entries, in as many transactions as it takes.
func (s *Store) load(remove bool, entries []string) error {
	l := s.newLoader()
	for _, entry := range entries {
		l.put(indexKey(entry), remove)
	}
	return l.finish()
}

// loader writes keys without values in bulk. finish returns any error; after
// one, the store accepts no more writes.
type loader struct {
	s   *Store
	b   *badger.WriteBatch
	err error
}

func (s *Store) newLoader() *loader {
	b := s.db.NewWriteBatch()
	b.SetMaxPendingTxns(1)
	return &loader{s: s, b: b}
}

func (l *loader) put(key []byte, remove bool) {
	switch {
	case l.err != nil:
	case remove:
		l.err = l.b.Delete(key)
	default:
		l.err = l.b.Set(key, nil)
	}
}

func (l *loader) finish() error {
	if l.err != nil {
		l.b.Cancel()
	} else {
		l.err = l.b.Flush()
	}
	if l.err == nil {
		l.err = l.s.settle()
	}
	if l.err != nil {
		l.s.failed = fmt.Errorf("index %s: %w", l.s.path, diskError(l.err))
		return l.s.failed
	}
	return nil
}

// EnsureIndex implements [storage.Finder]. Writes wait while it reads all
// documents. A crash leaves no partial index: the next Open removes it.
func (s *Store) EnsureIndex(ctx context.Context, fields ...string) error {
	if err := engine.ValidateFields(fields...); err != nil {
		return err
	}
	return s.group.Exclusive(ctx, func() error {
		if s.closed.Load() {
			return storage.ErrClosed
		}
		declared, added := engine.AddFields(*s.fields.Load(), fields)
		if len(added) == 0 {
			return nil
		}
		if err := s.writable("index", 0); err != nil {
			return err
		}
		return guard(s.path, func() error { return s.declare(ctx, declared, added) })
	})
}

func (s *Store) declare(ctx context.Context, declared, added []string) error {
	if err := s.begin(journal{Fields: added}); err != nil {
		return err
	}
	err := s.loadFields(ctx, added)
	if err == nil {
		if err = s.end(declared); err == nil {
			s.fields.Store(&declared)
		}
		return err
	}
	if s.failed == nil {
		if cleanup := s.recover(); cleanup != nil {
			s.failed = cleanup
		}
	}
	return err
}

// loadFields adds the entries of all documents for the fields.
func (s *Store) loadFields(ctx context.Context, fields []string) error {
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	l := s.newLoader()
	err := eachDocument(ctx, txn, func(key string, frame []byte) error {
		_, document, ok := engine.Unseal(key, frame)
		if !ok {
			return s.damaged(key)
		}
		for _, entry := range engine.Entries(key, document, fields) {
			l.put(indexKey(entry), false)
		}
		return l.err
	})
	if failed := l.finish(); failed != nil {
		return failed
	}
	return err
}

// eachDocument visits the frames of all documents; they are valid until visit
// returns.
func eachDocument(ctx context.Context, txn *badger.Txn, visit func(key string, frame []byte) error) error {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceData}})
	defer it.Close()
	for it.Seek([]byte{spaceData, 'a'}); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		key := string(it.Item().Key()[1:])
		err := visitFrame(txn, key, it.Item(), func(frame []byte) error { return visit(key, frame) })
		if err != nil {
			return err
		}
	}
	return nil
}

// eachEntry visits the index entries whose keys in badger have the prefix,
// until visit returns false. An entry is valid until visit returns.
func eachEntry(txn *badger.Txn, prefix []byte, visit func(entry []byte) bool) {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	for it.Seek(prefix); it.Valid(); it.Next() {
		if !visit(it.Item().Key()[1:]) {
			return
		}
	}
}

// readJournal returns what there is to clean up, or nil.
func (s *Store) readJournal(txn *badger.Txn) (*journal, error) {
	text, err := get(txn, keyJournal)
	if err != nil || text == nil {
		return nil, err
	}
	var j journal
	if json.Unmarshal(text, &j) != nil {
		return nil, unreadable(s.path, "journal")
	}
	return &j, nil
}

// recover removes the index entries that an interrupted change left.
func (s *Store) recover() error {
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	j, err := s.readJournal(txn)
	if err != nil || j == nil {
		return err
	}
	l := s.newLoader()
	removed := 0
	remove := func(entry string) {
		l.put(indexKey(entry), true)
		removed++
	}
	for _, field := range j.Fields {
		// A declared one comes from a journal that garbage collection brought back:
		// see format.go.
		if prefix := fieldPrefix(field); prefix != nil && !slices.Contains(*s.fields.Load(), field) {
			eachEntry(txn, prefix, func(entry []byte) bool {
				remove(string(entry))
				return true
			})
		}
	}
	err = s.removeExtra(txn, j.Keys, remove)
	if failed := l.finish(); failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	s.opts.Logger.Warn("removed index entries of a change that was cut off", "store", s.path, "entries", removed)
	return s.end(nil)
}

// removeExtra removes the index entries that the documents do not have.
func (s *Store) removeExtra(txn *badger.Txn, keys []string, remove func(entry string)) error {
	if len(keys) == 0 {
		return nil
	}
	rightful := make(map[string][]string, len(keys))
	for _, key := range keys {
		frame, err := getFrame(txn, key)
		if err != nil {
			return err
		}
		_, document, ok := engine.Unseal(key, frame)
		if !ok && frame != nil {
			return s.damaged(key)
		}
		rightful[key] = engine.Entries(key, document, *s.fields.Load())
	}
	eachEntry(txn, []byte{spaceIndex}, func(entry []byte) bool {
		key, _ := engine.EntryKey(entry)
		if entries, ok := rightful[key]; ok {
			if _, found := slices.BinarySearch(entries, string(entry)); !found {
				remove(string(entry))
			}
		}
		return true
	})
	return nil
}

// fieldPrefix returns the prefix of the keys of a field's index entries in
// badger, or nil if there can be none.
func fieldPrefix(field string) []byte {
	if !utf8.ValidString(field) {
		return nil // no document has such a name
	}
	document, err := json.Marshal(map[string]string{field: ""})
	if err != nil {
		return nil
	}
	// An entry is field 00 01 value 00 01 key; here value and key are empty.
	entry := engine.Entries("", document, []string{field})[0]
	return indexKey(entry[:len(entry)-2])
}
