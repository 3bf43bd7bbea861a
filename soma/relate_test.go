package soma_test

import (
	"fmt"
	"testing"
)

// TestRelate: a relation is one of its type to its target, a new one replaces its properties,
// and one that contradicts without properties is a link of that field.
func TestRelate(t *testing.T) {
	w := newWorld(t, "mem")
	for _, name := range []string{"from", "one", "two"} {
		w.create(harvester, archived(name, "body of "+name))
	}
	relation := func(to, kind string, properties map[string]any) map[string]any {
		r := map[string]any{"to": "decision/" + to, "type": kind}
		if properties != nil {
			r["properties"] = properties
		}
		return r
	}
	well, badly, since := map[string]any{"how": "well"}, map[string]any{"how": "badly"}, map[string]any{"since": "May"}
	for i, c := range []struct {
		to, kind    string
		properties  map[string]any
		relations   []any
		contradicts any
	}{
		{"one", "explains", well, []any{relation("one", "explains", well)}, nil},
		{"two", "explains", nil, []any{relation("one", "explains", well), relation("two", "explains", nil)}, nil},
		{"two", "contradicts", nil, []any{relation("one", "explains", well), relation("two", "explains", nil)}, []any{"[[decision/two]]"}},
		{"one", "explains", badly, []any{relation("two", "explains", nil), relation("one", "explains", badly)}, []any{"[[decision/two]]"}},
		{"one", "contradicts", since, []any{relation("two", "explains", nil), relation("one", "explains", badly), relation("one", "contradicts", since)}, []any{"[[decision/two]]"}},
		{"one", "contradicts", nil, []any{relation("two", "explains", nil), relation("one", "explains", badly)}, []any{"[[decision/two]]", "[[decision/one]]"}},
		{"two", "contradicts", map[string]any{}, []any{relation("two", "explains", nil), relation("one", "explains", badly)}, []any{"[[decision/two]]", "[[decision/one]]"}},
	} {
		w.check(w.As(anna).Relate(w.Context(), "from", c.to, c.kind, c.properties))
		e := w.read("from")
		w.same(fmt.Sprint(i+1, ": relations"), e.Fields["relations"], any(c.relations))
		w.same(fmt.Sprint(i+1, ": contradicts"), e.Fields["contradicts"], c.contradicts)
	}
}
