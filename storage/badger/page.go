package badger

import (
	"errors"

	"github.com/dgraph-io/badger/v4"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

// pageBytes is how many bytes of values a page should hold at most. It is more
// than in other engines, because opening an iterator costs about as much as
// reading ten small values.
const pageBytes = 256 << 10

// walk visits the next n items of span, fewer if they fill a page, and narrows
// span to the rest. It reports whether there may be any. visit returns how many
// bytes it uses; its error ends the walk.
func walk(txn *badger.Txn, prefix string, span *engine.Span, n int,
	visit func(key string, item *badger.Item) (int, error),
) (more bool, err error) {
	opts := badger.IteratorOptions{Prefix: dataKey(prefix)}
	from := dataKey(span.From)
	if span.Reverse {
		// A prefix would end the walk at once if it starts beyond it.
		opts = badger.IteratorOptions{Prefix: dataKey(""), Reverse: true}
		if span.From == "" {
			from = []byte{spaceData + 1}
		}
	}
	it := txn.NewIterator(opts)
	defer it.Close()
	bytes := 0
	for it.Seek(from); it.Valid(); it.Next() {
		item := it.Item()
		key := string(item.Key()[1:])
		if span.Skips(key) {
			continue
		}
		if !span.Holds(key) {
			return false, nil
		}
		if n == 0 || bytes > pageBytes {
			return true, nil
		}
		size, err := visit(key, item)
		if err != nil {
			return false, err
		}
		span.Advance(key)
		n--
		bytes += size
	}
	return false, nil
}

// page collects entries. Their values share a few blocks of memory.
type page struct {
	s       *Store
	txn     *badger.Txn
	n       int // maximum number of entries
	entries []storage.Entry
	memory  []byte
	bytes   int
}

func (p *page) addItem(key string, item *badger.Item) (size int, err error) {
	before := p.bytes
	err = visitFrame(p.txn, key, item, func(frame []byte) error { return p.add(key, frame) })
	return p.bytes - before, err
}

// addHit adds the document of a hit if it exists and, if it must be verified,
// satisfies q. A damaged one is an error, not a miss.
func (p *page) addHit(q storage.Query, key string, verify bool) error {
	item, err := p.txn.Get(dataKey(key))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return visitFrame(p.txn, key, item, func(frame []byte) error {
		if verify {
			if _, document, ok := engine.Unseal(key, frame); ok && !q.Match(key, document) {
				return nil
			}
		}
		return p.add(key, frame)
	})
}

func (p *page) add(key string, frame []byte) error {
	seq, value, ok := engine.Unseal(key, frame)
	if !ok {
		return p.s.damaged(key)
	}
	if cap(p.memory)-len(p.memory) < len(value) {
		left := max(p.n-len(p.entries), 1)
		p.memory = make([]byte, 0, max(len(value), min(left*(len(value)+len(value)/8), pageBytes)))
	}
	if p.entries == nil {
		p.entries = make([]storage.Entry, 0, p.n)
	}
	from := len(p.memory)
	p.memory = append(p.memory, value...)
	p.bytes += len(frame)
	p.entries = append(p.entries, storage.Entry{
		Key:     key,
		Value:   p.memory[from:len(p.memory):len(p.memory)], // appending to it copies
		Version: engine.Version(seq),
	})
	return nil
}

// cursors are the open cursors over the index in one transaction.
type cursors []*badger.Iterator

func (c *cursors) open(txn *badger.Txn) engine.Cursor {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceIndex}})
	*c = append(*c, it)
	return cursor{it}
}

func (c *cursors) close() {
	for _, it := range *c {
		it.Close()
	}
	*c = nil
}

// cursor walks over the index.
type cursor struct{ it *badger.Iterator }

func (c cursor) Seek(from []byte) []byte {
	c.it.Seek(append([]byte{spaceIndex}, from...))
	return c.entry()
}

func (c cursor) Next() []byte {
	if c.it.Valid() {
		c.it.Next()
	}
	return c.entry()
}

func (c cursor) entry() []byte {
	if !c.it.Valid() {
		return nil
	}
	return c.it.Item().Key()[1:]
}
