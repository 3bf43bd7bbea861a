package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stratamem/strata/storage"
)

// endTimeout bounds the writing of an execution's end.
const endTimeout = 30 * time.Second

// ending is how far the end of a run has come, so that no hook of it runs twice. It
// belongs to the operation at work.
type ending struct {
	completed int     // layers, in the order given, whose OnComplete has run
	returned  *Result // as the OnReturn hooks that have run left it
	offered   int     // layers, in slot order, whose OnReturn has run
	merged    bool    // all of those have, and the parent's account has what the run used
	disposed  bool
}

// End ends the execution: first its children, with outcome [Aborted]; then it
// takes what is not committed yet as a last turn, runs the OnComplete hooks in
// the order given, writes everything in one atomic batch, and runs the Dispose
// hooks in reverse. It waits for what is at work, and does not heed that ctx
// ends: each hook has its own timeout, and so has the store.
//
// Ending twice is no error. If the store fails, the hooks have run and nothing is
// lost: call End again to write, with what is said of errors at [Run.Commit].
func (r *Run) End(ctx context.Context, outcome Outcome) (err error) {
	switch outcome {
	case Success, Failure, Aborted:
	default:
		return fmt.Errorf("end execution: outcome %q is none of success, failure, aborted", outcome)
	}
	ctx = context.WithoutCancel(ctx)
	r.halt()
	defer r.work.release()
	if r.account.now().sealed {
		return nil
	}
	ctx, span, traced := r.m.tracing.phase(ctx, "end", r)
	defer endSpan(r, span, &err)
	children := r.endChildren(ctx)
	if err = r.complete(ctx, traced, outcome); err == nil {
		err = r.close(ctx, nil)
	}
	r.dispose(ctx, traced)
	if err = errors.Join(children, err); err != nil {
		return fmt.Errorf("end execution: %w", err)
	}
	return nil
}

// Discard ends the run and writes nothing: what is not committed is dropped, with
// what tools have changed since, no OnComplete hook runs, and the Dispose hooks do.
// So Begin, Project, Discard shows what would be sent and leaves nothing in the
// store. An execution that has committed stays as its last Commit left it, as after
// a crash: [Memory.Resume] goes on with it. Children are discarded first.
//
// It waits for what is at work, and does not heed that ctx ends. To discard a run
// that has ended, or to end one that is discarded, does nothing.
func (r *Run) Discard(ctx context.Context) (err error) {
	ctx = context.WithoutCancel(ctx)
	r.halt()
	defer r.work.release()
	if r.account.now().sealed {
		return nil
	}
	ctx, span, traced := r.m.tracing.phase(ctx, "end", r)
	defer endSpan(r, span, &err)
	err = r.eachChild(func(c *Run) error { return c.Discard(ctx) })
	r.leave()
	r.account.seal(true)
	r.dispose(ctx, traced)
	return err
}

// halt lets nothing new begin, cancels what is at work and waits for it. The run is
// the caller's until it takes a token from r.work.
func (r *Run) halt() {
	r.account.halt()
	r.cancel()
	r.work.wait()
}

// leave takes the run out of the account of those that have not ended.
func (r *Run) leave() {
	r.m.open.Add(-1)
	if p := r.family.parent; p != nil {
		p.family.remove(r)
	}
}

// complete runs the hooks of an end: Store for a turn that is not committed,
// then OnComplete. It does so once, also where ctx ended in between.
func (r *Run) complete(ctx context.Context, traced bool, outcome Outcome) error {
	if r.turn != nil && r.idle() {
		r.turn = nil
	}
	if t := r.turn; t != nil {
		if t.response == nil {
			t.response = &Response{}
		}
		if err := r.learn(ctx, traced); err != nil {
			return err
		}
	}
	outcome = r.account.conclude(outcome, r.m.clock().Round(0).UTC())
	log := r.log.held()
	for ; r.ending.completed < len(r.m.given); r.ending.completed++ {
		hc := r.prepare(ctx, traced, hookComplete, []int{r.m.given[r.ending.completed]}, func(c *call) (err error) {
			c.change, err = c.cell.layer.code.complete(c.ctx, c.x, c.records, c.state, log, outcome)
			return err
		})
		hc.run()
		r.amend(hc)
		if err := hc.cut(); err != nil {
			return err
		}
	}
	return nil
}

// close writes the end, with what the parent has changed if that is given.
func (r *Run) close(ctx context.Context, parent *Run) error {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	if err := r.m.write(ctx, r, parent); err != nil {
		return err
	}
	r.leave()
	// What follows is unreachable. Where it remains it goes with the thread's turns.
	for _, c := range r.cells {
		if c.kind == ScopeExecution && c.absent == "" {
			_ = c.remove(ctx, c.prefix)
		}
	}
	if r.account.now().from == 0 && r.writer.recorded {
		_ = storage.Delete(ctx, r.m.store, r.runKey)
	}
	return nil
}

// dispose runs the Dispose hooks in reverse, once.
func (r *Run) dispose(ctx context.Context, traced bool) {
	if r.ending.disposed {
		return
	}
	r.ending.disposed = true
	for _, i := range r.m.reverse {
		c := r.cells[i]
		if !c.inited || c.absent != "" {
			continue
		}
		_, _ = r.callHook(ctx, traced, hookDispose, i, func(call *call) error { // reported; the others run all the same
			return c.layer.code.dispose(call.ctx, call.x, call.state)
		})
	}
}
