package tiktoken

// A splitter returns the end of the piece of s that begins at i, which is
// before the end of s: where a regular expression of OpenAI's tiktoken
// (tiktoken_ext/openai_public.py) would end its match. s is valid UTF-8. An
// expression always matches, and takes linear time, because what is read in
// vain is read again at most twice.
type splitter func(c *classes, s string, i int) int

// cl100k is
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)
//	[^\r\n\p{L}\p{N}]?\p{L}+
//	\p{N}{1,3}
//	 ?[^\s\p{L}\p{N}]+[\r\n]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
func cl100k(c *classes, s string, i int) int {
	const letters = upper | lower | letter
	if end := contraction(s, i); end > i {
		return end
	}
	class, width := c.at(s, i)
	switch {
	case class&letters != 0:
		return c.run(s, i+width, letters)
	case class == number:
		return c.digits(s, i)
	case class != newline: // it may precede a word
		if next, w := c.at(s, i+width); next&letters != 0 {
			return c.run(s, i+width+w, letters)
		}
	}
	if end := c.signs(s, i); end > i {
		for end < len(s) && (s[end] == '\r' || s[end] == '\n') {
			end++
		}
		return end
	}
	return c.spaces(s, i)
}

// o200k is
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	\p{N}{1,3}
//	 ?[^\s\p{L}\p{N}]+[\r\n/]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
func o200k(c *classes, s string, i int) int {
	// Most pieces are a word of small letters after a space or a capital.
	first := i
	if s[first] == ' ' && first+1 < len(s) {
		first++
	}
	if c.ascii[s[first]] == upper && first+1 < len(s) {
		first++
	}
	if c.ascii[s[first]] == lower {
		return contraction(s, c.run(s, first+1, lower|letter|mark))
	}
	class, width := c.at(s, i)
	switch {
	case class&(upper|lower|letter) != 0:
		end, capitals := c.word(s, i)
		if end < 0 {
			end = capitals
		}
		return contraction(s, end)
	case class == number:
		return c.digits(s, i)
	case class != newline: // it may precede a word
		end, capitals := c.word(s, i+width)
		if end < 0 && class == mark {
			end, _ = c.word(s, i) // or be one, before trying capitals
		}
		if end < 0 && capitals > i+width {
			end = capitals
		}
		if end > 0 {
			return contraction(s, end)
		}
	}
	if end := c.signs(s, i); end > i {
		for end < len(s) && (s[end] == '\r' || s[end] == '\n' || s[end] == '/') {
			end++
		}
		return end
	}
	return c.spaces(s, i)
}

// word returns the end of
//
//	[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+
//
// at i, or if that does not match -1 and the end of the capitals at i. Where no
// small letter ends the first class, the second has the last of the characters
// that are in both.
func (c *classes) word(s string, i int) (end, capitals int) {
	end = -1
	class, width := c.at(s, i)
	for class&(upper|letter|mark) != 0 {
		i += width
		if class != upper {
			end = i
		}
		class, width = c.at(s, i)
	}
	if class != lower {
		return end, i
	}
	return c.run(s, i+width, lower|letter|mark), 0
}

// run returns the end of the characters at i that are in some classes.
func (c *classes) run(s string, i int, of uint8) int {
	for {
		for i < len(s) && c.ascii[s[i]]&of != 0 {
			i++
		}
		class, width := c.at(s, i)
		if class&of == 0 {
			return i
		}
		i += width
	}
}

// digits returns the end of \p{N}{1,3} at a number.
func (c *classes) digits(s string, i int) int {
	for range 3 {
		class, width := c.at(s, i)
		if class != number {
			break
		}
		i += width
	}
	return i
}

// signs returns the end of ` ?[^\s\p{L}\p{N}]+` at i, or i.
func (c *classes) signs(s string, i int) int {
	start := i
	if s[i] == ' ' {
		start++
	}
	if end := c.run(s, start, other|mark); end > start {
		return end
	}
	return i
}

// spaces returns the end of `\s*[\r\n]+|\s+(?!\S)|\s+` at white space: after
// the last of its line ends, or else before the last of several characters if
// something other than white space follows, or else its end.
func (c *classes) spaces(s string, i int) int {
	line, last, end := 0, i, i
	for {
		class, width := c.at(s, end)
		if class&(space|newline) == 0 {
			break
		}
		last, end = end, end+width
		if class == newline {
			line = end
		}
	}
	switch {
	case line > 0:
		return line
	case end < len(s) && last > i:
		return last
	}
	return end
}

// contraction returns the end of (?i:'s|'t|'re|'ve|'m|'ll|'d) at i, or i.
func contraction(s string, i int) int {
	if len(s)-i < 2 || s[i] != '\'' {
		return i
	}
	switch s[i+1] | 0x20 {
	case 's', 't', 'm', 'd':
		return i + 2
	case 'r', 'v':
		if len(s)-i > 2 && s[i+2]|0x20 == 'e' {
			return i + 3
		}
	case 'l':
		if len(s)-i > 2 && s[i+2]|0x20 == 'l' {
			return i + 3
		}
	}
	return i
}
