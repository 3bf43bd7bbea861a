package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stratamem/strata/internal/transcript"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

// What cannot be used is reported with its line, and the rest continues: an
// item that is too large or does not fit the budget, a thread with an invalid
// name, a system text that is too long.

// reportRefusal reports that part of a line cannot be used. It returns an error
// if that ends the loop.
func (l *loop) reportRefusal(line int, why error) error {
	if l.onRefusal == nil {
		return why
	}
	return l.onRefusal(line, why)
}

// dropItem refuses one of the items of a transcript's turn.
func (l *loop) dropItem(t *transcript.Turn, items []projection.Item, i int, why error) ([]projection.Item, error) {
	line, ok := t.Lines[items[i].ID]
	if !ok {
		return nil, why // it comes from an endpoint's answer
	}
	if err := l.reportRefusal(line, why); err != nil {
		return nil, err
	}
	return slices.Concat(items[:i], items[i+1:]), nil
}

// projectItems returns the view for a turn with those of items that can be
// used; nil if there are none, and no answer to add either.
func (l *loop) projectItems(ctx context.Context, t *transcript.Turn, items []projection.Item) (*projection.View, []projection.Item, error) {
	for {
		view, err := l.run.Project(ctx, items...)
		if err == nil {
			return view, items, nil
		}
		var over *projection.BudgetError
		if bad, ok := errors.AsType[*memory.ItemError](err); ok {
			items, err = l.dropItem(t, items, bad.Index, err)
		} else if errors.As(err, &over) && l.onRefusal != nil {
			items, err = l.fitBudget(ctx, t, items, over, err)
		}
		if err != nil {
			return nil, nil, err
		}
		if len(items) == 0 && (l.asksModel || len(t.Output) == 0) {
			return nil, nil, nil
		}
	}
}

// fitBudget leaves out what makes a prompt exceed its budget: the system text
// of the transcript, the newest user message, or else the largest item. The run
// has the items already, so it is abandoned at its last commit and continued
// from there.
func (l *loop) fitBudget(ctx context.Context, t *transcript.Turn, items []projection.Item, over *projection.BudgetError, err error) ([]projection.Item, error) {
	switch {
	case l.system != nil && over.System > over.Cap/2 && !l.systemRefused:
		if err := l.reportRefusal(l.system.Line, fmt.Errorf("system text: %w", err)); err != nil {
			return nil, err
		}
		return items, l.restartRun(ctx, true)
	case over.System+over.Required+over.Tail >= over.Cap || len(items) == 0:
		return nil, err // nothing would fit
	}
	i := overBudgetItem(items, over)
	if _, ok := t.Lines[items[i].ID]; !ok {
		return nil, err
	}
	if err := l.restartRun(ctx, l.systemRefused); err != nil { // first, because ending a run stores what it has
		return nil, err
	}
	return l.dropItem(t, items, i, err)
}

// overBudgetItem returns the index of the item that makes a prompt exceed its
// budget.
func overBudgetItem(items []projection.Item, over *projection.BudgetError) int {
	largest, size := 0, -1
	for i := range items {
		if n := len(items[i].Text()); n > size {
			largest, size = i, n
		}
	}
	if over.User < over.Exchange {
		return largest
	}
	for i, it := range slices.Backward(items) {
		if it.FromUser() {
			return i
		}
	}
	return largest
}

// restartRun continues the current run from its last commit, as after a crash;
// in another memory if the system text differs.
func (l *loop) restartRun(ctx context.Context, untold bool) error {
	run, told := l.run, l.systemRefused
	l.run, l.systemRefused = nil, untold
	err := run.Discard(ctx)
	if err == nil && told != untold {
		err = l.makeMemory()
	}
	if err != nil {
		return err
	}
	if run.Execution().Step() > 0 {
		l.run, err = l.memory.Resume(ctx, run.Execution().ID())
	} else {
		l.run, err = l.memory.Begin(ctx, run.Execution().Identity())
	}
	return err
}

// commitItems commits a response with those of its items that can be used.
func (l *loop) commitItems(ctx context.Context, t *transcript.Turn, resp memory.Response) ([]projection.Item, error) {
	for {
		err := l.run.Commit(ctx, resp)
		bad, ok := errors.AsType[*memory.ItemError](err)
		if !ok {
			return resp.Items, err
		}
		if resp.Items, err = l.dropItem(t, resp.Items, bad.Index, err); err != nil {
			return nil, err
		}
	}
}
