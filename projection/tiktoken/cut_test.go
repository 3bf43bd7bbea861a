package tiktoken_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stratamem/strata/projection/tiktoken"
	"github.com/stratamem/strata/projection/tiktoken/internal/corpus"
)

func TestCutTo(t *testing.T) {
	tok := open(t, tiktoken.O200K)
	for _, test := range []struct {
		text string
		n    int
		want string
	}{
		{"The release moved to Thursday", 3, "The release moved"},
		{"The release moved to Thursday", 5, "The release moved to Thursday"},
		{"The release moved to Thursday", 6, "The release moved to Thursday"},
		{"The release moved to Thursday", 0, ""},
		{"The release moved to Thursday", -1, ""},
		{"", 0, ""},
		{"", 3, ""},
		{"antidisestablishmentarianism", 2, "antidis"}, // within a word
		{"🦙🦙", 1, ""},                                  // one is two tokens
		{"🦙🦙", 3, "🦙"},
		{"a\xff\xff\xff b", 1, "a"},
		{"a\xff\xff\xff\xffb", 2, "a\xff\xff\xff\xff"},
	} {
		if got := tok.CutTo(test.text, test.n); got != test.want {
			t.Errorf("%q cut to %d tokens is %q, want %q", test.text, test.n, got, test.want)
		}
	}
}

// checkCut compares a cut with its definition: the longest of the beginnings
// that are tokens of text, at most n, whole characters, and count at most n.
func checkCut(t *testing.T, tok *tiktoken.Tokenizer, text string, n int) {
	t.Helper()
	want, end := 0, 0
	valid := string([]rune(text))
	for k, id := range tok.Encode(text) {
		token, err := tok.Decode([]int{id})
		if err != nil {
			t.Fatal(err)
		}
		if end += len(token); k < n && (end == len(valid) || utf8.RuneStart(valid[end])) && tok.Count(valid[:end]) <= n {
			want = end
		}
	}
	got := tok.CutTo(text, n)
	if !strings.HasPrefix(text, got) || string([]rune(got)) != valid[:want] {
		t.Errorf("%s: %q cut to %d tokens is %q, want %q", tok.Name(), text, n, got, valid[:want])
	}
}

func checkCountUpTo(t *testing.T, tok *tiktoken.Tokenizer, text string, limit int) {
	t.Helper()
	if got, want := tok.CountUpTo(text, limit), min(tok.Count(text), max(limit, 0)+1); got != want {
		t.Errorf("%s: %q counted up to %d has %d tokens, want %d", tok.Name(), text, limit, got, want)
	}
}

// checkCounter lets text grow at some places, and counts at each.
func checkCounter(t *testing.T, tok *tiktoken.Tokenizer, text string, places []int) {
	t.Helper()
	c, last := tok.Counter(), 0
	for _, place := range append(places, len(text)) {
		if place = min(place, len(text)); place < last {
			continue
		}
		c.Append(text[last:place])
		last = place
		if place%3 == 0 {
			continue // more is appended before it is counted
		}
		if got, want := c.Count(), tok.Count(text[:place]); got != want {
			t.Fatalf("%s: %q, grown by %d bytes to %d, has %d tokens, want %d", tok.Name(), text, places, place, got, want)
		}
	}
	if got, want := c.Count(), tok.Count(text); got != want {
		t.Fatalf("%s: %q, grown by %d bytes, has %d tokens, want %d", tok.Name(), text, places, got, want)
	}
}

func TestRandomTexts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2_000 {
		text := corpus.Random(rng, func(id int) string {
			token, err := open(t, tiktoken.O200K).Decode([]int{id})
			if err != nil {
				t.Fatal(err)
			}
			return token
		})
		for _, name := range encodings {
			tok := open(t, name)
			checkCut(t, tok, text, rng.IntN(20))
			checkCountUpTo(t, tok, text, rng.IntN(40)-2)
			var places []int
			for at := 0; at < len(text); at += 1 + rng.IntN(1+rng.IntN(40)) {
				places = append(places, at)
			}
			checkCounter(t, tok, text, places)
		}
		if t.Failed() {
			return
		}
	}
}

func FuzzGrow(f *testing.F) {
	f.Add(corpus.Prose, uint8(3), 10)
	f.Add(" \n \n日本ABC'll\xe6\x97", uint8(1), 3)
	f.Add("   日本   é", uint8(2), 1)
	f.Fuzz(func(t *testing.T, text string, step uint8, n int) {
		if len(text) > 2000 {
			t.Skip()
		}
		for _, name := range encodings {
			tok := open(t, name)
			checkCut(t, tok, text, n)
			checkCountUpTo(t, tok, text, n)
			var places []int
			for at := 0; at < len(text); at += 1 + int(step)%16 {
				places = append(places, at)
			}
			checkCounter(t, tok, text, places)
		}
	})
}

// A limit decides about a text that is longer than so many tokens can be before
// any of it is read.
func TestCountUpToOfALongText(t *testing.T) {
	tok := open(t, tiktoken.CL100K)
	text := strings.Repeat("all of us ", 1<<20)
	for limit, want := range map[int]int{0: 1, 100: 101, 50_000: 50_001, math.MaxInt: 3<<20 + 1, math.MinInt: 1} {
		if got := tok.CountUpTo(text, limit); got != want {
			t.Errorf("up to %d: %d tokens, want %d", limit, got, want)
		}
	}
}
