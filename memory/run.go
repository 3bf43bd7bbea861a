package memory

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
)

// Run is one execution. One caller uses it at a time: concurrent calls wait for
// one another. [Run.Call], [Run.Report], [Run.Execution], [Run.Tools] and the
// Return of children may be called at any time.
type Run struct {
	m       *Memory
	id      string
	who     Identity
	runKey  string
	fork    *thread.Log // the log that it began with, if that came from its parent
	began   time.Time
	resumed string  // distinguishes it from earlier runs of the same execution
	cells   []*cell // in the order given

	account account
	reports reports
	family  family
	stop    context.Context
	cancel  context.CancelFunc // ends stop, and operations in progress in a child, when the run ends
	mu      cellLock

	siblings []sibling // the layers' states as hooks see them; guarded by mu

	work
	writer writer
}

func (m *Memory) newRun(id string, who Identity) *Run {
	r := &Run{
		m: m, id: id, runKey: stored.RunKey(id), who: who,
		work: newWork(m), writer: writer{token: newToken()}, family: family{merging: newToken()},
		cells: make([]*cell, len(m.layers)),
	}
	r.stop, r.cancel = context.WithCancel(context.Background())
	for i := range m.layers {
		l := &m.layers[i]
		kind, scope := l.spec.Scope.Of(who, id)
		prefix := stored.ScopeKey(l.spec.ID, string(kind), scope)
		key := stored.StateKey(prefix)
		r.cells[i] = &cell{layer: l, m: m, mu: &r.mu, kind: kind, prefix: prefix, stateKey: key, moved: m.moves.of(key)}
	}
	r.mu.changed = true
	r.account.model = m.opts.Model
	r.reports.open(id, 1)
	return r
}

// occupy waits until the run is free, and returns an error if it cannot be used
// because it has ended, or had begun to with a failed Return. The context that
// it returns ends with the run. The caller must call vacate.
func (r *Run) occupy(ctx context.Context) (context.Context, context.CancelFunc, error) {
	return r.occupyFor(ctx, false)
}

// occupyFor is occupy for any operation, or only for the end, which may
// continue after a failure.
func (r *Run) occupyFor(ctx context.Context, end bool) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return ctx, nil, err
	}
	if err := r.work.acquire(ctx); err != nil {
		return ctx, nil, err
	}
	if now := r.account.now(); now.over || !end && now.outcome != "" {
		r.work.release()
		return ctx, nil, ErrEnded
	}
	if r.family.parent == nil {
		return ctx, nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(r.stop, cancel)
	return ctx, func() { stop(); cancel() }, nil
}

// vacate frees the run for the next operation. stop is what occupy returned.
func (r *Run) vacate(stop context.CancelFunc) {
	if stop != nil {
		stop()
	}
	r.work.release()
}

// Execution returns what hooks would see of the execution now.
func (r *Run) Execution() *Execution {
	now := r.account.now()
	x := new(struct { // one allocation: every phase makes one
		Execution
		snapshot
	})
	x.Execution.snapshot = &x.snapshot
	x.snapshot = snapshot{
		m: r.m, id: r.id, identity: r.who, depth: r.family.depth, step: now.step, older: now.older,
		usage: now.usage, cost: now.cost, model: now.model, siblings: r.layerStates(),
	}
	return &x.Execution
}

// layerStates returns the layers' states as hooks see them. The slice is never
// modified: it is replaced when a state changes.
func (r *Run) layerStates() []sibling {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.changed {
		r.mu.changed = false
		r.siblings = make([]sibling, len(r.cells))
		for i, c := range r.cells {
			if c.absent == "" {
				r.siblings[i] = sibling{c.state, true}
			}
		}
	}
	return r.siblings
}

// Report returns how the current turn has gone so far, or the last one if there
// is none.
func (r *Run) Report() TurnReport {
	return r.reports.now()
}

// prepare prepares a hook's calls in the given layers, as far as they have the
// hook and are active. It reports disabled ones as skipped.
func (r *Run) prepare(ctx context.Context, traced bool, h hook, order []int, do func(c *call) error) *hookCalls {
	n := 0
	for _, i := range order {
		if r.cells[i].layer.has[h] {
			n++
		}
	}
	hc := &hookCalls{m: r.m, ctx: ctx, trace: traced, hook: h, do: do}
	if n == 0 {
		return hc
	}
	if h == hookRecall || h == hookStore {
		r.calls.lend(hc, n) // these two run one after another, in operations
	}
	if hc.calls == nil {
		hc.calls = make([]call, n)
	}
	x := r.Execution()
	n = 0
	r.mu.Lock()
	for _, i := range order {
		c := r.cells[i]
		if !c.layer.has[h] {
			continue
		}
		if c.absent != "" {
			r.skipped(ctx, traced, h, c)
			continue
		}
		call := &hc.calls[n]
		call.cell, call.x, call.state, call.records, call.input = c, x, c.state, c.records, c.input(h)
		n++
	}
	r.mu.Unlock()
	hc.calls = hc.calls[:n]
	return hc
}

// callHook runs a hook of one layer.
func (r *Run) callHook(ctx context.Context, traced bool, h hook, i int, do func(c *call) error) (*call, error) {
	hc := r.prepare(ctx, traced, h, []int{i}, do)
	if len(hc.calls) == 0 {
		return nil, nil
	}
	hc.run()
	r.reportCalls(hc, nil)
	return &hc.calls[0], hc.calls[0].failed
}

// reportCalls reports finished calls of a hook, and ends their spans. view says
// what became of the output of Recall.
func (r *Run) reportCalls(hc *hookCalls, view *projection.View) {
	if len(hc.calls) == 0 {
		return
	}
	measured := r.m.tracing.hookTime.Enabled(hc.ctx)
	reports := r.reports.called(len(hc.calls), 2*len(r.cells), hc.trace || measured, func(i int) HookReport {
		c := &hc.calls[i]
		return hc.report(c, useOf(view, c.cell.layer.spec.ID))
	})
	for i := range reports {
		rep, c := &reports[i], &hc.calls[i]
		if c.span != nil {
			r.m.tracing.endHook(c.span, c.begun.Add(rep.Took), rep, useOf(view, rep.Layer))
		}
		if measured {
			r.m.tracing.measureHook(hc.ctx, rep)
		}
	}
	for _, d := range hc.after {
		r.reportCalls(d, nil)
	}
}

// skipped reports a hook of a layer that is not active.
func (r *Run) skipped(ctx context.Context, traced bool, h hook, c *cell) {
	rep := HookReport{Layer: c.layer.spec.ID, Hook: hooks[h].name, Status: StatusSkipped, Note: c.absent}
	r.reports.add(rep)
	if traced {
		now := time.Now()
		_, span := r.m.tracing.hook(ctx, h, c, now)
		r.m.tracing.endHook(span, now, &rep, nil)
	}
}

// changeFailed marks a successful call as failed because the change that it
// wanted could not be made. If the turn is written already, that goes to the
// record of the next one.
func (r *Run) changeFailed(c *cell, hook string, err error) {
	rep := HookReport{Layer: c.layer.spec.ID, Hook: hook, Status: StatusError, Err: err, Error: err.Error()}
	r.reports.failed(rep)
}

func endSpan(r *Run, span trace.Span, err *error) { r.m.tracing.endPhase(span, *err) }
