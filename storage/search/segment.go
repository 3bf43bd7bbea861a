package search

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"

	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/storage"
)

// segment is the postings of some documents.
type segment struct {
	language    string
	first, last uint64  // which appends it is of, counted; 0 where they were not
	docs        []entry // by session, time and id
	ids, terms  []block
	filter      filter // of terms, as read
}

// entry is what a segment says of a document beside its postings.
type entry struct {
	id     string
	sum    uint32 // of the document's record
	labels [entryLabels]string
	time   int64 // milliseconds since 1970, if flagged so
	length int   // in terms
	flags  uint8
}

// The labels of an entry.
const (
	labelSession = iota
	labelSpeaker
	labelType
	labelLayer
	labelScope
	entryLabels
)

// The flags of an entry. What the picture keeps beside them is not stored.
const (
	flagTime     = 1 << iota // says when something is
	flagQuestion             // asks something
	flagTimed                // has a time
	flagAlike                // stored: has the labels of the document before

	flagGone     // in the picture: another segment has the document
	flagPrevious // in the picture: the number before is its previous neighbour
	flagNext     // in the picture: the number after is its next neighbour

	storedFlags = flagTime | flagQuestion | flagTimed
)

const (
	segmentFormat = 2
	maxCount      = 255
)

func compareEntries(a, b *entry) int {
	return cmp.Or(strings.Compare(a.labels[labelSession], b.labels[labelSession]), cmp.Compare(a.time, b.time), strings.Compare(a.id, b.id))
}

// newSegment analyses documents, those of the append with a number.
func newSegment(a *analysis, docs []Doc, number uint64) *segment {
	s := &segment{language: a.language, first: number, last: number}
	order := make([]*Doc, len(docs))
	s.docs = make([]entry, len(docs))
	for i := range docs {
		order[i] = &docs[i]
	}
	at := func(d *Doc) int64 {
		if d.Time.IsZero() {
			return 0
		}
		return d.Time.UnixMilli()
	}
	slices.SortStableFunc(order, func(a, b *Doc) int {
		return cmp.Or(strings.Compare(a.Session, b.Session), cmp.Compare(at(a), at(b)), strings.Compare(a.ID, b.ID))
	})
	lists := make(map[string][]uint32)
	for i, d := range order {
		e := entry{
			id: d.ID, sum: sum(d.encode()), time: at(d),
			labels: [entryLabels]string{d.Session, d.Speaker, d.Type, d.Layer, d.Scope},
		}
		if !d.Time.IsZero() {
			e.flags |= flagTimed
		}
		if isQuestion(d.Text) {
			e.flags |= flagQuestion
		}
		for w := range words(d.Text) {
			if e.flags&flagTime == 0 && w.tellsTime() {
				e.flags |= flagTime
			}
			if a.stop(w.text) {
				continue
			}
			e.length++
			t := a.term(w.text)
			list := lists[t]
			if n := len(list); n > 0 && list[n-1]>>8 == uint32(i) {
				if list[n-1]&0xff < maxCount {
					list[n-1]++
				}
			} else {
				lists[t] = append(list, uint32(i)<<8|1)
			}
		}
		s.docs[i] = e
	}
	terms := make([]string, 0, len(lists))
	for t := range lists {
		terms = append(terms, t)
	}
	slices.Sort(terms)
	var w termWriter
	for _, t := range terms {
		w.add(t, lists[t])
	}
	w.flush()
	s.ids, s.terms = idBlocks(s.docs), w.blocks
	return s
}

// merge returns the documents of several segments as one, each once, without
// those that drop tells.
func merge(list []*segment, drop func(id string) bool) (*segment, error) {
	type source struct{ part, doc int }
	s := &segment{language: list[0].language, first: list[0].first, last: list[0].last}
	had := make(map[string]bool)
	var order []source
	at := make([][]int, len(list)) // where a document goes, or -1
	for i, part := range list {
		s.first, s.last = min(s.first, part.first), max(s.last, part.last)
		at[i] = make([]int, len(part.docs))
		for j := range part.docs {
			at[i][j] = -1
			if id := part.docs[j].id; !had[id] && (drop == nil || !drop(id)) {
				had[id] = true
				order = append(order, source{i, j})
			}
		}
	}
	slices.SortFunc(order, func(a, b source) int { return compareEntries(&list[a.part].docs[a.doc], &list[b.part].docs[b.doc]) })
	s.docs = make([]entry, len(order))
	for n, o := range order {
		s.docs[n], at[o.part][o.doc] = list[o.part].docs[o.doc], n
	}
	s.ids = idBlocks(s.docs)
	var err error
	s.terms, err = mergeTerms(list, at)
	return s, err
}

