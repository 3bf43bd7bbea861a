package projection

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stratamem/strata/internal/appendjson"
)

// Everything that must handle every field of an [Item] and a [Part] is in this
// file. A test fills all fields by reflection, and fails if one is not carried
// over.

// AppendJSON appends the item in the form that encoding/json reads. The year of
// its time must have four digits.
func (it *Item) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendjson.Text(b, "id", it.ID)
	b = appendjson.String(appendjson.Field(b, "kind"), string(it.Kind))
	b = appendjson.Text(b, "role", string(it.Role))
	b = appendjson.Text(b, "name", it.Name)
	if len(it.Parts) > 0 {
		b = append(appendjson.Field(b, "parts"), '[')
		for i := range it.Parts {
			if i > 0 {
				b = append(b, ',')
			}
			b = it.Parts[i].appendJSON(b)
		}
		b = append(b, ']')
	}
	b = appendjson.Text(b, "call_id", it.CallID)
	b = appendjson.Text(b, "arguments", it.Arguments)
	b = appendjson.Bool(b, "failed", it.Failed)
	b = appendjson.Time(b, "time", it.Time)
	b = appendjson.Text(b, "layer", it.Layer)
	b = appendjson.Bool(b, "remembered", it.Remembered)
	b = appendjson.Text(b, "action", string(it.Action))
	b = appendjson.Texts(b, "refs", it.Refs)
	return append(b, '}')
}

func (p *Part) appendJSON(b []byte) []byte {
	b = append(b, '{')
	b = appendjson.String(appendjson.Field(b, "type"), string(p.Type))
	b = appendjson.Text(b, "text", p.Text)
	b = appendjson.Text(b, "url", p.URL)
	if len(p.Data) > 0 {
		b = append(appendjson.Field(b, "data"), '"')
		b = base64.StdEncoding.AppendEncode(b, p.Data)
		b = append(b, '"')
	}
	b = appendjson.Text(b, "media_type", p.MediaType)
	b = appendjson.Text(b, "name", p.Name)
	return append(b, '}')
}

// Equal reports whether two items have the same encoding.
func (it *Item) Equal(other *Item) bool {
	return it.Kind == other.Kind && it.Role == other.Role && it.Layer == other.Layer && it.Action == other.Action &&
		it.ID == other.ID && it.Name == other.Name && it.CallID == other.CallID && it.Arguments == other.Arguments &&
		it.Failed == other.Failed && it.Remembered == other.Remembered && it.Time.Equal(other.Time) &&
		slices.Equal(it.Refs, other.Refs) && slices.EqualFunc(it.Parts, other.Parts, Part.equal)
}

func (p Part) equal(other Part) bool {
	return p.Type == other.Type && p.Text == other.Text && p.URL == other.URL && p.MediaType == other.MediaType &&
		p.Name == other.Name && string(p.Data) == string(other.Data)
}

// Validate returns an error that says why the item is invalid: an unknown kind,
// role or type of part, or a time that cannot be encoded.
func (it *Item) Validate() error {
	switch it.Kind {
	case Message:
		switch it.Role {
		case System, Developer, User, Assistant:
		default:
			return fmt.Errorf("role %q is none of system, developer, user, assistant", it.Role)
		}
	case ToolCall, ToolResult, Reasoning:
	default:
		return fmt.Errorf("kind %q is none of message, tool_call, tool_result, reasoning", it.Kind)
	}
	if it.Remembered && (it.Kind != Message || it.Role != User) {
		return errors.New("what is remembered is a message with the role user")
	}
	for i := range it.Parts {
		switch it.Parts[i].Type {
		case TextPart, ImagePart, FilePart:
		default:
			return fmt.Errorf("part type %q is none of text, image, file", it.Parts[i].Type)
		}
	}
	if y := it.Time.UTC().Year(); y < 0 || y > 9999 {
		return fmt.Errorf("time has the year %d", y)
	}
	return nil
}

// Repair makes all texts of the item valid UTF-8, with U+FFFD for invalid
// bytes, and returns how many texts were invalid. It first copies what the item
// shares with others.
func (it *Item) Repair() (repaired int) {
	it.eachText(func(s *string) {
		if !utf8.ValidString(*s) {
			repaired++
		}
	})
	if repaired > 0 {
		it.Parts, it.Refs = slices.Clone(it.Parts), slices.Clone(it.Refs)
		it.eachText(func(s *string) { *s = strings.ToValidUTF8(*s, "\uFFFD") })
	}
	return repaired
}

// eachText calls f for each text that comes from outside, which excludes kinds,
// roles, types and actions.
func (it *Item) eachText(f func(*string)) {
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
