package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Text that is stored or read from a file is not trusted: it may contain
// sequences that move a terminal's cursor, rename its window or answer for its
// user. Print it only through one of these functions.

// printable returns text with control and invisible characters escaped, except
// line ends and tabs.
func printable(text string) string { return escape(text, true) }

// preview returns the beginning of text on one line of at most n columns, or
// nothing if there is no space.
func preview(text string, n int) string {
	n = max(n, 0)
	if limit := 8 * n; len(text) > limit { // spaces and escapes take more bytes than columns
		text = text[:limit] + "…"
	}
	return truncate(escape(strings.Join(strings.Fields(text), " "), false), n)
}

func escape(text string, lines bool) string {
	clean := true
	for i := 0; i < len(text) && clean; i++ {
		clean = text[i] >= ' ' && text[i] < 0x7f
	}
	if clean {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case lines && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		case hidden(r):
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteString(text[i : i+n])
		}
		i += n
	}
	return b.String()
}

// hidden reports whether a rune acts on a terminal or is invisible: controls,
// line separators, and format characters, except the joiners that scripts and
// emoji need.
func hidden(r rune) bool {
	const nonJoiner, joiner = 0x200c, 0x200d
	return unicode.IsControl(r) || r == 0x2028 || r == 0x2029 ||
		unicode.Is(unicode.Cf, r) && r != nonJoiner && r != joiner
}

// columns returns how many columns a terminal uses for text without escapes.
func columns(text string) int {
	n := 0
	for _, r := range text {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// truncate cuts text to n columns, with an ellipsis if something is lost.
func truncate(text string, n int) string {
	if len(text) <= n || columns(text) <= n {
		return text
	}
	if n <= 0 {
		return ""
	}
	used := 0
	for i, r := range text {
		if used += runeColumns(r); used > n-1 {
			return strings.TrimRight(text[:i], " ") + "…"
		}
	}
	return text
}

// pad fills text with spaces up to n columns.
func pad(text string, n int) string {
	return text + strings.Repeat(" ", max(n-columns(text), 0))
}

// padLeft puts spaces before text up to n columns.
func padLeft(text string, n int) string {
	return strings.Repeat(" ", max(n-columns(text), 0)) + text
}

// wrap breaks text into lines of at most n columns, at spaces if possible.
func wrap(text string, n int) []string {
	n = max(n, 8)
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.ReplaceAll(line, "\t", "    ")
		for columns(line) > n {
			used, at, space := 0, len(line), -1
			for i, r := range line {
				if used += runeColumns(r); used > n {
					at = i
					break
				}
				if r == ' ' && i > 0 {
					space = i
				}
			}
			if space > at/3 {
				at = space
			}
			lines = append(lines, strings.TrimRight(line[:at], " "))
			line = strings.TrimPrefix(line[at:], " ")
		}
		lines = append(lines, line)
	}
	return lines
}

// thousands formats a number with a comma at every third digit.
func thousands[T int | int64](n T) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// plural formats a number of things.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + many
}

// percent formats a share of a whole; nothing of nothing is 0.
func percent(part, whole int) string {
	if whole <= 0 {
		return "0 %"
	}
	return strconv.Itoa(int(float64(part)/float64(whole)*100)) + " %"
}

// printableWriter passes text through printable.
type printableWriter struct{ w io.Writer }

func (p *printableWriter) Write(b []byte) (int, error) {
	if _, err := fmt.Fprint(p.w, printable(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// onceWriter drops lines that were written before. Its user, an slog handler,
// writes one record at a time, sequentially.
type onceWriter struct {
	w    io.Writer
	said map[string]bool
}

func (o *onceWriter) Write(b []byte) (int, error) {
	if o.said[string(b)] {
		return len(b), nil
	}
	o.said[string(b)] = true
	return o.w.Write(b)
}
