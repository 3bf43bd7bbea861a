package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/storage/mem"
)

// TestReportsStay holds reports that were given out, while turns go on, against what
// they said at first. Others ask for reports at the same time.
func TestReportsStay(t *testing.T) {
	moody := memory.Define(memory.Spec{ID: "moody"}, memory.Hooks[counter]{
		Recall: func(_ context.Context, in *memory.RecallInput[counter]) (memory.Recalled[counter], error) {
			step := in.Execution.Step()
			if step%2 == 1 {
				return memory.Recalled[counter]{}, fmt.Errorf("no answer in step %d", step)
			}
			return memory.Recalled[counter]{Text: "well", Note: fmt.Sprint("step ", step)}, nil
		},
		Store: func(_ context.Context, in *memory.StoreInput[counter]) (memory.Change[counter], error) {
			if in.Execution.Step()%3 == 2 {
				return memory.Change[counter]{}, errors.New("not this one")
			}
			return memory.Change[counter]{}, nil
		},
	})
	run := begin(t, newMemory(t, mem.New(), nil, moody, counting("a", memory.ScopeThread)), memory.Identity{})
	var given []memory.TurnReport
	var said []string
	encode := func(rep *memory.TurnReport) string {
		text, err := json.Marshal(rep)
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	take := func() {
		rep := run.Report()
		given, said = append(given, rep), append(said, encode(&rep))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for ctx.Err() == nil {
				before := run.Report()
				was := encode(&before)
				for range 10 {
					_ = run.Report()
				}
				if now := encode(&before); now != was {
					t.Errorf("a report said\n%s\nand then\n%s", was, now)
				}
			}
		})
	}
	for turn := range 40 {
		project(t, run, user(fmt.Sprint("turn ", turn)))
		take()
		commit(t, run, "yes")
		take()
	}
	cancel()
	others.Wait()
	for i := range given {
		if now := encode(&given[i]); now != said[i] {
			t.Errorf("report %d said\n%s\nand now\n%s", i, said[i], now)
		}
		for _, h := range given[i].Hooks {
			if (h.Status == memory.StatusError) != (h.Err != nil) {
				t.Errorf("report %d lost an error: %+v", i, h)
			}
		}
	}
	if last := given[len(given)-1]; len(last.Hooks) != 4 || last.Turn != 40 {
		t.Errorf("the last report is %+v", last)
	}
}
