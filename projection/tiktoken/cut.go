package tiktoken

import "unicode/utf8"

// CutTo returns the beginning of text that consists of its first n tokens, or
// fewer if necessary to end between two characters and to have no more than n
// tokens when read by itself. A text of at most n tokens is returned whole. It
// takes as long as [Tokenizer.Count].
func (t *Tokenizer) CutTo(text string, n int) string {
	s := valid(text)
	end := t.vocab.cut(s, n)
	if len(s) == len(text) {
		return text[:end]
	}
	// An invalid byte of text has become three bytes.
	for i := range text {
		if end <= 0 {
			return text[:i]
		}
		_, width := utf8.DecodeRuneInString(text[i:])
		end -= width
		if width == 1 && text[i] >= utf8.RuneSelf {
			end -= 2
		}
	}
	return text
}

// cut returns where to cut s, which must be valid UTF-8.
func (v *vocabulary) cut(s string, n int) int {
	last, lastTokens := 0, 0 // where the previous piece begins, and the number of tokens before it
	for i, tokens := 0, 0; i < len(s); {
		j := v.split(v.classes, s, i)
		more := v.piece(s, i, j, nil)
		if tokens+more > n {
			var ids []int
			v.piece(s, i, j, &ids)
			return v.cutPiece(s, i, ids[:max(n-tokens, 0)], last, n-lastTokens)
		}
		last, lastTokens = i, tokens
		tokens += more
		i = j
	}
	return len(s)
}

// cutPiece returns where to cut s after as many of ids as possible, which are
// the first tokens of the piece at i. Without its end the piece may be divided
// differently, and a space at its beginning may belong to the previous piece,
// which begins at last: the number of tokens from there on must not exceed n.
func (v *vocabulary) cutPiece(s string, i int, ids []int, last, n int) int {
	end := i
	for _, id := range ids {
		end += len(v.token(id))
	}
	for ; end > i; ids = ids[:len(ids)-1] {
		if utf8.RuneStart(s[end]) && v.count(s[last:end], n) <= n {
			break
		}
		end -= len(v.token(ids[len(ids)-1]))
	}
	return end
}
