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

// ending is how far a run's end has got, so that none of its hooks runs twice.
// It belongs to the current operation.
type ending struct {
	completed int     // layers, in the order given, whose OnComplete has run
	returned  *Result // as left by the OnReturn hooks that have run
	offered   int     // layers, in slot order, whose OnReturn has run
	merged    bool    // whether all of those have run, and the parent's account includes the run's usage
	disposed  bool
}

// End ends the execution. It first ends its children, with outcome [Aborted].
// Then it takes what is not committed yet as a last turn, runs the OnComplete
// hooks in the order given, writes everything in one atomic batch, and runs the
// Dispose hooks in reverse order. It waits for operations in progress and
// ignores the end of ctx: each hook has its own timeout, and so has the store.
//
// Ending twice is no error. If the store fails, the hooks have run and nothing
// is lost: call End again to write. Errors have the same meaning as for
// [Run.Commit].
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

// Discard ends the run without writing: what is not committed is dropped, along
// with what tools have changed since, and Dispose hooks run but OnComplete
// hooks do not. So Begin, Project, Discard shows what would be sent and leaves
// nothing in the store. An execution that has committed stays as its last
// Commit left it, as after a crash: [Memory.Resume] continues it. Children are
// discarded first.
//
// Discard waits for operations in progress and ignores the end of ctx. It does
// nothing to a run that has ended, and End does nothing to one that was
// discarded.
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

// halt prevents anything new from beginning, cancels operations in progress and
// waits for them. The caller then owns the run until it takes a token from
// r.work.
func (r *Run) halt() {
	r.account.halt()
	r.cancel()
	r.work.wait()
}

// leave removes the run from those that have not ended.
func (r *Run) leave() {
	r.m.open.Add(-1)
	if p := r.family.parent; p != nil {
		p.family.remove(r)
	}
}

// complete runs the hooks of an end: Store for a turn that is not committed,
// then OnComplete. Each runs once, even if ctx ended in between.
func (r *Run) complete(ctx context.Context, traced bool, outcome Outcome) error {
	if r.turn != nil && r.idle() {
		r.turn, r.room = nil, turn{}
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

// close writes the end, along with the parent's changes if there is a parent.
func (r *Run) close(ctx context.Context, parent *Run) error {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	if err := r.m.write(ctx, r, parent); err != nil {
		return err
	}
	r.leave()
	// What follows is unreachable. If it remains, it is deleted with the thread's
	// turns.
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

// dispose runs the Dispose hooks once, in reverse order.
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
		_, _ = r.callHook(ctx, traced, hookDispose, i, func(call *call) error { // reported; the others still run
			return c.layer.code.dispose(call.ctx, call.x, call.state)
		})
	}
}
