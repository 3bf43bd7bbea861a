package bolt

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
	"go.etcd.io/bbolt"
)

// mostGroup is how many bytes of keys and values share a commit.
const mostGroup = 16 << 20

func weigh(ops []storage.Op) int {
	n := 0
	for i := range ops {
		n += len(ops[i].Key) + len(ops[i].Value)
	}
	return n
}

// errNothing rolls back a transaction in which every batch was refused.
var errNothing = errors.New("nothing to commit")

// commit makes all batches durable in one transaction, in order. A batch whose
// precondition fails is left out; a file error affects every batch.
func (s *Store) commit(batches [][]storage.Op) []error {
	w := &s.writer
	errs := append(w.errs[:0], make([]error, len(batches))...)
	err := s.update("write", func(tx *bbolt.Tx) error {
		if err := w.begin(tx, *s.fields.Load(), s.hub.Watched()); err != nil {
			return err
		}
		any := false
		for i, ops := range batches {
			if errs[i] = w.test(ops); errs[i] != nil {
				continue
			}
			if err := w.make(ops); err != nil {
				return err
			}
			any = true
		}
		if !any {
			return errNothing
		}
		return w.finish()
	})
	w.errs = errs
	events := w.end()
	switch {
	case errors.Is(err, errNothing):
	case err != nil:
		for i := range errs {
			if errs[i] == nil {
				errs[i] = err
			}
		}
	default:
		s.hub.Publish(events...)
	}
	return errs
}

// writer makes changes in a transaction. Its buffers are reused: after a transaction,
// bbolt refers to none of its keys and values.
type writer struct {
	tx          *bbolt.Tx
	data        *bbolt.Bucket
	cursor      *bbolt.Cursor // of data
	fields      []string
	before, now counts
	watched     bool
	events      []storage.Event

	errs   []error // of the batches of a commit
	key    []byte  // buffer for a key
	frames []byte  // buffer for the frames of a transaction
}

// mostFrames bounds the size of the buffer that is kept between transactions.
const mostFrames = 1 << 20

// begin prepares the writer for a transaction. Buckets other than data are opened
// when they are needed, which is seldom.
func (w *writer) begin(tx *bbolt.Tx, fields []string, watched bool) (err error) {
	w.tx, w.data, w.fields, w.watched = tx, tx.Bucket(bucketData), fields, watched
	w.data.FillPercent = fillData
	w.cursor = w.data.Cursor()
	w.before, err = readCounts(tx)
	w.now = w.before
	return err
}

// end releases the transaction. It returns the changes, if they are watched.
func (w *writer) end() []storage.Event {
	events := w.events
	if cap(w.frames) > mostFrames {
		w.frames = nil
	}
	*w = writer{key: w.key, frames: w.frames[:0], errs: w.errs}
	return events
}

// How full a page stays that is split. Pieces are numbered in order, so nothing
// is added to an earlier page. So are many keys, which begin with a time;
// others may go anywhere, and a page without room would soon be split again.
const (
	fillData   = 0.8
	fillPieces = 1
)

// pieces returns the bucket of pieces, or nil in a file of version 1.
func (w *writer) pieces() *bbolt.Bucket {
	b := w.tx.Bucket(bucketPieces)
	if b != nil {
		b.FillPercent = fillPieces
	}
	return b
}

// get returns the frame of a key, or nil if there is none. It reuses a cursor, where
// [bbolt.Bucket.Get] allocates one, and the path from the root, each time.
func (w *writer) get(key string) []byte {
	w.key = append(w.key[:0], key...)
	if k, frame := w.cursor.Seek(w.key); bytes.Equal(k, w.key) {
		return frame
	}
	return nil
}

// upgrade gives a file of version 1 the bucket for pieces. Existing values stay
// unchanged until they are set again.
func (w *writer) upgrade() (pieces *bbolt.Bucket, err error) {
	if _, err := w.tx.CreateBucket(bucketPieces); err != nil {
		return nil, err
	}
	return w.pieces(), writeFormat(w.tx)
}

// test reports whether the preconditions hold.
func (w *writer) test(ops []storage.Op) error {
	for i := range ops {
		op := &ops[i]
		if op.Check && !engine.IsVersion(op.If, seqOf(w.get(op.Key))) {
			return &storage.ConflictError{Key: op.Key}
		}
	}
	return nil
}

