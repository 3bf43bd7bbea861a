// Package jsonvalue reads JSON in place: it checks that a text is JSON that
// every reader understands in the same way, walks over members and elements,
// and decodes only what is asked for.
//
// It does not decode into Go types, as encoding/json does. The one decision: a
// text is checked once, as a whole, and then walked over without further
// checks, so that reading three fields of a document costs as much as three
// fields.
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// Value is one JSON value, without white space around it, that has passed
// [Check]. Values within it share its bytes.
type Value []byte

// Of returns the value in data, which must have passed [Check].
func Of(data []byte) Value { return bytes.Trim(data, " \t\r\n") }

// IsObject reports whether v is an object.
func (v Value) IsObject() bool { return v[0] == '{' }

// IsList reports whether v is a list.
func (v Value) IsList() bool { return v[0] == '[' }

// Text returns the text of a string, and false if v is not a string.
func (v Value) Text() (string, bool) {
	if v[0] != '"' {
		return "", false
	}
	return string(decode(v)), true
}

// Scalar returns the text of a string, or a number or boolean as written, and
// false for null, objects and lists.
func (v Value) Scalar() (string, bool) {
	switch v[0] {
	case '"':
		return string(decode(v)), true
	case '{', '[', 'n':
		return "", false
	}
	return string(v), true
}

// Any returns the value as encoding/json would decode it, with numbers as
// [json.Number].
func (v Value) Any() any {
	s := scanner{data: v}
	return s.any()
}

// Members yields the names of an object, decoded, with their values, in the
// order written; nothing for any other value. A name is valid as long as the
// value is, and must not be modified.
func (v Value) Members() iter.Seq2[[]byte, Value] {
	return func(yield func([]byte, Value) bool) {
		if !v.IsObject() {
			return
		}
		s := scanner{data: v, pos: 1}
		for s.more() {
			name := s.name()
			if !yield(name, Value(s.skip())) {
				return
			}
		}
	}
}

// Elements yields the elements of a list; nothing for any other value.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if !v.IsList() {
			return
		}
		s := scanner{data: v, pos: 1}
		for s.more() {
			if !yield(s.skip()) {
				return
			}
		}
	}
}

// Fields yields the scalars of the members with one of the names: the name and
// one scalar at a time, in the order of the object. For a list, these are the
// scalars among its elements; duplicates are yielded as often as they occur.
func (v Value) Fields(names ...string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for name, value := range v.Members() {
			i := slices.Index(names, string(name))
			if i < 0 {
				continue
			}
			if text, ok := value.Scalar(); ok && !yield(names[i], text) {
				return
			}
			for e := range value.Elements() {
				if text, ok := e.Scalar(); ok && !yield(names[i], text) {
					return
				}
			}
		}
	}
}

// any decodes the value at pos and stops after it, in one pass, however deep it
// is.
func (s *scanner) any() any {
	switch s.peek() {
	case '{':
		s.pos++
		object := make(map[string]any)
		for s.more() {
			name := string(s.name())
			object[name] = s.any()
		}
		return object
	case '[':
		s.pos++
		list := []any{}
		for s.more() {
			list = append(list, s.any())
		}
		return list
	}
	switch v := s.skip(); v[0] {
	case '"':
		return string(decode(v))
	case 't', 'f':
		return v[0] == 't'
	case 'n':
		return nil
	default:
		return json.Number(v)
	}
}

// decode returns the text of a valid string literal, sharing its bytes if
// nothing is escaped.
func decode(literal []byte) []byte {
	inner := literal[1 : len(literal)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	text := make([]byte, 0, len(inner))
	s := scanner{data: inner}
	for s.pos < len(inner) {
		n := bytes.IndexByte(inner[s.pos:], '\\')
		if n < 0 {
			return append(text, inner[s.pos:]...)
		}
		text = append(text, inner[s.pos:s.pos+n]...)
		s.pos += n
		switch c := inner[s.pos+1]; c {
		case 'u':
			r := s.hex(s.pos)
			if utf16.IsSurrogate(r) {
				r = utf16.DecodeRune(r, s.hex(s.pos+6))
				s.pos += 6
			}
			text = utf8.AppendRune(text, r)
			s.pos += 6
			continue
		case 'b':
			text = append(text, '\b')
		case 'f':
			text = append(text, '\f')
		case 'n':
			text = append(text, '\n')
		case 'r':
			text = append(text, '\r')
		case 't':
			text = append(text, '\t')
		default:
			text = append(text, c)
		}
		s.pos += 2
	}
	return text
}

// literal returns the string literal at pos and stops after it.
func (s *scanner) literal() []byte {
	from := s.pos
	for s.pos++; ; s.pos++ {
		s.pos += bytes.IndexByte(s.data[s.pos:], '"')
		slashes := 0
		for s.data[s.pos-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			s.pos++
			return s.data[from:s.pos]
		}
	}
}

// skip returns the value at pos and stops after it.
func (s *scanner) skip() []byte {
	from := s.pos
	switch s.peek() {
	case '"':
		return s.literal()
	case '{', '[':
		open := 0
		for {
			switch s.data[s.pos] {
			case '"':
				s.literal()
				continue
			case '{', '[':
				open++
			case '}', ']':
				open--
			}
			s.pos++
			if open == 0 {
				return s.data[from:s.pos]
			}
		}
	}
	for s.pos < len(s.data) && bytes.IndexByte([]byte(",]} \t\r\n"), s.data[s.pos]) < 0 {
		s.pos++
	}
	return s.data[from:s.pos]
}

// more reports whether another member or element follows, and stops before it or
// after the closing bracket.
func (s *scanner) more() bool {
	s.space()
	if s.peek() == ',' {
		s.pos++
		s.space()
	}
	if c := s.peek(); c == '}' || c == ']' {
		s.pos++
		return false
	}
	return true
}

// name returns the name of the member at pos, decoded, and stops before its value.
func (s *scanner) name() []byte {
	name := decode(s.literal())
	s.space()
	s.pos++ // the colon
	s.space()
	return name
}
