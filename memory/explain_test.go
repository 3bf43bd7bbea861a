package memory_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage/mem"
)

// A layer of resource scope cites what was said in another thread.
func TestExplainFindsEventsOfOtherThreads(t *testing.T) {
	ctx := t.Context()
	cite := memory.Define(memory.Spec{ID: "cite", Scope: memory.ScopeResource}, memory.Hooks[[]string]{
		Recall: func(_ context.Context, in *memory.RecallInput[[]string]) (memory.Recalled[[]string], error) {
			return memory.Recalled[[]string]{Text: strings.Join(in.State, ","), Refs: in.State}, nil
		},
		Store: func(_ context.Context, in *memory.StoreInput[[]string]) (memory.Change[[]string], error) {
			id := in.New[0].ID
			return memory.Update(func(ids []string) []string { return append(ids, id) }), nil
		},
	})
	store := mem.New()
	m, err := memory.New(store, []memory.Layer{cite}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var last *memory.Run
	for _, id := range []string{"a/b", "c"} {
		if last, err = m.Begin(ctx, memory.Identity{Thread: id, Resource: "r"}); err != nil {
			t.Fatal(err)
		}
		if _, err := last.Project(ctx, projection.Text(projection.User, "hello from "+id)); err != nil {
			t.Fatal(err)
		}
		if err := last.Commit(ctx, memory.Response{}); err != nil {
			t.Fatal(err)
		}
		if err := last.End(ctx, memory.Success); err != nil {
			t.Fatal(err)
		}
	}
	x, err := thread.Explain(ctx, store, last.Execution().ID(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range x.Items {
		if it.Layer != "cite" {
			continue
		}
		if len(it.Sources) != 1 || it.Sources[0].Event == nil || it.Sources[0].Key != "_threads/a%2Fb/turns/000000000001" {
			t.Errorf("sources %+v", it.Sources)
		}
		return
	}
	t.Error("the layer is not in the prompt")
}

// What was cut from history is counted from the thread's beginning, also by a
// run that never loaded it.
func TestDroppedCountsTheWholeThread(t *testing.T) {
	ctx := t.Context()
	m, err := memory.New(mem.New(), noteLayers(1, 0), &memory.Options{Policy: projection.Policy{Budget: 2000, Reserve: -1}})
	if err != nil {
		t.Fatal(err)
	}
	said := 0
	for range 10 {
		run, err := m.Begin(ctx, memory.Identity{Thread: "t"})
		if err != nil {
			t.Fatal(err)
		}
		for range 6 {
			v, err := run.Project(ctx, projection.Text(projection.User, fmt.Sprintf("%d %s", said, strings.Repeat("word ", 80))))
			if err != nil {
				t.Fatal(err)
			}
			said++
			if shown := v.History.Items + v.History.Dropped; shown != said {
				t.Fatalf("%d items were said, %d are shown or dropped", said, shown)
			}
			if err := run.Commit(ctx, memory.Response{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := run.End(ctx, memory.Success); err != nil {
			t.Fatal(err)
		}
	}
}

// TestExplainFailedRecall: what a layer whose Recall fails has in the prompt all the
// same is in the report, in the record and in what Explain says.
func TestExplainFailedRecall(t *testing.T) {
	var fail error
	turns := 0
	recall := func(id string, placement projection.Placement, change memory.Change[counter]) memory.Layer {
		return memory.Define(memory.Spec{ID: id, Placement: placement}, memory.Hooks[counter]{
			Recall: func(context.Context, *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
				if id == "late" {
					return memory.Recalled[counter]{Text: "fine", Change: change}, nil
				}
				return memory.Recalled[counter]{Text: "fine"}, fail
			},
		})
	}
	unkeyed := memory.Change[counter]{}.Put("", nil) // which no store takes
	store := mem.New()
	m := newMemory(t, store, nil,
		recall("anchored", projection.Anchor, memory.Change[counter]{}), recall("live", projection.Live, memory.Change[counter]{}), recall("late", projection.Live, unkeyed))
	run := begin(t, m, memory.Identity{})
	turn := func() (notes []string, left []thread.LeftOut) {
		t.Helper()
		turns++
		project(t, run, user("hello"))
		for _, h := range run.Report().Hooks {
			notes = append(notes, strings.TrimSuffix(h.Layer+": "+h.Note, ": "))
		}
		commit(t, run)
		x, err := thread.Explain(t.Context(), store, run.Execution().ID(), turns)
		if err != nil {
			t.Fatal(err)
		}
		return notes, x.LeftOut
	}
	const inPrompt, change = "1 items of 10 tokens of it are in the prompt", "recall error: change: "
	turn()
	fail = errHook
	notes, left := turn()
	if diff := cmp.Diff([]string{
		"anchored: the layer contributes nothing new this turn; 1 items of 12 tokens of it are in the prompt",
		"live: the layer contributes nothing new this turn",
		"late: " + inPrompt,
	}, notes); diff != "" {
		t.Error(diff)
	}
	for i := range left {
		if at := strings.Index(left[i].Reason, "; "); left[i].Layer == "late" && at > 0 && strings.HasPrefix(left[i].Reason, change) {
			left[i].Reason = change + left[i].Reason[at:]
		}
	}
	if diff := cmp.Diff([]thread.LeftOut{
		{Layer: "anchored", Reason: "recall error: it broke; 1 items of 12 tokens of it are in the prompt"},
		{Layer: "live", Reason: "recall error: it broke"},
		{Layer: "late", Reason: change + "; " + inPrompt},
	}, left); diff != "" {
		t.Error(diff)
	}
	end(t, run)
}
