package locomo

import (
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stratamem/strata/storage/search"
)

// Rounds yields an endless sequence of conversations, always the same for a
// seed: those of the data, in order, and then again and again. In each round,
// every second name is replaced by another, and so is every number of two or
// more digits that is not a year. So old names are mentioned again, and new
// ones appear. Ids are <round>-<index>, from 0; there are no questions. If
// nobody says anything in the data, it yields nothing.
func Rounds(data []Conversation, seed uint64) iter.Seq[Conversation] {
	data = slices.DeleteFunc(slices.Clone(data), func(c Conversation) bool { return len(c.Turns) == 0 })
	names := namesIn(data)
	return func(yield func(Conversation) bool) {
		for round := 0; len(data) > 0; round++ {
			v := variation{names: names, seed: seed, round: round}
			for i := range data {
				if !yield(v.conversation(fmt.Sprintf("%d-%d", round, i), data[i].Turns)) {
					return
				}
			}
		}
	}
}

// variation is how the texts of a round differ from the data. Round 0 does not
// differ.
type variation struct {
	names map[string]bool
	seed  uint64
	round int
}

func (v *variation) conversation(id string, turns []search.Doc) Conversation {
	c := Conversation{ID: id, Turns: make([]search.Doc, len(turns))}
	for i, d := range turns {
		d.Text, d.Speaker = v.text(d.Text), v.text(d.Speaker)
		c.Turns[i] = d
	}
	return c
}

// text returns a text of the data as this round has it.
func (v *variation) text(text string) string {
	if v.round == 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		n := wordLen(text)
		if n == 0 {
			_, n = utf8.DecodeRuneInString(text)
			b.WriteString(text[:n])
		} else {
			b.WriteString(v.word(text[:n]))
		}
		text = text[n:]
	}
	return b.String()
}

// wordLen returns how many letters and digits a text begins with.
func wordLen(text string) int {
	for i, r := range text {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return i
		}
	}
	return len(text)
}

func (v *variation) word(w string) string {
	switch {
	case v.names[w]:
		r := v.draw(w)
		if r.IntN(2) == 0 {
			return w
		}
		return NewName(r)
	case isNumber(w):
		r := v.draw(w)
		digits := []byte(w)
		for i := range digits {
			digits[i] = byte('0' + r.IntN(10))
		}
		if digits[0] == '0' {
			digits[0] = '1'
		}
		return string(digits)
	}
	return w
}

// draw returns the random source for a word in this round, the same everywhere.
func (v *variation) draw(w string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(w))
	return rand.New(rand.NewPCG(v.seed^h.Sum64(), uint64(v.round)))
}

// isNumber reports whether a word is a number that may be replaced: a year, or
// a single digit, which counts a list, stays.
func isNumber(w string) bool {
	return len(w) > 1 && strings.Trim(w, "0123456789") == "" &&
		!(len(w) == 4 && (strings.HasPrefix(w, "19") || strings.HasPrefix(w, "20")))
}

// NewName invents a name of two or three syllables.
func NewName(r *rand.Rand) string {
	var b strings.Builder
	for range 2 + r.IntN(2) {
		b.WriteByte("bdfgklmnprstvz"[r.IntN(14)])
		b.WriteByte("aeiou"[r.IntN(5)])
	}
	b.WriteByte("lnrs"[r.IntN(4)])
	name := b.String()
	return strings.ToUpper(name[:1]) + name[1:]
}

// namesIn returns the names in the data: words that occur with a capital letter
// after one without, and never without it, except months and days; and speakers
// that are not roles.
func namesIn(data []Conversation) map[string]bool {
	seen, names := make(map[string]bool), make(map[string]bool)
	for i := range data {
		for j := range data[i].Turns {
			d := &data[i].Turns[j]
			names[d.Speaker] = true
			text := d.Text
			inside := false // whether after a word that is not a name
			for len(text) > 0 {
				n := wordLen(text)
				if n == 0 {
					inside = inside && text[0] == ' '
					_, n = utf8.DecodeRuneInString(text)
				} else {
					w := text[:n]
					seen[w] = true
					first, _ := utf8.DecodeRuneInString(w)
					if inside && unicode.IsUpper(first) && utf8.RuneCountInString(w) > 2 {
						names[w] = true
					}
					inside = unicode.IsLower(first)
				}
				text = text[n:]
			}
		}
	}
	maps.DeleteFunc(names, func(w string, _ bool) bool { return seen[strings.ToLower(w)] })
	for m := time.January; m <= time.December; m++ {
		delete(names, m.String())
		delete(names, time.Weekday(m%7).String())
	}
	delete(names, "user")
	delete(names, "assistant")
	return names
}
