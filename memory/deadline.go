package memory

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// deadline is the context of hook calls that begin together and have the same
// timeout. It does what context.WithTimeout does, but makes its channel only
// for a hook that asks for it: most never do, and a turn has many hooks.
type deadline struct {
	context.Context // of the phase
	begun           time.Time
	timeout         time.Duration // negative: none
	timer           *time.Timer
	stop            func() bool // stops watching the phase's context

	over atomic.Bool // whether err is set; spares Err the lock
	mu   sync.Mutex
	done chan struct{} // nil until somebody asks
	err  error
}

func newDeadline(ctx context.Context, timeout time.Duration, now time.Time) *deadline {
	return &deadline{Context: ctx, timeout: timeout, begun: now}
}

// watch starts the clock: expired is called once if the time is up or the
// phase's context ends before end is called.
func (d *deadline) watch(expired func()) {
	expire := func(err error) {
		if d.end(err) {
			expired()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timeout >= 0 {
		d.timer = time.AfterFunc(d.timeout, func() { expire(context.DeadlineExceeded) })
	}
	if d.Context.Done() != nil {
		d.stop = context.AfterFunc(d.Context, func() { expire(d.Context.Err()) })
	}
}

// end ends the context and reports whether it had not ended before.
func (d *deadline) end(err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return false
	}
	d.err = err
	d.over.Store(true)
	if d.done != nil {
		close(d.done)
	}
	if d.timer != nil {
		d.timer.Stop()
	}
	if d.stop != nil {
		d.stop()
	}
	return true
}

// serves reports whether a call that begins now may share the deadline: it must
// lose less than a sixty-fourth of its time.
func (d *deadline) serves(timeout time.Duration, now time.Time) bool {
	return d.timeout == timeout && (timeout < 0 || now.Sub(d.begun) <= timeout/64)
}

// Deadline implements context.Context.
func (d *deadline) Deadline() (time.Time, bool) {
	at, ok := d.Context.Deadline()
	if own := d.begun.Add(d.timeout); d.timeout >= 0 && (!ok || own.Before(at)) {
		return own, true
	}
	return at, ok
}

// Done implements context.Context.
func (d *deadline) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil {
		d.done = make(chan struct{})
		if d.err != nil {
			close(d.done)
		}
	}
	return d.done
}

// Err implements context.Context.
func (d *deadline) Err() error {
	if !d.over.Load() {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}
