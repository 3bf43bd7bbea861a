package memory

import (
	"bytes"
	"context"
	"errors"
	"runtime/debug"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/projection"
)

// hook is one of the functions in [Hooks].
type hook uint8

const (
	hookInit hook = iota
	hookAppend
	hookRecall
	hookDelta
	hookStore
	hookSpawn
	hookReturn
	hookComplete
	hookDispose
	hookCount
)

// hooks is the one table of what holds for every layer's hook of a kind.
var hooks = [hookCount]struct {
	name    string
	timeout time.Duration                   // default
	own     func(t *Timeouts) time.Duration // the layer's own
	failure string                          // what an error, panic or timeout means
}{
	hookInit:     {"init", 10 * time.Second, func(t *Timeouts) time.Duration { return t.Init }, "begin fails, or the layer is disabled"},
	hookAppend:   {stored.Append, 5 * time.Second, func(t *Timeouts) time.Duration { return t.Append }, "items pass unchanged"},
	hookRecall:   {stored.Recall, 5 * time.Second, func(t *Timeouts) time.Duration { return t.Recall }, "the layer contributes nothing new this turn"},
	hookDelta:    {"delta", 5 * time.Second, func(t *Timeouts) time.Duration { return t.Delta }, "the layer's new text is sent whole"},
	hookStore:    {"store", 30 * time.Second, func(t *Timeouts) time.Duration { return t.Store }, "the layer changes nothing"},
	hookSpawn:    {"on-spawn", 10 * time.Second, func(t *Timeouts) time.Duration { return t.OnSpawn }, "the layer is absent in the child"},
	hookReturn:   {"on-return", 10 * time.Second, func(t *Timeouts) time.Duration { return t.OnReturn }, "parent state and result unchanged"},
	hookComplete: {"on-complete", 30 * time.Second, func(t *Timeouts) time.Duration { return t.OnComplete }, "the layer changes nothing"},
	hookDispose:  {"dispose", 5 * time.Second, func(t *Timeouts) time.Duration { return t.Dispose }, "the others are disposed all the same"},
}

// timeout returns the time limit of a layer's hook; negative means none.
func (h hook) timeout(s *Spec) time.Duration {
	if d := hooks[h].own(&s.Timeouts); d != 0 {
		return d
	}
	return hooks[h].timeout
}

// call is one hook call of one layer. The fields below the line belong to the
// hook's goroutine from the moment it begins until the call has settled, and
// forever if it was abandoned.
type call struct {
	cell    *cell
	state   any // as the hook sees it
	records *Records
	input   input // of Recall and Store
	budget  int   // for Recall

	x        *Execution
	ctx      context.Context
	span     trace.Span // nil if tracing is off
	deadline atomic.Pointer[deadline]
	begun    time.Time
	progress atomic.Uint32

	took     time.Duration
	before   []byte // with VerifyStates: the state, encoded
	err      error
	recalled recalled
	change   change
	items    []projection.Item    // of Append and OnSpawn
	passages []projection.Passage // of Recall and Delta
	output   any                  // what else OnSpawn, OnReturn or Init returned
	failed   error                // how it ended, or why a good result could not be used; set by the waiter
}

// The progress of a call.
const (
	callWaiting uint32 = iota
	callRunning
	callSettled
	callAbandoned
)

// hookCalls are the calls of one hook in several layers, concurrently, at most
// Options.Parallel at once; with 1, strictly in order. A call whose time is up
// is abandoned: its goroutine continues, its result is discarded, and another
// call may begin in its place.
//
// Most hooks only look at their state and return within a microsecond, less
// than it takes to start a goroutine. So a single goroutine begins the calls,
// and others help only if it has not finished after helpAfter, or at once if the
// hook's last calls took longCalls.
type hookCalls struct {
	m     *Memory
	ctx   context.Context // of the phase
	trace bool            // whether the phase has a recording span
	hook  hook
	calls []call
	do    func(c *call) error // of hooks other than Recall and Store
	after []*hookCalls        // those of Delta hooks, after Recall

	log, shown, added []projection.Item // for Recall and Store
	query             string
	response          *Response

	shared  deadline
	clock   *time.Timer   // stopped; nil: none yet
	timely  bool          // whether the shared deadline was met
	next    atomic.Int32  // index of the first call not taken yet
	pending atomic.Int32  // calls that are neither settled nor abandoned
	done    chan struct{} // gets a token when nothing is pending
}

const (
	helpAfter = 50 * time.Microsecond
	longCalls = 4 * helpAfter
)

