package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stratamem/strata/memory/internal/stored"
)

// SpawnOptions configures [Run.Spawn].
type SpawnOptions struct {
	Agent string // of the child; empty: the parent's
	// Log makes the child begin with the parent's log. What the parent has not
	// committed yet is part of the child's first turn (see [Turn.Given]), so that
	// it can be replayed and resumed whatever becomes of the parent; layers learn
	// from it only in the parent.
	Log bool
}

// Spawn begins a child: an execution with the parent's identity, its own log,
// and a depth of one more. The OnSpawn hooks decide, in slot order, what
// crosses into it. A layer of execution scope without that hook starts with
// nothing; one of thread, resource or global scope shares what is stored. Init
// runs in the child for layers whose state did not cross.
//
// Nothing is written before the child's first Commit. The child must be ended
// with [Run.Return] or [Run.End]; ending the parent ends it too.
func (r *Run) Spawn(ctx context.Context, opts *SpawnOptions) (_ *Run, err error) {
	ctx, stop, err := r.occupy(ctx)
	if err != nil {
		return nil, fmt.Errorf("spawn: %w", err)
	}
	defer r.vacate(stop)
	if r.m.closed.Load() {
		return nil, fmt.Errorf("spawn: %w", ErrClosed)
	}
	ctx, span, traced := r.m.tracing.phase(ctx, "spawn", r)
	defer endSpan(r, span, &err)
	if opts == nil {
		opts = &SpawnOptions{}
	}
	child, err := r.conceive(opts)
	if err != nil {
		return nil, fmt.Errorf("spawn: %w", err)
	}
	crossed, err := r.cross(ctx, traced, child)
	if err != nil {
		return nil, fmt.Errorf("spawn: %w", err)
	}
	if err := child.initialise(ctx, traced, crossed); err != nil {
		return nil, fmt.Errorf("spawn: %w", err)
	}
	r.family.add(child)
	return child, nil
}

// Fork begins n children with the parent's log: all of them, or none if one
// cannot begin.
func (r *Run) Fork(ctx context.Context, n int) ([]*Run, error) {
	var children []*Run
	for range n {
		child, err := r.Spawn(ctx, &SpawnOptions{Log: true})
		if err != nil {
			for _, c := range slices.Backward(children) {
				err = errors.Join(err, c.End(ctx, Aborted))
			}
			return nil, err
		}
		children = append(children, child)
	}
	return children, nil
}

// conceive returns a child with its log, but without initialised layers.
func (r *Run) conceive(opts *SpawnOptions) (*Run, error) {
	who := r.who
	if opts.Agent != "" {
		who.Agent = opts.Agent
	}
	if err := validateIdentity(&who, r.m.bounds.id); err != nil {
		return nil, err
	}
	child := r.m.newRun(r.m.newID(), who)
	if err := validateID("execution", child.id, r.m.bounds.id); err != nil {
		return nil, err
	}
	child.family.parent, child.family.parentID, child.family.depth = r, r.id, r.family.depth+1
	child.began = r.m.clock().Round(0).UTC()
	if child.lineage.root = r.lineage.root; r.family.depth == 0 {
		child.lineage.root = r.lineage.last + btoi(r.turn != nil)
	}
	child.lineage.follow(r.m, stored.ChildLineage(who.Thread, child.lineage.root, child.id))
	child.lineage.head = lastSeen{current: true, moved: child.lineage.moved.Load()}
	if !opts.Log || r.log.Len() == 0 {
		return child, nil
	}
	child.log = r.log.fork(r.id)
	if len(r.log.places) > 0 {
		x := r.record()
		child.fork = x.Log()
	}
	child.account.reach(r.account.now().older)
	if r.turn != nil { // not stored yet
		t := child.openTurn()
		t.encoded, t.given = slices.Clone(r.turn.encoded), r.log.Len()-r.log.start
		t.fromUser = r.turn.fromUser
	}
	return child, nil
}

