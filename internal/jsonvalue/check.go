package jsonvalue

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep a value may be nested: the limit of encoding/json.
const maxDepth = 10_000

// Check returns the rule for a single JSON value that data breaks, or "". In
// addition to the grammar of RFC 8259 it requires what all readers agree on: no
// object has a name twice, with escapes decoded, no string has a lone
// surrogate, everything is valid UTF-8, and nothing is nested over 10,000 deep.
func Check(data []byte) (rule string) {
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
// validate; the others rely on earlier validation.
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
		for s.pos+8 <= len(s.data) {
			n := plain(binary.LittleEndian.Uint64(s.data[s.pos:]))
			if s.pos += n; n < 8 {
				break
			}
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
			for s.pos < len(s.data) && s.data[s.pos] >= 0x80 {
				r, n := utf8.DecodeRune(s.data[s.pos:])
				if r == utf8.RuneError && n == 1 {
					return "value has invalid UTF-8 at byte " + strconv.Itoa(s.pos)
				}
				s.pos += n
			}
		}
	}
	return s.malformed("string without an end")
}

// plain returns how many of eight bytes of a string need no closer look, up to
// the first that does: they are printable ASCII other than the quote and the
// backslash. (In bytes below 0x80, x - 0x20 and (x ^ c) - 1 borrow into the
// high bit exactly where x is a control character or is c; a borrow from a
// lower byte only follows one that was found.)
func plain(word uint64) int {
	const ones = 0x0101010101010101
	quote, slash := word^ones*'"', word^ones*'\\'
	return bits.TrailingZeros64((word|(word-ones*0x20)|(quote-ones)|(slash-ones))&(ones<<7)) / 8
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
	if s.names == nil {
		s.names = make([][]byte, 0, 16) // as most objects have
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

// duplicates reports whether two names are equal. It may reorder them.
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
