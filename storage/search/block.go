package search

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/stratamem/strata/storage"
)

// A block is a record with part of a sealed segment: entries that are sorted by
// a text, or numbered. Only what differs from the previous text is written,
// except for every 16th entry, which is written whole, so that a search can
// begin there.
//
//	entries  the text, and its data
//	starts   where the whole entries begin, 4 bytes each, little-endian
//	count    the number of these, 4 bytes
//
// Blocks are not compressed, because queries read them.
const wholeEach = 16

// blockWriter makes a block.
type blockWriter struct {
	data    []byte
	starts  []uint32
	entries int
	before  string
}

// begin adds the text of an entry.
func (w *blockWriter) begin(text string) {
	if w.entries%wholeEach == 0 {
		w.starts = append(w.starts, uint32(len(w.data)))
		w.before = ""
	}
	w.entries++
	w.data = appendDifference(w.data, w.before, text)
	w.before = text
}

// finish returns the block, and begins the next.
func (w *blockWriter) finish() []byte {
	b := w.data
	for _, at := range w.starts {
		b = binary.LittleEndian.AppendUint32(b, at)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(w.starts)))
	*w = blockWriter{}
	return b
}

// cursor reads the entries of a block.
type cursor struct {
	data   []byte // entries
	starts []byte
	at     int
	text   []byte // of the current entry
	bad    bool
}

func openBlock(block []byte) cursor {
	n := len(block) - 4
	if n < 0 {
		return cursor{bad: true}
	}
	starts := n - 4*int(binary.LittleEndian.Uint32(block[n:]))
	if starts < 0 || starts > n {
		return cursor{bad: true}
	}
	return cursor{data: block[:starts], starts: block[starts:n]}
}

// wholes returns the number of whole entries.
func (c *cursor) wholes() int { return len(c.starts) / 4 }

// seek moves to a whole entry.
func (c *cursor) seek(i int) {
	c.at = int(binary.LittleEndian.Uint32(c.starts[4*i:]))
	c.bad = c.bad || c.at > len(c.data)
}

// next reads the text of the current entry. It returns false if there is none.
func (c *cursor) next() bool {
	if c.bad || c.at >= len(c.data) {
		return false
	}
	same := int(c.uvarint())
	rest := c.take(int(c.uvarint()))
	if c.bad || same > len(c.text) {
		c.bad = true
		return false
	}
	c.text = append(c.text[:same], rest...)
	return true
}

func (c *cursor) uvarint() uint64 {
	if c.bad {
		return 0
	}
	v, n := binary.Uvarint(c.data[c.at:])
	if n <= 0 || v > uint64(len(c.data)) {
		c.bad = true
		return 0
	}
	c.at += n
	return v
}

func (c *cursor) take(n int) []byte {
	if c.bad || n > len(c.data)-c.at {
		c.bad = true
		return nil
	}
	c.at += n
	return c.data[c.at-n : c.at]
}

// list reads the data of a term: how many documents have it, and their
// postings.
func (c *cursor) list() (n int, postings []byte) {
	n = int(c.uvarint())
	return n, c.take(int(c.uvarint()))
}

// term finds a term.
func (c *cursor) term(term string) (n int, postings []byte) {
	i := sort.Search(c.wholes(), func(i int) bool {
		c.seek(i)
		whole := c.whole()
		return c.bad || string(whole) > term
	})
	if i == 0 || c.bad {
		return 0, nil
	}
	c.seek(i - 1)
	for range wholeEach {
		if !c.next() || string(c.text) > term {
			break
		}
		if n, postings = c.list(); string(c.text) == term && !c.bad {
			return n, postings
		}
	}
	return 0, nil
}

// whole returns the text of the current entry, which must be a whole one.
func (c *cursor) whole() []byte {
	c.bad = c.bad || c.uvarint() != 0
	return c.take(int(c.uvarint()))
}

// sum reads the data of an ID.
func (c *cursor) sum() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// reading reads blocks for a call. After the first error, which it keeps, it
// returns nothing.
type reading struct {
	ctx   context.Context
	r     storage.Reader
	cache *cache
	text  []byte // buffer for that of an entry
	err   error
}

// block returns a block of a segment, and an empty one after an error.
func (l *reading) block(s *sealed, i int) cursor {
	slot := &s.blocks[i]
	if b := slot.Load(); b != nil {
		if !b.used.Load() {
			b.used.Store(true)
		}
		return l.open(b.data)
	}
	if l.err != nil {
		return cursor{}
	}
	data, err := readBlock(l.ctx, l.r, s, i)
	if err != nil {
		l.err = err
		return cursor{}
	}
	l.cache.keep(slot, data)
	return l.open(data)
}

// open is openBlock for one cursor at a time.
func (l *reading) open(data []byte) cursor {
	c := openBlock(data)
	c.text = l.text[:0]
	return c
}

func readBlock(ctx context.Context, r storage.Reader, s *sealed, i int) ([]byte, error) {
	key := blockKey(s.key, i)
	data, err := r.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	if crc32.Checksum(data, castagnoli) != s.sums[i] || openBlock(data).bad {
		return nil, corrupt(key, errShort)
	}
	return data, nil
}

// cache holds the recently used blocks, up to a number of bytes. Several
// goroutines can use each of them without the cache.
type cache struct {
	mu     sync.Mutex
	ring   []*block
	hand   int
	bytes  int
	missed int
}

type block struct {
	slot *atomic.Pointer[block] // where it is referenced
	data []byte
	used atomic.Bool // since the clock hand passed
}

// cacheBytes is the maximum size of the blocks that an index holds.
var cacheBytes = 6 << 20

// keep holds a block, replacing others that were not used since they were
// examined last. If queries cycle through more blocks than fit, each block
// would be evicted just before it is needed, so only some of the missed blocks
// are held.
func (c *cache) keep(slot *atomic.Pointer[block], data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slot.Load() != nil || len(data) > cacheBytes/4 {
		return
	}
	if c.bytes+len(data) > cacheBytes {
		if c.missed++; c.missed%4 != 0 {
			return
		}
	}
	for c.bytes+len(data) > cacheBytes {
		c.hand %= len(c.ring)
		b := c.ring[c.hand]
		if b.used.Swap(false) {
			c.hand++
			continue
		}
		b.slot.Store(nil)
		c.bytes -= len(b.data)
		last := len(c.ring) - 1
		c.ring[c.hand], c.ring[last] = c.ring[last], nil
		c.ring = c.ring[:last]
	}
	b := &block{slot: slot, data: data}
	c.ring = append(c.ring, b)
	c.bytes += len(data)
	slot.Store(b)
}
