package search

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/storage"
)

// sealed is what is held of a segment of level 2. Its postings, and the IDs of
// its documents, are in blocks, and a query reads those that it needs.
type sealed struct {
	key    string
	base   uint32 // number of its first document; the others follow
	bytes  int    // of its blocks
	hashes []uint32
	mask   mask     // of hashes
	each   int      // IDs in a block
	firsts []string // the first term of each block of terms
	filter []byte
	sums   []uint32                // checksums of the blocks: those of terms, then those of IDs
	blocks []atomic.Pointer[block] // cached blocks
}

const (
	sealedFormat = 2
	blockPrefix  = "b/"
	idsInBlock   = 512
)

var (
	// blockBytes is the size at which a block of terms is complete.
	blockBytes = 32 << 10
	// sealBytes is the size from which a segment is sealed, however few documents
	// it has, and from which a sealed segment is no longer merged.
	sealBytes = 512 << 10
)

// blockKey returns the key of a block of a segment.
func blockKey(segment string, i int) string {
	return fmt.Sprintf("%s%s/%04x", blockPrefix, segment[strings.LastIndexByte(segment, '/')+1:], i)
}

func hashOf(id string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return h.Sum32()
}

// seal returns the record of a segment and its blocks, and sorts its documents
// by session. Numbers and texts are as in segment.encode, and in place of its
// ID and its sum a document has the FNV-1a hash of the ID.
//
//	format     a byte
//	language   text
//	labels     how many, the texts
//	documents  how many; each: hash (4 bytes, little-endian), session, speaker, type,
//	           layer, scope, milliseconds, length, flags
//	bytes      of all blocks
//	terms      how many blocks; each: its first term (as what differs), check (4 bytes)
//	IDs        how many of a block; how many blocks; each: check (4 bytes)
//	filter     text, see appendFilter
//	check      CRC-32 (Castagnoli) of all before, 4 bytes, little-endian
//
// An entry in a block of terms is the term, the number of documents that have
// it, the size of their postings in bytes, and the postings; an entry in a
// block of IDs is the ID and the sum of its document, in the order of
// documents.
func (s *segment) seal() (record []byte, blocks [][]byte) {
	s.sort()
	b := appendText([]byte{sealedFormat}, s.language)
	b, places := s.appendLabels(b)
	b = binary.AppendUvarint(b, uint64(len(s.docs)))
	before := int64(0)
	var ids [][]byte
	var w blockWriter
	for i := range s.docs {
		e := &s.docs[i]
		b = binary.LittleEndian.AppendUint32(b, hashOf(e.id))
		b = e.appendRest(b, places, before)
		before = e.time
		w.begin(e.id)
		w.data = binary.LittleEndian.AppendUint32(w.data, e.sum)
		if w.entries == idsInBlock || i == len(s.docs)-1 {
			ids = append(ids, w.finish())
		}
	}
	var firsts []string
	for i, t := range s.terms {
		if w.entries == 0 {
			firsts = append(firsts, t.term)
		}
		w.begin(t.term)
		postings := appendPostings(nil, t.postings)
		w.data = binary.AppendUvarint(w.data, uint64(len(t.postings)))
		w.data = append(binary.AppendUvarint(w.data, uint64(len(postings))), postings...)
		if len(w.data) >= blockBytes || i == len(s.terms)-1 {
			blocks = append(blocks, w.finish())
		}
	}
	size := 0
	for _, block := range slices.Concat(blocks, ids) {
		size += len(block)
	}
	b = binary.AppendUvarint(b, uint64(size))
	b = binary.AppendUvarint(b, uint64(len(blocks)))
	first := ""
	for i, block := range blocks {
		b = appendDifference(b, first, firsts[i])
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(block, castagnoli))
		first = firsts[i]
	}
	b = binary.AppendUvarint(b, idsInBlock)
	b = binary.AppendUvarint(b, uint64(len(ids)))
	for _, block := range ids {
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(block, castagnoli))
	}
	b = appendFilter(b, s.terms)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), append(blocks, ids...)
}

