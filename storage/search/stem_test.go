package search_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/kljensen/snowball/english"

	"github.com/stratamem/strata/storage/search"
)

// TestStemEnglish compares the stemmer with the library's: on the words of the texts
// in this repository, on pairs of them, and on letters put together with the endings
// that the rules are about.
func TestStemEnglish(t *testing.T) {
	checked := 0
	check := func(word string) {
		t.Helper()
		checked++
		if got, want := search.StemEnglish(word), english.Stem(word, true); got != want {
			t.Errorf("stem of %q is %q, want %q", word, got, want)
		}
	}
	files, err := filepath.Glob("../../bench/recall/testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no texts: %v", err)
	}
	before := ""
	for _, file := range append(files, "../../CHANGELOG.md", "../../DESIGN.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for word := range strings.FieldsFuncSeq(strings.ToLower(string(text)), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			check(word)
			check(before + word)
			before = word
		}
	}
	for _, special := range []string{"skis", "only", "gently", "proceeding", "news", "être", "ångström", "ядро", strings.Repeat("generations", 20)} {
		check(special)
	}
	rng := rand.New(rand.NewPCG(3, 3))
	ends := strings.Fields(`s ss us sses ied ies eed eedly ed edly ing ingly y ly ational fulness iveness ization ousness biliti bility lessli
		tional alism aliti ation entli fulli iviti ousli anci abli alli ator enci izer bli ogi li alize icate ative iciti ical ful ness
		ement ance ence able ible ment ent ant ism ate iti ous ive ize ion sion tion al er ic e l ll at bl iz bb dd tt`)
	starts := []string{"", "", "", "gener", "commun", "arsen", "y", "ay"}
	for range 200_000 {
		b := []byte(starts[rng.IntN(len(starts))])
		for range rng.IntN(7) {
			b = append(b, "aeiouybcdfghlmnrstwxz1"[rng.IntN(22)])
		}
		for range rng.IntN(3) {
			b = append(b, ends[rng.IntN(len(ends))]...)
		}
		check(string(b))
	}
	if checked < 250_000 {
		t.Errorf("only %d words were checked", checked)
	}
}

func FuzzStemEnglish(f *testing.F) {
	for _, word := range []string{"running", "agreed", "yodeling", "controlling", "ably"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		word = strings.ToLower(word)
		if strings.ContainsAny(word, "'’‘‛ \t\n\r\v\f\u0085\u00a0") {
			return // of no word
		}
		if got, want := search.StemEnglish(word), english.Stem(word, true); got != want {
			t.Errorf("stem of %q is %q, want %q", word, got, want)
		}
	})
}

func BenchmarkStem(b *testing.B) {
	words := strings.Fields("conversations running quickly databases understanding bank2023 finance roadtrip expenses tracker")
	b.Run("own", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			search.StemEnglish(words[i%len(words)])
		}
	})
	b.Run("library", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			english.Stem(words[i%len(words)], true)
		}
	})
}
