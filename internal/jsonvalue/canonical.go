package jsonvalue

import (
	"bytes"
	"slices"
)

// Canonical returns the form of a value that storage.Canonical describes. data
// must have passed [Check].
func Canonical(data []byte) []byte {
	s := scanner{data: data}
	n := s.tree()
	return n.canonical(make([]byte, 0, len(data)))
}

// node is a JSON value whose objects can be sorted before it is written.
// Building a tree keeps [Canonical] linear in the depth of the value.
type node struct {
	name    []byte // decoded; of a member of an object
	literal []byte // of a scalar
	open    byte   // '{' or '[', or 0 for a scalar
	inner   []node
}

// tree reads the value at pos and stops after it.
func (s *scanner) tree() node {
	s.space()
	n := node{open: s.peek()}
	if n.open != '{' && n.open != '[' {
		return node{literal: s.skip()}
	}
	s.pos++
	for s.more() {
		var name []byte
		if n.open == '{' {
			name = s.name()
		}
		value := s.tree()
		value.name = name
		n.inner = append(n.inner, value)
	}
	if n.open == '{' {
		slices.SortFunc(n.inner, func(a, b node) int { return bytes.Compare(a.name, b.name) })
	}
	return n
}

// canonical appends the canonical form of n.
func (n *node) canonical(out []byte) []byte {
	switch {
	case n.open != 0:
		out = append(out, n.open)
		for i := range n.inner {
			if i > 0 {
				out = append(out, ',')
			}
			if n.open == '{' {
				out = append(AppendString(out, n.inner[i].name), ':')
			}
			out = n.inner[i].canonical(out)
		}
		return append(out, n.open+2) // the closing bracket, two further in ASCII
	case n.literal[0] == '"':
		return AppendString(out, decode(n.literal))
	}
	return append(out, n.literal...)
}

// AppendString appends text as a string literal with the fewest escapes. text is
// valid UTF-8.
func AppendString(out, text []byte) []byte {
	out = append(out, '"')
	from := 0 // everything before it is written
	for i, c := range text {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		out = append(out, text[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\b':
			out = append(out, '\\', 'b')
		case '\f':
			out = append(out, '\\', 'f')
		case '\n':
			out = append(out, '\\', 'n')
		case '\r':
			out = append(out, '\\', 'r')
		case '\t':
			out = append(out, '\\', 't')
		default:
			out = append(out, '\\', 'u', '0', '0', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		}
	}
	out = append(out, text[from:]...)
	return append(out, '"')
}
