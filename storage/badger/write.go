package badger

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

// mostGroup is how many bytes of keys and values share a commit.
const mostGroup = 4 << 20

func weigh(ops []storage.Op) int {
	n := 0
	for i := range ops {
		n += len(ops[i].Key) + len(ops[i].Value)
	}
	return n
}

// commit makes all batches durable, in order, in as few transactions as
// possible. A batch whose precondition fails is left out; a disk error affects
// every batch in its transaction.
func (s *Store) commit(batches [][]storage.Op) []error {
	errs := make([]error, len(batches))
	size := 0
	for _, ops := range batches {
		size += weigh(ops)
	}
	if err := s.writable("write", int64(size)); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	for next := 0; next < len(batches); {
		err := guard(s.path, func() error {
			next = s.commitSome(batches, errs, next)
			return nil
		})
		if err != nil { // badger panicked on damaged files before anything was sent
			for ; next < len(batches); next++ {
				errs[next] = err
			}
		}
	}
	return errs
}

// commitSome commits what fits in one transaction, starting with batch next,
// and returns the batch after that.
func (s *Store) commitSome(batches [][]storage.Op, errs []error, next int) int {
	w := s.newWriter()
	defer w.txn.Discard()
	var members []int
	for ; next < len(batches); next++ {
		if s.failed != nil {
			errs[next] = s.failure("write")
			continue
		}
		c, err := w.plan(batches[next])
		if err != nil {
			errs[next] = err
			continue
		}
		if !w.fits(c) {
			if len(members) > 0 {
				break
			}
			errs[next] = s.commitLarge(w, c)
			return next + 1
		}
		w.add(c)
		members = append(members, next)
	}
	if len(members) == 0 {
		return next
	}
	err := w.commit()
	for _, i := range members {
		errs[i] = err
	}
	return next
}

// writable returns why the store cannot be written, if it cannot.
func (s *Store) writable(op string, size int64) error {
	switch {
	case s.closed.Load():
		return storage.ErrClosed
	case s.opts.ReadOnly:
		return s.readOnly(op)
	case s.failed != nil:
		return s.failure(op)
	}
	return s.room(op, size)
}

// room reports whether the disk has the reserve and size bytes more.
func (s *Store) room(op string, size int64) error {
	if s.opts.Reserve < 0 {
		return nil
	}
	free, err := diskFree(s.path)
	if err != nil {
		return fmt.Errorf("%s %s: %w", op, s.path, diskError(err))
	}
	if need := s.opts.Reserve + 2*size; free < need {
		return fmt.Errorf("%s %s: %w: %d MiB are free, %d MiB are needed", op, s.path, storage.ErrDiskFull, free>>20, need>>20)
	}
	return nil
}

func (s *Store) failure(op string) error {
	return fmt.Errorf("%s %s: open the store again, an earlier write failed: %w", op, s.path, s.failed)
}

// changes is the effect of a batch.
type changes struct {
	data           []*badger.Entry
	removed, added []string // index entries
	state          state
	events         []storage.Event
}

// writer gathers the changes of batches in a transaction.
type writer struct {
	s           *Store
	txn         *badger.Txn
	fields      []string
	state       state
	events      []storage.Event
	count, size int64 // as badger counts them
	err         error
}

func (s *Store) newWriter() *writer {
	w := &writer{s: s, txn: s.db.NewTransaction(true), fields: *s.fields.Load(), state: *s.state.Load()}
	w.grow(len(keyState), 24)
	w.grow(32, 32) // badger's own end mark
	return w
}

