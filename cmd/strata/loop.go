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
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

// loop is an agent loop: turns come in, a memory projects and commits each, and
// a model answers in between. demo and run share it.
type loop struct {
	store         storage.Adapter
	memory        *memory.Memory // with the system text of the current turn
	settings      *settings
	system        *transcript.System
	systemRefused bool // whether the system text cannot be used
	asksModel     bool // whether a model answers, rather than the transcript
	clock         *clock
	tracing       *tracing
	tracer        trace.Tracer
	identity      memory.Identity // of all executions, except for the thread
	ledger        *ledger         // of what transcripts added; may be nil
	answer        answerFunc
	emit          func(*event) error
	onCommit      func(ctx context.Context) error // runs after every commit; may be nil
	onRefusal     func(line int, why error) error // reports what cannot be used, and returns an error to stop; nil stops the loop

	run    *memory.Run // of the current thread; nil before the first turn
	last   time.Time   // of the run's last turn
	number int         // of the last turn
	totals *totals

	stored      map[string]thread.Info // threads without a run in progress
	prompt      []byte                 // last prompt of the run's thread
	spareBuffer []byte                 // buffer for the next
}

// answerFunc is the model: given the prompt of a turn, it returns what to
// commit. more asks for another round of the same turn with these items.
type answerFunc func(ctx context.Context, run *memory.Run, turn *transcript.Turn, view *projection.View, round int) (resp memory.Response, more []projection.Item, err error)

// answerRecorded is the model of a transcript: it repeats its recorded answer.
func answerRecorded(_ context.Context, _ *memory.Run, turn *transcript.Turn, view *projection.View, _ int) (memory.Response, []projection.Item, error) {
	return memory.Response{Items: turn.Output, Usage: memory.Usage{Input: view.Tokens}}, nil, nil
}

// settings configure a memory.
type settings struct {
	instructions string
	policy       projection.Policy
	tokenizer    projection.Tokenizer
	model        string
	keepTurns    int
}

// readyLayers returns the layers of demo and run: all that need no
// configuration.
func readyLayers(instructions string) []memory.Layer {
	return []memory.Layer{
		layers.Instructions(&layers.InstructionsOptions{Text: instructions, Spec: memory.Spec{Budget: instructionsBudget(instructions)}}),
		layers.WorkingMemory(nil),
		layers.Observations(nil),
		layers.Episodic(nil),
		layers.SemanticRecall(nil),
	}
}

// instructionsBudget returns the budget of instructions: exactly what they
// need, so that they take no share from layers that grow.
func instructionsBudget(instructions string) projection.Budget {
	n := len(instructions)/2 + 64 // more than any tokenizer counts for prose
	return projection.Between(min(n, 2000), n)
}

func newLoop(ctx context.Context, store storage.Adapter, tr *tracing, identity memory.Identity, s *settings, books *ledger, emit func(*event) error) (*loop, error) {
	l := &loop{
		store: store, settings: s, clock: &clock{}, tracing: tr, tracer: tr.tracer(), identity: identity, ledger: books, answer: answerRecorded, emit: emit,
		totals: &totals{}, stored: make(map[string]thread.Info),
	}
	if err := l.makeMemory(); err != nil {
		return nil, err
	}
	for info, err := range thread.List(ctx, store) {
		if err != nil {
			return nil, err
		}
		l.stored[info.Thread] = info
	}
	return l, nil
}

// makeMemory makes the memory; all its runs have the same system text.
func (l *loop) makeMemory() error {
	s := l.settings
	opts := memory.Options{
		Policy: s.policy, Tokenizer: s.tokenizer, Model: s.model, KeepTurns: s.keepTurns,
		Clock: l.clock.now, TracerProvider: l.tracing.provider,
	}
	if l.system != nil && !l.systemRefused {
		opts.System, _ = layers.Redact(l.system.Items)
	}
	ready := append([]memory.Layer{layers.Secrets(nil)}, readyLayers(s.instructions)...)
	if l.ledger != nil {
		ready = append([]memory.Layer{l.ledger.layer()}, ready...)
	}
	m, err := memory.New(l.store, ready, &opts)
	if err == nil {
		l.memory = m
	}
	return err
}

