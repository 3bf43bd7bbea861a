package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stratamem/strata/storage/engine"
)

// gate is a commit that waits to be let through, and notes what it commits.
type gate struct {
	open   chan struct{}
	groups [][]int
}

var errOdd = errors.New("odd")

func (g *gate) commit(batch []int) []error {
	<-g.open
	g.groups = append(g.groups, slices.Clone(batch))
	errs := make([]error, len(batch))
	for i, n := range batch {
		if n%2 == 1 {
			errs[i] = errOdd
		}
	}
	return errs
}

func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		group := engine.NewGroup(100, func(n int) int { return n }, g.commit)
		outcome := map[int]chan error{}
		do := func(ctx context.Context, n int) {
			c := make(chan error, 1)
			outcome[n] = c
			go func() { c <- group.Do(ctx, n) }()
			synctest.Wait()
		}
		do(t.Context(), 1) // leads, alone
		ctx, cancel := context.WithCancel(t.Context())
		do(t.Context(), 2)
		do(ctx, 4)
		do(t.Context(), 5)
		do(t.Context(), 90)
		do(t.Context(), 200) // more than a whole group
		do(t.Context(), 6)
		cancel()
		if err := <-outcome[4]; !errors.Is(err, context.Canceled) {
			t.Errorf("withdrawn: %v", err)
		}
		exclusive := make(chan error, 1)
		ran := 0
		go func() {
			exclusive <- group.Exclusive(t.Context(), func() error {
				ran = len(g.groups)
				return nil
			})
		}()
		synctest.Wait()
		do(t.Context(), 8) // waits behind the exclusive one
		for range 5 {
			g.open <- struct{}{}
			synctest.Wait()
		}
		for n, want := range map[int]error{1: errOdd, 2: nil, 5: errOdd, 90: nil, 200: nil, 6: nil, 8: nil} {
			if err := <-outcome[n]; !errors.Is(err, want) {
				t.Errorf("outcome of %d: %v, want %v", n, err, want)
			}
		}
		if err := <-exclusive; err != nil || ran != 4 {
			t.Errorf("Exclusive ran after %d commits: %v", ran, err)
		}
		want := [][]int{{1}, {2, 5, 90}, {200}, {6}, {8}}
		if !slices.EqualFunc(g.groups, want, slices.Equal) {
			t.Errorf("groups %v, want %v", g.groups, want)
		}
		if err := group.Do(ctx, 2); !errors.Is(err, context.Canceled) {
			t.Errorf("Do with an ended context: %v", err)
		}
	})
}

// TestGroupHandsOver: who is woken to lead and finds its context
// ended must pass on.
func TestGroupHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		group := engine.NewGroup(100, func(int) int { return 1 }, g.commit)
		go group.Do(t.Context(), 0)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- group.Do(ctx, 2) }()
		synctest.Wait()
		go func() { second <- group.Exclusive(t.Context(), func() error { return nil }) }()
		synctest.Wait()
		g.open <- struct{}{}
		cancel() // together with the handing over, in either order
		select {
		case <-first:
		case g.open <- struct{}{}:
			<-first
		}
		if err := <-second; err != nil {
			t.Error(err)
		}
	})
}

// TestGroupGathers: writers who come again and again share all their commits,
// not every other one.
func TestGroupGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers, each = 8, 50
		commits := 0
		group := engine.NewGroup(1000, func(int) int { return 1 }, func(batch []int) []error {
			time.Sleep(8 * time.Millisecond)
			commits++
			return make([]error, len(batch))
		})
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				for n := range each {
					if err := group.Do(t.Context(), n); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if mean := float64(writers*each) / float64(commits); mean < 6 {
			t.Errorf("%.1f requests of %d writers in a commit, want 6", mean, writers)
		}
	})
}
