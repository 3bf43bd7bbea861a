package search

import (
	"fmt"

	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/storage"
)

// room is how much of a batch a change of an index may use. What must be
// written is written in any case, or refused if a document is too large by
// itself; segments are merged as far as there is room.
type room struct{ storage.Limits }

const besides = 4 // ops of a change other than texts and merges: segments, and what records that they changed

func roomOf(r storage.Reader) room { return room{r.Limits()} }

// bytes is how many bytes of segments are merged into one.
func (m room) bytes() int { return min(m.Batch/2, m.Value) }

// seals reports whether segments are sealed, which takes an op for each block.
func (m room) seals() bool { return m.Value >= 4*blockBytes && m.Ops >= 100 }

// merged returns those of keys that can be removed in a change that has some
// ops already.
func (m room) merged(ix *Index, keys []string, ops int) []string {
	left := m.Ops - ops - besides
	n := 0
	for n < len(keys) && left >= ix.removing(keys[n]) {
		left -= ix.removing(keys[n])
		n++
	}
	if n < 2 {
		return nil
	}
	return keys[:n]
}

// Fits returns an error if a document, or what the index says about it, is too
// large for the store of r. Append and Replace return it too; callers that
// write several batches should call Fits before the first.
func (ix *Index) Fits(r storage.Reader, d *Doc) error {
	l := r.Limits()
	if n := len(DocKey(d.ID)); n > l.Key {
		return &storage.InvalidError{Rule: fmt.Sprintf("key of a document has %d bytes, and the store takes %d: give it a shorter name", n, l.Key)}
	}
	n := len(d.encode())
	if n <= l.Value/4 { // and so is its part of the index
		return nil
	}
	segment := newSegment(ix.analysis, []Doc{*d}).encode()
	n = max(len(pack.Pack(new([]byte), d.encode())), len(pack.Pack(new([]byte), segment)))
	if n > l.Value {
		return &storage.InvalidError{Rule: fmt.Sprintf("document or what the index says of it takes %d bytes, and the store takes %d: cut it into smaller ones", n, l.Value)}
	}
	return nil
}

// halves splits a segment into two, each with some of its documents.
func (s *segment) halves() (a, b *segment) {
	first := make(map[string]bool)
	for i := range s.docs[:len(s.docs)/2] {
		first[s.docs[i].id] = true
	}
	list := []*segment{s}
	return merge(list, func(id string) bool { return !first[id] }), merge(list, func(id string) bool { return first[id] })
}
