package tiktoken

import "unicode/utf8"

// Counter counts the tokens of a growing text, such as a streamed answer,
// without counting the same text again. It is not safe for concurrent use.
//
// It keeps only the end of the text that more text may change: a word or a run
// of white space. A text of only letters or only signs, without anything in
// between, consists entirely of such an end, and each Count counts it again.
type Counter struct {
	vocab   *vocabulary
	settled int    // number of tokens that further text cannot change
	open    []byte // the text after them
	at      int    // how far open was searched for the end of a piece
	before  uint8  // the class of the character before at, or 0
	tokens  int    // of open, if counted
	counted bool
}

// Counter returns a counter of an empty text.
func (t *Tokenizer) Counter() *Counter { return &Counter{vocab: t.vocab, counted: true} }

// Append adds to the text. The addition may begin or end within a character.
func (c *Counter) Append(text string) {
	if text == "" {
		return
	}
	c.counted = false
	c.open = append(c.open, text...)
	end := 0
	for c.at < len(c.open) && utf8.FullRune(c.open[c.at:]) {
		r, width := utf8.DecodeRune(c.open[c.at:])
		class := c.vocab.classes.of(r)
		if apart(c.before, class, r) {
			end = c.at
		}
		c.before = class
		c.at += width
	}
	if end > 0 {
		c.settled += c.vocab.count(valid(string(c.open[:end])), noLimit)
		c.open = append(c.open[:0], c.open[end:]...)
		c.at -= end
	}
}

// Count returns the tokens of the text so far, the same as [Tokenizer.Count]
// for all of it.
func (c *Counter) Count() int {
	if !c.counted {
		c.tokens, c.counted = c.vocab.count(valid(string(c.open)), noLimit), true
	}
	return c.settled + c.tokens
}

// apart reports whether no piece of either encoding has a character of class
// before followed by the character r of class after, and the pieces before r do
// not depend on r and what follows it. After white space they do: where its
// last piece ends depends on r.
func apart(before, after uint8, r rune) bool {
	switch before {
	case upper, lower, letter:
		return after&(number|space|newline|other) != 0 && r != '\''
	case number:
		return after != number
	case newline:
		return after&(space|newline) == 0 && r != '/'
	case mark, other:
		return after&(number|space) != 0
	}
	return false
}
