package memory_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage/mem"
)

// TestEarlierAndLog: what hooks are given as the log, and what they may iterate before it, is
// the whole conversation, or as much of it as the thread keeps. The log is no longer than two
// views and a turn.
func TestEarlierAndLog(t *testing.T) {
	const size = 25 // tokens of an item
	for _, c := range []struct {
		name      string
		keep      int
		users     int // every how many turns the user speaks
		runs      int // turns of a run
		most      int // items in a log
		turns     int
		forgotten bool
	}{
		{"one run", 0, 1, 60, 20, 60, false},
		{"runs of seven turns", 0, 1, 7, 20, 60, false},
		{"the user spoke first and never again", 0, 100, 60, 20, 60, false},
		{"the user speaks at times", 0, 13, 60, 20, 60, false},
		{"the user speaks at times, in runs of nine", 0, 13, 9, 20, 60, false},
		{"keeping four turns", 4, 1, 60, 10, 60, true},
		{"keeping four turns, and the user speaks at times", 4, 13, 60, 10, 60, true},
		{"keeping thirty turns", 30, 1, 60, 20, 40, false},
		{"keeping thirty turns of runs of nine", 30, 7, 9, 20, 40, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var said []string // by all, in order
			longest, last := 0, 0
			look := func(ctx context.Context, log []projection.Item, x *memory.Execution, all int) error {
				var whole []string
				for it, err := range x.Earlier(ctx) {
					if err != nil {
						return err
					}
					whole = append(whole, it.Text())
				}
				slices.Reverse(whole)
				for i := range log {
					whole = append(whole, log[i].Text())
				}
				longest, last = max(longest, len(log)), len(whole)
				if n := all - len(whole); n < 0 || !slices.Equal(whole, said[n:all]) || n > 0 && c.keep == 0 || len(whole) < min(all, c.keep) {
					t.Errorf("after %d items: (-said +got)\n%s", all, cmp.Diff(said[:all], whole))
				}
				return nil
			}
			layer := memory.Define(memory.Spec{ID: "a"}, memory.Hooks[counter]{
				Store: func(ctx context.Context, in *memory.StoreInput[counter]) (memory.Change[counter], error) {
					return memory.Change[counter]{}, look(ctx, in.Log, in.Execution, len(said))
				},
			})
			opts := options()
			opts.KeepTurns, opts.Policy = c.keep, projection.Policy{Budget: 8 * size, Reserve: -1}
			m := newMemory(t, mem.New(), opts, layer)
			var run *memory.Run
			for turn := range c.turns {
				if turn%c.runs == 0 {
					if run != nil {
						end(t, run)
					}
					run = begin(t, m, memory.Identity{})
				}
				item := func(role projection.Role) projection.Item {
					text := fmt.Sprintf("%03d %s", len(said), strings.Repeat("w", 4*(size-4)-4))
					said = append(said, text)
					return projection.Text(role, text)
				}
				var in []projection.Item
				if turn%c.users == 0 {
					in = append(in, item(projection.User))
				}
				view := project(t, run, in...)
				if len(in) > 0 && !strings.Contains(strings.Join(texts(view), ""), in[0].Text()) {
					t.Errorf("turn %d: what the user said is not in the view", turn+1)
				}
				answer := item(projection.Assistant)
				if err := run.Commit(t.Context(), memory.Response{Items: []projection.Item{answer}}); err != nil {
					t.Fatal(err)
				}
				for _, h := range run.Report().Hooks {
					if h.Err != nil {
						t.Fatal(h.Err)
					}
				}
			}
			end(t, run)
			if longest > c.most {
				t.Errorf("a log of %d items was held, want at most %d", longest, c.most)
			}
			if forgotten := last < len(said)/2; forgotten != c.forgotten {
				t.Errorf("hooks see %d items of %d at last", last, len(said))
			}
		})
	}
}
