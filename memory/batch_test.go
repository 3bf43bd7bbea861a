package memory_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// taped is a store that notes the batches it is given: + for what is put, - for what is
// removed, with ! where the batch depends on the version of the key.
type taped struct {
	*mem.Store
	batches []string
}

func (s *taped) Apply(ctx context.Context, ops ...storage.Op) error {
	var notes []string
	for _, op := range ops {
		sign := map[bool]string{false: "+", true: "-"}[op.Delete]
		if op.Check {
			sign += "!"
		}
		notes = append(notes, sign+strings.NewReplacer("_threads/t/", "", "0000000000", "").Replace(op.Key))
	}
	s.batches = append(s.batches, strings.Join(notes, ", "))
	return s.Store.Apply(ctx, ops...)
}

// took returns what was applied since it was asked last.
func (s *taped) took() []string {
	b := s.batches
	s.batches = nil
	return b
}

// TestBatches: a turn is one batch, of its record, what layers changed, the
// thread's head and the record of the run; what leaves nothing to explain leaves no record.
func TestBatches(t *testing.T) {
	store := &taped{Store: mem.New()}
	change, last := true, false
	layer := func(id string, scope memory.Scope) memory.Layer {
		return memory.Define(memory.Spec{ID: id, Slot: 100, Scope: scope}, memory.Hooks[counter]{
			Store: func(context.Context, *memory.StoreInput[counter]) (memory.Change[counter], error) {
				if !change {
					return memory.Change[counter]{}, nil
				}
				return add(1), nil
			},
			OnComplete: func(context.Context, *memory.CompleteInput[counter]) (memory.Change[counter], error) {
				if !last {
					return memory.Change[counter]{}, nil
				}
				return add(1), nil
			},
		})
	}
	m := newMemory(t, store, nil, layer("here", memory.ScopeThread), layer("now", memory.ScopeExecution))
	expect := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, store.took()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	run := begin(t, m, memory.Identity{})
	expect("Begin")
	project(t, run, user("one"))
	expect("Project")
	commit(t, run, "yes")
	expect("a turn", "+!turns/01, +!_layers/here/thread/t/state, +!_layers/now/execution/id-000001/state, +!head, +_runs/id-000001")
	change = false
	project(t, run, user("two"))
	commit(t, run, "yes")
	expect("a turn that changes nothing", "+!turns/02, +!head, +_runs/id-000001")
	end(t, run)
	expect("End", "+_runs/id-000001, -_layers/now/execution/id-000001/state")
	end(t, run)
	expect("End again")

	run = begin(t, m, memory.Identity{})
	end(t, run)
	expect("a run without a turn")

	last = true
	run = begin(t, m, memory.Identity{})
	end(t, run)
	expect("a run without a turn, whose layers change at its end", "+!_layers/here/thread/t/state, +_runs/id-000007", "-_runs/id-000007")
}

// TestPruneBatches: with KeepTurns 2, what is older than four turns goes with the next ones,
// one at a time while a thread grows, and with the last of its turns an execution.
func TestPruneBatches(t *testing.T) {
	store := &taped{Store: mem.New()}
	opts := options()
	opts.KeepTurns = 2
	m := newMemory(t, store, opts)
	var removed []string
	turn := func(run *memory.Run) {
		t.Helper()
		project(t, run, user("hello"))
		commit(t, run)
		var gone []string
		for _, b := range store.took() {
			for op := range strings.SplitSeq(b, ", ") {
				if strings.HasPrefix(op, "-") {
					gone = append(gone, op[1:])
				}
			}
		}
		removed = append(removed, strings.Join(gone, " "))
	}
	first := begin(t, m, memory.Identity{}) // id-000001
	turn(first)
	turn(first)
	end(t, first)
	second := begin(t, m, memory.Identity{})
	for range 6 {
		turn(second)
	}
	want := []string{"", "", "", "", "turns/01", "turns/02 _runs/id-000001", "turns/03", "turns/04"}
	if diff := cmp.Diff(want, removed); diff != "" {
		t.Errorf("removed, turn by turn (-want +got):\n%s", diff)
	}
}

// TestPruneOfLongThread: a thread that is long already, when it is first told to forget, is
// pruned by eight turns at a time.
func TestPruneOfLongThread(t *testing.T) {
	store := &taped{Store: mem.New()}
	run := begin(t, newMemory(t, store, nil), memory.Identity{})
	for range 30 {
		project(t, run, user("hello"))
		commit(t, run)
	}
	end(t, run)
	opts := options()
	opts.KeepTurns = 2
	run = begin(t, newMemory(t, store, opts), memory.Identity{})
	for _, want := range []struct{ removed, first int }{{8, 9}, {8, 17}, {8, 25}, {6, 31}, {1, 32}} {
		store.took()
		project(t, run, user("hello"))
		commit(t, run)
		removed := 0
		for _, b := range store.took() {
			removed += strings.Count(b, "-turns/")
		}
		first := 0
		for turn, err := range thread.Turns(t.Context(), store, "t", 0) {
			if err != nil {
				t.Fatal(err)
			}
			if first == 0 || turn.Number < first {
				first = turn.Number
			}
		}
		if removed != want.removed || first != want.first {
			t.Errorf("%d turns were removed, %d is the first one, want %d and %d", removed, first, want.removed, want.first)
		}
	}
}

// TestTurnRecord: a turn's record has what came in, what was answered, and what it cost.
func TestTurnRecord(t *testing.T) {
	store := mem.New()
	run := begin(t, newMemory(t, store, nil), memory.Identity{})
	read := 60
	for i, resp := range []memory.Response{
		{Items: []projection.Item{projection.Text(projection.Assistant, "yes")}, Usage: memory.Usage{Input: 100, CacheRead: &read}, Cost: 0.25, Model: "m"},
		{},
		{Model: "n"},
	} {
		said := []projection.Item{user("one"), user("two")}[:2-i]
		project(t, run, said...)
		if err := run.Commit(t.Context(), resp); err != nil {
			t.Fatal(err)
		}
	}
	type record struct {
		Step, Before int
		Items, Sizes int
		Usage        bool
		Cost         float64
		Model        string
	}
	var got []record
	for turn, err := range thread.Turns(t.Context(), store, "t", 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, record{turn.Step, turn.Before, len(turn.Items), len(turn.Sizes), turn.Usage != nil, turn.Cost, turn.Model})
	}
	want := []record{
		{Step: 1, Items: 3, Sizes: 3, Usage: true, Cost: 0.25, Model: "m"},
		{Step: 2, Before: 3, Items: 1, Sizes: 1},
		{Step: 3, Before: 4, Model: "n"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
}
