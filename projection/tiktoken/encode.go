package tiktoken

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// noLimit is a limit that no text reaches.
const noLimit = math.MaxInt - 1

// Count returns the number of tokens of text, special tokens read as ordinary
// text. An invalid byte counts as U+FFFD, which it becomes in a request. The
// time is proportional to the length, at worst times its logarithm; memory is
// needed only for a text that is not valid UTF-8 and for a word of more than a
// few letters: some thirty times its length.
func (t *Tokenizer) Count(text string) int {
	return t.vocab.count(valid(text), noLimit)
}

// CountUpTo returns the number of tokens of text if that is at most limit, and
// otherwise limit+1, without reading on. A negative limit means 0. The limit
// bounds its time, whatever text is.
func (t *Tokenizer) CountUpTo(text string, limit int) int {
	limit = min(max(limit, 0), noLimit)
	if len(text)/maxToken > limit {
		return limit + 1
	}
	return t.vocab.count(valid(text), limit)
}

// count returns the number of tokens of s, which must be valid UTF-8, or
// limit+1.
func (v *vocabulary) count(s string, limit int) int {
	tokens := 0
	for i := 0; i < len(s); {
		j := v.split(v.classes, s, i)
		tokens += v.piece(s, i, j, nil)
		if tokens > limit {
			return limit + 1
		}
		i = j
	}
	return tokens
}

// Encode returns the ids of the tokens of text. There is no error: every text
// has tokens.
func (t *Tokenizer) Encode(text string) []int {
	s := valid(text)
	ids := make([]int, 0, len(s)/4+1)
	for i := 0; i < len(s); {
		j := t.vocab.split(t.vocab.classes, s, i)
		t.vocab.piece(s, i, j, &ids)
		i = j
	}
	return ids
}

// piece returns the number of tokens of the piece s[i:j], and appends them to
// ids unless that is nil.
func (v *vocabulary) piece(s string, i, j int, ids *[]int) int {
	id := v.id(s, i, j)
	if id == none {
		return v.merge(s[i:], j-i, ids)
	}
	if ids != nil {
		*ids = append(*ids, int(id))
	}
	return 1
}

// Decode returns the text of tokens. For the output of Encode it returns the
// text that was encoded, with U+FFFD for every invalid byte. Other tokens may
// begin or end within a character, so the result may not be valid UTF-8. If a
// number is not a token, or is a special token, the error is an [ErrUnknown].
func (t *Tokenizer) Decode(ids []int) (string, error) {
	var text strings.Builder
	for _, id := range ids {
		token := t.vocab.token(id)
		if token == nil {
			return "", fmt.Errorf("decode token %d: %w", id, ErrUnknown)
		}
		text.Write(token)
	}
	return text.String(), nil
}

// valid returns text with U+FFFD for every invalid byte, which is what becomes
// of it in a request.
func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var all strings.Builder
	all.Grow(len(text) + len(text)/8)
	for _, r := range text {
		all.WriteRune(r)
	}
	return all.String()
}
