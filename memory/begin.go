package memory

import (
	"context"
	"fmt"

	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
)

// Begin begins an execution: it reads the tail of the thread's log that the
// policy can use, and the states of the layers, and runs their Init hooks. If
// one fails, the layers initialised so far are disposed in reverse order, and
// the error is a [*HookError]. Nothing is written. The caller must end the run
// with [Run.End], or with [Run.Discard] to write nothing either.
func (m *Memory) Begin(ctx context.Context, who Identity) (*Run, error) {
	if err := validateIdentity(&who, m.bounds.id); err != nil {
		return nil, err
	}
	r := m.newRun(m.newID(), who)
	if err := validateID("execution", r.id, m.bounds.id); err != nil {
		return nil, err
	}
	r.lineage.follow(m, stored.ThreadLineage(who.Thread))
	r.began = m.clock().Round(0).UTC()
	if err := r.wake(ctx, "begin"); err != nil {
		return nil, fmt.Errorf("begin execution: %w", err)
	}
	return r, nil
}

// Resume continues an execution after its last Commit, in this process or
// another, with its log, the states of its layers, and its step. Init runs and
// receives the states. The error is [ErrUnknownExecution] if the execution
// never committed, and [ErrEnded] if it has ended. The caller must make sure
// that the execution runs nowhere else.
func (m *Memory) Resume(ctx context.Context, executionID string) (*Run, error) {
	x, err := thread.FindRun(ctx, m.store, executionID)
	if err != nil {
		return nil, fmt.Errorf("resume execution: %w", err)
	}
	if x.Outcome != "" {
		return nil, fmt.Errorf("resume execution %q: %w", executionID, ErrEnded)
	}
	r := m.newRun(x.ID, x.Identity)
	r.lineage.follow(m, x.Lineage)
	r.lineage.root, r.lineage.base, r.lineage.own = x.Root, x.Base, x.Step
	r.fork, r.began, r.writer.recorded = x.Fork, x.Began, true
	r.family.depth, r.family.parentID = x.Depth, x.Parent
	r.resumed = m.newID()
	r.account.resume(x)
	r.reports.open(r.id, x.Step+1)
	if err := r.wake(ctx, "begin"); err != nil {
		return nil, fmt.Errorf("resume execution: %w", err)
	}
	return r, nil
}

// wake loads what the run needs and initialises its layers.
func (r *Run) wake(ctx context.Context, phase string) (err error) {
	if r.m.closed.Load() {
		return ErrClosed
	}
	ctx, span, traced := r.m.tracing.phase(ctx, phase, r)
	defer endSpan(r, span, &err)
	if err := r.loadLog(ctx); err != nil {
		return err
	}
	return r.initialise(ctx, traced, nil)
}

// initialise loads the states and runs the Init hooks, in the order given.
// crossed has what came from a parent's layers.
func (r *Run) initialise(ctx context.Context, traced bool, crossed map[int]spawned) error {
	for i, c := range r.cells {
		if c.absent != "" {
			continue
		}
		err := r.initialiseLayer(ctx, traced, i, crossed)
		if err == nil {
			continue
		}
		if c.layer.spec.OnInitError == InitDisables && ctx.Err() == nil {
			c.disable("disabled: init failed")
			continue
		}
		r.dispose(context.WithoutCancel(ctx), traced)
		r.cancel()
		return &HookError{Layer: c.layer.spec.ID, Hook: hooks[hookInit].name, Err: err}
	}
	r.allocate()
	r.m.open.Add(1)
	return nil
}

func (r *Run) initialiseLayer(ctx context.Context, traced bool, i int, crossed map[int]spawned) error {
	c := r.cells[i]
	found, err := c.load(ctx)
	if err != nil {
		return err
	}
	if err := c.purge(ctx); err != nil {
		return err
	}
	if s, ok := crossed[i]; ok && s.found {
		c.begin(s.state)
		c.seed, c.detached = c.kind == ScopeExecution, c.kind != ScopeExecution
		return nil
	}
	call, err := r.callHook(ctx, traced, hookInit, i, func(call *call) (err error) {
		call.output, err = c.layer.code.init(call.ctx, call.x, call.records, call.state, found)
		return err
	})
	if err != nil {
		return err
	}
	c.inited = true
	if call == nil {
		return nil
	}
	c.begin(call.output)
	if !found {
		c.origin, c.born = call.output, c.stored.Clears
	}
	return nil
}

// allocate divides the policy's budget among the layers that recall.
func (r *Run) allocate() {
	var budgets []projection.Budget
	for _, i := range r.m.slots {
		c := r.cells[i]
		if s := &c.layer.spec; c.absent == "" && c.layer.has[hookRecall] {
			budgets = append(budgets, s.Budget)
			r.contribs = append(r.contribs, projection.Contribution{
				Layer: s.ID, Placement: s.Placement, Authority: s.Authority, Required: s.Required,
			})
		}
	}
	// This cannot fail: New has checked that the exact budgets of all layers fit.
	a, _ := r.m.frame.Allocate(budgets)
	for i := range r.contribs {
		r.contribs[i].Budget = a.Layers[i]
	}
}

// record returns the stored record of a running execution.
func (r *Run) record() thread.Run {
	now := r.account.now()
	return thread.Run{
		ID: r.id, Identity: r.who, Lineage: r.lineage.prefix, Depth: r.family.depth, Parent: r.family.parentID, Root: r.lineage.root,
		Fork: r.fork, Began: r.began, Ended: now.ended, Outcome: now.outcome, Base: r.lineage.base, Resumed: r.resumed,
		FirstTurn: now.from, LastTurn: now.latest, Step: now.step, Usage: now.usage, Cost: now.cost, Model: now.model,
	}
}
