package thread_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// TestRecordsCarryEveryField: package memory encodes records by hand, and a field
// that is added to one of their types and not to that is found here.
func TestRecordsCarryEveryField(t *testing.T) {
	store := mem.New()
	liveThrough(t, store)
	seen := map[string]bool{}
	for x, err := range thread.Runs(t.Context(), store) {
		if err != nil {
			t.Fatal(err)
		}
		mark(seen, reflect.ValueOf(*x))
		for turn, err := range thread.RunTurns(t.Context(), store, x.ID) {
			if err != nil {
				t.Fatal(err)
			}
			mark(seen, reflect.ValueOf(*turn))
		}
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[thread.Run](), reflect.TypeFor[thread.Turn]()} {
		if !seen[typ.String()] {
			t.Errorf("there is no %s", typ)
		}
	}
	for name, set := range seen {
		if !set {
			t.Errorf("%s is stored nowhere: encode it in memory/record.go, or have this test set it", name)
		}
	}
}

// mark puts the fields of a record, and of those in it, into seen: whether any
// value of the type has one that is not zero.
func mark(seen map[string]bool, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			mark(seen, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			mark(seen, v.Index(i))
		}
	case reflect.Struct:
		typ := v.Type()
		if typ == reflect.TypeFor[projection.Item]() || !strings.Contains(typ.PkgPath(), "strata") {
			return // the first has its own codec and its own test
		}
		seen[typ.String()] = true
		for i := range v.NumField() {
			if typ.Field(i).Tag.Get("json") == "-" {
				continue
			}
			name := typ.String() + "." + typ.Field(i).Name
			seen[name] = seen[name] || !v.Field(i).IsZero()
			mark(seen, v.Field(i))
		}
	}
}

// liveThrough has executions do all that leaves something in a record.
func liveThrough(t *testing.T, store storage.Adapter) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	turn := 0
	text := func(id string, placement projection.Placement, tokens int, f func() (string, error)) memory.Layer {
		spec := memory.Spec{ID: id, Placement: placement, Budget: projection.Exactly(tokens)}
		if placement == projection.Anchor {
			spec.Authority = projection.Instruction
		}
		return memory.Define(spec, memory.Hooks[int]{
			Recall: func(context.Context, *memory.RecallInput[int]) (memory.Recalled[int], error) {
				s, err := f()
				out := memory.Recalled[int]{Note: "for the report"}
				for part := range strings.SplitSeq(s, "|") {
					out.Items = append(out.Items, projection.Text(projection.System, part))
				}
				return out, err
			},
		})
	}
	m, err := memory.New(store, []memory.Layer{
		text("steady", projection.Anchor, 200, func() (string, error) {
			return strings.Repeat("what is always so. ", 20) + fmt.Sprint(turn/3), nil
		}),
		text("live", projection.Live, 60, func() (string, error) { return fmt.Sprint("now ", turn), nil }),
		text("large", projection.Live, 60, func() (string, error) { return "short|" + strings.Repeat("long ", 200), nil }),
		text("broken", projection.Live, 60, func() (string, error) { return "", errors.New("it broke") }),
	}, &memory.Options{
		System: []projection.Item{projection.Text(projection.System, "be brief")},
		Policy: projection.Policy{Budget: 1200, Reserve: 100}, Model: "m",
	})
	must(err)
	read, written := 10, 5
	work := func(run *memory.Run, n int) {
		t.Helper()
		for range n {
			turn++
			words := 30
			if turn == 5 { // which leaves no room for what layers say
				words = 800
			}
			_, err := run.Project(t.Context(), projection.Text(projection.User, fmt.Sprint("question \xff", turn, strings.Repeat(" word", words))))
			must(err)
			must(run.Commit(t.Context(), memory.Response{
				Items: []projection.Item{projection.Call(fmt.Sprint(turn), "look", "{}"), projection.Text(projection.Assistant, "answer")},
				Usage: memory.Usage{Input: 100, Output: 10, CacheRead: &read, CacheWrite: &written}, Cost: 1.5,
			}))
		}
	}
	spawn := func(run *memory.Run) *memory.Run {
		t.Helper()
		_, err := run.Project(t.Context(), projection.Text(projection.User, "ask somebody"))
		must(err)
		child, err := run.Spawn(t.Context(), &memory.SpawnOptions{Log: true})
		must(err)
		return child
	}
	who := memory.Identity{Thread: "t", Resource: "r", Agent: "a", Team: "x"}
	first, err := m.Begin(t.Context(), who)
	must(err)
	work(first, 20)
	must(first.End(t.Context(), memory.Success))
	run, err := m.Begin(t.Context(), who)
	must(err)
	work(run, 3)
	id := run.Execution().ID() // which crashes here
	run, err = m.Resume(t.Context(), id)
	must(err)
	work(run, 2)
	child := spawn(run)
	work(child, 2)
	grandchild := spawn(child)
	work(grandchild, 1)
	for _, x := range []*memory.Run{grandchild, child} {
		_, err := x.Return(t.Context(), memory.Result{})
		must(err)
	}
	must(run.End(t.Context(), memory.Success))
}
