package killtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
)

const (
	agents   = 4
	threads  = 3 // so that two agents share one
	resource = "anna"
	team     = "red"
)

// agent is a host's loop: it resumes what it was at, takes turns, gives work to
// children, ends runs and begins others.
type agent struct {
	*world
	who     memory.Identity
	letter  byte
	n       int // tokens so far
	resume  []*thread.Run
	run     *memory.Run
	pending int // turns until run ends
}

func (w *world) newAgent(i int, runs []*thread.Run) *agent {
	a := &agent{world: w, letter: byte('a' + i), who: memory.Identity{
		Thread: fmt.Sprint("thread-", i%threads), Resource: resource, Agent: fmt.Sprint("agent-", i), Team: team,
	}}
	for _, x := range runs {
		if x.Identity.Agent == a.who.Agent {
			a.resume = append(a.resume, x)
		}
	}
	return a
}

// step is one step of the loop.
func (a *agent) step(ctx context.Context, rnd *rand.Rand) (err error) {
	for range 2 {
		select {
		case a.work <- struct{}{}:
		default:
		}
	}
	switch {
	case len(a.resume) > 0:
		x := a.resume[0]
		a.resume = a.resume[1:]
		return a.again(ctx, rnd, x)
	case a.run == nil:
		if a.run, err = a.memory.Begin(ctx, a.who); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		a.pending = 1 + rnd.IntN(5)
		return nil
	case a.pending == 0:
		return a.end(ctx, rnd)
	case rnd.IntN(5) == 0:
		return a.delegate(ctx, rnd)
	}
	a.pending--
	return a.turn(ctx, rnd, a.run)
}

// again resumes what a killed process was at. The orphan of a parent that was
// not resumed with it is given up.
func (a *agent) again(ctx context.Context, rnd *rand.Rand, x *thread.Run) error {
	run, err := a.memory.Resume(ctx, x.ID)
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	say(told, "resumed", x.ID, run.Execution().Step())
	if x.Parent != "" || a.run != nil {
		return a.finish(ctx, run, memory.Aborted)
	}
	a.run, a.pending = run, 1+rnd.IntN(5)
	return nil
}

// prepare projects a turn, without what the model answers last.
func (a *agent) prepare(ctx context.Context, rnd *rand.Rand, run *memory.Run, closes bool) (p plan, err error) {
	a.n++
	p = plan{token: a.token('q', a.letter, a.n), calls: rnd.IntN(3), mark: rnd.IntN(4) == 0, closes: closes}
	if _, err := run.Project(ctx, projection.Text(projection.User, p.text())); err != nil {
		return p, fmt.Errorf("project: %w", err)
	}
	for n := range p.calls {
		id := callID(p.token, n)
		result := projection.Result(id, "The drawer has "+p.token+" in it.")
		result.Failed = n == 1
		if _, err := run.Project(ctx, projection.Call(id, "look", `{"in":"drawer"}`), result); err != nil {
			return p, fmt.Errorf("project: %w", err)
		}
	}
	if p.mark {
		args, err := json.Marshal(markArgs{p.token})
		if err != nil {
			return p, err
		}
		for _, scope := range scopes {
			if _, err := run.Call(ctx, ledgerID(scope)+"_mark", args); err != nil {
				return p, fmt.Errorf("call: %w", err)
			}
		}
	}
	return p, nil
}

func (a *agent) turn(ctx context.Context, rnd *rand.Rand, run *memory.Run) error {
	p, err := a.prepare(ctx, rnd, run, false)
	if err != nil {
		return err
	}
	say(begun, "turn", p.token)
	err = settle(func() error {
		return run.Commit(ctx, memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, p.answer())}, Cost: 1})
	})
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	say(done, "turn", p.token)
	return healthy(run)
}

// healthy refuses a turn in which a hook failed: all layers are to have what
// was said.
func healthy(run *memory.Run) error {
	var errs []error
	report := run.Report()
	for _, h := range report.Hooks {
		if h.Status != memory.StatusOK {
			errs = append(errs, fmt.Errorf("%s of %s: %s %s", h.Hook, h.Layer, h.Status, h.Error))
		}
	}
	return errors.Join(errs...)
}

// end ends the run, at times with a turn that was not committed.
func (a *agent) end(ctx context.Context, rnd *rand.Rand) error {
	run := a.run
	a.run = nil
	if rnd.IntN(2) == 0 {
		return a.finish(ctx, run, memory.Success)
	}
	p, err := a.prepare(ctx, rnd, run, true)
	if err != nil {
		return err
	}
	say(begun, "turn", p.token)
	if err := a.finish(ctx, run, memory.Success); err != nil {
		return err
	}
	say(done, "turn", p.token)
	return nil
}

func (a *agent) finish(ctx context.Context, run *memory.Run, outcome memory.Outcome) error {
	x := run.Execution()
	say(begun, "end", x.ID())
	if err := settle(func() error { return run.End(ctx, outcome) }); err != nil {
		return fmt.Errorf("end: %w", err)
	}
	say(done, "end", x.ID())
	return healthy(run)
}

// delegate gives work to a child, which succeeds or is given up.
func (a *agent) delegate(ctx context.Context, rnd *rand.Rand) error {
	child, err := a.run.Spawn(ctx, &memory.SpawnOptions{Log: rnd.IntN(2) == 0})
	if err != nil {
		return fmt.Errorf("spawn: %w", err)
	}
	for range rnd.IntN(3) {
		if err := a.turn(ctx, rnd, child); err != nil {
			return err
		}
	}
	if rnd.IntN(4) == 0 {
		return a.finish(ctx, child, memory.Aborted)
	}
	token := ""
	if rnd.IntN(2) == 0 {
		p, err := a.prepare(ctx, rnd, child, true)
		if err != nil {
			return err
		}
		token = p.token
		say(begun, "turn", token)
	}
	x := child.Execution()
	say(begun, "end", x.ID())
	err = settle(func() error {
		_, err := child.Return(ctx, memory.Result{Outcome: memory.Success, Text: "done"})
		return err
	})
	if err != nil {
		return fmt.Errorf("return: %w", err)
	}
	say(done, "end", x.ID())
	if token != "" {
		say(done, "turn", token)
	}
	return errors.Join(healthy(child), healthy(a.run))
}
