package memory

import (
	"fmt"
	"time"

	"github.com/stratamem/strata/projection"
)

// intake turns items from outside the library into items of a log: valid UTF-8,
// with an id and a time in UTC.
type intake struct {
	m        *Memory
	now      time.Time
	repaired int // texts that were not valid UTF-8
}

func (in *intake) clock() time.Time {
	if in.now.IsZero() {
		in.now = in.m.clock().Round(0).UTC()
	}
	return in.now
}

// complete returns complete copies of items, in buffer if it has room. If one
// item cannot be accepted, none is.
func (in *intake) complete(buffer, items []projection.Item) ([]projection.Item, error) {
	taken := append(buffer[:0], items...)
	for i := range items {
		it := &taken[i]
		if err := it.Validate(); err != nil {
			return nil, &ItemError{Index: i, Reason: err.Error()}
		}
		if n := contentLen(it); n > in.m.bounds.item {
			return nil, &ItemError{Index: i, Reason: fmt.Sprintf("%d bytes are over %d: shorten it", n, in.m.bounds.item)}
		}
		in.repaired += it.Repair()
		if it.ID == "" {
			it.ID = in.m.newID()
		}
		if it.Time.IsZero() {
			it.Time = in.clock()
		} else {
			it.Time = it.Time.Round(0).UTC()
		}
	}
	return taken, nil
}

// contentLen returns the size in bytes of an item's content, before encoding.
func contentLen(it *projection.Item) int {
	n := len(it.Arguments)
	for i := range it.Parts {
		n += len(it.Parts[i].Text) + len(it.Parts[i].Data)
	}
	return n
}

// appendItems appends the encodings of items to those of a turn, separated by
// commas.
func (m *Memory) appendItems(b []byte, items []projection.Item) ([]byte, error) {
	for i := range items {
		if len(b) > 0 {
			b = append(b, ',')
		}
		from := len(b)
		b = items[i].AppendJSON(b)
		if n := len(b) - from; n > m.bounds.item {
			return nil, &ItemError{Index: i, Reason: fmt.Sprintf("its encoding of %d bytes is over %d: shorten it", n, m.bounds.item)}
		}
		if len(b) > m.bounds.items {
			return nil, &ItemError{Index: i, Reason: fmt.Sprintf("with it the items of the turn are over %d bytes: shorten it, or commit what comes before it first", m.bounds.items)}
		}
	}
	return b, nil
}

// outside reports whether an item comes from outside rather than from the
// model.
func outside(it *projection.Item) bool {
	return it.Kind == projection.ToolResult || it.Kind == projection.Message && it.Role != projection.Assistant
}

// encodedLen returns an upper bound of the size of text when encoded; a rough
// one if even that is small compared to limit.
func encodedLen(text string, limit int) int {
	const longest = 6 // bytes of an escaped character
	n := len(text) + 2
	if n*longest < limit/64 {
		return n * longest
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			n++
		case c < ' ':
			n += longest - 1
		}
	}
	return n
}
