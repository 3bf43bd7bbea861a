package layers

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// words yields the words of a text in lower case: runs of letters, marks and
// digits. An apostrophe ends a word, and a single letter after it is dropped
// ("Anna's" is "anna"). In scripts without spaces between words, such as Han,
// Hiragana and Katakana, each pair of adjacent characters is a word. Stop words
// are left out, and the others are stemmed.
func words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start, apostrophe := -1, false
		var pair rune // the character before, in a script without spaces
		emit := func(end int) bool {
			if start < 0 {
				return true
			}
			w := text[start:end]
			short := apostrophe && utf8.RuneCountInString(w) == 1
			start, apostrophe = -1, false
			if w = strings.ToLower(w); short || stopWords[w] {
				return true
			}
			return yield(stem(w))
		}
		for i, r := range text {
			switch {
			case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
				if !emit(i) || pair != 0 && !yield(string(pair)+string(r)) {
					return
				}
				pair = r
				continue
			case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r) && start >= 0:
				if start < 0 {
					start = i
				} else if i-start > maxWord {
					if !emit(i) {
						return
					}
					start = i
				}
			default:
				ended := start >= 0
				if !emit(i) {
					return
				}
				apostrophe = ended && (r == '\'' || r == '’')
			}
			pair = 0
		}
		emit(len(text))
	}
}

// maxWord bounds a word, in bytes, because it is part of a key. A longer one is
// cut into pieces.
const maxWord = 60

// stem removes what looks like an English ending, so that box and boxes, decide
// and decided, plan and planning are equal. Without a dictionary, some
// different words become equal as well.
func stem(w string) string {
	if n := len(w); n > 3 && w[n-1] == 's' && w[n-2] != 's' && w[n-2] != 'u' && w[n-2] != 'i' {
		w = w[:n-1]
	}
	for _, end := range []string{"ing", "ed", "ie", "e"} {
		if n := len(w) - len(end); n >= 3 && w[n:] == end {
			if w = w[:n]; len(end) > 1 && n > 3 && w[n-1] == w[n-2] && w[n-1] != 'l' && w[n-1] != 's' {
				w = w[:n-1] // planned
			}
			break
		}
	}
	if n := len(w); n > 3 && w[n-1] == 'y' {
		w = w[:n-1] + "i" // cities is citi by now, so city must be too
	}
	return w
}

// stopWords say nothing about the subject of a text.
var stopWords = func() map[string]bool {
	set := make(map[string]bool)
	for w := range strings.FieldsSeq(`a about after again all also am an and any are as at be because been before being but by
		can could did do does doing don down each even few for from further get go got had has have having he her here him
		his hi how i if in into is it its just know let like ll me more most my no nor not now of off ok okay on once only
		or other our out over own please re s said same say she should so some such t tell than thank thanks that the their
		them then there these they this those through to too under until up us ve very was we were what when where which
		while who whom why will with would yes yeah you your`) {
		set[w] = true
	}
	return set
}()