// mergeTerms merges the terms of segments, whose documents go where at says.
func mergeTerms(list []*segment, at [][]int) ([]block, error) {
	var left termHeap
	for i, part := range list {
		t := &mergedTerms{termReader: termReader{blocks: part.terms}, part: i}
		if t.next() {
			left = append(left, t)
		} else if t.reader.err != nil {
			return nil, t.reader.err
		}
	}
	heap.Init(&left)
	var w termWriter
	var from, postings []uint32
	for len(left) > 0 {
		term := string(left[0].term)
		postings = postings[:0]
		for len(left) > 0 && string(left[0].term) == term {
			t := left[0]
			var err error
			if from, err = appendPostings(from[:0], t.list, t.count, 0, len(at[t.part])); err != nil {
				return nil, err
			}
			for _, p := range from {
				if to := at[t.part][p>>8]; to >= 0 {
					postings = append(postings, uint32(to)<<8|p&0xff)
				}
			}
			if t.next() {
				heap.Fix(&left, 0)
			} else if heap.Pop(&left); t.reader.err != nil {
				return nil, t.reader.err
			}
		}
		slices.Sort(postings)
		w.add(term, postings)
	}
	w.flush()
	return w.blocks, nil
}

type mergedTerms struct {
	termReader
	part int
}

// termHeap has the reader with the least term first.
type termHeap []*mergedTerms

