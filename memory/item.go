package memory

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stratamem/strata/projection"
)

// The bounds that keep a turn in one batch of storage.MaxBatchBytes. All are
// bytes of the encoding.
const (
	maxItem    = 4 << 20 // of one item
	maxItems   = 9 << 19 // of the items of one turn
	maxOutputs = 1 << 20 // of what all layers put out in one turn
	maxFixed   = 1 << 18 // of Options.System, and of Options.Tail
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

// take returns complete copies of items. If one cannot be taken, none is.
func (in *intake) take(items []projection.Item) ([]projection.Item, error) {
	taken := make([]projection.Item, len(items))
	for i := range items {
		it := &taken[i]
		*it = items[i]
		if reason := malformed(it); reason != "" {
			return nil, &ItemError{Index: i, Reason: reason}
		}
		in.repair(it)
		if it.ID == "" {
			it.ID = in.m.newID()
		}
		if it.Time.IsZero() {
			it.Time = in.clock()
		} else {
			it.Time = it.Time.Round(0).UTC()
		}
		if err := checkTime(it.Time); err != nil {
			return nil, &ItemError{Index: i, Reason: err.Error()}
		}
	}
	return taken, nil
}

// malformed says why an item is none.
func malformed(it *projection.Item) string {
	switch it.Kind {
	case projection.Message:
		switch it.Role {
		case projection.System, projection.Developer, projection.User, projection.Assistant:
		default:
			return fmt.Sprintf("role %q is none of system, developer, user, assistant", it.Role)
		}
	case projection.ToolCall, projection.ToolResult, projection.Reasoning:
	default:
		return fmt.Sprintf("kind %q is none of message, tool_call, tool_result, reasoning", it.Kind)
	}
	size := len(it.Arguments)
	for i := range it.Parts {
		switch it.Parts[i].Type {
		case projection.TextPart, projection.ImagePart, projection.FilePart:
		default:
			return fmt.Sprintf("part type %q is none of text, image, file", it.Parts[i].Type)
		}
		size += len(it.Parts[i].Text) + len(it.Parts[i].Data)
	}
	if size > maxItem {
		return fmt.Sprintf("%d bytes are over %d: shorten it", size, maxItem)
	}
	return ""
}

// repair makes all texts of an item valid UTF-8. What it shares with the
// caller's item is copied first.
func (in *intake) repair(it *projection.Item) {
	bad := 0
	text := func(s *string) {
		if !utf8.ValidString(*s) {
			bad++
		}
	}
	eachText(it, text)
	if bad == 0 {
		return
	}
	it.Parts = append([]projection.Part(nil), it.Parts...)
	it.Refs = append([]string(nil), it.Refs...)
	eachText(it, func(s *string) { *s = strings.ToValidUTF8(*s, "\uFFFD") })
	in.repaired += bad
}

func eachText(it *projection.Item, f func(*string)) {
	f(&it.ID)
	f(&it.Name)
	f(&it.CallID)
	f(&it.Arguments)
	f(&it.Layer)
	for i := range it.Parts {
		p := &it.Parts[i]
		f(&p.Text)
		f(&p.URL)
		f(&p.MediaType)
		f(&p.Name)
	}
	for i := range it.Refs {
		f(&it.Refs[i])
	}
}

// appendItems appends the encodings of items to those of a turn, with commas.
func appendItems(b []byte, items []projection.Item) ([]byte, error) {
	for i := range items {
		if len(b) > 0 {
			b = append(b, ',')
		}
		from := len(b)
		b = appendItem(b, &items[i])
		if n := len(b) - from; n > maxItem {
			return nil, &ItemError{Index: i, Reason: fmt.Sprintf("its encoding of %d bytes is over %d: shorten it", n, maxItem)}
		}
		if len(b) > maxItems {
			return nil, &ItemError{Index: i, Reason: fmt.Sprintf("with it the items of the turn are over %d bytes: shorten it, or commit what comes before it first", maxItems)}
		}
	}
	return b, nil
}

// outside says whether an item comes from outside rather than from the model.
func outside(it *projection.Item) bool {
	return it.Kind == projection.ToolResult || it.Kind == projection.Message && it.Role != projection.Assistant
}

// encodedLen is an upper bound of what text takes in an encoding; a rough one
// where even that is little beside limit.
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