// sort sorts documents by session and by place within the session, so that
// neighbours have consecutive numbers.
func (s *segment) sort() {
	order := make([]int, len(s.docs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &s.docs[i], &s.docs[j]
		return cmp.Or(cmp.Compare(a.labels[labelSession], b.labels[labelSession]), cmp.Compare(a.time, b.time), cmp.Compare(a.id, b.id))
	})
	docs := make([]entry, len(s.docs))
	place := make([]uint32, len(s.docs))
	for to, from := range order {
		docs[to], place[from] = s.docs[from], uint32(to)
	}
	s.docs = docs
	for _, t := range s.terms {
		for i := range t.postings {
			t.postings[i].doc = place[t.postings[i].doc]
		}
		slices.SortFunc(t.postings, func(a, b posting) int { return cmp.Compare(a.doc, b.doc) })
	}
}

// A filter recognizes nearly every term that a segment does not have: it has 12
// bits per term, 5 of which are set for each term.
const (
	filterBits   = 12
	filterProbes = 5
)

func appendFilter(b []byte, terms []termList) []byte {
	filter := make([]byte, (len(terms)*filterBits+7)/8)
	for _, t := range terms {
		h := termHash(t.term)
		for range filterProbes {
			at := probe(&h, len(filter))
			filter[at/8] |= 1 << (at % 8)
		}
	}
	return appendText(b, string(filter))
}

// may reports whether a segment may have the term with a hash.
func (s *sealed) may(h uint64) bool {
	if len(s.filter) == 0 {
		return false
	}
	for range filterProbes {
		if at := probe(&h, len(s.filter)); s.filter[at/8]&(1<<(at%8)) == 0 {
			return false
		}
	}
	return true
}

// termHash is FNV-1a of 64 bits.
func termHash(term string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(term) {
		h = (h ^ uint64(term[i])) * 1099511628211
	}
	return h
}

// probe returns the next bit of a term in a filter of n bytes.
func probe(h *uint64, n int) uint64 {
	*h = *h*6364136223846793005 + 1442695040888963407
	return (*h >> 32) * uint64(8*n) >> 32
}

// list returns how many documents have a term, and its postings.
func (s *sealed) list(l *reading, term string) (n int, postings []byte) {
	i, found := slices.BinarySearch(s.firsts, term)
	if !found {
		i--
	}
	if i < 0 {
		return 0, nil
	}
	c := l.block(s, i)
	return c.term(term)
}

// name returns the ID and the sum of a document.
func (s *sealed) name(l *reading, doc int) (id string, sum uint32) {
	c := l.block(s, len(s.firsts)+doc/s.each)
	if at := doc % s.each; at/wholeEach < c.wholes() {
		c.seek(at / wholeEach)
		for range at%wholeEach + 1 {
			if !c.next() {
				break
			}
			sum = c.sum()
		}
	}
	return string(c.text), sum
}

// unpackSegment returns the record of a segment without its check, and its format.
func unpackSegment(stored []byte) (record []byte, format byte, err error) {
	value, err := pack.Unpack(stored)
	if err != nil {
		return nil, 0, errShort
	}
	n := len(value) - 4
	if n < 1 {
		return nil, 0, errShort
	}
	if value[0] == 0 || value[0] > sealedFormat {
		return nil, 0, &storage.FormatError{Reason: fmt.Sprintf("segment of an index has format %d", value[0]), Newer: value[0] > sealedFormat}
	}
	if binary.LittleEndian.Uint32(value[n:]) != crc32.Checksum(value[:n], castagnoli) {
		return nil, 0, errShort
	}
	return value[1:n], value[0], nil
}

// header is a decoded record of a sealed segment.
type header struct {
	sealed
	language string
	labels   []string
	rows     reader // of documents
	docs     int
}

// row is what a sealed segment says about a document.
type row struct {
	hash   uint32
	labels [entryLabels]int // places
	time   int64
	length int
	flags  uint8
}

