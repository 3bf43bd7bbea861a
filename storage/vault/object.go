package vault

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// field is one member of a document: its name and its value as JSON.
type field struct {
	name  string
	value []byte
	// raw is the field's source in the file it was read from, whole lines with the
	// comments before it; nil if it has no source of its own.
	raw []byte
}

// fieldBody is the field whose text is below the front matter.
const fieldBody = "body"

// members returns the members of a valid JSON object. Values share its memory.
func members(object []byte) []field {
	var fields []field
	i := skipSpace(object, 0) + 1 // the brace
	for {
		i = skipSpace(object, i)
		if object[i] == ',' {
			i = skipSpace(object, i+1)
		}
		if object[i] == '}' {
			return fields
		}
		end := skipValue(object, i)
		name := unquote(object[i:end])
		i = skipSpace(object, skipSpace(object, end)+1) // after the colon
		end = skipValue(object, i)
		fields = append(fields, field{name: name, value: object[i:end]})
		i = end
	}
}

func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns where the valid JSON value at i ends.
func skipValue(text []byte, i int) int {
	switch text[i] {
	case '"':
		return skipString(text, i)
	case '{', '[':
		for open := 0; ; {
			switch text[i] {
			case '"':
				i = skipString(text, i)
				continue
			case '{', '[':
				open++
			case '}', ']':
				open--
			}
			if i++; open == 0 {
				return i
			}
		}
	}
	for i < len(text) && bytes.IndexByte([]byte(",]} \t\r\n"), text[i]) < 0 {
		i++
	}
	return i
}

func skipString(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// unquote returns the text of a valid JSON string literal.
func unquote(literal []byte) string {
	inner := literal[1 : len(literal)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var text string
	if json.Unmarshal(literal, &text) != nil {
		return string(inner) // never: the literal is valid
	}
	return text
}

// appendQuoted appends text as a string literal that is valid JSON and a
// double-quoted scalar in every version of YAML: it escapes what YAML counts as
// unprintable or as a line break, and writes no surrogates.
func appendQuoted(out []byte, text string) []byte {
	const digits = "0123456789abcdef"
	out = append(out, '"')
	from := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= 0x20 && c < 0x7F && c != '"' && c != '\\' {
			i++
			continue
		}
		r, n := rune(c), 1
		if c >= utf8.RuneSelf {
			if r, n = utf8.DecodeRuneInString(text[i:]); !unprintable(r) {
				i += n
				continue
			}
		}
		out = append(out, text[from:i]...)
		i += n
		from = i
		switch r {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\b':
			out = append(out, `\b`...)
		case '\f':
			out = append(out, `\f`...)
		case '\n':
			out = append(out, `\n`...)
		case '\r':
			out = append(out, `\r`...)
		case '\t':
			out = append(out, `\t`...)
		default:
			out = append(out, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
		}
	}
	return append(append(out, text[from:]...), '"')
}

// unprintable reports whether YAML forbids a rune beyond ASCII or takes it for
// a line break. All of these are in the Basic Multilingual Plane.
func unprintable(r rune) bool {
	return r < 0xA0 || r == 0x2028 || r == 0x2029 || r == 0xFEFF || r == 0xFFFE || r == 0xFFFF
}

// appendInline appends a valid JSON value on one line, its strings as
// appendQuoted writes them.
func appendInline(out, value []byte) []byte {
	for i := 0; i < len(value); {
		switch c := value[i]; c {
		case ' ', '\t', '\r', '\n':
			i++
		case '"':
			end := skipString(value, i)
			out = appendQuoted(out, unquote(value[i:end]))
			i = end
		default:
			out = append(out, c)
			i++
		}
	}
	return out
}

// isNumber reports whether text is a number literal of JSON.
func isNumber(text string) bool {
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return false
	}
	return json.Valid([]byte(text)) && text == string(bytes.TrimSpace([]byte(text)))
}

// object encodes fields as a JSON object.
func object(fields []field) []byte {
	n := 2
	for _, f := range fields {
		n += len(f.name) + len(f.value) + 4
	}
	out := append(make([]byte, 0, n), '{')
	for i, f := range fields {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendQuoted(out, f.name), ':')
		out = append(out, f.value...)
	}
	return append(out, '}')
}

// sameJSON reports whether two valid values are equal apart from white space
// and the spelling of strings.
func sameJSON(a, b []byte) bool {
	return bytes.Equal(a, b) || bytes.Equal(appendInline(nil, a), appendInline(nil, b))
}

// text returns the text of a JSON string, and false for any other value.
func text(value []byte) (string, bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	return unquote(value), true
}

func itoa[N int | int64 | uint64](n N) string { return strconv.FormatInt(int64(n), 10) }
