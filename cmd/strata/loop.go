package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/stratamem/strata/internal/transcript"
	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

// loop is an agent loop: turns come in, a memory projects and commits each, a
// model answers in between. It is what demo and run share.
type loop struct {
	store    storage.Adapter
	memory   *memory.Memory
	clock    *clock
	tracer   trace.Tracer
	identity memory.Identity // of all executions, but for the thread
	answer   answerFunc
	emit     func(*event) error
	executed func(ctx context.Context) error // runs after every commit; may be nil

	run    *memory.Run // of the thread at work; nil before the first turn
	last   time.Time   // of the run's last turn
	number int         // of the last turn
	totals *totals

	stored  map[string]memory.ThreadInfo // threads that were there when the loop began
	prompts map[string][]byte            // the last prompt of each thread
	spare   []byte                       // room for the next
}

// answerFunc is the model: given the prompt of a turn, it says what to commit.
// more asks for another round of the same turn with these items.
type answerFunc func(ctx context.Context, run *memory.Run, turn *transcript.Turn, view *projection.View, round int) (resp memory.Response, more []projection.Item, err error)

// recorded is the model of a transcript: it answers what it answered then.
func recorded(_ context.Context, _ *memory.Run, turn *transcript.Turn, view *projection.View, _ int) (memory.Response, []projection.Item, error) {
	return memory.Response{Items: turn.Output, Usage: memory.Usage{Input: view.Tokens}}, nil, nil
}

// settings are what a memory is made with.
type settings struct {
	instructions string
	policy       projection.Policy
	tokenizer    projection.Tokenizer
	model        string
}

// readyLayers are the layers of demo and run: all that need no set-up.
func readyLayers(instructions string) []memory.Layer {
	return []memory.Layer{
		layers.Instructions(&layers.InstructionsOptions{Text: instructions, Spec: memory.Spec{Budget: room(instructions)}}),
		layers.WorkingMemory(nil),
		layers.Observations(nil),
		layers.Episodic(nil),
		layers.SemanticRecall(nil),
	}
}

// room is the budget of instructions: all that they need, so that they take no
// share from layers that grow.
func room(instructions string) projection.Budget {
	n := len(instructions)/2 + 64 // more than any tokenizer counts for prose
	return projection.Between(min(n, 2000), n)
}

func newLoop(ctx context.Context, store storage.Adapter, tr *tracing, identity memory.Identity, s *settings, emit func(*event) error) (*loop, error) {
	l := &loop{
		store: store, clock: &clock{}, tracer: tr.tracer(), identity: identity, answer: recorded, emit: emit,
		totals: &totals{}, stored: make(map[string]memory.ThreadInfo), prompts: make(map[string][]byte),
	}
	m, err := memory.New(store, readyLayers(s.instructions), &memory.Options{
		Policy: s.policy, Tokenizer: s.tokenizer, Model: s.model, Clock: l.clock.now, TracerProvider: tr.provider,
	})
	if err != nil {
		return nil, err
	}
	l.memory = m
	for info, err := range memory.Threads(ctx, store) {
		if err != nil {
			return nil, err
		}
		l.stored[info.Thread] = info
	}
	return l, nil
}

// sitting is how long a thread may rest until its execution is over.
const sitting = 4 * time.Hour

// turn plays one turn, in the execution of its thread: the one at work, or a new
// one if another thread was at work or this one has rested.
func (l *loop) turn(ctx context.Context, t *transcript.Turn) error {
	l.clock.set(t.Time)
	if l.run != nil && (l.run.Execution().Identity().Thread != t.Thread || !t.Time.IsZero() && t.Time.Sub(l.last) > sitting) {
		if err := l.end(ctx, memory.Success); err != nil {
			return err
		}
	}
	if l.run == nil {
		if err := l.begin(ctx, t); err != nil {
			return err
		}
	}
	l.last = t.Time
	l.number++
	return l.play(ctx, t)
}

func (l *loop) begin(ctx context.Context, t *transcript.Turn) error {
	who := l.identity
	who.Thread = t.Thread
	run, err := l.memory.Begin(ctx, who)
	if err != nil {
		return err
	}
	l.adopt(run)
	return l.emit(&event{Event: eventBegin, Thread: t.Thread, Execution: run.Execution().ID(), Time: t.Time})
}

// adopt makes a run the one at work.
func (l *loop) adopt(run *memory.Run) {
	l.run = run
	l.totals.Executions++
}

// play projects, has the model answer, and commits, in as many rounds as it
// takes.
func (l *loop) play(ctx context.Context, t *transcript.Turn) (err error) {
	ctx, span := l.tracer.Start(ctx, "turn", trace.WithAttributes(attribute.Int("strata.input.turn", l.number)))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}()
	items := t.Input
	for round := 0; ; round++ {
		view, err := l.run.Project(ctx, items...)
		if err != nil {
			return err
		}
		resp, more, err := l.answer(ctx, l.run, t, view, round)
		if err != nil {
			return err
		}
		if err := l.run.Commit(ctx, resp); err != nil {
			return err
		}
		if err := l.committed(ctx, t, items, resp.Items, view); err != nil {
			return err
		}
		if len(more) == 0 {
			return nil
		}
		items = more
	}
}

