package source

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// TextError says that a file has no text that could be cut.
type TextError struct {
	Line int // the line that is not UTF-8; 0 if the file is not text at all
}

func (e *TextError) Error() string {
	if e.Line == 0 {
		return "it is no text: it has bytes that are zero"
	}
	return fmt.Sprintf("line %d is not UTF-8: convert the file", e.Line)
}

// decode returns the lines of a file: UTF-8 with or without a byte order mark,
// or UTF-16 with one. "\r\n" becomes "\n".
func decode(data []byte) ([]line, error) {
	text := string(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	if wide, ok := decodeWide(data); ok {
		text = wide
	}
	if strings.IndexByte(text, 0) >= 0 {
		return nil, &TextError{}
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if !utf8.ValidString(text) {
		n := 1
		for l := range strings.Lines(text) {
			if !utf8.ValidString(l) {
				break
			}
			n++
		}
		return nil, &TextError{Line: n}
	}
	var list []line
	for l := range strings.Lines(text) {
		list = append(list, line{l, len(list) + 1, len(list) + 1})
	}
	return list, nil
}

// decodeWide decodes UTF-16 with a byte order mark.
func decodeWide(data []byte) (string, bool) {
	var order binary.ByteOrder
	switch {
	case len(data)%2 != 0:
		return "", false
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}):
		order = binary.LittleEndian
	case bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		order = binary.BigEndian
	default:
		return "", false
	}
	units := make([]uint16, 0, len(data)/2)
	for i := 2; i < len(data); i += 2 {
		units = append(units, order.Uint16(data[i:]))
	}
	return string(utf16.Decode(units)), true
}
