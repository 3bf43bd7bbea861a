package projection_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stratamem/strata/projection"
)

const mark = " … [shortened to fit]"

// TestShortenedResults: the results of the newest exchange share what must go by their
// sizes, one that is short enough among them; what is still too much goes to nothing.
func TestShortenedResults(t *testing.T) {
	for _, c := range []struct {
		name   string
		budget int
		sizes  []int // of results, to two calls of 5 tokens and a message of 5
		whole  []bool
		fails  bool
	}{
		{"all fit", 215, []int{100, 100}, []bool{true, true}, false},
		{"a token too many", 214, []int{100, 100}, []bool{false, true}, false},
		{"half must go", 115, []int{100, 100}, []bool{false, false}, false},
		{"by their sizes", 1115, []int{2000, 200}, []bool{false, false}, false},
		{"to nothing", 15 + 2*len(mark), []int{1000, 1000}, []bool{false, false}, false},
		{"not even that", 14 + 2*len(mark), []int{1000, 1000}, nil, true},
		{"shorter than the mark", 16 + len(mark), []int{1000, 1}, []bool{false, true}, false},
		{"as long as the mark", 15 + 2*len(mark), []int{1000, len(mark)}, []bool{false, true}, false},
		{"more than all must go", 20, []int{10, 10}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLineage(t)
			l.Policy = projection.Policy{Budget: c.budget, Reserve: -1}
			items := conversation("ucc")
			for i, size := range c.sizes {
				r := conversation("r" + "r")[i]
				r.Parts = []projection.Part{{Type: projection.TextPart, Text: strings.Repeat("x", size)}}
				items = append(items, r)
			}
			v, err := l.try(nil, items...)
			if c.fails {
				if err == nil {
					t.Fatalf("a view of %d tokens", v.Tokens)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			short, saved := 0, 0
			for i, it := range v.Items()[3:] {
				whole := !strings.HasSuffix(it.Text(), mark)
				if whole != c.whole[i] {
					t.Errorf("result %d has %d tokens of %d", i, len(it.Text()), c.sizes[i])
				}
				if !whole {
					short++
					saved += c.sizes[i] - len(it.Text())
				}
			}
			want := ""
			if short > 0 {
				want = fmt.Sprintf("%d tool results of the newest exchange were shortened by %d tokens", short, saved)
			}
			if got := strings.Join(v.Notes, "\n"); got != want {
				t.Errorf("notes %q, want %q", got, want)
			}
			if 10*v.Tokens < 8*c.budget {
				t.Errorf("%d tokens, though %d are allowed", v.Tokens, c.budget)
			}
		})
	}
}

// TestShortenedBesideItsQuestion: of what is shortened counts what is left, so the question
// stays where it stood.
func TestShortenedBesideItsQuestion(t *testing.T) {
	l := newLineage(t)
	l.Policy = projection.Policy{Budget: 200, Reserve: -1}
	items := conversation(strings.Repeat("a", 10) + "ucr")
	items[10] = user(strings.Repeat("?", 130))
	items[12].Parts[0].Text = strings.Repeat("r", 90)
	v := l.step(nil, items...)
	if from, pin := l.prefix.History(); from != 10 || pin != -1 || len(v.Notes) != 1 {
		t.Errorf("history from %d and %d, notes %q", from, pin, v.Notes)
	}
}

// TestShorteningCounts: a large result is not counted again and again.
func TestShorteningCounts(t *testing.T) {
	counted := 0
	l := newLineage(t)
	l.Tokenizer = counting{&counted}
	l.Policy = projection.Policy{Budget: 5000, Reserve: -1}
	l.append(conversation("uc")...)
	l.append(projection.Result("0", strings.Repeat("x", 1<<20)))
	counted = 0
	if v := l.step(nil); v.Tokens < 4500 || counted > 10 {
		t.Errorf("%d tokens of 5,000 after %d counts", v.Tokens, counted)
	}
}
