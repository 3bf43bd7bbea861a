package bolt

import (
	"bytes"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
	"go.etcd.io/bbolt"
)

// page collects items inside a transaction and copies them out. It is reused
// for one page after another.
type page struct {
	items   []item
	bytes   int // of the values
	shared  int // of those without pieces
	entries []storage.Entry
	names   []byte
	ends    []int
}

// item points into bbolt's memory.
type item struct{ key, frame []byte }

func (p *page) reset() { p.items, p.bytes, p.shared = p.items[:0], 0, 0 }

func (p *page) add(key, frame []byte, size int) {
	p.items = append(p.items, item{key, frame})
	p.bytes += size
	if !hasPieces(frame) {
		p.shared += len(frame)
	}
}

// walk adds the next n items of span, fewer if they fill a page, and narrows
// span to the rest. It reports whether there may be any.
func (p *page) walk(tx *bbolt.Tx, span *engine.Span, n int) (more bool) {
	p.reset()
	c := tx.Bucket(bucketData).Cursor()
	step := c.Next
	k, v := c.Seek([]byte(span.From))
	if span.Reverse {
		step = c.Prev
		if k == nil || span.From == "" {
			k, v = c.Last()
		}
	}
	for k != nil && span.Skips(string(k)) {
		k, v = step()
	}
	for ; k != nil && span.HoldsBytes(k); k, v = step() {
		size := size(k, v)
		if len(p.items) == n || p.bytes+size > engine.PageBytes && len(p.items) > 0 {
			span.Advance(string(p.items[len(p.items)-1].key))
			return true
		}
		p.add(k, v, size)
	}
	return false
}

// keys copies the keys out of the transaction.
func (p *page) keys() []string {
	text, keys := p.text(false), make([]string, len(p.items))
	from := 0
	for i, end := range p.ends {
		keys[i], from = text[from:end], end
	}
	return keys
}

// text joins the keys into one string, each followed by its version if versions
// are wanted, and records in ends where each part ends.
func (p *page) text(versions bool) string {
	p.names, p.ends = p.names[:0], p.ends[:0]
	for _, it := range p.items {
		p.names = append(p.names, it.key...)
		p.ends = append(p.ends, len(p.names))
		if versions {
			p.names = engine.AppendVersion(p.names, seqOf(it.frame))
			p.ends = append(p.ends, len(p.names))
		}
	}
	return string(p.names)
}

// copied copies the items out of the transaction: values into one block of
// memory, except those assembled from pieces, and keys and versions into
// another. The slice is valid until the next page.
func (p *page) copied(s *Store, tx *bbolt.Tx) ([]storage.Entry, error) {
	p.entries = p.entries[:0]
	memory := make([]byte, 0, p.shared)
	text := p.text(true)
	from := 0
	for i, it := range p.items {
		key, version := text[from:p.ends[2*i]], text[p.ends[2*i]:p.ends[2*i+1]]
		from = p.ends[2*i+1]
		_, value, ok := unseal(tx, key, it.frame)
		if !ok {
			return nil, s.damaged(key)
		}
		if !hasPieces(it.frame) {
			at := len(memory)
			memory = append(memory, value...)
			value = memory[at:len(memory):len(memory)] // appending to it copies
		}
		p.entries = append(p.entries, storage.Entry{Key: key, Value: value, Version: storage.Version(version)})
	}
	return p.entries, nil
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

// reader reads items whose keys ascend.
type reader struct {
	c    *bbolt.Cursor
	key  []byte
	rest int // how many seeks to make before stepping is tried again
	wait int // and how many the next time stepping does not help
}

// read returns the item of a key, or nil if there is none. Stepping to an item
// nearby costs a fraction of a descent from the root; each time it does not
// help, it is tried less often.
func (r *reader) read(key string) (k, frame []byte) {
	r.key = append(r.key[:0], key...)
	if r.rest--; r.rest < 0 {
		for range 4 {
			k, frame = r.c.Next()
			if order := bytes.Compare(k, r.key); order == 0 {
				r.wait = 0
				return k, frame
			} else if order > 0 || k == nil {
				break
			}
		}
		r.wait = min(2*r.wait+1, 64)
		r.rest = r.wait
	}
	if k, frame = r.c.Seek(r.key); !bytes.Equal(k, r.key) {
		return nil, nil
	}
	return k, frame
}
