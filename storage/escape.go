package storage

import (
	"strings"
	"unicode/utf8"
)

// EscapeSegment turns any text into a key segment. Different texts give
// different segments, and [UnescapeSegment] gives the text back.
//
// Bytes that cannot stand in a segment are written as % and two upper-case
// hex digits: "/" and "%", control characters, bytes that are not UTF-8, a
// leading "_" (so that no text becomes a record's namespace), and the dots of
// "." and "..". The empty text is a single "%". Everything else stays as it
// is.
func EscapeSegment(text string) string {
	switch text {
	case "":
		return "%"
	case ".":
		return "%2E"
	case "..":
		return "%2E%2E"
	}
	plain := 0
	for plain < len(text) && text[plain] < 0x80 && !escaped(text, plain) {
		plain++
	}
	if plain == len(text) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text) + 8)
	b.WriteString(text[:plain])
	for i := plain; i < len(text); {
		if escaped(text, i) {
			writeHex(&b, text[i])
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 || r >= 0x80 && r < 0xA0 {
			for range n {
				writeHex(&b, text[i])
				i++
			}
			continue
		}
		b.WriteString(text[i : i+n])
		i += n
	}
	return b.String()
}

// UnescapeSegment gives back the text that [EscapeSegment] was given. A
// segment that EscapeSegment does not produce is an [*InvalidError].
func UnescapeSegment(segment string) (string, error) {
	if segment == "%" {
		return "", nil
	}
	text := segment
	if strings.IndexByte(segment, '%') >= 0 {
		var b strings.Builder
		for i := 0; i < len(segment); i++ {
			if segment[i] != '%' {
				b.WriteByte(segment[i])
				continue
			}
			if i+2 >= len(segment) {
				return "", errSegment(segment)
			}
			high, low := strings.IndexByte(hexDigits, segment[i+1]), strings.IndexByte(hexDigits, segment[i+2])
			if high < 0 || low < 0 {
				return "", errSegment(segment)
			}
			b.WriteByte(byte(high<<4 | low))
			i += 2
		}
		text = b.String()
	}
	// One text, one segment: whoever decodes a key and encodes it again must
	// get the same key.
	if EscapeSegment(text) != segment {
		return "", errSegment(segment)
	}
	return text, nil
}

// Join escapes the segments and joins them with "/". The namespace of a record
// is no text and stands before it: "_runs/" + storage.Join(id, turn).
func Join(segments ...string) string {
	if len(segments) == 1 {
		return EscapeSegment(segments[0])
	}
	var b strings.Builder
	for i, s := range segments {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(EscapeSegment(s))
	}
	return b.String()
}

const hexDigits = "0123456789ABCDEF"

// escaped reports whether the ASCII byte at i is escaped.
func escaped(text string, i int) bool {
	c := text[i]
	return c < 0x20 || c == 0x7F || c == '/' || c == '%' || c == '_' && i == 0
}

func writeHex(b *strings.Builder, c byte) {
	b.WriteByte('%')
	b.WriteByte(hexDigits[c>>4])
	b.WriteByte(hexDigits[c&15])
}

func errSegment(segment string) error {
	return &InvalidError{Key: segment, Rule: "segment is not an escaped text"}
}
