// Package appendjson writes JSON by appending to a buffer: for records that are
// encoded at every turn, where encoding/json's reflection is most of the cost.
// encoding/json decodes its output to the same values.
//
// Fields are written in the order of the calls. Empty values are left out, as
// with omitempty.
package appendjson

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// String appends text as a JSON string with the fewest escapes: \" \\ \b \f \n \r
// \t, and \u00xx for other control characters. Invalid UTF-8 becomes replacement
// characters.
func String[T string | []byte](b []byte, text T) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := plainPrefix(text); i < len(text); i += plainPrefix(text[i:]) {
		c := text[i]
		if c >= utf8.RuneSelf {
			run := 1
			for i+run < len(text) && text[i+run] >= utf8.RuneSelf {
				run++
			}
			if !valid(text[i : i+run]) {
				b = append(b, text[from:i]...)
				for _, r := range string(text[i : i+run]) {
					b = utf8.AppendRune(b, r) // U+FFFD for each byte that is of none
				}
				from = i + run
			}
			i += run
			continue
		}
		b = append(b, text[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	return append(append(b, text[from:]...), '"')
}

func valid[T string | []byte](text T) bool {
	if text, ok := any(text).(string); ok {
		return utf8.ValidString(text)
	}
	return utf8.Valid([]byte(text))
}

// plainPrefix returns how many bytes at the start of text need no escaping in a
// JSON string. It examines eight at a time.
func plainPrefix[T string | []byte](text T) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(text); i += 8 {
		w := uint64(text[i]) | uint64(text[i+1])<<8 | uint64(text[i+2])<<16 | uint64(text[i+3])<<24 |
			uint64(text[i+4])<<32 | uint64(text[i+5])<<40 | uint64(text[i+6])<<48 | uint64(text[i+7])<<56
		quote, slash := w^'"'*ones, w^'\\'*ones
		if (w|(w-' '*ones)|(quote-ones)&^quote|(slash-ones)&^slash)&highs != 0 {
			break
		}
	}
	for ; i < len(text); i++ {
		if c := text[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// Field appends a name and a colon, after a comma unless an object has just
// begun.
func Field(b []byte, name string) []byte {
	if n := len(b); n > 0 && b[n-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

// Text appends a field with a text, unless it is empty.
func Text(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return String(Field(b, name), text)
}

// Int appends a field with a number, unless it is 0.
func Int(b []byte, name string, n int) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(Field(b, name), int64(n), 10)
}

// Bool appends a field with true, unless the value is false.
func Bool(b []byte, name string, v bool) []byte {
	if !v {
		return b
	}
	return append(Field(b, name), "true"...)
}

// Time appends a field with a time in RFC 3339, unless it is zero. The year
// must have four digits.
func Time(b []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	b = append(Field(b, name), '"')
	b = t.AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

// Texts appends a field with a list of texts, unless it is empty.
func Texts(b []byte, name string, texts []string) []byte {
	if len(texts) == 0 {
		return b
	}
	b = append(Field(b, name), '[')
	for i, t := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = String(b, t)
	}
	return append(b, ']')
}

// Ints appends a field with a list of numbers, unless it is empty.
func Ints(b []byte, name string, ns []int) []byte {
	if len(ns) == 0 {
		return b
	}
	b = append(Field(b, name), '[')
	for i, n := range ns {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return append(b, ']')
}

// Value appends the encoding/json form of a value that has one.
func Value(b []byte, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		return append(b, "null"...)
	}
	return append(b, data...)
}
