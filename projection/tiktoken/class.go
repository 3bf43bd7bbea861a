package tiktoken

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// The classes of characters that the expressions of the encodings distinguish,
// as bits. A character is in exactly one.
const (
	upper   = 1 << iota // \p{Lu} \p{Lt}
	lower               // \p{Ll}
	letter              // \p{Lm} \p{Lo}, which are neither
	mark                // \p{M}
	number              // \p{N}
	space               // \s except newlines
	newline             // \r and \n
	other               // everything else
)

// classes has the class of every character below its length, which covers
// nearly all in use.
type classes struct {
	all   [0x20000]uint8
	ascii [256]uint8 // by byte; 0 for those that are not ASCII
}

// allClasses is built from the tables of package unicode when first needed, so
// that the classes are those of regular expressions compiled by the same
// toolchain. It takes 128 KiB and a quarter of a millisecond.
var allClasses = sync.OnceValue(func() *classes {
	c := new(classes)
	for r := range c.all {
		c.all[r] = other
	}
	for _, of := range classTables {
		for _, r := range of.table.R16 {
			c.set(rune(r.Lo), rune(r.Hi), rune(r.Stride), of.class)
		}
		for _, r := range of.table.R32 {
			c.set(rune(r.Lo), rune(r.Hi), rune(r.Stride), of.class)
		}
	}
	c.all['\r'], c.all['\n'] = newline, newline
	copy(c.ascii[:utf8.RuneSelf], c.all[:])
	return c
})

var classTables = []struct {
	table *unicode.RangeTable
	class uint8
}{
	{unicode.Lu, upper}, {unicode.Lt, upper},
	{unicode.Ll, lower},
	{unicode.Lm, letter}, {unicode.Lo, letter},
	{unicode.M, mark},
	{unicode.N, number},
	{unicode.White_Space, space},
}

func (c *classes) set(lo, hi, stride rune, class uint8) {
	for r := lo; r <= hi && int(r) < len(c.all); r += stride {
		c.all[r] = class
	}
}

// at returns the class of the character of s at i and its length in bytes. At
// the end of s both are 0.
func (c *classes) at(s string, i int) (class uint8, width int) {
	if i < len(s) && s[i] < utf8.RuneSelf {
		return c.ascii[s[i]], 1
	}
	return c.decode(s, i)
}

func (c *classes) decode(s string, i int) (uint8, int) {
	if i >= len(s) {
		return 0, 0
	}
	r, width := utf8.DecodeRuneInString(s[i:])
	return c.of(r), width
}

// of returns the class of a character.
func (c *classes) of(r rune) uint8 {
	if int(r) < len(c.all) {
		return c.all[r]
	}
	for _, of := range classTables {
		if unicode.Is(of.table, r) {
			return of.class
		}
	}
	return other
}
