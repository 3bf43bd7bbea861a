package docs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stratamem/strata/storage/search"
)

// The kinds of documents.
const (
	Markdown = "markdown"
	Text     = "text"
	HTML     = "html"
	Code     = "code"
)

// File is what a collection knows about a document besides its passages.
type File struct {
	Name     string    `json:"name"` // the name by which it is cited: a path with slashes, at most 900 bytes
	Kind     string    `json:"kind"` // one of the constants, for filters
	Size     int64     `json:"size"` // bytes of the file
	Modified time.Time `json:"modified"`
	Added    time.Time `json:"added"`         // when it was last read
	Digest   string    `json:"digest"`        // of the file's content
	Cut      string    `json:"cut,omitempty"` // how it was cut into passages, for the one who cuts
	Passages int       `json:"passages"`      // set by Put
	// Partial means that the document is being put or removed, or that this was
	// interrupted: do it again. Until then some of its passages may be missing, or
	// may still be there. Set by Put and Remove.
	Partial bool `json:"partial,omitempty"`
}

// Document is a file with its passages, in order.
type Document struct {
	File
	Passages []Passage
}

// Passage is a part of a document.
type Passage struct {
	File    string `json:"file"` // its name; set by Put
	Kind    string `json:"kind"` // of the file; set by Put
	First   int    `json:"first"`
	Last    int    `json:"last"` // lines of the file, from 1
	Heading string `json:"heading,omitempty"`
	Text    string `json:"text"` // under 1 MiB of UTF-8
}

// Cite says where a passage is: the file and its lines.
func (p *Passage) Cite() string {
	if p.First == p.Last {
		return fmt.Sprintf("%s:%d", p.File, p.First)
	}
	return fmt.Sprintf("%s:%d-%d", p.File, p.First, p.Last)
}

const (
	maxName    = 900 // bytes: with lines it is a label of the index
	maxHeading = 300 // bytes
	maxText    = 1<<20 - 2*maxHeading
	maxPlaces  = 1_000_000
)

// Validate returns an error if a document cannot be put.
func (d *Document) Validate() error {
	switch {
	case d.Name == "":
		return errors.New("it has no name")
	case len(d.Name) > maxName:
		return fmt.Errorf("its name is over %d bytes", maxName)
	case !utf8.ValidString(d.Name):
		return errors.New("its name is not UTF-8")
	case len(d.Passages) >= maxPlaces:
		return fmt.Errorf("it has over %d passages", maxPlaces)
	}
	for i := range d.Passages {
		switch p := &d.Passages[i]; {
		case len(p.Text) > maxText || !utf8.ValidString(p.Text):
			return errors.New("a passage is over 1 MiB or not UTF-8")
		case p.First < 1 || p.Last < p.First:
			return errors.New("a passage has no lines")
		}
	}
	return nil
}

// fileID names a file in keys.
func fileID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8])
}

// indexed returns the passages of a document as the index has them. The text
// begins with the heading, on a line of its own, so that its words count.
func (d *Document) indexed() []search.Doc {
	list := make([]search.Doc, len(d.Passages))
	for i := range d.Passages {
		p := d.Passages[i]
		p.File = d.Name
		x := &list[i]
		*x = search.Doc{Session: d.Name, Type: d.Kind, Source: p.Cite(), Text: oneLine(p.Heading) + "\n" + p.Text}
		sum := sha256.Sum256([]byte(x.Type + "\n" + x.Source + "\n" + x.Text))
		x.ID = fmt.Sprintf("%s-%06d-%s", fileID(d.Name), i, hex.EncodeToString(sum[:8]))
	}
	return list
}

// passage is the inverse of indexed.
func passage(x *search.Doc) Passage {
	p := Passage{File: x.Session, Kind: x.Type}
	p.Heading, p.Text, _ = strings.Cut(x.Text, "\n")
	lines := strings.TrimPrefix(x.Source, x.Session+":")
	first, last, ranged := strings.Cut(lines, "-")
	if !ranged {
		last = first
	}
	p.First, _ = strconv.Atoi(first)
	p.Last, _ = strconv.Atoi(last)
	return p
}

// oneLine returns a heading without line ends, cut to the limit.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if len(text) > maxHeading {
		n := maxHeading
		for !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	return text
}
