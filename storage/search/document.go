package search

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"time"

	"github.com/stratamem/strata/internal/levels"
	"github.com/stratamem/strata/storage"
)

// Doc is what is found: a turn of a conversation, a note, a passage of a file.
type Doc struct {
	// ID identifies the document and its text: a different text must have a
	// different ID. It has at most 300 bytes when escaped as a segment of a key.
	ID string
	// Session is the conversation, file or other whole to which the document
	// belongs. The documents of a session are neighbours in the order of their
	// times, and of their IDs if times are equal. A document without a session has
	// no neighbours.
	Session string
	Speaker string // who says it
	Type    string // the caller's, for filters
	Layer   string // the caller's, for filters
	Scope   string // the caller's, for filters
	Source  string // where it comes from, for the caller: an item's id, a file with lines
	Time    time.Time
	Text    string // what is searched and shown

	// Record is the key from which the document was read, relative to the index.
	// Callers do not set it.
	Record string
}

const (
	docPrefix  = "d/"
	docFormat  = 1
	maxID      = 300 // bytes of a segment of a key
	maxText    = 1 << 20
	noTime     = math.MinInt64
	maxLabels  = 1 << 10 // bytes of each of the other texts of a document
	labelCount = 6
)

// DocKey returns the key of a document with a record of its own, relative to the
// index; see [Options.Bundle].
func DocKey(id string) string { return docPrefix + storage.EscapeSegment(id) }

// DocID returns the ID of the document to which a key, relative to the index,
// belongs, or the common part of the IDs of its documents, and false if it
// belongs to none.
func DocID(key string) (id string, ok bool) {
	segment, ok := strings.CutPrefix(key, docPrefix)
	if !ok {
		return "", false
	}
	id, err := storage.UnescapeSegment(segment)
	return id, err == nil
}

// IsSegment reports whether a key, relative to the index, is that of a segment.
// If documents are deleted while others write, a batch that removes a segment
// should have its existence as a precondition: otherwise a merge prepared
// earlier brings back the postings.
func IsSegment(key string) bool { return levels.IsSegment(key) }

func (d *Doc) labels() [labelCount]*string {
	return [labelCount]*string{&d.Session, &d.Speaker, &d.Type, &d.Layer, &d.Scope, &d.Source}
}

// validate returns an error if a document cannot be added.
func (d *Doc) validate() error {
	switch {
	case d.ID == "":
		return errors.New("append: a document has no id")
	case len(storage.EscapeSegment(d.ID)) > maxID:
		return errors.New("append: an id is over 300 bytes")
	case len(d.Text) > maxText:
		return fmt.Errorf("append: a text has %d bytes: cut it below 1 MiB", len(d.Text))
	}
	for _, l := range d.labels() {
		if len(*l) > maxLabels {
			return errors.New("append: a label of a document is over 1 KiB")
		}
	}
	return nil
}

// encode returns the record of a document: the format in a byte, the time in
// nanoseconds as a varint (the lowest value for none), then session, speaker,
// type, layer, scope, source and text, each as a uvarint of its length and its
// bytes.
func (d *Doc) encode() []byte {
	n := int64(noTime)
	if !d.Time.IsZero() {
		n = d.Time.UnixNano()
	}
	b := binary.AppendVarint([]byte{docFormat}, n)
	for _, l := range d.labels() {
		b = appendText(b, *l)
	}
	return appendText(b, d.Text)
}

// decodeDoc reads the record of a document.
func decodeDoc(id string, record []byte) (Doc, error) {
	d := Doc{ID: id, Record: DocKey(id)}
	r := reader{data: string(record)}
	err := r.doc(&d)
	return d, err
}

// doc reads all but the ID of a document, to the end.
func (r *reader) doc(d *Doc) error {
	if format := r.byte(); r.err == nil && format != docFormat {
		return &storage.FormatError{Reason: fmt.Sprintf("document of an index has format %d", format), Newer: format > docFormat}
	}
	if n := r.varint(); n != noTime {
		d.Time = time.Unix(0, n).UTC()
	}
	for _, l := range d.labels() {
		*l = r.text()
	}
	d.Text = r.text()
	if r.err == nil && r.data != "" {
		r.err = errShort
	}
	return r.err
}

// sum distinguishes a document from another with the same ID.
func sum(record []byte) uint32 {
	h := fnv.New32a()
	_, _ = h.Write(record)
	return h.Sum32()
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

var errShort = errors.New("record is damaged")

// reader decodes a record. After the first error it returns only zeros.
type reader struct {
	data string
	err  error
}

func (r *reader) fail() {
	r.data, r.err = "", errShort
}

func (r *reader) byte() byte {
	if r.data == "" {
		r.fail()
		return 0
	}
	b := r.data[0]
	r.data = r.data[1:]
	return b
}

func (r *reader) uvarint() uint64 {
	var x uint64
	for i := 0; i < len(r.data) && i < binary.MaxVarintLen64; i++ {
		b := r.data[i]
		x |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			r.data = r.data[i+1:]
			return x
		}
	}
	r.fail()
	return 0
}

func (r *reader) varint() int64 {
	u := r.uvarint()
	return int64(u>>1) ^ -int64(u&1)
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

func (r *reader) take(n int) string {
	if n > len(r.data) {
		r.fail()
		return ""
	}
	t := r.data[:n]
	r.data = r.data[n:]
	return t
}

func (r *reader) text() string { return r.take(r.count()) }
