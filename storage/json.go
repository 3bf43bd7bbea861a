package storage

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

const maxDepth = 10_000

// documentRule returns the rule that value breaks as a document, or "".
func documentRule(value []byte) string {
	s := scanner{data: value}
	if s.space(); s.peek() != '{' {
		return "document is not a JSON object"
	}
	return jsonRule(value)
}

// jsonRule returns the rule that data breaks as one JSON value, or "".
func jsonRule(data []byte) string {
	s := scanner{data: data}
	s.space()
	if rule := s.check(); rule != "" {
		return rule
	}
	if s.space(); s.pos != len(data) {
		return s.malformed("something follows the value")
	}
	return ""
}

// scanner walks over JSON without decoding it. The methods named check
// validate; the others rely on data that was validated before.
type scanner struct {
	data  []byte
	pos   int
	depth int
	names [][]byte // of the objects that are open, decoded
}

func (s *scanner) malformed(why string) string {
	return "value is not JSON at byte " + strconv.Itoa(s.pos) + ": " + why
}

// peek returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// check validates the value at pos and stops after it.
func (s *scanner) check() string {
	switch c := s.peek(); {
	case c == '"':
		return s.checkString()
	case c == '{':
		return s.checkObject()
	case c == '[':
		return s.checkList()
	case c == '-' || c >= '0' && c <= '9':
		return s.checkNumber()
	case c == 't':
		return s.checkWord("true")
	case c == 'f':
		return s.checkWord("false")
	case c == 'n':
		return s.checkWord("null")
	}
	return s.malformed("no value begins here")
}

func (s *scanner) checkWord(word string) string {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
		return s.malformed("no value begins here")
	}
	s.pos += len(word)
	return ""
}

func (s *scanner) checkNumber() string {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if s.digits() == 0 {
		return s.malformed("number without digits")
	}
	if s.peek() == '.' {
		s.pos++
		if s.digits() == 0 {
			return s.malformed("number without digits after its point")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if s.digits() == 0 {
			return s.malformed("number without digits in its exponent")
		}
	}
	return ""
}

func (s *scanner) digits() int {
	from := s.pos
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos - from
}

func (s *scanner) checkString() string {
	s.pos++ // the quote
	for s.pos < len(s.data) {
		for s.pos+8 <= len(s.data) && plain(binary.LittleEndian.Uint64(s.data[s.pos:])) {
			s.pos += 8
		}
		if s.pos == len(s.data) {
			break
		}
		c := s.data[s.pos]
		switch {
		case c == '"':
			s.pos++
			return ""
		case c == '\\':
			if rule := s.checkEscape(); rule != "" {
				return rule
			}
		case c < 0x20:
			return s.malformed("control character in a string")
		case c < 0x80:
			s.pos++
		default:
			r, n := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && n == 1 {
				return "value has invalid UTF-8 at byte " + strconv.Itoa(s.pos)
			}
			s.pos += n
		}
	}
	return s.malformed("string without an end")
}

// plain tells whether none of eight bytes of a string needs a closer look:
// they are printable ASCII other than the quote and the backslash. (In bytes
// below 0x80, x - 0x20 and (x ^ c) - 1 borrow into the high bit exactly where x
// is a control character or is c; a borrow from a lower byte only follows one
// that was found.)
func plain(word uint64) bool {
	const ones = 0x0101010101010101
	quote, slash := word^ones*'"', word^ones*'\\'
	return (word|(word-ones*0x20)|(quote-ones)|(slash-ones))&(ones<<7) == 0
}

func (s *scanner) checkEscape() string {
	if s.pos+1 >= len(s.data) {
		return s.malformed("string without an end")
	}
	switch s.data[s.pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos += 2
		return ""
	case 'u':
		r := s.hex(s.pos)
		switch {
		case r < 0:
			return s.malformed("bad \\u escape")
		case utf16.IsSurrogate(r):
			if utf16.DecodeRune(r, s.hex(s.pos+6)) == utf8.RuneError {
				return "value has a lone surrogate at byte " + strconv.Itoa(s.pos)
			}
			s.pos += 6
		}
		s.pos += 6
		return ""
	}
	return s.malformed("unknown escape")
}

// hex returns the code unit of the \uXXXX at pos, or -1.
func (s *scanner) hex(pos int) rune {
	if pos+6 > len(s.data) || s.data[pos] != '\\' || s.data[pos+1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range s.data[pos+2 : pos+6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

func (s *scanner) checkList() string {
	if s.depth++; s.depth > maxDepth {
		return "value is nested over 10,000 deep"
	}
	defer func() { s.depth-- }()
	s.pos++
	if s.space(); s.peek() == ']' {
		s.pos++
		return ""
	}
	for {
		s.space()
		if rule := s.check(); rule != "" {
			return rule
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
		case ']':
			s.pos++
			return ""
		default:
			return s.malformed("list without comma or end")
		}
	}
}

func (s *scanner) checkObject() string {
	if s.depth++; s.depth > maxDepth {
		return "value is nested over 10,000 deep"
	}
	base := len(s.names)
	defer func() { s.depth, s.names = s.depth-1, s.names[:base] }()
	s.pos++
	if s.space(); s.peek() == '}' {
		s.pos++
		return ""
	}
	for {
		s.space()
		if s.peek() != '"' {
			return s.malformed("object without a name")
		}
		from := s.pos
		if rule := s.checkString(); rule != "" {
			return rule
		}
		s.names = append(s.names, decode(s.data[from:s.pos]))
		if s.space(); s.peek() != ':' {
			return s.malformed("name without a colon")
		}
		s.pos++
		s.space()
		if rule := s.check(); rule != "" {
			return rule
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			if duplicates(s.names[base:]) {
				return "value has an object with duplicate names"
			}
			return ""
		default:
			return s.malformed("object without comma or end")
		}
	}
}

// duplicates tells whether two names are equal. It may reorder them.
func duplicates(names [][]byte) bool {
	if len(names) > 16 {
		slices.SortFunc(names, bytes.Compare)
		for i := 1; i < len(names); i++ {
			if bytes.Equal(names[i-1], names[i]) {
				return true
			}
		}
		return false
	}
	for i, a := range names {
		for _, b := range names[:i] {
			if bytes.Equal(a, b) {
				return true
			}
		}
	}
	return false
}

// decode returns the text of a valid string literal, sharing its bytes where
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

// member is one name of an object with the bytes of its value.
type member struct{ name, value []byte }

// more tells whether another member or element follows, and stops before it or
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

// next returns the member of an object that comes next, and false at its end.
// pos is after the opening brace or after the member before.
func (s *scanner) next() (member, bool) {
	if !s.more() {
		return member{}, false
	}
	name := decode(s.literal())
	s.space()
	s.pos++ // the colon
	s.space()
	return member{name, s.skip()}, true
}

// element returns the element of a list that comes next, and false at its end.
func (s *scanner) element() ([]byte, bool) {
	if !s.more() {
		return nil, false
	}
	return s.skip(), true
}