func (w *writer) make(ops []storage.Op) error {
	for i := range ops {
		op := &ops[i]
		old := w.get(op.Key)
		var seq uint64
		var err error
		switch {
		case !op.Delete:
			seq, err = w.put(op, old)
		case old != nil:
			err = w.remove(op, old)
		default:
			continue
		}
		if err != nil {
			return err
		}
		if op.Made != nil && !op.Delete {
			*op.Made = engine.Version(seq)
		}
		if w.watched {
			kind := storage.EventSet
			if op.Delete {
				kind = storage.EventDelete
			}
			w.events = append(w.events, storage.Event{Kind: kind, Key: op.Key})
		}
	}
	return nil
}

// put sets a key and returns the sequence number of its value. Setting the
// present value writes nothing, which saves at least two pages of what callers
// do every turn.
func (w *writer) put(op *storage.Op, old []byte) (seq uint64, err error) {
	switch {
	case old == nil:
		*w.now.of(op.Key)++
	case w.equal(op, old):
		return seqOf(old), nil
	}
	if err := w.reindex(op.Key, old, op.Value); err != nil {
		return 0, err
	}
	if err := w.drop(op.Key, old); err != nil {
		return 0, err
	}
	if seq, err = w.data.NextSequence(); err != nil {
		return 0, err
	}
	frame, err := w.seal(op.Key, seq, op.Value)
	if err != nil {
		return 0, err
	}
	w.key = append(w.key[:0], op.Key...)
	return seq, w.data.Put(w.key, frame)
}

// equal reports whether a key already has the value.
func (w *writer) equal(op *storage.Op, frame []byte) bool {
	if hasPieces(frame) && size([]byte(op.Key), frame) != len(op.Value) {
		return false // so its pieces need not be assembled
	}
	_, value, ok := unseal(w.tx, op.Key, frame)
	return ok && bytes.Equal(value, op.Value)
}

func (w *writer) remove(op *storage.Op, old []byte) error {
	*w.now.of(op.Key)--
	if err := w.reindex(op.Key, old, nil); err != nil {
		return err
	}
	if err := w.drop(op.Key, old); err != nil {
		return err
	}
	return w.data.Delete([]byte(op.Key))
}

// reindex replaces the index entries of a document; an empty document stands
// for none.
func (w *writer) reindex(key string, oldFrame, document []byte) error {
	if len(w.fields) == 0 || !storage.IsDocument(key) {
		return nil
	}
	var before []string
	if oldFrame != nil {
		_, old, ok := unseal(w.tx, key, oldFrame)
		if ok {
			before = engine.Entries(key, old, w.fields)
		} else {
			before = w.entriesOf(key)
		}
	}
	removed, added := engine.Diff(before, engine.Entries(key, document, w.fields))
	index := w.tx.Bucket(bucketIndex)
	for _, entry := range removed {
		if err := index.Delete([]byte(entry)); err != nil {
			return err
		}
	}
	for _, entry := range added {
		if err := index.Put([]byte(entry), []byte{}); err != nil {
			return err
		}
	}
	return nil
}

// entriesOf searches the whole index for the entries of a document whose value
// is damaged.
func (w *writer) entriesOf(key string) []string {
	var entries []string
	c := w.tx.Bucket(bucketIndex).Cursor()
	for entry, _ := c.First(); entry != nil; entry, _ = c.Next() {
		if !bytes.HasSuffix(entry, []byte(key)) {
			continue
		}
		if k, ok := engine.EntryKey(entry); ok && k == key {
			entries = append(entries, string(entry))
		}
	}
	return entries
}

func (w *writer) finish() error {
	if w.now == w.before {
		return nil
	}
	from := len(w.frames)
	w.frames = w.now.append(w.frames)
	return w.tx.Bucket(bucketStrata).Put(keyCounts, w.frames[from:])
}

// declare adds fields to the index: the entries of all documents, in order.
func (s *Store) declare(ctx context.Context, tx *bbolt.Tx, declared, added []string) error {
	var entries []string
	c := tx.Bucket(bucketData).Cursor()
	for k, frame := c.Seek([]byte{'a'}); k != nil; k, frame = c.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		key := string(k)
		_, document, ok := unseal(tx, key, frame)
		if !ok {
			return s.damaged(key)
		}
		entries = append(entries, engine.Entries(key, document, added)...)
	}
	slices.Sort(entries)
	index := tx.Bucket(bucketIndex)
	for _, entry := range entries {
		if err := index.Put([]byte(entry), []byte{}); err != nil {
			return err
		}
	}
	return writeFields(tx, declared)
}
