package layers_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stratamem/strata/layers"
)

func TestEdited(t *testing.T) {
	const long = "a rule that is long enough to make a diff worthwhile beside it, and a second half to it\nanother one that makes the text longer still than its diff\n"
	for _, c := range []struct{ before, after, want string }{
		{long + "x", long + "y", "  another one that makes the text longer still than its diff\n- x\n+ y"},
		{long + "x", "y\n" + long + "x", "  (at the beginning)\n+ y"},
		{"x\n\n" + long, long, "  (at the beginning)\n- x\n- "},
		{long + "\nx", long, "  another one that makes the text longer still than its diff\n- x"},
		{"a\n\nb\n\nc\n" + long, "A\n\nB\n\nc\n" + long, "  (at the beginning)\n- a\n+ A\n- b\n+ B"},
		{"a\nb\nc\nd\n" + long, "a\nB\nc\nD\n" + long, "  a\n- b\n+ B\n  c\n- d\n+ D"},
		{long, long, ""},
		{long, "y", ""},
	} {
		got, ok := layers.Edited(c.before, c.after)
		_, diff, _ := strings.Cut(got, "\n")
		if ok != (c.want != "") || ok && diff != c.want {
			t.Errorf("from %q to %q: %q, %v, want %q", c.before, c.after, diff, ok, c.want)
		}
	}
}

// TestEditedIsWhole: of any edit, the lines with + and those that remain are the new
// text, and those with - and those that remain are the old one.
func TestEditedIsWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	lines := func() []string {
		l := make([]string, rng.IntN(12))
		for i := range l {
			l[i] = string(rune('a' + rng.IntN(5)))
		}
		return l
	}
	padding := strings.Repeat("x", 400)
	for range 2000 {
		old, now := append(lines(), padding), append(lines(), padding)
		got, ok := layers.Edited(strings.Join(old, "\n"), strings.Join(now, "\n"))
		if !ok {
			if strings.Join(old, "\n") != strings.Join(now, "\n") {
				t.Errorf("no diff from %q to %q", old, now)
			}
			continue
		}
		count := map[string]int{}
		for _, l := range strings.Split(got, "\n")[1:] {
			switch l[:2] {
			case "- ":
				count[l[2:]]--
			case "+ ":
				count[l[2:]]++
			}
		}
		for _, l := range old {
			count[l]++
		}
		for _, l := range now {
			count[l]--
		}
		for l, n := range count {
			if n != 0 {
				t.Fatalf("from %q to %q: %q is off by %d\n%s", old, now, l, n, got)
			}
		}
	}
}