// cross runs the OnSpawn hooks and returns, by layer, what crosses.
func (r *Run) cross(ctx context.Context, traced bool, child *Run) (map[int]spawned, error) {
	crossed := make(map[int]spawned)
	x := child.Execution()
	for _, i := range r.m.slots {
		c, err := r.callHook(ctx, traced, hookSpawn, i, func(c *call) error {
			out, err := c.cell.layer.code.spawn(c.ctx, c.x, x, c.records, c.state)
			if err != nil {
				return err
			}
			c.output = out
			c.items, err = (&intake{m: r.m}).complete(nil, out.items)
			return err
		})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if c == nil {
			continue
		}
		if err == nil && len(c.items) > 0 {
			child.openTurn()
			err = child.enter(c.items, &intake{m: r.m})
		}
		if err != nil {
			child.cells[i].disable("absent: on-spawn failed")
			continue
		}
		crossed[i] = c.output.(spawned)
	}
	return crossed, nil
}

// Return ends a child and hands its result to the parent. It takes what the
// child has not committed yet as a last turn and runs the child's OnComplete
// hooks. If the outcome is [Success], it then runs the parent's OnReturn hooks
// in slot order, each with the result as the previous one left it. The parent's
// changes, its usage and cost with the child's added, and the child's end are
// written in one atomic batch. A child that failed changes nothing in the
// parent except usage and cost. Siblings that return at the same time wait for
// one another.
//
// An empty outcome of the result means Success. If Return fails, nothing is
// lost: call it again, and no hook that has returned runs twice. Errors have
// the same meaning as for [Run.Commit]. After a failed Return, the run can only
// be returned again or ended.
func (r *Run) Return(ctx context.Context, result Result) (_ Result, err error) {
	p := r.family.parent
	if p == nil {
		return result, errors.New("return: the execution has no parent here")
	}
	if result.Outcome == "" {
		result.Outcome = Success
	}
	ctx, stop, err := r.occupyFor(ctx, true)
	if err != nil {
		return result, fmt.Errorf("return: %w", err)
	}
	defer r.vacate(stop)
	if err := p.family.merging.acquire(ctx); err != nil {
		return result, fmt.Errorf("return: %w", err)
	}
	defer p.family.merging.release()
	ctx, span, traced := r.m.tracing.phase(ctx, "return", r)
	defer endSpan(r, span, &err)
	if err := r.endChildren(ctx); err != nil {
		return result, fmt.Errorf("return: %w", err)
	}
	if err := r.complete(ctx, traced, result.Outcome); err != nil {
		return result, fmt.Errorf("return: %w", err)
	}
	if r.ending.returned == nil {
		r.ending.returned = &result
	}
	if err := p.merge(ctx, traced, r); err != nil {
		return *r.ending.returned, fmt.Errorf("return: %w", err)
	}
	if err := r.close(ctx, p); err != nil {
		return *r.ending.returned, fmt.Errorf("return: %w", err)
	}
	r.account.halt()
	r.cancel()
	r.dispose(context.WithoutCancel(ctx), traced)
	return *r.ending.returned, nil
}

// merge runs the OnReturn hooks for a child and adds its usage, each once, even
// if ctx ended in between.
func (r *Run) merge(ctx context.Context, traced bool, child *Run) error {
	if child.ending.merged {
		return nil
	}
	for ; child.ending.offered < len(r.m.slots); child.ending.offered++ {
		i := r.m.slots[child.ending.offered]
		from := child.cells[i]
		if child.ending.returned.Outcome != Success || from.absent != "" {
			continue
		}
		child.mu.Lock()
		state := from.state
		child.mu.Unlock()
		before := *child.ending.returned
		hc := r.prepare(ctx, traced, hookReturn, []int{i}, func(c *call) (err error) {
			var out Result
			c.change, out, err = c.cell.layer.code.merge(c.ctx, c.x, c.records, c.state, child, state, before)
			c.change.returned, c.output = true, out
			return err
		})
		hc.run()
		r.amend(hc)
		if err := hc.cut(); err != nil {
			return err
		}
		if len(hc.calls) == 1 && hc.calls[0].failed == nil {
			*child.ending.returned = hc.calls[0].output.(Result)
		}
	}
	child.ending.merged = true
	now := child.account.now()
	r.account.returned(now.usage, now.cost)
	return nil
}

// endChildren ends the children that have not ended, youngest first.
func (r *Run) endChildren(ctx context.Context) error {
	return r.eachChild(func(c *Run) error { return c.End(ctx, Aborted) })
}

// eachChild calls f for the children that have not ended, youngest first.
func (r *Run) eachChild(f func(*Run) error) error {
	var errs []error
	for _, c := range slices.Backward(r.family.living()) {
		errs = append(errs, f(c))
	}
	return errors.Join(errs...)
}
