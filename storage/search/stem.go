package search

import (
	"slices"
	"strings"

	"github.com/kljensen/snowball/english"
)

// stemEnglish is english.Stem for words in lower case, in a tenth of the time:
// a question has two stems for each of its words, see compounds. Porter2 is
// implemented here for ASCII, in the steps and with the names of
// https://snowballstem.org/algorithms/english/stemmer.html; the library handles
// other words.
func stemEnglish(word string) string {
	if len(word) <= 2 {
		return word
	}
	var room [2*maxWord + 8]byte
	if len(word) >= len(room) || specialStems[word] {
		return english.Stem(word, true)
	}
	for i := range len(word) {
		if c := word[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return english.Stem(word, true)
		}
	}
	s := stem{text: room[:copy(room[:], word)]}
	s.mark()
	s.plural()
	s.participle()
	s.finalY()
	s.derived()
	s.derivedMore()
	s.ending()
	s.final()
	for i, c := range s.text {
		if c == 'Y' {
			s.text[i] = 'y'
		}
	}
	if n := len(s.text); n <= len(word) && word[:n] == string(s.text) {
		return word[:n]
	}
	return string(s.text)
}

// specialStems has the words that follow no rule.
var specialStems = set(`skis skies dying lying tying idly gently ugly early only singly sky news howe atlas cosmos bias andes
	inning innings outing outings canning cannings herring herrings earring earrings
	proceed proceeds proceeded proceeding exceed exceeds exceeded exceeding succeed succeeds succeeded succeeding`)

// stem is a word being stemmed, in which a consonant y is written Y.
type stem struct {
	text   []byte
	r1, r2 int // where its regions R1 and R2 begin
}

func vowel(c byte) bool {
	return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u' || c == 'y'
}

// mark finds the consonant y's and the regions.
func (s *stem) mark() {
	for i, c := range s.text {
		if c == 'y' && (i == 0 || vowel(s.text[i-1])) {
			s.text[i] = 'Y'
		}
	}
	s.r1 = s.region(0)
	for _, prefix := range [...]string{"gener", "commun", "arsen"} {
		if strings.HasPrefix(string(s.text), prefix) {
			s.r1 = len(prefix)
		}
	}
	s.r2 = s.region(s.r1)
}

// region returns what follows the first consonant after a vowel.
func (s *stem) region(from int) int {
	for i := from + 1; i < len(s.text); i++ {
		if vowel(s.text[i-1]) && !vowel(s.text[i]) {
			return i + 1
		}
	}
	return len(s.text)
}

func (s *stem) ends(suffix string) bool {
	n := len(s.text) - len(suffix)
	return n >= 0 && string(s.text[n:]) == suffix
}

// replace replaces the last n letters by a text. No word gets longer than it
// was.
func (s *stem) replace(n int, by string) {
	at := len(s.text) - n
	s.text = s.text[:at+copy(s.text[at:at+len(by)], by)]
	s.r1, s.r2 = min(s.r1, len(s.text)), min(s.r2, len(s.text))
}

// hasVowel reports whether one of the first n letters is a vowel.
func (s *stem) hasVowel(n int) bool {
	return slices.ContainsFunc(s.text[:max(n, 0)], vowel)
}

// shortAt reports whether the first n letters end in a short syllable.
func (s *stem) shortAt(n int) bool {
	switch {
	case n < 2:
		return false
	case n == 2:
		return vowel(s.text[0]) && !vowel(s.text[1])
	}
	last := s.text[n-1]
	return !vowel(last) && last != 'w' && last != 'x' && last != 'Y' && vowel(s.text[n-2]) && !vowel(s.text[n-3])
}

// plural is step 1a.
func (s *stem) plural() {
	switch {
	case s.ends("sses"):
		s.replace(2, "")
	case s.ends("ied"), s.ends("ies"):
		if len(s.text) > 4 {
			s.replace(3, "i")
		} else {
			s.replace(3, "ie")
		}
	case s.ends("us"), s.ends("ss"):
	case s.ends("s") && s.hasVowel(len(s.text)-2):
		s.replace(1, "")
	}
}

