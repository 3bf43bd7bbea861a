package jsonvalue

import (
	"bytes"
	"slices"

	"github.com/stratamem/strata/internal/appendjson"
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
				out = append(appendjson.String(out, n.inner[i].name), ':')
			}
			out = n.inner[i].canonical(out)
		}
		return append(out, n.open+2) // the closing bracket, two further in ASCII
	case n.literal[0] == '"':
		return appendjson.String(out, decode(n.literal))
	}
	return append(out, n.literal...)
}