// longestRest is how long a thread may be idle before its execution is over.
const longestRest = 4 * time.Hour

// playTurn plays one turn in the execution of its thread: the current one, or a
// new one if the current one is of another thread, was idle too long, or has
// another system text.
func (l *loop) playTurn(ctx context.Context, t *transcript.Turn) error {
	l.clock.set(t.Time)
	if l.run != nil && (l.run.Execution().Identity().Thread != t.Thread || l.sittingIsOver(t) || t.System != l.system) {
		if err := l.endRun(ctx, memory.Success); err != nil {
			return err
		}
	}
	if l.run == nil {
		if err := l.beginRun(ctx, t); err != nil {
			if why, ok := errors.AsType[*memory.IdentityError](err); ok && why.Field == "thread" && t.Thread != l.identity.Thread {
				return l.reportRefusal(t.Line, err)
			}
			return err
		}
	}
	l.last = t.Time
	l.number++
	return l.playRounds(ctx, t)
}

// sittingIsOver reports whether the thread was idle for so long that a turn
// begins another execution.
func (l *loop) sittingIsOver(t *transcript.Turn) bool {
	return !t.Time.IsZero() && t.Time.Sub(l.last) > longestRest
}

// beginRun begins an execution for a turn, or continues one that was
// interrupted in the middle of its sitting.
func (l *loop) beginRun(ctx context.Context, t *transcript.Turn) error {
	if t.System != l.system {
		if err := l.useSystem(ctx, t.System); err != nil {
			return err
		}
	}
	who := l.identity
	who.Thread = t.Thread
	run, err := l.resumeInterrupted(ctx, who)
	if err == nil && run != nil && l.sittingIsOver(t) {
		run, err = nil, run.End(ctx, memory.Success)
	}
	if err == nil && run == nil {
		run, err = l.memory.Begin(ctx, who)
	}
	if err != nil {
		return err
	}
	l.startWork(run)
	if err := l.loadPrompt(ctx, t.Thread); err != nil {
		return err
	}
	return l.emit(&event{Event: eventBegin, Thread: t.Thread, Execution: run.Execution().ID(), Time: t.Time})
}

// useSystem sets the system text. One that cannot be used is reported and left
// out.
func (l *loop) useSystem(ctx context.Context, system *transcript.System) error {
	before := l.memory
	l.system, l.systemRefused = system, false
	if err := l.makeMemory(); err != nil {
		if err := l.reportRefusal(system.Line, err); err != nil {
			return err
		}
		l.systemRefused = true
		if err := l.makeMemory(); err != nil {
			return err
		}
	}
	return before.Close(ctx)
}

// startWork makes a run the current one.
func (l *loop) startWork(run *memory.Run) {
	l.run = run
	l.totals.Executions++
}

// playRounds projects, lets the model answer, and commits, in as many rounds as
// necessary.
func (l *loop) playRounds(ctx context.Context, t *transcript.Turn) (err error) {
	ctx, span := l.tracer.Start(ctx, "turn", trace.WithAttributes(attribute.Int("strata.input.turn", l.number)))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}()
	items := t.Input
	for round := 0; ; round++ {
		var view *projection.View
		if view, items, err = l.projectItems(ctx, t, items); err != nil {
			return err
		}
		if view == nil {
			return nil
		}
		resp, more, err := l.answer(ctx, l.run, t, view, round)
		if err != nil {
			return err
		}
		_, given := layers.Redact(items) // as the layer did
		var said []string
		resp.Items, said = layers.Redact(resp.Items)
		l.totals.Redacted += len(given) + len(said)
		if resp.Items, err = l.commitItems(ctx, t, resp); err != nil {
			return err
		}
		if err := l.reportRound(ctx, t, items, resp.Items, view); err != nil {
			return err
		}
		if len(more) == 0 {
			return nil
		}
		items = more
	}
}

