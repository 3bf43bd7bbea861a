package layers

import (
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tidy returns at most limit bytes of text as valid UTF-8 without control
// characters, and whether it had to cut. The result does not keep a longer text
// in memory.
func tidy(text string, limit int) (tidied string, cut bool) {
	if cut = len(text) > limit; cut {
		text = strings.Clone(text[:limit])
		// Leave no half rune at the end.
		for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
			if c := text[len(text)-n]; utf8.RuneStart(c) {
				if !utf8.FullRuneInString(text[len(text)-n:]) {
					text = text[:len(text)-n]
				}
				break
			}
		}
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	if hasUnwanted(text) {
		text = strings.Map(func(r rune) rune {
			if unwanted(r) {
				return -1
			}
			return r
		}, strings.ReplaceAll(text, "\r\n", "\n"))
	}
	return text, cut
}

// hasUnwanted reports whether valid text has an unwanted character. It looks at
// bytes, because it checks all texts of a turn, several times.
func hasUnwanted(text string) bool {
	for i := range len(text) {
		c := text[i]
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7F || c == 0xC2 && text[i+1] < 0xA0 {
			return true
		}
	}
	return false
}

func unwanted(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

// line returns text on one line, tidied, of at most limit bytes, ending in an
// ellipsis if it was cut.
func line(text string, limit int) string {
	const mark = "…"
	text, cut := tidy(text, 4*limit)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > limit {
		text, _ = tidy(text, max(limit-len(mark), 0))
		cut = true
	}
	if cut {
		return strings.TrimRight(text, " ") + mark
	}
	return text
}

// sentences yields the sentences of text, except those inside code fences and
// quotes ("> ").
func sentences(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		fenced := false
		for l := range strings.Lines(text) {
			l = strings.TrimSpace(l)
			if strings.HasPrefix(l, "```") {
				fenced = !fenced
				continue
			}
			if fenced || strings.HasPrefix(l, ">") {
				continue
			}
			for l != "" {
				n := sentenceEnd(l)
				if s := strings.TrimSpace(l[:n]); s != "" && !yield(s) {
					return
				}
				l = l[n:]
			}
		}
	}
}

// sentenceEnd returns where the first sentence of a line ends.
func sentenceEnd(l string) int {
	for i, r := range l {
		switch r {
		case '。', '！', '？':
			return i + utf8.RuneLen(r)
		case '.', '!', '?':
			end := i + 1
			if end < len(l) && l[end] != ' ' && l[end] != '\t' {
				continue // inside 3.5, example.com, ?!
			}
			if r == '.' && abbreviated(l[:i]) {
				continue
			}
			return end
		}
	}
	return len(l)
}

// cut yields the parts of text, each at most about size bytes, that end where
// lines and sentences end, or else between words.
func cut(text string, size int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text = strings.TrimSpace(text); len(text) > size; {
			end := 0
			for end < size {
				l, _, more := strings.Cut(text[end:], "\n")
				n := sentenceEnd(l)
				if n == len(l) && more {
					n++ // with the newline
				}
				if n == 0 || end+n > size {
					break
				}
				end += n
			}
			if end < size/2 {
				if end = strings.LastIndexAny(text[:size], " \t\n"); end < size/2 {
					end = size
					for !utf8.RuneStart(text[end]) {
						end--
					}
				}
			}
			if part := strings.TrimSpace(text[:end]); part != "" && !yield(part) {
				return
			}
			text = strings.TrimSpace(text[end:])
		}
		if text != "" {
			yield(text)
		}
	}
}

var abbreviations = []string{"mr", "mrs", "ms", "dr", "prof", "st", "no", "vs", "etc", "approx", "e.g", "i.e", "inc", "jr", "sr"}

// abbreviated reports whether a full stop after text belongs to an
// abbreviation.
func abbreviated(text string) bool {
	word := text[strings.LastIndexAny(text, " \t(")+1:]
	return len(word) == 1 && word != "I" && !isDigit(word[0]) || slices.Contains(abbreviations, strings.ToLower(word))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// changed describes the step from one text to another, both consisting of
// independent lines. It is false if the whole text is shorter.
func changed(before, after string) (string, bool) {
	had := make(map[string]bool)
	for l := range strings.SplitSeq(before, "\n") {
		had[l] = true
	}
	has := make(map[string]bool)
	var b strings.Builder
	for l := range strings.SplitSeq(after, "\n") {
		if has[l] = true; !had[l] {
			b.WriteString("now: " + l + "\n")
		}
	}
	for l := range strings.SplitSeq(before, "\n") {
		if l != "" && !has[l] {
			b.WriteString("no longer: " + l + "\n")
		}
	}
	delta := strings.TrimSuffix(b.String(), "\n")
	return delta, delta != "" && len(delta) < len(after)
}
