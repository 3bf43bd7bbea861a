package search

import (
	"strings"
	"time"
	"unicode/utf8"
)

// months are the names of months in a question. "may" is a month only in
// certain contexts; see dateWords.
var months = map[string]time.Month{
	"january": 1, "february": 2, "march": 3, "april": 4, "may": 5, "june": 6, "july": 7, "august": 8, "september": 9,
	"october": 10, "november": 11, "december": 12, "jan": 1, "feb": 2, "apr": 4, "jun": 6, "jul": 7, "aug": 8,
	"sep": 9, "sept": 9, "oct": 10, "nov": 11, "dec": 12,
}

// timeWords are the words with which a text says when something is, besides
// months, years and times of day.
var timeWords = set(`today tonight tomorrow yesterday monday tuesday wednesday thursday friday saturday sunday weekend weekends
	week weeks month months year years day days morning afternoon evening night ago last next since soon recently
	spring summer autumn winter birthday anniversary hour hours christmas easter thanksgiving`)

// tellsTime reports whether a word says when something is.
func (w word) tellsTime() bool {
	if timeWords[w.text] || isYear(w.text) || w.capital && months[w.text] != 0 {
		return true
	}
	n := len(w.text) - 2
	return n > 0 && n <= 2 && (w.text[n:] == "am" || w.text[n:] == "pm") && number(w.text[:n]) > 0
}

// isQuestion reports whether a text asks something.
func isQuestion(text string) bool {
	return strings.IndexByte(text, '?') >= 0 || strings.Contains(text, "？")
}

// asksWhen reports whether a question asks for a time.
func asksWhen(list []word) bool {
	for i, w := range list {
		switch w.text {
		case "when":
			return true
		case "how":
			if i+1 < len(list) && list[i+1].text == "long" {
				return true
			}
		case "what", "which":
			if i+1 < len(list) {
				switch list[i+1].text {
				case "year", "month", "day", "date", "week", "time":
					return true
				}
			}
		}
	}
	return false
}

// A date is the day of a text: year<<9 | month<<5 | day, 0 for none.
type date uint32

func dateOf(t time.Time) date {
	y, m, d := t.UTC().Date()
	if y <= 0 || y >= 1<<22 {
		return 0
	}
	return date(y)<<9 | date(m)<<5 | date(d)
}

// dateWord is a part of a date in a query: the bits of want under mask.
type dateWord struct{ mask, want date }

func (w dateWord) match(d date) bool { return d != 0 && d&w.mask == w.want }

const (
	dayMask   date = 1<<5 - 1
	monthMask date = 1<<9 - 1<<5
	yearMask       = ^(dayMask | monthMask)
)

// dateWords returns the months, years and days of a month in a query: "May
// 2023", "the 8th of May", "2023-05-08". It marks their words in used.
func dateWords(list []word, used []bool) []dateWord {
	var out []dateWord
	monthAt := -1
	for i, w := range list {
		if isYear(w.text) {
			out, used[i] = append(out, dateWord{yearMask, date(number(w.text)) << 9}), true
			if i+2 < len(list) { // ISO
				m, d := number(list[i+1].text), number(list[i+2].text)
				if len(list[i+1].text) == 2 && m >= 1 && m <= 12 && len(list[i+2].text) == 2 && d >= 1 && d <= 31 {
					used[i+1], used[i+2] = true, true
					return append(out, dateWord{monthMask, date(m) << 5}, dateWord{dayMask, date(d)})
				}
			}
		}
		if m := months[w.text]; m != 0 && (w.capital && i > 0 || utf8.RuneCountInString(w.text) > 3 && w.text != "march") {
			out, used[i] = append(out, dateWord{monthMask, date(m) << 5}), true
			monthAt = i
		}
	}
	for _, i := range []int{monthAt - 2, monthAt - 1, monthAt + 1} {
		if monthAt < 0 || i < 0 || i >= len(list) || i == monthAt-2 && list[monthAt-1].text != "of" {
			continue
		}
		text := strings.TrimRight(list[i].text, "stndrh")
		if d := number(text); d >= 1 && d <= 31 {
			used[i] = true
			return append(out, dateWord{dayMask, date(d)})
		}
	}
	return out
}

func isYear(w string) bool {
	if len(w) != 4 {
		return false
	}
	n := number(w)
	return n >= 1900 && n < 2100
}

// number returns the value of at most four digits, and -1 for any other text.
func number(w string) int {
	if len(w) == 0 || len(w) > 4 {
		return -1
	}
	n := 0
	for i := range len(w) {
		if w[i] < '0' || w[i] > '9' {
			return -1
		}
		n = 10*n + int(w[i]-'0')
	}
	return n
}
