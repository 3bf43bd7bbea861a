package vector

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"

	"github.com/stratamem/strata/storage"
)

// segment is some entries of an index, by ID, each ID once.
type segment struct {
	model   string
	dim     int
	entries []entry
}

// entry is a statement about an ID. The newest one holds.
type entry struct {
	id string
	stamp
	vector  []int16 // of a vector
	deleted int64   // of a deletion: when, in seconds since 1970
}

// stamp identifies and orders the entries of an ID: one made in the knowledge
// of another has a higher time. Of two concurrent ones, a deletion counts as
// the newer, or else the one with the higher sum.
type stamp struct {
	time uint64 // Lamport's
	sum  uint32 // of the vector; gone for a deletion
}

const (
	gone    = math.MaxUint32
	maxTime = 1 << 62
)

func (s stamp) compare(t stamp) int {
	return cmp.Or(cmp.Compare(s.time, t.time), cmp.Compare(s.sum, t.sum))
}

func sumOf(vector []int16) uint32 {
	b := make([]byte, 0, 2*len(vector))
	return min(crc32.Checksum(appendVector(b, vector), castagnoli), gone-1)
}

// A vector has the weight of 32 deletions.
const (
	vectorWeight   = 32
	deletionWeight = 1
)

func (s *segment) weight() int {
	w := 0
	for i := range s.entries {
		if s.entries[i].sum == gone {
			w += deletionWeight
		} else {
			w += vectorWeight
		}
	}
	return w
}

const segmentFormat = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode returns the record of a segment. Numbers are uvarints unless stated
// otherwise; a text is the number of its bytes and the bytes.
//
//	format      a byte
//	model       text
//	dimensions
//	entries     how many; each: how many bytes of its ID are those of the one
//	            before, the rest of it as text, its time, its sum (4 bytes,
//	            little-endian, all ones for a deletion), and of a deletion when
//	            it was, in seconds since 1970
//	vectors     those of the entries that are no deletions, in their order: the
//	            coordinates, each two bytes, little-endian, in two's complement
//	check       CRC-32 (Castagnoli) of all before, 4 bytes, little-endian
func (s *segment) encode() []byte {
	b := make([]byte, 0, len(s.model)+32+len(s.entries)*(2*s.dim+40))
	b = appendText(append(b, segmentFormat), s.model)
	b = binary.AppendUvarint(b, uint64(s.dim))
	b = binary.AppendUvarint(b, uint64(len(s.entries)))
	before := ""
	for i := range s.entries {
		e := &s.entries[i]
		same := 0
		for same < len(before) && same < len(e.id) && before[same] == e.id[same] {
			same++
		}
		b = appendText(binary.AppendUvarint(b, uint64(same)), e.id[same:])
		before = e.id
		b = binary.AppendUvarint(b, e.time)
		b = binary.LittleEndian.AppendUint32(b, e.sum)
		if e.sum == gone {
			b = binary.AppendUvarint(b, uint64(e.deleted))
		}
	}
	for i := range s.entries {
		b = appendVector(b, s.entries[i].vector)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func appendVector(b []byte, vector []int16) []byte {
	for _, x := range vector {
		b = binary.LittleEndian.AppendUint16(b, uint16(x))
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// decodeSegment decodes a record. IDs are in order, and vectors have the
// dimensions of the segment.
func decodeSegment(value []byte) (*segment, error) {
	n := len(value) - 4
	if n < 1 {
		return nil, errDamaged
	}
	if value[0] != segmentFormat {
		return nil, &storage.FormatError{Reason: fmt.Sprintf("segment of vectors has format %d", value[0]), Newer: value[0] > segmentFormat}
	}
	if binary.LittleEndian.Uint32(value[n:]) != crc32.Checksum(value[:n], castagnoli) {
		return nil, errDamaged
	}
	r := &reader{data: value[1:n]}
	s := &segment{model: string(r.text())}
	dim := r.uvarint()
	if dim < 1 || dim > MaxDimensions {
		return nil, errDamaged
	}
	s.dim = int(dim)
	s.entries = make([]entry, r.count())
	vectors := 0
	for i := range s.entries {
		e := &s.entries[i]
		before := ""
		if i > 0 {
			before = s.entries[i-1].id
		}
		same, rest := r.uvarint(), r.text()
		if same > uint64(len(before)) {
			return nil, errDamaged
		}
		e.id = before[:same] + string(rest)
		e.time = r.uvarint()
		if sum := r.take(4); sum != nil {
			e.sum = binary.LittleEndian.Uint32(sum)
		}
		if e.sum == gone {
			e.deleted = int64(min(r.uvarint(), math.MaxInt64))
		} else {
			vectors++
		}
		if r.failed || e.id == "" || i > 0 && e.id <= before || e.time > maxTime {
			return nil, errDamaged
		}
	}
	if r.failed || len(r.data) != vectors*2*s.dim {
		return nil, errDamaged
	}
	all := make([]int16, vectors*s.dim)
	for i := range all {
		all[i] = int16(binary.LittleEndian.Uint16(r.data[2*i:]))
	}
	for i := range s.entries {
		if e := &s.entries[i]; e.sum != gone {
			e.vector, all = all[:s.dim:s.dim], all[s.dim:]
		}
	}
	return s, nil
}

var errDamaged = errors.New("record is damaged")

// reader decodes a record. After the first error it returns only zeros.
type reader struct {
	data   []byte
	failed bool
}

func (r *reader) fail() { r.data, r.failed = nil, true }

func (r *reader) uvarint() uint64 {
	x, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.data = r.data[n:]
	return x
}

// count reads the number of things that take at least one byte each.
func (r *reader) count() int {
	n := r.uvarint()
	if n > uint64(len(r.data)) {
		r.fail()
		return 0
	}
	return int(n)
}

// take returns the next n bytes of the record, or nil.
func (r *reader) take(n int) []byte {
	if n > len(r.data) {
		r.fail()
		return nil
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) text() []byte { return r.take(r.count()) }

// sortEntries puts entries in the order of a segment.
func sortEntries(list []entry) {
	slices.SortFunc(list, func(a, b entry) int { return cmp.Or(strings.Compare(a.id, b.id), b.compare(a.stamp)) })
}
