package search

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
	"strings"
)

// segment is the postings of some documents.
type segment struct {
	language string
	docs     []entry
	terms    []termList // by term
}

// entry is what a segment says about a document besides its postings.
type entry struct {
	id     string
	sum    uint32 // of the document's record
	labels [entryLabels]string
	time   int64 // milliseconds since 1970, if flagged as such
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

// The flags of an entry.
const (
	flagTime     = 1 << iota // says when something is
	flagQuestion             // asks something
	flagTimed                // has a time

	storedFlags = flagTime | flagQuestion | flagTimed
)

// Flags that a picture adds.
const (
	flagFirst = 1 << 6 << iota // the previous number is not the neighbour before
	flagLast                   // the next number is not the neighbour after
)

// termList has the documents of a segment that contain a term.
type termList struct {
	term     string
	postings []posting // by doc
}

// posting says how often a term is in a document.
type posting struct {
	doc   uint32 // in its segment
	count uint32 // 255 at most
}

const (
	segmentFormat = 1
	maxCount      = 255
)

// newSegment analyses documents.
func newSegment(a *analysis, docs []Doc) *segment {
	s := &segment{language: a.language}
	size := 0
	for i := range docs {
		size += len(docs[i].Text)
	}
	const each = 16                           // bytes of text for each of its terms, about
	places := make(map[string]int, size/each) // in terms
	s.terms = make([]termList, 0, size/each)
	room := make([]posting, 0, size/each) // most terms are in one document
	for i := range docs {
		d := &docs[i]
		e := entry{
			id: d.ID, sum: sum(d.encode()),
			labels: [entryLabels]string{d.Session, d.Speaker, d.Type, d.Layer, d.Scope},
		}
		if !d.Time.IsZero() {
			e.time = d.Time.UnixMilli()
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
			at, ok := places[t]
			if !ok {
				places[t] = len(s.terms)
				room = append(room, posting{uint32(i), 1})
				last := len(room)
				s.terms = append(s.terms, termList{t, room[last-1 : last : last]})
				continue
			}
			list := s.terms[at].postings
			if last := &list[len(list)-1]; last.doc == uint32(i) {
				last.count = min(last.count+1, maxCount)
			} else {
				s.terms[at].postings = append(list, posting{uint32(i), 1})
			}
		}
		s.docs = append(s.docs, e)
	}
	s.sortTerms()
	return s
}

func (s *segment) setTerms(lists map[string][]posting) {
	s.terms = make([]termList, 0, len(lists))
	for t, list := range lists {
		s.terms = append(s.terms, termList{t, list})
	}
	s.sortTerms()
}

func (s *segment) sortTerms() {
	slices.SortFunc(s.terms, func(a, b termList) int { return cmp.Compare(a.term, b.term) })
}

// merge returns the documents of several segments as one segment, each once,
// without those for which drop returns true.
func merge(list []*segment, drop func(id string) bool) *segment {
	s := &segment{language: list[0].language}
	had := make(map[string]bool)
	lists := make(map[string][]posting)
	for _, part := range list {
		at := make([]int, len(part.docs)) // new index of a document, or -1
		for i, e := range part.docs {
			if at[i] = -1; had[e.id] || drop != nil && drop(e.id) {
				continue
			}
			had[e.id] = true
			at[i] = len(s.docs)
			s.docs = append(s.docs, e)
		}
		for _, t := range part.terms {
			for _, p := range t.postings {
				if to := at[p.doc]; to >= 0 {
					lists[t.term] = append(lists[t.term], posting{uint32(to), p.count})
				}
			}
		}
	}
	s.setTerms(lists)
	return s
}

// level returns the level of a segment by the number of its documents.
func (s *segment) level() int {
	switch n := len(s.docs); {
	case n < fanIn[0]:
		return 0
	case n < fanIn[0]*fanIn[1]:
		return 1
	}
	return sealedLevel
}

// encode returns the record of a segment. Numbers are uvarints unless stated
// otherwise; a text is the number of its bytes and the bytes. Sorted or similar
// texts are written as the difference from the previous one: how many bytes are
// the same, and the rest as text.
//
//	format     a byte
//	language   text
//	labels     how many, the texts
//	documents  how many; each: id (as what differs), sum (4 bytes, little-endian),
//	           session, speaker, type, layer, scope (their places among labels),
//	           milliseconds after the one before (varint), length, flags (byte)
//	terms      how many; each: term (as what differs), documents, then for each
//	           its distance from the one before, doubled, and 1 more if it is
//	           followed by a count, which is 1 otherwise
//	check      CRC-32 (Castagnoli) of all before, 4 bytes, little-endian
func (s *segment) encode() []byte {
	b := appendText([]byte{segmentFormat}, s.language)
	b, places := s.appendLabels(b)
	b = binary.AppendUvarint(b, uint64(len(s.docs)))
	before := &entry{}
	for i := range s.docs {
		e := &s.docs[i]
		b = appendDifference(b, before.id, e.id)
		b = binary.LittleEndian.AppendUint32(b, e.sum)
		b = e.appendRest(b, places, before.time)
		before = e
	}
	b = binary.AppendUvarint(b, uint64(len(s.terms)))
	term := ""
	for _, t := range s.terms {
		b = appendDifference(b, term, t.term)
		term = t.term
		b = appendPostings(binary.AppendUvarint(b, uint64(len(t.postings))), t.postings)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// appendLabels appends the labels of all documents, and returns the index of
// each.
func (s *segment) appendLabels(b []byte) (_ []byte, places map[string]int) {
	places = make(map[string]int)
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
	return b, places
}

// appendRest appends what a segment says about a document besides its name.
func (e *entry) appendRest(b []byte, places map[string]int, before int64) []byte {
	for _, l := range e.labels {
		b = binary.AppendUvarint(b, uint64(places[l]))
	}
	b = binary.AppendVarint(b, e.time-before)
	b = binary.AppendUvarint(b, uint64(e.length))
	return append(b, e.flags)
}

func appendPostings(b []byte, list []posting) []byte {
	last := uint32(0)
	for _, p := range list {
		gap := uint64(p.doc-last) << 1
		last = p.doc
		if p.count == 1 {
			b = binary.AppendUvarint(b, gap)
		} else {
			b = binary.AppendUvarint(binary.AppendUvarint(b, gap|1), uint64(p.count))
		}
	}
	return b
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendDifference(b []byte, before, text string) []byte {
	same := 0
	for same < len(before) && same < len(text) && before[same] == text[same] {
		same++
	}
	return appendText(binary.AppendUvarint(b, uint64(same)), text[same:])
}

// texts reads texts that may be kept without keeping the segment in memory.
func (r *reader) texts() []string {
	list := make([]string, r.count())
	for i := range list {
		list[i] = strings.Clone(r.text())
	}
	return list
}

func (r *reader) difference(before string) string {
	same := r.uvarint()
	rest := r.text()
	if same > uint64(len(before)) {
		r.fail()
		return ""
	}
	if same == 0 {
		return strings.Clone(rest) // so that keeping it does not keep the segment
	}
	return before[:same] + rest
}

// decodeSegment reads a record of the first format. Postings are in order and refer
// to documents that there are.
func decodeSegment(record []byte) (*segment, error) {
	r := &reader{data: string(record)}
	s := &segment{language: r.text()}
	labels := r.texts()
	s.docs = make([]entry, r.count())
	before := entry{}
	for i := range s.docs {
		e := &s.docs[i]
		e.id = r.difference(before.id)
		e.sum = r.uint32()
		for l := range e.labels {
			if at := r.uvarint(); at < uint64(len(labels)) {
				e.labels[l] = labels[at]
			} else {
				r.fail()
			}
		}
		e.time = before.time + r.varint()
		e.length = int(min(r.uvarint(), math.MaxInt32))
		e.flags = r.byte()
		before = *e
	}
	s.terms = make([]termList, r.count())
	term := ""
	for i := range s.terms {
		term = r.difference(term)
		list := make([]posting, r.count())
		last := uint64(0)
		for j := range list {
			gap := r.uvarint()
			if last += gap >> 1; last >= uint64(len(s.docs)) || j > 0 && gap>>1 == 0 {
				r.fail()
			}
			count := uint64(1)
			if gap&1 != 0 {
				count = min(r.uvarint(), maxCount)
			}
			list[j] = posting{uint32(last), uint32(count)}
		}
		s.terms[i] = termList{term, list}
		if r.err != nil {
			break
		}
	}
	if r.err == nil && r.data != "" {
		r.fail()
	}
	if r.err != nil {
		return nil, r.err
	}
	return s, nil
}
