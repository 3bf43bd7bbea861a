package transcript

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// input reads a file in pieces of limited length.
type input struct {
	r      *bufio.Reader
	max    int // bytes of one entry
	line   int // of the next byte, from 1
	offset int64
	buf    []byte
}

func tooLong(length, limit int) string {
	return fmt.Sprintf("an entry of %d bytes: longer than %d", length, limit)
}

// nextLine returns the next line that is not blank. It does not keep a line
// that is too long.
func (in *input) nextLine() (record, error) {
	for {
		in.buf = in.buf[:0]
		length := 0
		var err error
		for {
			var part []byte
			part, err = in.r.ReadSlice('\n')
			length += len(part)
			if length <= in.max+2 { // a line end is not part of the entry
				in.buf = append(in.buf, part...)
			}
			if err != bufio.ErrBufferFull {
				break
			}
		}
		if length == 0 && err != nil {
			return record{}, err
		}
		if err != nil && err != io.EOF {
			return record{}, err
		}
		in.offset += int64(length)
		rec := record{line: in.line}
		in.line++
		if length > in.max+2 {
			rec.why = tooLong(length, in.max)
			return rec, nil
		}
		rec.raw = bytes.TrimSpace(in.buf)
		if len(rec.raw) > in.max {
			rec.raw, rec.why = nil, tooLong(len(rec.raw), in.max)
		}
		if len(rec.raw) > 0 || rec.why != "" {
			return rec, nil
		}
	}
}

// readByte returns the next byte.
func (in *input) readByte() (byte, error) {
	c, err := in.r.ReadByte()
	if err != nil {
		return 0, err
	}
	in.offset++
	if c == '\n' {
		in.line++
	}
	return c, nil
}

// peek returns the next byte that is not white space, without consuming it.
func (in *input) peek() (byte, error) {
	for {
		b, err := in.r.Peek(1)
		if err != nil {
			return 0, err
		}
		switch b[0] {
		case ' ', '\t', '\r', '\n':
			in.readByte() // cannot fail: it is buffered
		default:
			return b[0], nil
		}
	}
}

// value returns the next JSON value, delimited only by its brackets and quotes:
// the decoder decides whether it is valid. It stops before a comma, colon or
// bracket that is not part of the value, and may be empty.
func (in *input) value() (record, error) {
	if _, err := in.peek(); err != nil {
		return record{}, err
	}
	rec := record{line: in.line}
	in.buf = in.buf[:0]
	var s scan
	for !s.ended {
		if _, err := in.r.Peek(1); err == io.EOF && s.length > 0 {
			break
		} else if err != nil {
			return record{}, err
		}
		text, _ := in.r.Peek(in.r.Buffered()) // cannot fail: it is buffered
		text = text[:s.take(text)]
		if s.length <= in.max {
			in.buf = append(in.buf, text...)
		}
		in.line += bytes.Count(text, []byte("\n"))
		in.offset += int64(len(text))
		in.r.Discard(len(text)) // cannot fail either
	}
	if s.length > in.max {
		rec.why = tooLong(s.length, in.max)
	} else {
		rec.raw = in.buf
	}
	return rec, nil
}

// scan finds the end of a JSON value.
type scan struct {
	length          int
	depth           int
	quoted, escaped bool
	ended           bool
}

// take returns how many bytes of text belong to the value.
func (s *scan) take(text []byte) int {
	for i, c := range text {
		switch {
		case s.escaped:
			s.escaped = false
		case s.quoted:
			s.escaped = c == '\\'
			s.quoted = c != '"'
			s.ended = !s.quoted && s.depth == 0
		case s.depth == 0 && bytes.IndexByte([]byte(",:]} \t\r\n"), c) >= 0:
			s.ended = true
			return i
		case c == '"':
			s.quoted = true
		case c == '{', c == '[':
			s.depth++
		case c == '}', c == ']':
			s.depth--
			s.ended = s.depth == 0
		}
		s.length++
		if s.ended {
			return i + 1
		}
	}
	return len(text)
}
