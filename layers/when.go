package layers

import (
	"regexp"
	"strings"
)

// when matches words that say when something is.
var when = regexp.MustCompile(`(?i)\b(?:\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}(?:[./]\d{2,4})?|\d{1,2}:\d\d|\d{1,2} ?[ap]m|` +
	`\d{1,2}(?:st|nd|rd|th)|mondays?|tuesdays?|wednesdays?|thursdays?|fridays?|saturdays?|sundays?|` +
	`january|february|march|april|june|july|august|september|october|november|december|` +
	`(?:in|on|by|until|since|of|next|last|this|end of|\d) may|` + // the month, not the verb
	`(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.? \d{1,2}|\d{1,2} (?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)|` +
	`today|tonight|tomorrow|yesterday|noon|midnight|(?:next|last|this) (?:week|weekend|month|quarter|year|spring|summer|autumn|fall|winter)|` +
	`end of (?:the )?(?:day|week|month|quarter|year)|(?:in|within) (?:\d+|a|an|one|two|three|four|five|six|seven) (?:minutes?|hours?|days?|weeks?|months?|years?)|q[1-4])\b`)

// relative matches the words of [when] that mean nothing without the day they
// were said on.
var relative = regexp.MustCompile(`(?i)\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:today|tonight|tomorrow|yesterday|next|last|this|in \w+ (?:minutes?|hours?|days?|weeks?|months?|years?)|end of (?:the )?(?:day|week|month|quarter|year))\b`)

// tellsWhen reports whether a text says when something is: whether when matches
// it. The expression is only run where one of its words or forms may be found,
// which spares nine of ten sentences.
func tellsWhen(s string) bool { return mayTellWhen(s) && when.MatchString(s) }

// whenWords has a word of each alternative of when that begins or ends with a
// word.
var whenWords = func() map[string]bool {
	set := make(map[string]bool)
	for w := range strings.FieldsSeq(`monday mondays tuesday tuesdays wednesday wednesdays thursday thursdays
		friday fridays saturday saturdays sunday sundays january february march april may june july august
		september october november december jan feb mar apr jun jul aug sep sept oct nov dec am pm
		today tonight tomorrow yesterday noon midnight minute minutes hour hours day days week weeks weekend
		month months quarter year years spring summer autumn fall winter q1 q2 q3 q4`) {
		set[w] = true
	}
	return set
}()

// mayTellWhen is false only where when does not match.
func mayTellWhen(s string) bool {
	const longest = len("wednesdays")
	var word [longest]byte
	for i := 0; i < len(s); {
		if !isWord(s[i]) {
			if strings.HasPrefix(s[i:], "ſ") || strings.HasPrefix(s[i:], "\u212A") { // fold to s and k
				return true
			}
			i++
			continue
		}
		start := i
		for i < len(s) && isWord(s[i]) {
			if n := i - start; n < longest {
				word[n] = lower(s[i])
			}
			i++
		}
		w := word[:min(i-start, longest)]
		if i-start <= longest && whenWords[string(w)] || isDigit(w[0]) && mayBeDate(w, s[i:]) {
			return true
		}
	}
	return false
}

// mayBeDate reports whether a word that begins with a digit may be a date, a time
// of day or an ordinal, given what follows it.
func mayBeDate(w []byte, after string) bool {
	if last := w[len(w)-1]; !isDigit(last) {
		return last == 'm' || last == 't' || last == 'd' || last == 'h' // am, pm, st, nd, rd, th
	}
	return len(w) <= 4 && len(after) > 1 && strings.IndexByte("./:-", after[0]) >= 0 && isDigit(after[1])
}

// isWord reports whether c is a character of a word, as an expression's \b
// understands it.
func isWord(c byte) bool {
	return isDigit(c) || c == '_' || lower(c) >= 'a' && lower(c) <= 'z'
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
