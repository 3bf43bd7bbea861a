package addition_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/internal/addition"
)

func note(n int) string {
	return fmt.Sprintf(`{"time":"2026-01-%02dT09:00:00Z","text":"%d boxes went to place %d"},`, n%28+1, n, n*n)
}

func notes(from, to int) string {
	var b strings.Builder
	for n := from; n < to; n++ {
		b.WriteString(note(n))
	}
	return b.String()
}

func TestFind(t *testing.T) {
	for _, c := range []struct{ what, from, to string }{
		{"nothing", notes(0, 50), notes(0, 50)},
		{"at the end", notes(0, 50), notes(0, 52)},
		{"at the beginning", notes(9, 50), notes(0, 50)},
		{"in the middle", notes(0, 50), notes(0, 20) + note(99) + notes(20, 50)},
		{"here and there", notes(0, 50), notes(0, 20) + note(99) + notes(20, 30) + notes(98, 99) + notes(30, 51)},
		{"to two lists", "[" + notes(0, 30) + "],[" + notes(30, 60) + "]", "[" + notes(0, 31) + "],[" + notes(30, 61) + "]"},
		{"to the one behind", "[" + notes(0, 30) + "],[]", "[" + notes(0, 30) + "],[" + note(1) + "]"},
		{"to nothing", "", note(1)},
	} {
		a, ok := addition.Find([]byte(c.from), []byte(c.to))
		if !ok || len(a.Fresh) != len(c.to)-len(c.from) {
			t.Errorf("%s: %t, %d bytes are new of %d", c.what, ok, len(a.Fresh), len(c.to)-len(c.from))
		}
		if got, ok := a.Apply([]byte(c.from)); !ok || string(got) != c.to {
			t.Errorf("%s: %t, %q", c.what, ok, got)
		}
	}
	for _, c := range []struct{ what, from, to string }{
		{"gone from the beginning", notes(0, 50), notes(1, 50)},
		{"gone from the end", notes(0, 50), notes(0, 49)},
		{"a window", "[" + notes(0, 50) + "]", "[" + notes(1, 51) + "]"},
		{"another order", notes(0, 30), notes(20, 30) + notes(0, 20)},
		{"another number", "[" + notes(0, 30) + "7]", "[" + notes(0, 30) + "8]"},
		{"all gone", notes(0, 1), ""},
	} {
		if a, ok := addition.Find([]byte(c.from), []byte(c.to)); ok {
			t.Errorf("%s is an addition: %v", c.what, a)
		}
	}
}

func TestApplyRefuses(t *testing.T) {
	for _, a := range []addition.Addition{
		{}, {Steps: []int{5, 0}}, {Steps: []int{3, 0}}, {Steps: []int{-1, 0, 5, 0}}, {Steps: []int{4}}, {Steps: []int{4, 1}},
		{Steps: []int{4, -1}}, {Steps: []int{4, 0}, Fresh: []byte("x")}, {Steps: []int{4, 1<<63 - 1}}, {Steps: []int{1<<63 - 1, 0}},
	} {
		if got, ok := a.Apply([]byte("0123")); ok {
			t.Errorf("%v makes %q", a, got)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add([]byte(notes(0, 9)), []byte(notes(0, 12)), 3)
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), []byte("aaaaaaaaaaaaaaaaaaaaaaaabaaaaaaaaaaaaaaaaaaaaaaa"), 0)
	f.Fuzz(func(t *testing.T, from, to []byte, at int) {
		a, ok := addition.Find(from, to)
		if ok && len(a.Fresh) != len(to)-len(from) {
			t.Errorf("%q to %q: %q is new", from, to, a.Fresh)
		}
		if !ok {
			if len(to) >= len(from) && (bytes.HasPrefix(to, from) || bytes.HasSuffix(to, from)) {
				t.Errorf("%q to %q is none", from, to)
			}
			return
		}
		if got, ok := a.Apply(from); !ok || !bytes.Equal(got, to) {
			t.Errorf("%q to %q: %v makes %q", from, to, a, got)
		}
		steps := slices.Clone(a.Steps)
		steps[(at&0xff)%len(steps)] = at
		addition.Addition{Steps: steps, Fresh: a.Fresh}.Apply(from)
	})
}

func BenchmarkFind(b *testing.B) {
	from, to := []byte("["+notes(0, 100)+"],["+notes(100, 110)+"]"), []byte("["+notes(0, 103)+"],["+notes(100, 111)+"]")
	b.SetBytes(int64(len(to)))
	b.ReportAllocs()
	for b.Loop() {
		addition.Find(from, to)
	}
}