// participle is step 1b.
func (s *stem) participle() {
	n := 0
	for _, suffix := range [...]string{"eedly", "ingly", "edly", "ing", "eed", "ed"} {
		if s.ends(suffix) {
			n = len(suffix)
			break
		}
	}
	switch {
	case n == 0:
		return
	case s.ends("eed"), s.ends("eedly"):
		if n <= len(s.text)-s.r1 {
			s.replace(n, "ee")
		}
		return
	case !s.hasVowel(len(s.text) - n):
		return
	}
	r1, r2 := s.r1, s.r2
	s.replace(n, "")
	switch n := len(s.text); {
	case s.ends("at"), s.ends("bl"), s.ends("iz"):
		s.replace(0, "e")
	case n > 1 && s.text[n-1] == s.text[n-2] && strings.IndexByte("bdfgmnprt", s.text[n-1]) >= 0:
		s.replace(1, "")
	case s.r1 == n && s.shortAt(n):
		s.replace(0, "e")
		r1, r2 = len(s.text), len(s.text)
	}
	s.r1, s.r2 = min(r1, len(s.text)), min(r2, len(s.text))
}

// finalY is step 1c.
func (s *stem) finalY() {
	if n := len(s.text); n > 2 && (s.text[n-1] == 'y' || s.text[n-1] == 'Y') && !vowel(s.text[n-2]) {
		s.text[n-1] = 'i'
	}
}

// suffix is a suffix and its replacement.
type suffix struct{ text, by string }

// suffixes are those of a step, longer ones first.
var (
	derivedSuffixes = []suffix{
		{"ational", "ate"}, {"fulness", "ful"}, {"iveness", "ive"}, {"ization", "ize"}, {"ousness", "ous"},
		{"biliti", "ble"}, {"lessli", "less"}, {"tional", "tion"}, {"alism", "al"}, {"aliti", "al"}, {"ation", "ate"},
		{"entli", "ent"}, {"fulli", "ful"}, {"iviti", "ive"}, {"ousli", "ous"}, {"anci", "ance"}, {"abli", "able"},
		{"alli", "al"}, {"ator", "ate"}, {"enci", "ence"}, {"izer", "ize"}, {"bli", "ble"}, {"ogi", "og"}, {"li", ""},
	}
	derivedMoreSuffixes = []suffix{
		{"ational", "ate"}, {"tional", "tion"}, {"alize", "al"}, {"icate", "ic"}, {"ative", ""},
		{"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""},
	}
	endings = []suffix{
		{"ement", ""}, {"ance", ""}, {"ence", ""}, {"able", ""}, {"ible", ""}, {"ment", ""},
		{"ent", ""}, {"ant", ""}, {"ism", ""}, {"ate", ""}, {"iti", ""}, {"ous", ""}, {"ive", ""},
		{"ize", ""}, {"ion", ""}, {"al", ""}, {"er", ""}, {"ic", ""},
	}
)

// find returns the first suffix of a list that the word has, or an empty one.
func (s *stem) find(list []suffix) suffix {
	if len(s.text) == 0 {
		return suffix{}
	}
	last := s.text[len(s.text)-1]
	for _, f := range list {
		if f.text[len(f.text)-1] == last && s.ends(f.text) {
			return f
		}
	}
	return suffix{}
}

// before reports whether the letter before a suffix is one of some.
func (s *stem) before(f suffix, letters string) bool {
	n := len(s.text) - len(f.text) - 1
	return n >= 0 && strings.IndexByte(letters, s.text[n]) >= 0
}

// derived is step 2.
func (s *stem) derived() {
	f := s.find(derivedSuffixes)
	switch {
	case f.text == "" || len(f.text) > len(s.text)-s.r1:
	case f.text == "li" && !s.before(f, "cdeghkmnrt"):
	case f.text == "ogi" && !s.before(f, "l"):
	default:
		s.replace(len(f.text), f.by)
	}
}

// derivedMore is step 3.
func (s *stem) derivedMore() {
	f := s.find(derivedMoreSuffixes)
	switch {
	case f.text == "" || len(f.text) > len(s.text)-s.r1:
	case f.text == "ative" && len(f.text) > len(s.text)-s.r2:
	default:
		s.replace(len(f.text), f.by)
	}
}

// ending is step 4.
func (s *stem) ending() {
	f := s.find(endings)
	switch {
	case f.text == "" || len(f.text) > len(s.text)-s.r2:
	case f.text == "ion" && !s.before(f, "st"):
	default:
		s.replace(len(f.text), "")
	}
}

// final is step 5.
func (s *stem) final() {
	n := len(s.text) - 1
	switch {
	case s.r1 > n:
	case s.text[n] == 'e':
		if s.r2 <= n || !s.shortAt(n) {
			s.replace(1, "")
		}
	case s.r2 <= n && s.text[n] == 'l' && n > 0 && s.text[n-1] == 'l':
		s.replace(1, "")
	}
}
