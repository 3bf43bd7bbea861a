package bolt

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
	"go.etcd.io/bbolt"
)

// bbolt keeps a value in the leaf page of its key, and writes the whole leaf
// when one of its keys changes. Next to a neighbour of half a megabyte, a
// change of ten bytes wrote half a megabyte and left a hole that only something
// smaller fills. So a value larger than a piece is cut, and its pieces are kept
// in a bucket of their own under increasing numbers: their leaves span a page
// or two and are not written again until the value is deleted.

const (
	// smallPage is the page size of files that are created without Full: most of
	// what a turn writes is pages of which it changes little, and half of each is
	// not written. It puts both meta pages, and pages of different commits, into one
	// block of a disk, so a file that must survive power loss has the system's pages.
	smallPage = 2048
	// pieceBytes is the size of all pieces of a value but the last, and of the
	// largest record that is not cut. Two fill a small leaf, and four one of 4 KiB: a
	// page has a header of 16 bytes, and each item one of 16 and a key of 8.
	pieceBytes = (smallPage-16)/2 - (16 + 8)
	// mostDocument is the size of the largest document that is not cut. It is
	// larger because documents are read by the thousand, in sequence.
	mostDocument = (4096-16)/2 - (16 + 8)

	// inPieces marks the sequence number of a frame with a reference.
	inPieces = 1 << 63

	referenceBytes = 8 + 4 + 4 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// reference names the pieces of a value.
type reference struct {
	first uint64 // number of the first; the others follow it
	count uint32
	bytes uint32 // of the value
	sum   uint32 // CRC-32C of the value
}

// number is the key of a piece.
func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// hasPieces reports whether a frame has a reference. It verifies nothing.
func hasPieces(frame []byte) bool { return engine.Seq(frame)&inPieces != 0 }

// seqOf is [engine.Seq] for a frame that may have a reference.
func seqOf(frame []byte) uint64 { return engine.Seq(frame) &^ inPieces }

// refer returns the reference in a frame. It is false if the reference is
// damaged or impossible.
func refer(key string, frame []byte) (r reference, ok bool) {
	_, b, ok := engine.Unseal(key, frame)
	if !ok || len(b) != referenceBytes {
		return reference{}, false
	}
	r = reference{
		first: binary.BigEndian.Uint64(b),
		count: binary.BigEndian.Uint32(b[8:]),
		bytes: binary.BigEndian.Uint32(b[12:]),
		sum:   binary.BigEndian.Uint32(b[16:]),
	}
	return r, r.count <= r.bytes && r.bytes <= storage.MaxValue
}

// seal makes the frame of a value and stores its pieces.
func (w *writer) seal(key string, seq uint64, value []byte) ([]byte, error) {
	most := pieceBytes
	if storage.IsDocument(key) {
		most = mostDocument
	}
	if len(value) <= most {
		return w.frame(key, seq, value), nil
	}
	pieces := w.pieces()
	if pieces == nil {
		var err error
		if pieces, err = w.upgrade(); err != nil {
			return nil, err
		}
	}
	first, count := pieces.Sequence()+1, 0
	for piece := range slices.Chunk(value, pieceBytes) {
		n, err := pieces.NextSequence()
		if err == nil {
			err = pieces.Put(number(n), piece)
		}
		if err != nil {
			return nil, err
		}
		count++
	}
	b := binary.BigEndian.AppendUint64(make([]byte, 0, referenceBytes), first)
	b = binary.BigEndian.AppendUint32(b, uint32(count))
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(value, castagnoli))
	return w.frame(key, seq|inPieces, b), nil
}

// frame returns a frame that is valid until the transaction is over.
func (w *writer) frame(key string, seq uint64, value []byte) []byte {
	from := len(w.frames)
	w.frames = engine.AppendSealed(w.frames, key, seq, value)
	return w.frames[from:len(w.frames):len(w.frames)]
}

// unseal returns the sequence number and the value of an item. It is false if
// the item is damaged. A value in pieces is assembled in new memory; any other
// is part of the frame.
func unseal(tx *bbolt.Tx, key string, frame []byte) (seq uint64, value []byte, ok bool) {
	if !hasPieces(frame) {
		return engine.Unseal(key, frame)
	}
	r, ok := refer(key, frame)
	pieces := tx.Bucket(bucketPieces)
	if !ok || pieces == nil {
		return 0, nil, false
	}
	value = make([]byte, 0, r.bytes)
	c := pieces.Cursor()
	k, piece := c.Seek(number(r.first))
	for n := range uint64(r.count) {
		if k == nil || binary.BigEndian.Uint64(k) != r.first+n || len(value)+len(piece) > cap(value) {
			return 0, nil, false
		}
		value = append(value, piece...)
		k, piece = c.Next()
	}
	if len(value) != int(r.bytes) || crc32.Checksum(value, castagnoli) != r.sum {
		return 0, nil, false
	}
	return seqOf(frame), value, true
}

// size returns the number of bytes in a value, or slightly more.
func size(key, frame []byte) int {
	if hasPieces(frame) {
		if r, ok := refer(string(key), frame); ok {
			return int(r.bytes)
		}
	}
	return len(frame)
}

// strays returns the keys of pieces without a value.
func strays(tx *bbolt.Tx) [][]byte {
	var had []reference
	c := tx.Bucket(bucketData).Cursor()
	for k, frame := c.First(); k != nil; k, frame = c.Next() {
		if hasPieces(frame) {
			if r, ok := refer(string(k), frame); ok {
				had = append(had, r)
			}
		}
	}
	slices.SortFunc(had, func(a, b reference) int { return cmp.Compare(a.first, b.first) })
	var stray [][]byte
	c = tx.Bucket(bucketPieces).Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		n := binary.BigEndian.Uint64(k)
		for len(had) > 0 && had[0].first+uint64(had[0].count) <= n {
			had = had[1:]
		}
		if len(had) == 0 || n < had[0].first {
			stray = append(stray, bytes.Clone(k))
		}
	}
	return stray
}

// drop removes the pieces of a frame, if it has any. A damaged frame does not
// tell which these are, so then all pieces without a value are removed.
func (w *writer) drop(key string, frame []byte) error {
	_, _, sound := engine.Unseal(key, frame)
	if frame == nil || sound && !hasPieces(frame) {
		return nil
	}
	pieces := w.pieces()
	if pieces == nil {
		return nil
	}
	var gone [][]byte
	if r, ok := refer(key, frame); ok && hasPieces(frame) {
		for n := range uint64(r.count) {
			gone = append(gone, number(r.first+n))
		}
	} else {
		gone = strays(w.tx)
	}
	for _, k := range gone {
		if err := pieces.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
