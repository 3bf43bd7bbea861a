package layers

import (
	"regexp"
	"slices"
	"strings"
)

// The forms of words that say when something is. Each is a sequence of parts,
// each with one or more alternatives. A form matches whole words only, in any
// case.
var whenForms = forms(
	"#4-#2-#2", "#1,2[.|/]#1,2", "#1,2[.|/]#1,2[.|/]#2,4", "#1,2:#2", "#1,2[| ][am|pm]", "#1,2[st|nd|rd|th]",
	"[monday|tuesday|wednesday|thursday|friday|saturday|sunday][|s]",
	"[january|february|march|april|june|july|august|september|october|november|december]",
	"[in|on|by|until|since|of|next|last|this|end of] may", "#1 may", // the month, not the verb
	"[jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec][|.] #1,2", "#1,2 [jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec]",
	"[today|tonight|tomorrow|yesterday|noon|midnight]",
	"[next|last|this] [week|weekend|month|quarter|year|spring|summer|autumn|fall|winter]",
	"end of [|the ][day|week|month|quarter|year]",
	"[in|within] [a|an|one|two|three|four|five|six|seven] [minute|hour|day|week|month|year][|s]",
	"[in|within] #1,0 [minute|hour|day|week|month|year][|s]",
	"[q1|q2|q3|q4]",
)

// form is a sequence of parts.
type form []part

// part is a number of digits, or one of several texts.
type part struct {
	least, most int // digits; most is 0 if unlimited
	texts       []string
}

// forms parses forms as written above: #n means n digits, #n,m from n to m of
// them, with 0 for unlimited; [a|b] means a or b; anything else means itself.
func forms(list ...string) map[string][]form {
	byWord := make(map[string][]form) // by the beginning of a form: a word, or "#" for digits
	for _, s := range list {
		var f form
		for s != "" {
			switch s[0] {
			case '#':
				p := part{least: int(s[1] - '0'), most: int(s[1] - '0')}
				if s = s[2:]; len(s) > 1 && s[0] == ',' {
					p.most, s = int(s[1]-'0'), s[2:]
				}
				f = append(f, p)
			case '[':
				end := strings.IndexByte(s, ']')
				f = append(f, part{texts: strings.Split(s[1:end], "|")})
				s = s[end+1:]
			default:
				end := len(s)
				if i := strings.IndexAny(s, "#["); i > 0 {
					end = i
				}
				f = append(f, part{texts: []string{s[:end]}})
				s = s[end:]
			}
		}
		for _, word := range f.beginnings() {
			byWord[word] = append(byWord[word], f)
		}
	}
	return byWord
}

// beginnings returns the words with which a form may begin.
func (f form) beginnings() []string {
	if f[0].texts == nil {
		return []string{"#"}
	}
	var list []string
	for _, text := range f[0].texts {
		word, _, _ := strings.Cut(text, " ")
		list = append(list, word)
		if len(word) == len(text) && len(f) > 1 && slices.Contains(f[1].texts, "s") {
			list = append(list, word+"s")
		}
	}
	return list
}

// tellsWhen reports whether a text says when something is, which means that it
// matches one of whenForms.
func tellsWhen(s string) bool {
	for i := 0; i < len(s); {
		if !isWord(s[i]) {
			if folds(s[i:]) > 0 {
				return oddlyTellsWhen(s)
			}
			i++
			continue
		}
		const longest = len("wednesdays")
		var word [longest]byte
		start := i
		for i < len(s) && isWord(s[i]) {
			if n := i - start; n < longest {
				word[n] = lower(s[i])
			}
			i++
		}
		var list []form
		switch {
		case isDigit(s[start]):
			list = whenForms["#"]
		case i-start <= longest:
			list = whenForms[string(word[:i-start])]
		}
		for _, f := range list {
			if f.stands(s, start) {
				return true
			}
		}
	}
	return false
}

// oddlyTellsWhen is tellsWhen for a text that contains a letter beyond ASCII
// that folds to s or k. Such letters are not part of a word: words begin and
// end there.
func oddlyTellsWhen(s string) bool {
	for i := range s {
		if bounded(s, i) {
			for _, list := range whenForms {
				for _, f := range list {
					if f.stands(s, i) {
						return true
					}
				}
			}
		}
	}
	return false
}

// stands reports whether a form, or the rest of one, matches at an offset of a
// text and ends at the end of a word.
func (f form) stands(s string, at int) bool {
	if len(f) == 0 {
		return bounded(s, at)
	}
	p := &f[0]
	if p.texts == nil {
		n := 0
		for at+n < len(s) && isDigit(s[at+n]) && (p.most == 0 || n < p.most) {
			n++
		}
		for ; n >= p.least; n-- {
			if f[1:].stands(s, at+n) {
				return true
			}
		}
		return false
	}
	for _, text := range p.texts {
		if end := after(s, at, text); end >= 0 && f[1:].stands(s, end) {
			return true
		}
	}
	return false
}

// after returns the end of a text that matches at an offset of s, in any case,
// or -1.
func after(s string, at int, text string) int {
	for i := range len(text) {
		switch {
		case at == len(s):
			return -1
		case lower(s[at]) == text[i]:
			at++
		case text[i] == 's' && strings.HasPrefix(s[at:], longS), text[i] == 'k' && strings.HasPrefix(s[at:], kelvin):
			at += folds(s[at:])
		default:
			return -1
		}
	}
	return at
}

// The letters beyond ASCII that fold to s and k.
const longS, kelvin = "\u017F", "\u212A"

// folds returns the length of such a letter at the beginning of s, or 0.
func folds(s string) int {
	for _, letter := range []string{longS, kelvin} {
		if strings.HasPrefix(s, letter) {
			return len(letter)
		}
	}
	return 0
}

// bounded reports whether an offset of s is at the beginning or end of a word.
func bounded(s string, at int) bool {
	return (at > 0 && isWord(s[at-1])) != (at < len(s) && isWord(s[at]))
}

// relative matches the words of whenForms that mean nothing without the day on
// which they were said.
var relative = regexp.MustCompile(`(?i)\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:today|tonight|tomorrow|yesterday|next|last|this|in \w+ (?:minutes?|hours?|days?|weeks?|months?|years?)|end of (?:the )?(?:day|week|month|quarter|year))\b`)

// isWord reports whether c is a word character in the sense of \b in a regular
// expression.
func isWord(c byte) bool {
	return isDigit(c) || c == '_' || lower(c) >= 'a' && lower(c) <= 'z'
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
