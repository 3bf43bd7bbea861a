package main

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage/mem"
)

// TestInBubble: what the README says of synctest, and of a loop of tool calls. With
// neither soma's Store closed nor the one that it follows since it was searched, the
// bubble ends in a deadlock.
func TestInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, db := t.Context(), mem.New()
		canon, err := soma.Open(ctx, db, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range canon.Query(ctx, soma.Query{Text: "weather"}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		m, err := memory.New(db, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		run, err := m.Begin(ctx, memory.Identity{Thread: "monday"})
		if err != nil {
			t.Fatal(err)
		}
		in := projection.Text(projection.User, "How warm is it in Lisbon?")
		answers := []projection.Item{projection.Call("1", "weather", `{"city":"Lisbon"}`), projection.Text(projection.Assistant, "21 degrees.")}
		for _, answer := range answers {
			if _, err := run.Project(ctx, in); err != nil {
				t.Fatal(err)
			}
			if err := run.Commit(ctx, memory.Response{Items: []projection.Item{answer}}); err != nil {
				t.Fatal(err)
			}
			in = projection.Result("1", "21")
		}
		for info, err := range thread.List(ctx, db) {
			if err != nil || info.Turns != 2 {
				t.Errorf("%+v, %v", info, err)
			}
		}
		if err := errors.Join(run.End(ctx, memory.Success), m.Close(ctx), canon.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
}
