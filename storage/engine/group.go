package engine

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Group lets concurrent writers share a commit. The first to come commits at
// once; those that come while a commit runs wait, and then the first of them
// commits for all of them. There is no timer and no goroutine: a lone writer
// never waits, and groups grow only as commits get slower.
//
// Writers that shared a commit often return at once. If the next leader did not
// wait for them, it would commit nearly alone, and groups would be half as
// large as they can be: see gather.
type Group[R any] struct {
	commit func([]R) []error
	weigh  func(R) int
	most   int

	mu      sync.Mutex
	busy    bool // whether someone leads
	waiting []*request[R]

	// About the last commit; only the leader uses them.
	shared   int       // requests in it
	until    time.Time // when its members are no longer waited for
	requests []R       // a buffer
}

type request[R any] struct {
	r     R
	alone func() error // set by Exclusive instead of r
	err   error
	done  bool          // err is the outcome; a request woken without it leads
	wake  chan struct{} // receives one token
}

// NewGroup returns a group whose commit makes the changes of all requests
// durable together. commit returns an error for each request: one whose
// precondition fails does not fail the others. Calls of commit do not overlap
// and must not panic; it does not keep the slice that it is given, and may reuse the
// one that it returns. weigh says how much of most a request uses; a single
// request may use more than most.
func NewGroup[R any](most int, weigh func(R) int, commit func(requests []R) []error) *Group[R] {
	return &Group[R]{commit: commit, weigh: weigh, most: most}
}

// Do commits r, alone or with others. If ctx ends before a commit takes r,
// nothing changes and the error is ctx's; after that, Do waits for the outcome.
func (g *Group[R]) Do(ctx context.Context, r R) error {
	return g.enter(ctx, &request[R]{r: r})
}

// Exclusive runs f in its turn, while no commit runs.
func (g *Group[R]) Exclusive(ctx context.Context, f func() error) error {
	return g.enter(ctx, &request[R]{alone: f})
}

func (g *Group[R]) enter(ctx context.Context, w *request[R]) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.mu.Lock()
	if !g.busy {
		g.busy = true
		g.mu.Unlock()
		return g.lead(w)
	}
	w.wake = make(chan struct{}, 1)
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	select {
	case <-w.wake:
	case <-ctx.Done():
		if g.withdraw(w) {
			return ctx.Err()
		}
		<-w.wake
	}
	if w.done {
		return w.err
	}
	if err := ctx.Err(); err != nil {
		g.pass()
		return err
	}
	return g.lead(w)
}

// withdraw removes w from the queue unless it was taken already.
func (g *Group[R]) withdraw(w *request[R]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, w)
	if i < 0 {
		return false
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	return true
}

// lead commits w and those that wait with it, and hands over.
func (g *Group[R]) lead(w *request[R]) error {
	defer g.pass()
	if w.alone != nil {
		return w.alone()
	}
	g.gather()
	began := time.Now()
	others := g.take(g.weigh(w.r))
	requests := append(g.requests[:0], w.r)
	for _, o := range others {
		requests = append(requests, o.r)
	}
	errs := g.commit(requests)
	clear(requests)
	g.requests = requests
	now := time.Now()
	g.shared, g.until = len(requests), now.Add(now.Sub(began)/8)
	for i, o := range others {
		o.err, o.done = errs[i+1], true
		o.wake <- struct{}{}
	}
	return errs[0]
}

// gather lets the members of the last commit return, for an eighth of the time
// it took. It does nothing after a commit of one, or later than that.
func (g *Group[R]) gather() {
	const mostYields = 1000 // a clock may stand still
	for n := 0; n < mostYields && g.queued()+1 < g.shared && time.Now().Before(g.until); n++ {
		runtime.Gosched()
	}
}

func (g *Group[R]) queued() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

// take removes from the queue what shares a commit that already weighs weight.
func (g *Group[R]) take(weight int) []*request[R] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for n < len(g.waiting) && g.waiting[n].alone == nil {
		if weight += g.weigh(g.waiting[n].r); weight > g.most {
			break
		}
		n++
	}
	taken := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	return taken
}

// pass makes the next in the queue lead.
func (g *Group[R]) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.busy = false
		return
	}
	next := g.waiting[0]
	g.waiting = slices.Delete(g.waiting, 0, 1)
	next.wake <- struct{}{}
}