// committed reports a round that is durable.
func (l *loop) committed(ctx context.Context, t *transcript.Turn, in, out []projection.Item, view *projection.View) error {
	if l.executed != nil {
		if err := l.executed(ctx); err != nil {
			return err
		}
	}
	report := l.run.Report()
	x := l.run.Execution()
	e := &event{
		Event: eventTurn, Number: l.number, Thread: t.Thread, Execution: x.ID(), Time: t.Time,
		Input: quote(in), Output: quote(out), Report: &report,
	}
	var err error
	if e.Reused, e.Bytes, err = l.reuse(ctx, t.Thread, view); err != nil {
		return err
	}
	if e.Elsewhere, err = l.elsewhere(ctx, t.Thread, view); err != nil {
		return err
	}
	l.totals.add(e)
	return l.emit(e)
}

// firstEpoch is why a thread's first prompt opens an epoch.
const firstEpoch = "first projection"

// add adds a turn.
func (t *totals) add(e *event) {
	r := e.Report
	t.Turns++
	t.Tokens += r.Tokens
	t.Largest = max(t.Largest, r.Tokens)
	t.Bytes += int64(e.Bytes)
	t.Reused += int64(e.Reused)
	if r.Degraded() {
		t.Degraded++
	}
}

// reuse returns how many bytes of a prompt stood at the start of the thread's
// prompt before, and how many it has: what a provider's cache can be asked for.
func (l *loop) reuse(ctx context.Context, thread string, view *projection.View) (reused, size int, err error) {
	before, known := l.prompts[thread]
	if !known {
		if info, ok := l.stored[thread]; ok {
			old, err := memory.Replay(ctx, l.store, info.Execution, info.Turns)
			if err != nil && ctx.Err() != nil {
				return 0, 0, err
			}
			if err == nil { // else the last turn had no prompt, or is no longer kept
				before = old.AppendText(nil)
			}
		}
	}
	now := view.AppendText(l.spare[:0])
	l.prompts[thread], l.spare = now, before
	return commonPrefix(before, now), len(now), nil
}

// commonPrefix returns how many bytes a and b begin with alike.
func commonPrefix(a, b []byte) int {
	const step = 4096
	most, n := min(len(a), len(b)), 0
	for n+step <= most && bytes.Equal(a[n:n+step], b[n:n+step]) {
		n += step
	}
	for n < most && a[n] == b[n] {
		n++
	}
	return n
}

// elsewhere returns the first thing in a view that was said in another thread.
func (l *loop) elsewhere(ctx context.Context, thread string, view *projection.View) (*elsewhere, error) {
	for _, it := range view.All() {
		if it.Layer == "" {
			continue
		}
		for _, ref := range it.Refs {
			index, ok := recordsOf(ref)
			if !ok {
				continue // the id of an item
			}
			id, ok := search.DocID(strings.TrimPrefix(ref, index+"/"))
			if !ok {
				continue
			}
			d, err := search.Read(ctx, storage.Scope(l.store, index), id)
			if errors.Is(err, storage.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if d.Scope != thread {
				return &elsewhere{it.Layer, d.Scope, d.Time, d.Text}, nil
			}
		}
	}
	return nil, nil
}

// end ends the run at work, if there is one.
func (l *loop) end(ctx context.Context, outcome memory.Outcome) error {
	run := l.run
	if run == nil {
		return nil
	}
	l.run = nil
	x := run.Execution()
	if err := run.End(ctx, outcome); err != nil {
		return err
	}
	return l.emit(&event{Event: eventEnd, Thread: x.Identity().Thread, Execution: x.ID(), Outcome: outcome})
}

// close ends what is at work, as the error that stopped the loop asks for, and
// stops the memory. The store stays open.
func (l *loop) close(ctx context.Context, cause error) error {
	outcome := memory.Success
	switch {
	case ctx.Err() != nil:
		outcome = memory.Aborted
	case cause != nil:
		outcome = memory.Failure
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	err := l.end(ctx, outcome)
	if closeErr := l.memory.Close(ctx); err == nil && closeErr != nil {
		err = fmt.Errorf("stop memory: %w", closeErr)
	}
	return err
}

// clock tells a transcript's time: that of the turn at work, or the real one
// where the transcript says nothing.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return time.Now()
	}
	return c.at
}

// messages returns the messages among items, without tool results.
func messages(items []projection.Item) []projection.Item {
	return slices.DeleteFunc(slices.Clone(items), func(it projection.Item) bool { return it.Kind != projection.Message })
}