func (h termHeap) Len() int           { return len(h) }
func (h termHeap) Less(i, j int) bool { return string(h[i].term) < string(h[j].term) }
func (h termHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *termHeap) Push(x any)        { *h = append(*h, x.(*mergedTerms)) }
func (h *termHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// level returns where a segment belongs by its size.
func (s *segment) level() int {
	level, most := 0, 1
	for level < len(fanIn) {
		if most *= fanIn[level]; len(s.docs) < most {
			break
		}
		level++
	}
	return level
}

// maxInline is how many bytes the blocks of a segment have that are in its record,
// and held in memory.
const maxInline = 64 << 10

func (s *segment) inline() bool {
	size := 0
	for _, list := range [][]block{s.ids, s.terms} {
		for i := range list {
			size += list[i].size
		}
	}
	return size <= maxInline
}

// put adds to ops those that store a segment, unless it is empty.
func (ix *Index) put(ops []storage.Op, s *segment, level int) []storage.Op {
	if len(s.docs) == 0 {
		return ops
	}
	record := s.encode()
	key := ix.set.Key(level, record)
	ops = append(ops, storage.Put(key, pack.Pack(new([]byte), record)))
	if s.inline() {
		return ops
	}
	for i := range s.ids {
		ops = append(ops, storage.Put(blockKey(key, "i", i), []byte(s.ids[i].data)))
	}
	for i := range s.terms {
		ops = append(ops, storage.Put(blockKey(key, "t", i), []byte(s.terms[i].data)))
	}
	return ops
}

// encode returns the record of a segment. Numbers are uvarints unless it is
// said otherwise, texts a number of bytes and the bytes, and of sorted and
// similar texts only what differs from the one before: how many bytes are the
// same, and the text of the rest.
//
//	format     a byte
//	language   text
//	appends    the numbers of the first and the last that it is of
//	labels     how many, the texts
//	documents  how many; each: flags (byte), session, speaker, type, layer, scope
//	           (their places among labels) unless they are flagged to be those of
//	           the one before, milliseconds after the one before (varint), length
//	ids        how many blocks; each: bytes, check
//	terms      how many blocks; each: first term (as what differs), bytes, check
//	blocks     the ids and then the terms, one after another, if they have at most
//	           64 KiB; each is a record of its own otherwise, and here is a filter
//	           of the terms, of two bytes for each
//	check      CRC-32 (Castagnoli) of all before, 4 bytes, little-endian
//
// Blocks have the keys b/<name>/i<n> and b/<name>/t<n>, with the name of the
// segment. One of ids is of 256 documents, and has for each of them the id (as
// what differs) and the sum (4 bytes, little-endian). One of terms is of some
// 8 KiB, and has for each of them the term (as what differs), how many documents,
// and a text: of each the distance from the one before, doubled, and 1 more if it
// is followed by a count, which is 1 otherwise.
func (s *segment) encode() []byte {
	b := appendText([]byte{segmentFormat}, s.language)
	b = binary.AppendUvarint(binary.AppendUvarint(b, s.first), s.last)
	places := make(map[string]int)
	var labels []string
	for i := range s.docs {
		for _, l := range s.docs[i].labels {
			if _, ok := places[l]; !ok {
				places[l] = len(labels)
				labels = append(labels, l)
			}
		}
	}
	b = binary.AppendUvarint(b, uint64(len(labels)))
	for _, l := range labels {
		b = appendText(b, l)
	}
	b = binary.AppendUvarint(b, uint64(len(s.docs)))
	before := &entry{}
	for i := range s.docs {
		e := &s.docs[i]
		if i > 0 && e.labels == before.labels {
			b = append(b, e.flags&storedFlags|flagAlike)
		} else {
			b = append(b, e.flags&storedFlags)
			for _, l := range e.labels {
				b = binary.AppendUvarint(b, uint64(places[l]))
			}
		}
		b = binary.AppendVarint(b, e.time-before.time)
		b = binary.AppendUvarint(b, uint64(e.length))
		before = e
	}
	b = appendBlocks(b, s.ids, false)
	b = appendBlocks(b, s.terms, true)
	if !s.inline() {
		b = append(b, filterOf(s.terms)...)
	} else {
		for _, list := range [][]block{s.ids, s.terms} {
			for i := range list {
				b = append(b, list[i].data...)
			}
		}
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func appendBlocks(b []byte, list []block, terms bool) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	before := ""
	for i := range list {
		if terms {
			b = appendDifference(b, before, list[i].first)
			before = list[i].first
		}
		b = binary.AppendUvarint(b, uint64(list[i].size))
		b = binary.LittleEndian.AppendUint32(b, list[i].check)
	}
	return b
}

func (r *reader) blocks(terms bool) []block {
	list := make([]block, r.count())
	before := ""
	for i := range list {
		if terms {
			list[i].first = r.difference(before)
			before = list[i].first
		}
		list[i].size = int(min(r.uvarint(), storage.MaxValue))
		if check := r.take(4); r.err == nil {
			list[i].check = binary.LittleEndian.Uint32([]byte(check))
		}
	}
	return list
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendDifference(b []byte, before, text string) []byte {
	same := 0
	for same < len(before) && same < len(text) && before[same] == text[same] {
		same++
	}
	return appendText(binary.AppendUvarint(b, uint64(same)), text[same:])
}

func (r *reader) difference(before string) string {
	same := r.uvarint()
	rest := r.text()
	if same > uint64(len(before)) {
		r.fail()
		return ""
	}
	if same == 0 {
		return strings.Clone(rest) // which may be kept, and the segment not with it
	}
	return before[:same] + rest
}

// decodeSegment reads a record, without the ids of documents, and the blocks
// that are in it.
func decodeSegment(stored []byte) (*segment, error) {
	value, err := pack.Unpack(stored)
	if err != nil {
		return nil, errShort
	}
	n := len(value) - 4
	if n < 1 {
		return nil, errShort
	}
	if value[0] > segmentFormat || value[0] == 0 {
		return nil, &storage.FormatError{Reason: fmt.Sprintf("segment of an index has format %d", value[0]), Newer: value[0] > segmentFormat}
	}
	if binary.LittleEndian.Uint32(value[n:]) != crc32.Checksum(value[:n], castagnoli) {
		return nil, errShort
	}
	r := &reader{data: string(value[1:n])}
	if value[0] == 1 {
		return decodeFirst(r)
	}
	s := &segment{language: r.text(), first: r.uvarint(), last: r.uvarint()}
	labels := make([]string, r.count())
	for i := range labels {
		labels[i] = strings.Clone(r.text())
	}
	s.docs = make([]entry, r.count())
	before := &entry{}
	for i := range s.docs {
		e := &s.docs[i]
		flags := r.byte()
		if e.flags = flags & storedFlags; flags&flagAlike != 0 {
			e.labels = before.labels
		} else {
			for l := range e.labels {
				if at := r.uvarint(); at < uint64(len(labels)) {
					e.labels[l] = labels[at]
				} else {
					r.fail()
				}
			}
		}
		e.time = before.time + r.varint()
		e.length = int(min(r.uvarint(), math.MaxInt32))
		before = e
		if r.err != nil {
			return nil, r.err
		}
	}
	s.ids, s.terms = r.blocks(false), r.blocks(true)
	if s.inline() {
		for _, list := range [][]block{s.ids, s.terms} {
			for i := range list {
				list[i].data = strings.Clone(r.take(list[i].size))
			}
		}
		s.filter = filterOf(s.terms)
	} else {
		s.filter = filter(strings.Clone(r.data))
		r.data = ""
	}
	if r.err == nil && (r.data != "" || len(s.ids) != (len(s.docs)+blockIDs-1)/blockIDs) {
		r.fail()
	}
	return s, r.err
}

// readSegment reads a segment with all its blocks.
func readSegment(ctx context.Context, r storage.Reader, key string, value []byte) (*segment, error) {
	s, err := decodeSegment(value)
	if err != nil {
		return nil, corrupt(key, err)
	}
	for i := range s.terms {
		if s.terms[i].data, err = s.terms[i].read(ctx, r, blockKey(key, "t", i)); err != nil {
			return nil, fmt.Errorf("read index: %w", err)
		}
	}
	for i := range s.ids {
		if s.ids[i].data, err = s.ids[i].read(ctx, r, blockKey(key, "i", i)); err != nil {
			return nil, fmt.Errorf("read index: %w", err)
		}
		if err = readIDs(s.ids[i].data, s.docs[i*blockIDs:min((i+1)*blockIDs, len(s.docs))]); err != nil {
			return nil, corrupt(key, err)
		}
	}
	return s, nil
}

// decodeFirst reads a segment of the first format, which nobody writes any more. Its ids
// and sums stood beside the other things that it says of its documents, which
// were in no order:
//
//	documents  each: id (as what differs), sum, labels, time, length, flags (byte)
//	terms      how many; each: term (as what differs), documents, postings
func decodeFirst(r *reader) (*segment, error) {
	s := &segment{language: r.text()}
	labels := make([]string, r.count())
	for i := range labels {
		labels[i] = strings.Clone(r.text())
	}
	docs := make([]entry, r.count())
	before := &entry{}
	for i := range docs {
		e := &docs[i]
		e.id = r.difference(before.id)
		if sum := r.take(4); r.err == nil {
			e.sum = binary.LittleEndian.Uint32([]byte(sum))
		}
		for l := range e.labels {
			if at := r.uvarint(); at < uint64(len(labels)) {
				e.labels[l] = labels[at]
			} else {
				r.fail()
			}
		}
		e.time = before.time + r.varint()
		e.length = int(min(r.uvarint(), math.MaxInt32))
		e.flags = r.byte() & storedFlags
		before = e
	}
	order := make([]int, len(docs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return compareEntries(&docs[a], &docs[b]) })
	at := make([]uint32, len(docs))
	s.docs = make([]entry, len(docs))
	for n, i := range order {
		s.docs[n], at[i] = docs[i], uint32(n)
	}
	var w termWriter
	var postings []uint32
	term := ""
	for range r.count() {
		term = r.difference(term)
		postings = postings[:0]
		last := uint64(0)
		for j := range r.count() {
			gap := r.uvarint()
			if last += gap >> 1; last >= uint64(len(docs)) || j > 0 && gap>>1 == 0 {
				r.fail()
			}
			count := uint64(1)
			if gap&1 != 0 {
				count = min(r.uvarint(), maxCount)
			}
			if r.err != nil {
				return nil, r.err
			}
			postings = append(postings, at[last]<<8|uint32(count))
		}
		slices.Sort(postings)
		w.add(term, postings)
	}
	w.flush()
	if r.err == nil && r.data != "" {
		r.fail()
	}
	s.ids, s.terms = idBlocks(s.docs), w.blocks
	s.filter = filterOf(s.terms)
	return s, r.err
}
