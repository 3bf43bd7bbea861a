package projection_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/projection"
)

// grown is a prefix that has something of all that a state carries: a layer whose text
// was published, one that says nothing, a summary or a pinned message, a call that waits.
func grown(t *testing.T, overflow projection.Overflow, question int) *lineage {
	l := newLineage(t)
	l.Policy = projection.Policy{Budget: 1000, Reserve: -1, Overflow: overflow, Summarize: func(context.Context, []projection.Item, int) (string, error) {
		return "long ago", nil
	}}
	l.append(conversation(strings.Repeat("a", question) + "u" + strings.Repeat("a", 200))...)
	for i := range 6 {
		l.step([]projection.Contribution{says("a", fmt.Sprint("note ", i/4)), says("b", "")}, assistant("more"))
	}
	l.step([]projection.Contribution{says("a", "note 1"), says("b", "")}, projection.Call("x", "f", "{}"))
	return l
}

// TestRestoredGoesOn: in another process the next view is the same, byte for byte, whatever
// the state has to carry.
func TestRestoredGoesOn(t *testing.T) {
	for _, overflow := range []projection.Overflow{projection.Truncate, projection.Summarize} {
		for _, question := range []int{0, 3} {
			l := grown(t, overflow, question)
			if _, pin := l.prefix.History(); pin != question {
				t.Fatalf("%s: pinned %d, want %d", overflow, pin, question)
			}
			again, err := restored(l.frame(), l.prefix)
			if err != nil {
				t.Fatal(err)
			}
			layers := []projection.Contribution{says("a", "note 1"), says("b", "")}
			items := []projection.Item{projection.Result("x", "found"), assistant("so")}
			again.Append(items...)
			w, err := again.Project(t.Context(), layers)
			if err != nil {
				t.Fatal(err)
			}
			v := l.step(layers, items...)
			if v.Opened != "" || !slices.Equal(show(v), show(w)) || v.Stable != w.Stable || v.StableTokens != w.StableTokens || v.History != w.History {
				t.Errorf("%s, pinned %d: opened %q and %q%.300q and %.300q", overflow, question, v.Opened, w.Opened, show(v), show(w))
			}
		}
	}
}

// TestRestoredPin: the pinned message may be older than what the log has at hand; it is then
// handed in, and only then.
func TestRestoredPin(t *testing.T) {
	for _, question := range []int{0, 3} {
		l := grown(t, projection.Truncate, question)
		var items []projection.Item
		state := l.prefix.AppendState(nil, func(it *projection.Item, size int) int {
			if want := projection.Size(oddTokenizer(0), it); size != want {
				t.Errorf("item of %d tokens is given with %d", want, size)
			}
			items = append(items, *it)
			return len(items) - 1
		})
		pinned := l.prefix.Items(question, question+1)[0]
		for first, ok := range map[int]bool{question: false, question + 1: true, question + 2: true} {
			p := l.frame().NewPrefix(first)
			p.Append(l.prefix.Items(first, l.prefix.Len())...)
			if err := p.Restore(state, at(items), &pinned); (err == nil) != ok {
				t.Errorf("message %d handed in to a log from %d: %v", question, first, err)
			}
			if ok && p.Query() != pinned.Text() {
				t.Errorf("query %q", p.Query())
			}
		}
	}
	l := newLineage(t)
	l.step(nil, user("u"))
	p := l.frame().NewPrefix(0)
	p.Append(user("u"))
	other := user("other")
	if err := p.Restore(l.prefix.AppendState(nil, nil), at(nil), &other); !errors.Is(err, projection.ErrState) {
		t.Errorf("a message handed in where none is pinned: %v", err)
	}
}

// TestDamagedState: what is not a whole state, and nothing behind it, is refused, and changes
// nothing.
func TestDamagedState(t *testing.T) {
	l := grown(t, projection.Summarize, 3)
	var items []projection.Item
	state := l.prefix.AppendState(nil, func(it *projection.Item, size int) int {
		if summary := strings.HasPrefix(it.Text(), "<summary data>"); summary != (size == -1) {
			t.Errorf("%q is given with %d tokens", it.Text(), size)
		}
		items = append(items, *it)
		return len(items) - 1
	})
	for _, c := range []struct {
		name  string
		state []byte
		want  string
	}{
		{"nothing", nil, "projection: state does not fit: it is cut short"},
		{"a newer version", append([]byte{state[0] + 1}, state[1:]...), fmt.Sprintf("projection: state does not fit: it has version %d, and %d is known", state[0]+1, state[0])},
		{"more behind it", append(slices.Clip(state), 0), "projection: state does not fit: it goes on"},
		{"no epoch", append([]byte{state[0], 0}, state[2:]...), "projection: state does not fit: it goes on"},
	} {
		p := l.frame().NewPrefix(0)
		p.Append(l.prefix.Items(0, l.prefix.Len())...)
		if err := p.Restore(c.state, at(items), nil); err == nil || err.Error() != c.want || !errors.Is(err, projection.ErrState) {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
		if from, pin := p.History(); from != 0 || pin != -1 {
			t.Errorf("%s: history is from %d and %d now", c.name, from, pin)
		}
	}
	for n := range state {
		p := l.frame().NewPrefix(0)
		p.Append(l.prefix.Items(0, l.prefix.Len())...)
		if err := p.Restore(state[:n], at(items), nil); !errors.Is(err, projection.ErrState) {
			t.Errorf("the first %d bytes of %d: error %v", n, len(state), err)
		}
	}
	p := l.frame().NewPrefix(0)
	p.Append(l.prefix.Items(0, l.prefix.Len())...)
	if err := p.Restore(state, at(items[:len(items)-1]), nil); err == nil || err.Error() != "projection: state does not fit: it refers to an item that is not there" {
		t.Errorf("an item is not there: %v", err)
	}
}
