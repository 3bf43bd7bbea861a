package thread_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/storage/mem"
)

// What is read of a thread with two executions, the second with a child that has a
// child, all with the log of whom they are from.
func TestReaders(t *testing.T) {
	ctx, store := t.Context(), mem.New()
	liveThrough(t, store)
	var info thread.Info
	for found, err := range thread.List(ctx, store) {
		if err != nil || info.Thread != "" {
			t.Fatalf("%+v, %v", found, err)
		}
		info = found
	}
	last := 10
	for turn, err := range thread.Turns(ctx, store, "t", last) {
		if last++; err != nil || turn.Number != last {
			t.Fatalf("turn %+v, %v, want %d", turn, err, last)
		}
	}
	if info.Turns != last || info.First != 1 {
		t.Errorf("%+v after %d turns", info, last)
	}
	var runs []*thread.Run
	for x, err := range thread.Runs(ctx, store) {
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, x)
		if found, err := thread.FindRun(ctx, store, x.ID); err != nil || found.Step != x.Step {
			t.Errorf("%+v, %v", found, err)
		}
	}
	if len(runs) != 4 || runs[1].ID != info.Execution || runs[3].Depth != 2 || runs[3].Parent != runs[2].ID {
		t.Fatalf("%d runs: %+v", len(runs), runs)
	}
	var depths []int // of whose turns they are, from the end of the youngest's log
	for turn, err := range runs[3].Log().Backward(ctx, store) {
		if err != nil {
			t.Fatal(err)
		}
		depth := 2
		for in := runs[3].Log(); in.Execution != turn.In.Execution; in = in.Fork {
			depth--
		}
		depths = append(depths, depth)
	}
	if !slices.IsSortedFunc(depths, func(a, b int) int { return b - a }) {
		t.Errorf("turns of the depths %v", depths)
	}
	if len(depths) < 25 || depths[0] != 2 || depths[len(depths)-1] != 0 {
		t.Errorf("turns of the depths %v", depths)
	}
	x, err := thread.Explain(ctx, store, runs[3].ID, runs[3].LastTurn)
	if err != nil {
		t.Fatal(err)
	}
	view, err := thread.Replay(ctx, store, runs[3].ID, runs[3].LastTurn)
	if err != nil {
		t.Fatal(err)
	}
	items, whose := view.Items(), map[string]bool{}
	if len(items) != len(x.Items) {
		t.Fatalf("%d items are shown and %d explained", len(items), len(x.Items))
	}
	for i := range items {
		if !items[i].Equal(&x.Items[i].Item) {
			t.Errorf("item %d: %+v is explained, %+v was shown", i, x.Items[i].Item, items[i])
		}
		if e := x.Items[i].Event; e != nil {
			whose[e.Execution] = true
		} else if x.Items[i].Digest == "" {
			t.Errorf("item %d has neither event nor digest: %+v", i, x.Items[i])
		}
	}
	if !whose[runs[1].ID] || !whose[runs[2].ID] || !whose[runs[3].ID] {
		t.Errorf("history is of %v", whose)
	}
	if _, err := thread.FindRun(ctx, store, "nobody"); !errors.Is(err, thread.ErrUnknownExecution) {
		t.Errorf("got %v", err)
	}
	if _, err := thread.Replay(ctx, store, runs[3].ID, runs[3].LastTurn+1); err == nil {
		t.Error("a turn that is not there was replayed")
	}
	for state, err := range thread.States(ctx, store, "") {
		t.Errorf("a state that no layer has: %+v, %v", state, err)
	}
}