// run makes the calls and returns when each has settled or was abandoned.
func (hc *hookCalls) run() {
	if len(hc.calls) == 0 {
		return
	}
	if hc.done == nil {
		hc.done = make(chan struct{}, 1)
	}
	hc.pending.Store(int32(len(hc.calls)))
	hc.shared.Context, hc.shared.begun = hc.ctx, time.Now()
	hc.shared.timeout = hc.hook.timeout(&hc.calls[0].cell.layer.spec)
	hc.next.Store(1)
	hc.start(&hc.calls[0], &hc.shared, hc.shared.begun)
	go hc.work(&hc.calls[0])
	hc.wait()
	hc.m.long[hc.hook].Store(time.Since(hc.shared.begun) >= longCalls)
	hc.timely = hc.shared.end(context.Canceled)
}

// wait returns when all calls are done. Until then it starts help if the first
// calls take long, and abandons those whose shared deadline has passed.
func (hc *hookCalls) wait() {
	helpers := min(len(hc.calls), hc.m.parallel) - 1
	help := func() {
		for range helpers {
			hc.workOn()
		}
		helpers = 0
	}
	if hc.m.long[hc.hook].Load() {
		help()
	}
	next := hc.shared.timeout
	if helpers > 0 && (next < 0 || helpAfter < next) {
		next = helpAfter
	}
	var due <-chan time.Time
	if next >= 0 {
		if hc.clock == nil {
			hc.clock = time.NewTimer(next)
		} else {
			hc.clock.Reset(next)
		}
		defer hc.clock.Stop()
		due = hc.clock.C
	}
	ended := hc.ctx.Done()
	for {
		select {
		case <-hc.done:
			return
		case <-ended:
			ended = nil
			hc.expire(hc.ctx.Err())
		case <-due:
			if helpers <= 0 {
				hc.expire(context.DeadlineExceeded)
				continue
			}
			if help(); hc.shared.timeout >= 0 {
				hc.clock.Reset(time.Until(hc.shared.begun.Add(hc.shared.timeout)))
			}
		}
	}
}

// expire abandons the calls with the shared deadline.
func (hc *hookCalls) expire(err error) {
	if !hc.shared.end(err) {
		return
	}
	for i := range hc.calls {
		if hc.calls[i].deadline.Load() == &hc.shared {
			hc.abandon(&hc.calls[i])
		}
	}
}

func (hc *hookCalls) start(c *call, d *deadline, now time.Time) {
	c.begun, c.ctx = now, d
	if hc.trace {
		c.ctx, c.span = hc.m.tracing.hook(d, hc.hook, c.cell, now)
		x := *c.x
		x.span = c.span
		c.x = &x
	}
	c.deadline.Store(d)
	c.progress.Store(callRunning)
}

// work makes call c and then those not taken yet.
func (hc *hookCalls) work(c *call) {
	returned := false
	defer func() {
		if !returned { // the hook ended its goroutine
			c.err = errors.New("hook ended its goroutine")
			if hc.settle(c, time.Now()) {
				hc.workOn()
			}
		}
	}()
	for c != nil {
		c.err = hc.guarded(c)
		now := time.Now()
		if d := c.deadline.Load(); d != &hc.shared {
			d.end(context.Canceled)
		}
		if !hc.settle(c, now) {
			break
		}
		c = hc.startNext(now)
	}
	returned = true
}

// workOn starts a goroutine for the calls not taken yet.
func (hc *hookCalls) workOn() {
	if c := hc.startNext(time.Now()); c != nil {
		go hc.work(c)
	}
}

// startNext starts the next call not taken yet, if there is one.
func (hc *hookCalls) startNext(now time.Time) *call {
	i := int(hc.next.Add(1)) - 1
	if i >= len(hc.calls) {
		return nil
	}
	c := &hc.calls[i]
	timeout := hc.hook.timeout(&c.cell.layer.spec)
	if hc.shared.serves(timeout, now) {
		hc.start(c, &hc.shared, now)
		if hc.shared.Err() == nil || hc.ctx.Err() != nil {
			return c
		}
		// Time was up after all, and it is undecided who notices it for this call.
		if !c.progress.CompareAndSwap(callRunning, callWaiting) {
			hc.m.forgetLate(c)
			return hc.startNext(now)
		}
	}
	d := newDeadline(hc.ctx, timeout, now)
	hc.start(c, d, now)
	d.watch(func() { hc.abandon(c) })
	return c
}

