package bolt

import (
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
	"go.etcd.io/bbolt"
)

// walk visits the next n items of span, fewer if they fill a page, and narrows
// span to the rest. It tells whether there may be any.
func walk(tx *bbolt.Tx, span *engine.Span, n int, visit func(key string, frame []byte)) (more bool) {
	c := tx.Bucket(bucketData).Cursor()
	step := c.Next
	k, v := c.Seek([]byte(span.From))
	if span.Reverse {
		step = c.Prev
		if k == nil || span.From == "" {
			k, v = c.Last()
		}
	}
	bytes := 0
	for ; k != nil; k, v = step() {
		key := string(k)
		if span.Skips(key) {
			continue
		}
		if !span.Holds(key) {
			return false
		}
		if n == 0 || bytes > engine.PageBytes {
			return true
		}
		visit(key, v)
		span.Advance(key)
		n--
		bytes += len(v)
	}
	return false
}

// page collects items inside a transaction.
type page struct {
	keys   []string
	frames [][]byte // bbolt's memory
	bytes  int
}

func (p *page) add(key string, frame []byte) {
	p.keys = append(p.keys, key)
	p.frames = append(p.frames, frame)
	p.bytes += len(frame)
}

// entries copies the items out of the transaction, into one piece of memory.
func (p *page) entries(s *Store) ([]storage.Entry, error) {
	entries := make([]storage.Entry, 0, len(p.keys))
	memory := make([]byte, 0, p.bytes)
	for i, key := range p.keys {
		seq, value, ok := engine.Unseal(key, p.frames[i])
		if !ok {
			return nil, s.damaged(key)
		}
		from := len(memory)
		memory = append(memory, value...)
		entries = append(entries, storage.Entry{
			Key:     key,
			Value:   memory[from:len(memory):len(memory)], // appending to it copies
			Version: engine.Version(seq),
		})
	}
	return entries, nil
}

// cursor walks over the index.
type cursor struct{ *bbolt.Cursor }

func (c cursor) Seek(from []byte) []byte {
	entry, _ := c.Cursor.Seek(from)
	return entry
}

func (c cursor) Next() []byte {
	entry, _ := c.Cursor.Next()
	return entry
}
