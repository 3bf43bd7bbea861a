package search

import (
	"fmt"
	"iter"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/french"
	"github.com/kljensen/snowball/hungarian"
	"github.com/kljensen/snowball/norwegian"
	"github.com/kljensen/snowball/russian"
	"github.com/kljensen/snowball/spanish"
	"github.com/kljensen/snowball/swedish"
)

// The stemmers are github.com/kljensen/snowball: of the two libraries in use it
// is the maintained one (2024; blevesearch/snowballstem has not changed since
// 2020), each language is a small package, and it is written by hand rather
// than translated from Snowball. Most English words are stemmed in this
// package.

// analysis turns text into terms. It is safe for concurrent use.
type analysis struct {
	language string
	stem     func(word string, stopWordsToo bool) string
	stop     func(word string) bool // carries no meaning anywhere
	ask      func(word string) bool // carries no meaning in a question
	base     map[string]string      // irregular forms

	mu    sync.Mutex
	stems map[string]string // of words met lately: a stem of a library takes a microsecond, half of an append
}

const maxStems = 1 << 11

// analysisOf returns the analysis of a language, "" for English.
func analysisOf(language string) (*analysis, error) {
	never := func(string) bool { return false }
	a := &analysis{language: language, stop: never, ask: never}
	switch language {
	case "", "english":
		a.language, a.stem, a.base = "english", func(word string, _ bool) string { return stemEnglish(word) }, irregular
		a.stop = func(w string) bool { return stopWords[w] }
		a.ask = func(w string) bool { return questionWords[w] }
	case "none":
	case "french":
		a.stem, a.stop = french.Stem, french.IsStopWord
	case "hungarian":
		a.stem, a.stop = hungarian.Stem, hungarian.IsStopWord
	case "norwegian":
		a.stem, a.stop = norwegian.Stem, norwegian.IsStopWord
	case "russian":
		a.stem, a.stop = russian.Stem, russian.IsStopWord
	case "spanish":
		a.stem, a.stop = spanish.Stem, spanish.IsStopWord
	case "swedish":
		a.stem, a.stop = swedish.Stem, swedish.IsStopWord
	default:
		return nil, fmt.Errorf("make index: unknown language %q: there are english, french, hungarian, norwegian, russian, spanish, swedish and none", language)
	}
	return a, nil
}

// term returns the term under which a word is indexed, and caches it.
func (a *analysis) term(word string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := a.stems[word]
	if !ok {
		if len(a.stems) == maxStems || a.stems == nil {
			a.stems = make(map[string]string)
		}
		word = strings.Clone(word)
		s = a.rareTerm(word)
		a.stems[word] = s
	}
	return s
}

// rareTerm is term, uncached, for a word that is unlikely to come again.
func (a *analysis) rareTerm(word string) string {
	if b, ok := a.base[word]; ok {
		word = b
	}
	if a.stem == nil {
		return word
	}
	return a.stem(word, true)
}

// word is a word of a text.
type word struct {
	text    string // in lower case
	capital bool   // whether it begins with a capital in the text
}

// maxWord bounds a word, in bytes. A longer one is cut into pieces.
const maxWord = 60

// words yields the words of a text: runs of letters, marks and digits. An
// apostrophe ends a word, and the rest of a contraction ("Anna's", "they'll")
// is dropped. In scripts without spaces between words, each pair of adjacent
// letters is a word, and so is a letter without a neighbour.
func words(text string) iter.Seq[word] {
	return func(yield func(word) bool) {
		start, end := -1, 0 // of a run
		dense := false      // whether the run is in a script without spaces
		plain := false      // whether it has only small letters and digits of ASCII
		var joint rune      // the apostrophe or hyphen right before the run
		var before string   // the word before the joint
		emit := func() bool {
			if start < 0 {
				return true
			}
			run := text[start:end]
			was, first := before, joint
			start, joint, before = -1, 0, ""
			if dense {
				return pairs(run, yield)
			}
			if first == '\'' && len(run) <= 2 {
				return true
			}
			r, _ := utf8.DecodeRuneInString(run)
			if before = run; !plain {
				before = strings.ToLower(run)
			}
			return yield(word{text: before, capital: unicode.IsUpper(r)}) &&
				(first != '-' || !unicode.IsLetter(r) || yield(word{text: was + before}))
		}
		for i, r := range text {
			small := r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
			if small && start >= 0 && !dense && end-start <= maxWord {
				end = i + 1
				continue
			}
			letter := unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) && start >= 0
			if !letter {
				ended := start >= 0
				if !emit() {
					return
				}
				switch joint = 0; {
				case ended && (r == '\'' || r == '’'):
					joint = '\''
				case ended && (r == '-' || r == '‐') && before != "" && before[0] > '9':
					joint = '-'
				}
				continue
			}
			d := r >= 0x0E00 && !unicode.IsMark(r) && unicode.In(r, spaceless...) || dense && start >= 0 && unicode.IsMark(r)
			if start >= 0 && (d != dense || end-start > maxWord && !unicode.IsMark(r)) && !emit() {
				return
			}
			if start < 0 {
				start, dense, plain = i, d, true
			}
			plain = plain && small
			end = i + utf8.RuneLen(r)
		}
		emit()
	}
}

// spaceless are the scripts that are cut into pairs. Korean has spaces, but its
// words take endings that pairs see through.
var spaceless = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

// pairs yields the pairs of neighbours in a run, or the run if it is one letter.
func pairs(run string, yield func(word) bool) bool {
	before := -1
	for i, r := range run {
		if before >= 0 && !yield(word{text: run[before : i+utf8.RuneLen(r)]}) {
			return false
		}
		before = i
	}
	return before > 0 || yield(word{text: run})
}