// plan tests the preconditions of a batch and computes its changes, on top of
// what is already in the transaction.
func (w *writer) plan(ops []storage.Op) (*changes, error) {
	for i := range ops {
		op := &ops[i]
		if !op.Check {
			continue
		}
		frame, _, err := head(w.txn, op.Key)
		if err != nil {
			return nil, w.s.failedRead(err)
		}
		if !engine.IsVersion(op.If, engine.Seq(frame)) {
			return nil, &storage.ConflictError{Key: op.Key}
		}
	}
	var last map[string]int // if a key changes several times, the last change stays
	if len(ops) > 1 {
		last = make(map[string]int, len(ops))
		for i := range ops {
			last[ops[i].Key] = i
		}
	}
	c := &changes{state: w.state}
	for i := range ops {
		if last != nil && last[ops[i].Key] != i {
			continue
		}
		if err := w.change(c, &ops[i]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// change adds one op, the last of its key, to c.
func (w *writer) change(c *changes, op *storage.Op) error {
	old, isLarge, err := head(w.txn, op.Key)
	if err != nil {
		return w.s.failedRead(err)
	}
	indexed := len(w.fields) > 0 && storage.IsDocument(op.Key)
	var before []string
	if indexed && old != nil {
		if before, err = w.entriesBefore(op.Key); err != nil {
			return w.s.failedRead(err)
		}
	}
	if isLarge {
		c.data = append(c.data, &badger.Entry{Key: largeKey(op.Key, engine.Seq(old))})
	}
	kind := storage.EventSet
	switch {
	case !op.Delete:
		if old == nil {
			*c.state.count(op.Key)++
		}
		c.state.seq++
		c.put(op.Key, op.Value)
	case old != nil:
		kind = storage.EventDelete
		*c.state.count(op.Key)--
		c.data = append(c.data, &badger.Entry{Key: dataKey(op.Key)})
	default:
		return nil
	}
	if w.s.hub.Watched() {
		c.events = append(c.events, storage.Event{Kind: kind, Key: op.Key})
	}
	if indexed {
		removed, added := engine.Diff(before, engine.Entries(op.Key, op.Value, w.fields))
		c.removed, c.added = append(c.removed, removed...), append(c.added, added...)
	}
	return nil
}

// put adds a value, with the number of the last write.
func (c *changes) put(key string, value []byte) {
	frame := engine.Seal(key, c.state.seq, value)
	if len(frame) < valueThreshold {
		c.data = append(c.data, badger.NewEntry(dataKey(key), frame))
		return
	}
	c.data = append(c.data,
		badger.NewEntry(dataKey(key), engine.Seal(key, c.state.seq, nil)).WithMeta(metaLarge),
		badger.NewEntry(largeKey(key, c.state.seq), frame))
}

// entriesBefore returns the index entries of an existing document.
func (w *writer) entriesBefore(key string) ([]string, error) {
	frame, err := getFrame(w.txn, key)
	if err != nil {
		return nil, err
	}
	if _, document, ok := engine.Unseal(key, frame); ok {
		return engine.Entries(key, document, w.fields), nil
	}
	return entriesOf(w.txn, key), nil
}

// entriesOf searches the whole index for the entries of a document whose value
// is damaged.
func entriesOf(txn *badger.Txn, key string) []string {
	var entries []string
	eachEntry(txn, []byte{spaceIndex}, func(entry []byte) bool {
		if bytes.HasSuffix(entry, []byte(key)) {
			if k, ok := engine.EntryKey(entry); ok && k == key {
				entries = append(entries, string(entry))
			}
		}
		return true
	})
	slices.Sort(entries)
	return entries
}

// grow counts an entry the way badger does.
func (w *writer) grow(key, value int) {
	if value >= valueThreshold {
		value = 12 // a pointer into the value log
	}
	w.count++
	w.size += int64(key + value + 12)
}

// fits counts c, and reports whether it fits in the transaction too.
func (w *writer) fits(c *changes) bool {
	count, size := w.count, w.size
	for _, e := range c.data {
		w.grow(len(e.Key), len(e.Value))
	}
	for _, entries := range [][]string{c.removed, c.added} {
		for _, entry := range entries {
			w.grow(1+len(entry), 0)
		}
	}
	if w.count < w.s.db.MaxBatchCount() && w.size < w.s.db.MaxBatchSize() {
		return true
	}
	w.count, w.size = count, size
	return false
}

// add puts c, which fits, into the transaction.
func (w *writer) add(c *changes) {
	w.addData(c)
	for _, entry := range c.removed {
		w.err = errors.Join(w.err, w.txn.Delete(indexKey(entry)))
	}
	for _, entry := range c.added {
		w.err = errors.Join(w.err, w.txn.Set(indexKey(entry), nil))
	}
}

func (w *writer) addData(c *changes) {
	for _, e := range c.data {
		if e.Value == nil {
			w.err = errors.Join(w.err, w.txn.Delete(e.Key))
		} else {
			w.err = errors.Join(w.err, w.txn.SetEntry(e))
		}
	}
	w.state = c.state
	w.events = append(w.events, c.events...)
}

// commit makes what was added durable and visible.
func (w *writer) commit() error {
	err := w.err
	if err == nil {
		err = w.txn.Set(keyState, w.state.encode())
	}
	if err != nil { // nothing was sent
		return fmt.Errorf("write %s: %w", w.s.path, err)
	}
	if err := w.s.send(w.txn); err != nil {
		return err
	}
	w.s.state.Store(&w.state)
	w.s.hub.Publish(w.events...)
	return nil
}

// send commits a transaction. After an error the store accepts no more writes.
func (s *Store) send(txn *badger.Txn) error {
	err := txn.Commit()
	if err == nil {
		err = s.settle()
	}
	if err == nil {
		return nil
	}
	s.failed = fmt.Errorf("write %s: %w", s.path, diskError(err))
	return s.failed
}

// failedRead is the error of a read that a write needs.
func (s *Store) failedRead(err error) error {
	return fmt.Errorf("write %s: %w", s.path, diskError(err))
}