// settle reports whether the call's result counts; otherwise it is discarded.
func (hc *hookCalls) settle(c *call, now time.Time) bool {
	c.took = now.Sub(c.begun)
	c.verify()
	if !c.progress.CompareAndSwap(callRunning, callSettled) {
		hc.m.forgetLate(c)
		return false
	}
	hc.finish()
	return true
}

func (hc *hookCalls) abandon(c *call) {
	if hc.m.abandon(c, hc.hook) {
		hc.workOn()
		hc.finish()
	}
}

func (hc *hookCalls) finish() {
	if hc.pending.Add(-1) == 0 {
		hc.done <- struct{}{}
	}
}

// guarded makes the call. A panic becomes its error.
func (hc *hookCalls) guarded(c *call) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if hc.m.opts.VerifyStates {
		c.before, _ = new(stateEncoder).encode(c.state) // a state without an encoding is not verified
	}
	return hc.call(c)
}

// call calls the hook. What Recall and Store are given is part of hc, because they are
// called in every turn.
func (hc *hookCalls) call(c *call) (err error) {
	code := c.cell.layer.code
	switch hc.hook {
	case hookRecall:
		c.recalled, c.change, err = code.recall(c.ctx, c.input, c.x, c.records, c.state, hc.log, hc.shown, hc.query, c.budget)
	case hookStore:
		c.change, err = code.store(c.ctx, c.input, c.x, c.records, c.state, hc.added, hc.log, hc.response)
	default:
		err = hc.do(c)
	}
	return err
}

// verify fails a call that modified the state it may only read, whatever else
// its result.
func (c *call) verify() {
	if c.before == nil {
		return
	}
	if after, err := new(stateEncoder).encode(c.state); err != nil || !bytes.Equal(c.before, after) {
		c.err = errors.Join(ErrStateModified, c.err)
	}
}

// ok reports whether a call returned in time, and without an error.
func (c *call) ok() bool { return c.progress.Load() == callSettled && c.err == nil }

// cut returns the error of the phase's context if its end kept a call from
// returning a result, once all calls are over.
func (hc *hookCalls) cut() error {
	for i := range hc.calls {
		if !hc.calls[i].ok() {
			return hc.ctx.Err()
		}
	}
	return nil
}

// report returns how a call went, once all calls are over, and what the layer
// has in the view, if known. It stores the error in c.failed.
func (hc *hookCalls) report(c *call, use *projection.LayerUse) HookReport {
	rep := HookReport{Layer: c.cell.layer.spec.ID, Hook: hooks[hc.hook].name, Status: StatusOK}
	if c.ok() {
		rep.Took, rep.Items, rep.Note = c.took, len(c.items)+len(c.passages), c.recalled.note
		if c.failed != nil {
			rep.Status = StatusError
		}
	} else {
		rep.Status, rep.Took, c.failed = c.failure(hc.ctx)
	}
	if c.failed != nil {
		rep.Err, rep.Error, rep.Note = c.failed, c.failed.Error(), hooks[hc.hook].failure
		if shown := stored.InPrompt(use); shown != "" {
			rep.Note += "; " + shown
			if c.ok() { // something that came with its output failed
				rep.Note = shown
			}
		}
	}
	return rep
}

// failure says how a call failed.
func (c *call) failure(phase context.Context) (status Status, took time.Duration, err error) {
	expired := c.deadline.Load().Err()
	if c.progress.Load() == callSettled {
		took, err = c.took, c.err
	} else {
		took, err = time.Since(c.begun), expired
	}
	switch {
	case phase.Err() != nil && errors.Is(err, phase.Err()):
		return StatusSkipped, took, err
	case errors.Is(err, context.DeadlineExceeded) && expired == context.DeadlineExceeded:
		return StatusTimeout, took, &TimeoutError{Timeout: c.deadline.Load().timeout}
	}
	return StatusError, took, err
}

// callRoom is the memory of finished calls, which the next ones reuse.
type callRoom struct {
	calls []call
	clock *time.Timer
	done  chan struct{}
}

// lend gives the room to hc, which is to make n calls.
func (c *callRoom) lend(hc *hookCalls, n int) {
	hc.clock, hc.done = c.clock, c.done
	if cap(c.calls) >= n {
		hc.calls = c.calls[:n]
		clear(hc.calls)
	}
	*c = callRoom{}
}

// keep takes the memory of the calls, if nothing can touch it any more.
func (c *callRoom) keep(hc *hookCalls) {
	if !hc.timely {
		return
	}
	for i := range hc.calls {
		if hc.calls[i].progress.Load() != callSettled {
			return
		}
	}
	*c = callRoom{hc.calls, hc.clock, hc.done}
}
