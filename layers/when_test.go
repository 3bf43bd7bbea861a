package layers_test

import (
	"strings"
	"testing"

	"github.com/stratamem/strata/layers"
)

var dated = []string{
	"due 2026-03-02", "on 2.3.", "on 02/03/26", "at 7:30", "7pm", "7 PM", "the 3rd", "Mondays!", "in May", "by 5 may", "next may",
	"Jan. 5", "sept 12", "5 aug", "tonight", "this WEEK", "next spring", "end of the day", "end of quarter",
	"within 3 days", "in a year", "Q3", "thurſday", "next wee\u212As weekend", "in a wee\u212As", "Monday/Tuesday", "(tomorrow)", "v1.2/3",
}

var undated = []string{
	"", "I may go", "maybe", "python3", "12345 things", "a 3-day trip", "2nde", "x7:30", "sundayish", "week", "in 2 ways", "1,000",
	"mayor of 2 towns", "é", "9 lives", "3.", "q5", "end of time",
}

func TestTellsWhen(t *testing.T) {
	for _, s := range dated {
		if !layers.TellsWhen(s) {
			t.Errorf("%q does not say when", s)
		}
	}
	for _, s := range undated {
		if layers.TellsWhen(s) {
			t.Errorf("%q says when", s)
		}
	}
}

// Looking first whether the expression may match changes no answer.
func FuzzTellsWhen(f *testing.F) {
	for _, s := range append(dated, undated...) {
		f.Add(s)
		f.Add(strings.ToUpper(s) + " " + s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := layers.TellsWhen(s), layers.When.MatchString(s); got != want {
			t.Errorf("%q: %t, the expression says %t", s, got, want)
		}
	})
}

func BenchmarkTellsWhen(b *testing.B) {
	const text = "The function returns an iterator over the 12 rows that match, which you close when you are done with it."
	b.Run("expression", func(b *testing.B) {
		for b.Loop() {
			layers.When.MatchString(text)
		}
	})
	b.Run("words-first", func(b *testing.B) {
		for b.Loop() {
			layers.TellsWhen(text)
		}
	})
}
