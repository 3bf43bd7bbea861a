package layers_test

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stratamem/strata/layers"
)

// when is the expression that TellsWhen stands for.
var when = regexp.MustCompile(`(?i)\b(?:\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}(?:[./]\d{2,4})?|\d{1,2}:\d\d|\d{1,2} ?[ap]m|` +
	`\d{1,2}(?:st|nd|rd|th)|mondays?|tuesdays?|wednesdays?|thursdays?|fridays?|saturdays?|sundays?|` +
	`january|february|march|april|june|july|august|september|october|november|december|` +
	`(?:in|on|by|until|since|of|next|last|this|end of|\d) may|` + // the month, not the verb
	`(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.? \d{1,2}|\d{1,2} (?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)|` +
	`today|tonight|tomorrow|yesterday|noon|midnight|(?:next|last|this) (?:week|weekend|month|quarter|year|spring|summer|autumn|fall|winter)|` +
	`end of (?:the )?(?:day|week|month|quarter|year)|(?:in|within) (?:\d+|a|an|one|two|three|four|five|six|seven) (?:minutes?|hours?|days?|weeks?|months?|years?)|q[1-4])\b`)

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

// TellsWhen says what the expression does.
func FuzzTellsWhen(f *testing.F) {
	for _, s := range append(dated, undated...) {
		f.Add(s)
		f.Add(strings.ToUpper(s) + " " + s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := layers.TellsWhen(s), when.MatchString(s); got != want {
			t.Errorf("%q: %t, the expression says %t", s, got, want)
		}
	})
}

// The words of the expression, in any order and with anything in between, are where
// the two might differ.
func TestTellsWhenOfWords(t *testing.T) {
	parts := strings.Fields(strings.ReplaceAll(`1 2 03 14 2026 20260 - - . / : am pm st nd rd th monday Mondays sunday wednesdays january may MAY december
		jan feb sep sept dec in on by until since of next last this end within the a an one seven minute minutes week weeks weekend
		month quarter year years days spring fall today tomorrow noon q1 Q4 q5 _ x é ſ K weeK thurſday s`, "K", "\u212A"))
	random := rand.New(rand.NewPCG(1, 1))
	for range 30_000 {
		var b strings.Builder
		for range 1 + random.IntN(6) {
			b.WriteString(parts[random.IntN(len(parts))])
			if random.IntN(3) > 0 {
				b.WriteByte(' ')
			}
		}
		if s := b.String(); layers.TellsWhen(s) != when.MatchString(s) {
			t.Fatalf("%q: %t, the expression says %t", s, layers.TellsWhen(s), when.MatchString(s))
		}
	}
}

func BenchmarkTellsWhen(b *testing.B) {
	const text = "The function returns an iterator over the 12 rows that match, which you close when you are done with it."
	b.Run("expression", func(b *testing.B) {
		for b.Loop() {
			when.MatchString(text)
		}
	})
	b.Run("forms", func(b *testing.B) {
		for b.Loop() {
			layers.TellsWhen(text)
		}
	})
}
