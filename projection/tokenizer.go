package projection

import (
	"unicode/utf8"
)

// Tokenizer measures items in tokens. It must be deterministic and safe for
// concurrent use. A negative count means zero.
type Tokenizer interface {
	// Name identifies the counts: two tokenizers with the same name count alike.
	Name() string
	// Count returns the tokens of a text.
	Count(text string) int
	// CountPart returns the tokens of an image or a file.
	CountPart(p Part) int
	// Overhead is what every item costs in addition to its content: the role and
	// the separators of a chat template.
	Overhead() int
}

// Estimate counts without a vocabulary: one token for every four UTF-16 code
// units, rounded up, which is what providers advise for English text. An image
// counts 1,024 tokens; a file one for every four bytes, or 1,024 if given by
// URL.
type Estimate struct{}

// Name returns "estimate".
func (Estimate) Name() string { return "estimate" }

// Count returns the UTF-16 length of text divided by four, rounded up.
func (Estimate) Count(text string) int {
	return (UTF16Len(text) + 3) / 4
}

// CountPart counts an image or a file.
func (Estimate) CountPart(p Part) int {
	if p.Type == FilePart && p.URL == "" {
		return (len(p.Data) + 3) / 4
	}
	return 1024
}

// Overhead returns four tokens per item.
func (Estimate) Overhead() int { return 4 }

// UTF16Len returns the number of UTF-16 code units of text. A byte that is not
// valid UTF-8 counts as one.
func UTF16Len(text string) int {
	n := len(text)
	for i := 0; i < len(text); {
		if ascii8(text, i) {
			i += 8
			continue
		}
		if text[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		i += size
		n -= size - 1
		if r > 0xFFFF {
			n++
		}
	}
	return n
}

// ascii8 reports whether there are eight bytes from i on and all are ASCII. The
// compiler turns it into a single load.
func ascii8(s string, i int) bool {
	if len(s)-i < 8 {
		return false
	}
	s = s[i : i+8]
	w := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	return w&0x8080808080808080 == 0
}

// Size returns the tokens of an item: its text, its other parts, and the
// overhead. It saturates instead of overflowing.
func Size(t Tokenizer, it *Item) int {
	n := add(count(t, it.Text()), min(max(t.Overhead(), 0), maxTokens))
	for i := range it.Parts {
		if it.Parts[i].Type != TextPart {
			n = add(n, min(max(t.CountPart(it.Parts[i]), 0), maxTokens))
		}
	}
	return n
}

func count(t Tokenizer, text string) int { return min(max(t.Count(text), 0), maxTokens) }

// maxTokens is the most that an item counts, far beyond any model. Sums of
// millions of such items do not overflow.
const maxTokens = 1 << 40

func add(a, b int) int {
	if s := a + b; s < maxTokens {
		return s
	}
	return maxTokens
}