func decodeHeader(key string, record []byte) (*header, error) {
	r := &reader{data: string(record)}
	h := &header{sealed: sealed{key: key}, language: r.text()}
	h.labels = r.texts()
	h.docs = r.count()
	h.rows = *r
	h.hashes = make([]uint32, h.docs)
	at := 0
	for d := range r.rows(h.docs, len(h.labels)) {
		h.hashes[at] = d.hash
		at++
	}
	h.bytes = int(min(r.uvarint(), math.MaxInt32))
	h.firsts = make([]string, r.count())
	h.sums = make([]uint32, len(h.firsts))
	first := ""
	for i := range h.firsts {
		first = r.difference(first)
		h.firsts[i], h.sums[i] = first, r.uint32()
	}
	h.each = int(min(r.uvarint(), math.MaxInt32))
	blocks := r.count()
	for range blocks {
		h.sums = append(h.sums, r.uint32())
	}
	h.filter = []byte(r.text())
	if r.err == nil && (r.data != "" || h.each <= 0 || (h.docs+h.each-1)/h.each != blocks) {
		r.fail()
	}
	h.blocks = make([]atomic.Pointer[block], len(h.sums))
	return h, r.err
}

// rows reads documents.
func (r *reader) rows(n, labels int) func(yield func(d *row) bool) {
	return func(yield func(d *row) bool) {
		var d row
		for range n {
			d.hash = r.uint32()
			for l := range d.labels {
				at := r.uvarint()
				if at >= uint64(labels) {
					r.fail()
					return
				}
				d.labels[l] = int(at)
			}
			d.time += r.varint()
			d.length = int(min(r.uvarint(), math.MaxInt32))
			d.flags = r.byte()
			if r.err != nil || !yield(&d) {
				return
			}
		}
	}
}

func (r *reader) uint32() uint32 {
	if b := r.take(4); r.err == nil {
		return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
	}
	return 0
}

// readSegment reads a whole segment, sealed or not. size is its share of a
// batch.
func readSegment(ctx context.Context, r storage.Reader, key string, stored []byte) (s *segment, size int, err error) {
	record, format, err := unpackSegment(stored)
	if err != nil {
		return nil, 0, err
	}
	if format == segmentFormat {
		s, err = decodeSegment(record)
		return s, len(stored), err
	}
	h, err := decodeHeader(key, record)
	if err != nil {
		return nil, 0, err
	}
	s = &segment{language: h.language, docs: make([]entry, 0, h.docs)}
	for d := range h.rows.rows(h.docs, len(h.labels)) {
		e := entry{time: d.time, length: d.length, flags: d.flags}
		for l, at := range d.labels {
			e.labels[l] = h.labels[at]
		}
		s.docs = append(s.docs, e)
	}
	doc := 0
	for i := range h.sums {
		data, err := readBlock(ctx, r, &h.sealed, i)
		if err != nil {
			return nil, 0, err
		}
		c := openBlock(data)
		for c.next() {
			if i >= len(h.firsts) {
				if doc == len(s.docs) {
					return nil, 0, errShort
				}
				s.docs[doc].id, s.docs[doc].sum = string(c.text), c.sum()
				doc++
				continue
			}
			n, data := c.list()
			list := make([]posting, 0, min(n, len(data)))
			for doc, count := range postings(data) {
				if int(doc) >= len(s.docs) {
					return nil, 0, errShort
				}
				list = append(list, posting{doc, count})
			}
			s.terms = append(s.terms, termList{string(c.text), list})
		}
		if c.bad {
			return nil, 0, errShort
		}
	}
	if doc != len(s.docs) {
		return nil, 0, errShort
	}
	return s, len(stored) + h.bytes, nil
}

// postings yields the documents of a list and how often each has the term.
func postings(data []byte) func(yield func(doc, count uint32) bool) {
	return func(yield func(doc, count uint32) bool) {
		doc := uint64(0)
		for at := 0; at < len(data); {
			gap, n := uint64(data[at]), 1
			if gap >= 0x80 {
				if gap, n = binary.Uvarint(data[at:]); n <= 0 {
					return
				}
			}
			at += n
			doc += gap >> 1
			count := uint64(1)
			if gap&1 != 0 {
				if count, n = binary.Uvarint(data[at:]); n <= 0 {
					return
				}
				at += n
			}
			if !yield(uint32(min(doc, math.MaxUint32)), uint32(min(count, maxCount))) {
				return
			}
		}
	}
}