// reportRound reports a round that is durable.
func (l *loop) reportRound(ctx context.Context, t *transcript.Turn, in, out []projection.Item, view *projection.View) error {
	if l.onCommit != nil {
		if err := l.onCommit(ctx); err != nil {
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
	e.Reused, e.Bytes = l.reusedBytes(view)
	if e.Elsewhere, err = l.recalledElsewhere(ctx, t.Thread, view); err != nil {
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
	t.Items += len(e.Input) + len(e.Output)
	t.Tokens += r.Tokens
	t.Largest = max(t.Largest, r.Tokens)
	t.Bytes += int64(e.Bytes)
	t.Reused += int64(e.Reused)
	if r.Degraded() {
		t.Degraded++
	}
}

// reusedBytes returns how many bytes of a prompt were also the start of the
// thread's previous prompt, and the size of the prompt: the most that a
// provider's cache can save.
func (l *loop) reusedBytes(view *projection.View) (reused, size int) {
	now := view.AppendText(l.spareBuffer[:0])
	reused = commonPrefix(l.prompt, now)
	l.prompt, l.spareBuffer = now, l.prompt
	return reused, len(now)
}

// loadPrompt reads the prompt of a thread's last turn, with which the next is
// compared: the prompts of all threads would not fit in memory.
func (l *loop) loadPrompt(ctx context.Context, id string) error {
	l.prompt = l.prompt[:0]
	info, ok := l.stored[id]
	if !ok || info.Turns == 0 {
		return nil
	}
	view, err := thread.Replay(ctx, l.store, info.Execution, info.Turns)
	if err == nil {
		l.prompt = view.AppendText(l.prompt)
	}
	return ctx.Err() // otherwise the turn had no prompt, or is no longer kept
}

// commonPrefix returns the length of the common prefix of a and b.
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

// recalledElsewhere returns the first thing in a view that was said in another thread.
func (l *loop) recalledElsewhere(ctx context.Context, thread string, view *projection.View) (*elsewhere, error) {
	for _, it := range view.All() {
		if it.Layer == "" {
			continue
		}
		for _, ref := range it.Refs {
			index, ok := recordsPrefix(ref)
			if !ok {
				continue // the id of an item
			}
			docs, err := search.ReadRecord(ctx, storage.Scope(l.store, index), strings.TrimPrefix(ref, index+"/"))
			if errors.Is(err, storage.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			for i := range docs {
				d := &docs[i]
				shown := strings.Contains(it.Text(), strings.Join(strings.Fields(d.Text), " "))
				if d.Scope != thread && (shown || len(docs) == 1) {
					return &elsewhere{it.Layer, d.Scope, d.Time, d.Text}, nil
				}
			}
		}
	}
	return nil, nil
}

// endRun ends the current run, if there is one.
func (l *loop) endRun(ctx context.Context, outcome memory.Outcome) error {
	run := l.run
	if run == nil {
		return nil
	}
	l.run = nil
	x := run.Execution()
	if err := run.End(ctx, outcome); err != nil {
		return err
	}
	l.noteThread(run)
	return l.emit(&event{Event: eventEnd, Thread: x.Identity().Thread, Execution: x.ID(), Outcome: outcome})
}

// noteThread records the state of the thread of a finished run.
func (l *loop) noteThread(run *memory.Run) {
	x := run.Execution()
	if n := run.Report().Turn; n > 0 {
		l.stored[x.Identity().Thread] = thread.Info{Thread: x.Identity().Thread, Turns: n, Execution: x.ID()}
	}
}

// close ends the current run, as appropriate for the error that stopped the
// loop, and closes the memory. The store stays open.
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
	err := l.endRun(ctx, outcome)
	if closeErr := l.memory.Close(ctx); err == nil && closeErr != nil {
		err = fmt.Errorf("stop memory: %w", closeErr)
	}
	return err
}

// clock returns a transcript's time: that of the current turn, or the real one
// if the transcript has none.
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
