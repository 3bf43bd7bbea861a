package guard_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stratamem/strata/soma/guard"
)

// clock is a time that a test sets.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func newWindow(subjects int) (*guard.Window, *clock) {
	c := &clock{monday}
	return guard.NewWindow(&guard.WindowOptions{Now: c.Now, Subjects: subjects}), c
}

func TestWindow(t *testing.T) {
	w, c := newWindow(0)
	tally := func(of guard.Subject, over time.Duration, want guard.Tally) {
		t.Helper()
		if diff := cmp.Diff(want, w.Tally(of, over)); diff != "" {
			t.Errorf("%+v over %v (-want +got):\n%s", of, over, diff)
		}
	}
	coder, shell, node := guard.Subject{Agent: "coder"}, guard.Subject{Tool: "shell"}, guard.Subject{Node: "n1"}
	tally(shell, time.Minute, guard.Tally{})

	finish := w.Start(guard.Subject{Agent: "coder", Tool: "shell", Node: "n1"})
	tally(shell, time.Minute, guard.Tally{Calls: 1}) // under way
	finish(true)
	finish(true)
	finish(false)
	w.Start(guard.Subject{Agent: "coder", Tool: "search"})(false)
	w.Start(guard.Subject{Agent: "tester", Tool: "shell"})(true)

	tally(coder, time.Minute, guard.Tally{Calls: 2, Finished: 2, Failures: 1})
	tally(shell, time.Minute, guard.Tally{Calls: 2, Finished: 2, Failures: 2, Streak: 2})
	tally(node, time.Minute, guard.Tally{Calls: 1, Finished: 1, Failures: 1, Streak: 1})
	tally(guard.Subject{Agent: "coder", Tool: "shell"}, time.Minute, guard.Tally{Calls: 1, Finished: 1, Failures: 1, Streak: 1})
	tally(guard.Subject{}, time.Minute, guard.Tally{Calls: 3, Finished: 3, Failures: 2, Streak: 1})
	tally(guard.Subject{Agent: "coder", Node: "n1"}, time.Minute, guard.Tally{})
	tally(guard.Subject{Agent: "nobody"}, time.Minute, guard.Tally{})

	// A finish counts when it comes.
	finish = w.Start(shell)
	c.now = c.now.Add(2 * time.Minute)
	finish(false)
	tally(shell, time.Minute, guard.Tally{Finished: 1})
	tally(shell, time.Hour, guard.Tally{Calls: 3, Finished: 3, Failures: 2})
	c.now = c.now.Add(2 * time.Hour)
	tally(shell, time.Hour, guard.Tally{})
	tally(shell, 3*time.Hour, guard.Tally{Calls: 3, Finished: 3, Failures: 2})
	tally(node, 3*time.Hour, guard.Tally{Calls: 1, Finished: 1, Failures: 1, Streak: 1})
	c.now = c.now.Add(25 * time.Hour)
	tally(shell, 24*time.Hour, guard.Tally{})
	tally(node, 1000*time.Hour, guard.Tally{Streak: 1})
}

// TestWindowBounds compares with a list of all calls: a count is never lower,
// and no higher than that of one bucket more.
func TestWindowBounds(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	w, c := newWindow(0)
	var calls []time.Time
	count := func(over time.Duration) (n int) {
		for _, at := range calls {
			if at.After(c.now.Add(-over)) {
				n++
			}
		}
		return n
	}
	for range 3000 {
		c.now = c.now.Add(time.Duration(r.ExpFloat64() * float64(time.Minute)))
		w.Start(guard.Subject{Tool: "x"})
		calls = append(calls, c.now)
		over := time.Second + time.Duration(r.Int64N(int64([]time.Duration{time.Minute, time.Hour, 24 * time.Hour}[r.IntN(3)]-time.Second)))
		width := time.Second
		switch {
		case over > time.Hour:
			width = 10 * time.Minute
		case over > time.Minute:
			width = time.Minute
		}
		if got := w.Tally(guard.Subject{Tool: "x"}, over).Calls; got < count(over) || got > count(over+width) {
			t.Fatalf("seed %d: %d calls in %v, want %d to %d", seed, got, over, count(over), count(over+width))
		}
	}
	if len(calls) < 3000 || c.now.Sub(monday) < 40*time.Hour {
		t.Errorf("only %v were simulated", c.now.Sub(monday))
	}
}

func TestWindowClockSetBack(t *testing.T) {
	w, c := newWindow(0)
	shell := guard.Subject{Tool: "shell"}
	for range 5 {
		w.Start(shell)
	}
	c.now = c.now.Add(-time.Hour)
	w.Start(shell)
	if got := w.Tally(shell, time.Minute).Calls; got != 6 {
		t.Errorf("%d calls, want those of the future too: 6", got)
	}
}

func TestWindowMemory(t *testing.T) {
	w, c := newWindow(10)
	call := func(i int) guard.Subject { return guard.Subject{Tool: fmt.Sprint("t", i)} }
	for i := range 1000 {
		w.Start(call(i))(true)
	}
	// The first nine and all have their own; the others share theirs.
	for i, want := range map[int]int{0: 1, 8: 1, 9: 991, 999: 991} {
		if got := w.Tally(call(i), time.Hour); got.Calls != want || got.Failures != want {
			t.Errorf("tool %d: %+v, want %d", i, got, want)
		}
	}
	// One that has its own keeps it, and the shared do not get one while what is
	// known of them counts.
	w.Start(call(0))
	c.now = c.now.Add(23 * time.Hour)
	w.Start(call(500))
	if got := w.Tally(call(500), 24*time.Hour).Calls; got != 992 {
		t.Errorf("%d calls, want 992", got)
	}
	if got := w.Tally(call(0), 24*time.Hour).Calls; got != 2 {
		t.Errorf("%d calls, want 2", got)
	}
	// After a day of silence all starts anew.
	c.now = c.now.Add(25 * time.Hour)
	w.Start(call(500))
	if got := w.Tally(call(500), 24*time.Hour).Calls; got != 1 {
		t.Errorf("%d calls, want 1", got)
	}
	if got := w.Tally(call(0), 24*time.Hour); got != (guard.Tally{}) {
		t.Errorf("%+v of a forgotten one", got)
	}
}

func TestWindowConcurrency(t *testing.T) {
	w := guard.NewWindow(nil)
	g := guard.New([]guard.Rule{{ID: "c", Condition: `count("tool") > 1000000 or rate("agent") > 1`, Enforcement: guard.Error}})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			call := guard.Call{Agent: fmt.Sprint("a", i%2), Tool: "shell"}
			for range 200 {
				if v := g.Check(call, w); v.Action != guard.Allow {
					t.Error(v)
				}
				w.Start(guard.Subject{Agent: call.Agent, Tool: call.Tool})(i%2 == 0)
			}
		})
	}
	all.Wait()
	want := guard.Tally{Calls: 1600, Finished: 1600, Failures: 800}
	got := w.Tally(guard.Subject{Tool: "shell"}, time.Hour)
	got.Streak = 0 // by chance
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func BenchmarkWindow(b *testing.B) {
	w := guard.NewWindow(nil)
	call := guard.Subject{Agent: "coder", Tool: "shell", Node: "n1"}
	b.Run("start", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.Start(call)(false)
		}
	})
	b.Run("tally", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.Tally(call, 24*time.Hour)
			w.Tally(guard.Subject{Tool: "shell"}, time.Hour)
		}
	})
}
