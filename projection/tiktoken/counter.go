package tiktoken

import "unicode/utf8"

// Counter counts the tokens of a text that grows, such as an answer that is
// streamed, without counting again what was counted. It is for one goroutine
// at a time.
//
// It keeps of the text only the end that more text may change: a word or a run
// of white space. A text of letters or signs alone, with nothing between, is all
// such an end, and each Count counts it again.
type Counter struct {
	vocab   *vocabulary
	settled int    // the tokens that no further text changes
	open    []byte // the text behind them
	at      int    // up to where in open it was looked for an end of pieces
	before  uint8  // the class of the character before at, or 0
	tokens  int    // of open, if counted
	counted bool
}

// Counter returns a counter of an empty text.
func (t *Tokenizer) Counter() *Counter { return &Counter{vocab: t.vocab, counted: true} }

// Append adds to the text. It may be any part of it: characters need not be
// whole.
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

// Count returns the tokens of the text so far, which are those that
// [Tokenizer.Count] finds in all of it.
func (c *Counter) Count() int {
	if !c.counted {
		c.tokens, c.counted = c.vocab.count(valid(string(c.open)), noLimit), true
	}
	return c.settled + c.tokens
}

// apart reports that no piece of either encoding has a character of class before
// and then the character r of class after, and that the pieces before r are the
// same without r and what follows it. After white space they are not: where its
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
