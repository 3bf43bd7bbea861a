package search

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"

	"github.com/stratamem/strata/storage"
)

// A block is a part of a segment that is read without the rest: the ids of some
// of its documents, or the postings of some of its terms.
type block struct {
	first string // term; of ids nothing
	data  string // "" where it is not at hand
	size  int    // bytes
	check uint32 // CRC-32 (Castagnoli)
}

const (
	blockPrefix = "b/"
	blockIDs    = 256     // documents of a block of ids
	blockTerms  = 8 << 10 // bytes of a block of postings, about
)

func makeBlock(first string, data []byte) block {
	return block{first: first, data: string(data), size: len(data), check: crc32.Checksum(data, castagnoli)}
}

// blockKey returns the key of a block of the segment with a key: kind is "i" for
// ids and "t" for terms.
func blockKey(segment, kind string, n int) string {
	return blockPrefix + segment[strings.LastIndexByte(segment, '/')+1:] + "/" + kind + strconv.Itoa(n)
}

// read returns the data of a block.
func (b *block) read(ctx context.Context, r storage.Reader, key string) (string, error) {
	if b.data != "" || b.size == 0 {
		return b.data, nil
	}
	value, err := r.Get(ctx, key)
	if err != nil {
		return "", err
	}
	if len(value) != b.size || crc32.Checksum(value, castagnoli) != b.check {
		return "", corrupt(key, errShort)
	}
	return string(value), nil
}

// idBlocks writes the ids and sums of documents in blocks.
func idBlocks(docs []entry) []block {
	var list []block
	for part := range slices.Chunk(docs, blockIDs) {
		var b []byte
		before := ""
		for i := range part {
			b = appendDifference(b, before, part[i].id)
			b = binary.LittleEndian.AppendUint32(b, part[i].sum)
			before = part[i].id
		}
		list = append(list, makeBlock("", b))
	}
	return list
}

// readIDs sets the ids and sums of docs, those of a block.
func readIDs(data string, docs []entry) error {
	r := reader{data: data}
	before := ""
	for i := range docs {
		docs[i].id = r.difference(before)
		before = docs[i].id
		if sum := r.take(4); r.err == nil {
			docs[i].sum = binary.LittleEndian.Uint32([]byte(sum))
		}
	}
	if r.err == nil && r.data != "" {
		r.fail()
	}
	return r.err
}

// idAt returns an id of a block.
func idAt(data string, n int) (string, error) {
	r := reader{data: data}
	var id []byte
	for ; n >= 0 && r.err == nil; n-- {
		same, rest := r.uvarint(), r.text()
		if same > uint64(len(id)) {
			r.fail()
			break
		}
		id = append(id[:same], rest...)
		r.take(4)
	}
	return string(id), r.err
}

// termWriter writes blocks of terms, which come in order, with their postings.
type termWriter struct {
	blocks []block
	data   []byte
	list   []byte
	first  string
	last   string
}

// add adds a term with its postings: documents of the segment, shifted, and
// counts, ascending.
func (w *termWriter) add(term string, postings []uint32) {
	if len(postings) == 0 {
		return
	}
	if len(w.data) == 0 {
		w.first, w.last = term, ""
	}
	w.list = w.list[:0]
	last := uint32(0)
	for _, p := range postings {
		gap := uint64(p>>8-last) << 1
		last = p >> 8
		if count := p & 0xff; count == 1 {
			w.list = binary.AppendUvarint(w.list, gap)
		} else {
			w.list = binary.AppendUvarint(binary.AppendUvarint(w.list, gap|1), uint64(count))
		}
	}
	w.data = appendDifference(w.data, w.last, term)
	w.data = binary.AppendUvarint(w.data, uint64(len(postings)))
	w.data = binary.AppendUvarint(w.data, uint64(len(w.list)))
	w.data = append(w.data, w.list...)
	w.last = term
	if len(w.data) >= blockTerms {
		w.flush()
	}
}

func (w *termWriter) flush() {
	if len(w.data) > 0 {
		w.blocks = append(w.blocks, makeBlock(w.first, w.data))
		w.data = w.data[:0]
	}
}

// termReader goes through the terms of blocks, whose data are at hand.
type termReader struct {
	blocks []block
	reader reader

	term  []byte
	count int
	list  string
}

// next goes to the next term, and reports whether there is one.
func (t *termReader) next() bool {
	if t.reader.data == "" {
		if len(t.blocks) == 0 || t.reader.err != nil {
			return false
		}
		t.reader.data, t.term, t.blocks = t.blocks[0].data, t.term[:0], t.blocks[1:]
	}
	same, rest := t.reader.uvarint(), t.reader.text()
	if same > uint64(len(t.term)) {
		t.reader.fail()
		return false
	}
	t.term = append(t.term[:same], rest...)
	t.count = t.reader.count()
	t.list = t.reader.text()
	return t.reader.err == nil
}

// findTerm returns the postings of a term in a block, of which there may be none.
func findTerm(data, term string) (list string, count int, err error) {
	r := reader{data: data}
	var buffer [2 * maxWord]byte
	now := buffer[:0]
	for r.data != "" {
		same, rest := r.uvarint(), r.text()
		count, list = r.count(), r.text()
		if same > uint64(len(now)) {
			r.fail()
		}
		if r.err != nil {
			return "", 0, r.err
		}
		now = append(now[:same], rest...)
		if string(now) >= term {
			if string(now) > term {
				return "", 0, nil
			}
			return list, count, nil
		}
	}
	return "", 0, r.err
}

// appendPostings appends the postings of a list, of documents that are numbered
// from base on and of which there are n.
func appendPostings(to []uint32, list string, count int, base uint32, n int) ([]uint32, error) {
	r := reader{data: list}
	last := uint64(0)
	for j := range count {
		gap := r.uvarint()
		if last += gap >> 1; last >= uint64(n) || j > 0 && gap>>1 == 0 {
			r.fail()
		}
		times := uint64(1)
		if gap&1 != 0 {
			times = min(r.uvarint(), maxCount)
		}
		if r.err != nil {
			return to, r.err
		}
		to = append(to, (base+uint32(last))<<8|uint32(times))
	}
	if r.data != "" {
		return to, errShort
	}
	return to, nil
}
