package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"github.com/stratamem/strata/internal/transcript"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/projection/tiktoken"
	"github.com/stratamem/strata/storage"
)

// runOptions are the flags of run.
type runOptions struct {
	file         string
	db           string
	identity     memory.Identity // thread: of entries without one
	budget       int
	reserve      int
	overflow     string
	window       int
	keepTurns    int
	instructions string
	model        string
	baseURL      string
	strict       bool
	sidechains   bool
	quiet        bool
	json         bool
	trace        traceFlags
}

func runCommand(t *tool) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a transcript of your own through memory",
		Long: `Runs a transcript through an agent loop with the five ready-made layers, and
shows for each turn what the demo shows. FILE may be lines of JSON with role and
content, an array of messages as in OpenAI's API, or a session of Claude Code,
and is recognised by its content; "-" is standard input.

The recorded answers stand in for the model. With --base-url and --model an
OpenAI-compatible endpoint answers instead, and is offered the tools of the
layers. Its key comes from OPENAI_API_KEY, which a local endpoint does not need.

--model alone chooses the tokenizer: exact for OpenAI's models, otherwise an
estimate.

Run it again, after an interrupt or a kill, or with a longer FILE, and only what
is new is added: entries are recognised by their ids, or by their words and
position. It says how much was there already. System messages that begin a
thread are its system text.

Keys of providers, tokens, private keys and passwords in URLs are redacted before
anything is stored, shown or sent, and counted.

What is broken in FILE, or cannot be used (an item of more than 4 MiB or over
the budget, a thread whose name is too long), is reported as file:line: why, and
the rest continues. With --strict the first fault ends the run.

Exit status: 0 all of FILE is in the store, 1 something is not (what was reported,
or an error), 2 the command line is wrong, 130 interrupted.`,
		Example: "  strata run chat.jsonl\n  strata run chat.jsonl --db agent.db --resource anna --budget 8000 --model gpt-4o\n  strata run chat.jsonl --base-url http://localhost:11434/v1 --model llama3.2\n  strata run chat.jsonl --json --trace-file spans.jsonl",
		Args:    exactly(1, "a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			if err := o.check(); err != nil {
				return err
			}
			return runTranscript(cmd.Context(), t, &o)
		},
	}
	dbFlag(cmd, &o.db, dbHelp+" (default a temporary file, which is kept)")
	f := cmd.Flags()
	f.StringVar(&o.identity.Thread, "thread", "main", "thread of entries without one")
	f.StringVar(&o.identity.Resource, "resource", "", "whose conversation it is: layers remember across the threads of a resource")
	f.IntVar(&o.budget, "budget", 0, "tokens of a prompt and its answer (default 128000)")
	f.IntVar(&o.reserve, "reserve", 0, "tokens kept for the answer (default 4000, or a quarter of a smaller budget)")
	f.StringVar(&o.overflow, "overflow", string(projection.Truncate), "what happens to history over its budget: truncate, sliding_window, or summarize (with --base-url)")
	f.IntVar(&o.window, "window", 40, "items that sliding_window keeps")
	f.IntVar(&o.keepTurns, "keep-turns", 0, "roughly how many turns of a thread to keep: older ones are deleted, but not what layers learned (default all)")
	f.StringVar(&o.instructions, "instructions", "", "what the model is told first")
	f.StringVar(&o.model, "model", "", "model to ask, or to count tokens for")
	f.StringVar(&o.baseURL, "base-url", "", "OpenAI-compatible endpoint that answers, such as http://localhost:11434/v1")
	f.BoolVar(&o.strict, "strict", false, "end at the first fault of the file")
	f.BoolVar(&o.sidechains, "sidechains", false, "read the sub-agents of Claude Code too, each as a thread")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "show only the summary, no turns")
	f.BoolVar(&o.json, "json", false, "print events as JSON lines")
	o.trace.register(cmd)
	return cmd
}

// check refuses flags that do not go together.
func (o *runOptions) check() error {
	switch {
	case o.baseURL != "" && o.model == "":
		return usagef("run: --base-url needs --model: the model to ask")
	case o.budget < 0:
		return usagef("run: --budget %d is negative", o.budget)
	case o.keepTurns < 0:
		return usagef("run: --keep-turns %d is negative", o.keepTurns)
	case o.overflow == string(projection.Summarize) && o.baseURL == "":
		return usagef("run: --overflow summarize needs a model to write summaries: give --base-url and --model")
	case o.identity.Thread == "":
		return usagef("run: --thread is empty")
	}
	policy := o.policy()
	policy.Summarize = func(context.Context, []projection.Item, int) (string, error) { return "", nil }
	if err := policy.Validate(); err != nil {
		return usagef("run: %w", err)
	}
	return nil
}

// name is the name of the file in errors.
func (o *runOptions) name() string {
	if o.file == "-" {
		return "standard input"
	}
	return o.file
}

func (o *runOptions) policy() projection.Policy {
	p := projection.Policy{Budget: o.budget, Reserve: o.reserve, Overflow: projection.Overflow(o.overflow)}
	if p.Overflow == projection.SlidingWindow {
		p.Window = o.window
	}
	if p.Reserve == 0 && p.Budget > 0 && p.Budget < 16000 {
		p.Reserve = p.Budget / 4
	}
	return p
}

// tokenizer returns the tokenizer for the model, and a warning if there is
// none.
func (o *runOptions) tokenizer() (_ projection.Tokenizer, warning string, err error) {
	if o.model == "" {
		return projection.Estimate{}, "", nil
	}
	tok, err := tiktoken.ForModel(o.model)
	if errors.Is(err, tiktoken.ErrUnknown) {
		return projection.Estimate{}, fmt.Sprintf("tokens are estimated: there is no vocabulary for model %q", o.model), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("run: %w", err)
	}
	return tok, "", nil
}

// transcriptRun is a run in progress.
type transcriptRun struct {
	t        *tool
	o        *runOptions
	s        *screen
	draw     *drawing
	print    func(*event) error // JSON; nil when drawn
	size     int64              // size of the file; -1 if unknown
	progress *progress
	loop     *loop
	faults   int
	question string // of the current turn, until its answer is streamed
	streamed bool   // whether the answer of the current round has begun
}

// mostMemory is the heap size above which garbage is collected more often than
// by default, because large files are read next to other work. It is not a
// limit, and GOMEMLIMIT overrides it.
const mostMemory = 160 << 20

func runTranscript(ctx context.Context, t *tool, o *runOptions) (err error) {
	if t.env("GOMEMLIMIT") == "" {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(mostMemory))
	}
	tok, warning, err := o.tokenizer()
	if err != nil {
		return err
	}
	if warning != "" {
		fmt.Fprintln(t.err, "strata: warning:", warning)
	}
	var books *ledger // of the store, which is opened after the file
	in, err := openTranscript(t, o, func(thread, id string) (bool, error) { return books.had(ctx, thread, id) })
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	defer in.Close()
	tr, err := startTracing(ctx, t, &o.trace)
	if err != nil {
		return err
	}
	defer tr.close()
	if o.db == "" {
		dir, err := os.MkdirTemp("", "strata-run-")
		if err != nil {
			return fmt.Errorf("run: make directory: %w", err)
		}
		o.db = filepath.Join(dir, "run.db")
	}
	policy := o.policy()
	r := &transcriptRun{
		t: t, o: o, s: newScreen(t.out, t.env),
		size: in.Size(), progress: &progress{s: newScreen(t.err, t.env)},
	}
	r.draw = &drawing{s: r.s, palette: newPalette(readyLayers("")), cap: policy.Cap()}
	if o.json {
		r.print = eventWriter(t.out)
	}
	set := &settings{instructions: o.instructions, policy: policy, tokenizer: tok, model: o.model, keepTurns: o.keepTurns}
	answer := answerRecorded
	if o.baseURL != "" {
		e := newEndpoint(o.baseURL, o.model, t.env("OPENAI_API_KEY"), tr, r.stream)
		answer = e.answer
		if policy.Overflow == projection.Summarize {
			set.policy.Summarize = e.summarize
		}
	}
	store, err := openStore(ctx, o.db)
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	books = newLedger(store)
	if r.loop, err = newLoop(ctx, store, tr, o.identity, set, books, r.show); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	r.loop.answer, r.loop.asksModel, r.loop.onRefusal = answer, o.baseURL != "", r.reportRefusal
	return r.playFile(ctx, in, store)
}

func openTranscript(t *tool, o *runOptions, known func(thread, id string) (bool, error)) (*transcript.Reader, error) {
	opts := &transcript.Options{Thread: o.identity.Thread, Strict: o.strict, Sidechains: o.sidechains, Known: known}
	opts.Name = o.name()
	if o.file == "-" {
		return transcript.NewReader(t.in, opts)
	}
	return transcript.Open(o.file, opts)
}

// playFile plays the turns, ends the current run whatever happened, and sums
// up.
func (r *transcriptRun) playFile(ctx context.Context, in *transcript.Reader, store storage.Adapter) error {
	ctx, span := r.loop.tracer.Start(ctx, "strata run", trace.WithNewRoot())
	defer span.End()
	err := r.show(&event{Event: eventStart, DB: r.o.db, Cap: r.draw.cap})
	if err == nil {
		err = r.playTurns(ctx, in)
	}
	r.progress.clear()
	err = errors.Join(err, r.loop.close(ctx, err))
	if err != nil {
		if ctx.Err() != nil {
			fmt.Fprintf(r.t.err, "strata: %s stored in %s%s: run it again to go on\n",
				plural(r.loop.totals.Turns, "turn is", "turns are"), printable(r.o.db), knownText(in.Skipped().Known))
			return errInterrupted
		}
		return fmt.Errorf("run: %w", err)
	}
	if err := r.sumUp(ctx, in.Skipped(), store); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if r.faults > 0 {
		return fmt.Errorf("run: %s in %s", plural(r.faults, "fault", "faults"), r.o.file)
	}
	return nil
}

func (r *transcriptRun) playTurns(ctx context.Context, in *transcript.Reader) error {
	for turn, err := range in.Turns() {
		if fault, ok := errors.AsType[*transcript.Fault](err); ok {
			if err := r.reportFault(fault); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if r.o.baseURL != "" {
			// What tools returned to the recorded model was not requested here.
			countReplaced(&r.loop.totals.Replaced, turn.Output)
			countReplaced(&r.loop.totals.Replaced, slices.DeleteFunc(slices.Clone(turn.Input), func(it projection.Item) bool { return it.Kind == projection.Message }))
			if turn.Input = messages(turn.Input); len(turn.Input) == 0 {
				continue
			}
		}
		r.question = opening(&event{Input: quote(turn.Input)})
		if len(turn.Output) == 0 && !turn.More {
			r.loop.totals.Unanswered++
		}
		if err := r.loop.playTurn(ctx, &turn); err != nil {
			return err
		}
		r.progress.set(turn.Offset, r.size, func() string {
			return byteText(turn.Offset) + ", " + plural(r.loop.number, "turn", "turns")
		})
	}
	if err := r.loop.endRun(ctx, memory.Success); err != nil {
		return err
	}
	return r.loop.endInterrupted(ctx)
}

// reportFault reports a fault in the file. It returns an error if that ends the
// run.
func (r *transcriptRun) reportFault(f *transcript.Fault) error {
	r.progress.clear()
	r.faults++
	fmt.Fprintln(r.t.err, printable(f.Error()))
	if r.o.strict {
		return errors.New("ended at the first fault, as --strict asks")
	}
	return nil
}

// reportRefusal reports what the memory refuses.
func (r *transcriptRun) reportRefusal(line int, why error) error {
	return r.reportFault(&transcript.Fault{File: r.o.name(), Line: line, Why: advise(why)})
}

// show draws or prints an event.
func (r *transcriptRun) show(e *event) error {
	if r.o.quiet && e.Event != eventStart && e.Event != eventDone {
		return nil
	}
	r.progress.clear()
	if r.print != nil {
		return r.print(e)
	}
	switch e.Event {
	case eventStart:
		r.s.printf("%s\n", r.s.paint(faint, "stored in "+printable(e.DB)))
	case eventBegin:
		r.draw.drawThread(e)
	case eventTurn:
		r.endStream()
		r.draw.drawTurn(e)
	}
	return r.s.err
}

// stream prints an answer as it arrives.
func (r *transcriptRun) stream(text string) {
	if r.print != nil || r.o.quiet || text == "" {
		return
	}
	r.progress.clear()
	if r.question != "" {
		r.s.printf("\n%s %s\n", r.s.paint(faint, ">"), preview(r.question, r.s.width()-2))
		r.question = ""
	}
	if !r.streamed {
		r.s.printf("%s ", r.s.paint(green, "<"))
		r.streamed = true
	}
	r.s.printf("%s", strings.ReplaceAll(printable(text), "\n", "\n  "))
}

func (r *transcriptRun) endStream() {
	if r.streamed {
		r.s.printf("\n")
	}
	r.streamed = false
}

// sumUp sums up, and says what to run next.
func (r *transcriptRun) sumUp(ctx context.Context, skipped transcript.Skipped, store storage.Adapter) error {
	sum := *r.loop.totals
	sum.Faults, sum.Known, sum.Other = r.faults, skipped.Known, skipped.Meta+skipped.Sidechains+skipped.Repeated
	sum.Left = skipped.Left
	db := " --db " + shellQuote(r.o.db)
	e := &event{Event: eventDone, DB: r.o.db, Totals: &sum}
	if storeSpec(r.o.db) != "mem:" { // which is gone now
		e.Commands = []string{programName() + " show" + db, programName() + " explain last last" + db}
	}
	var err error
	if e.Memory, err = recollect(ctx, store); err != nil {
		return err
	}
	if r.print != nil {
		return r.print(e)
	}
	r.s.printf("\n")
	r.s.rule("In numbers", "")
	drawTotals(r.s, e.Totals)
	r.drawInput(e.Totals)
	for _, m := range e.Memory {
		if m.Count == 0 {
			continue
		}
		r.s.printf("  %s: %s\n", m.Layer, fmt.Sprintf("%d kept for %s %s", m.Count, m.Kind, preview(m.ID, 40)))
	}
	drawCommands(r.s, e.Commands)
	return r.s.err
}

// drawInput says what happened to the file.
func (r *transcriptRun) drawInput(t *totals) {
	text := plural(t.Items, "item", "items") + " added"
	if t.Known > 0 {
		text += "; " + plural(t.Known, "item was", "items were") + " there already"
	}
	if t.Other > 0 {
		text += "; " + plural(t.Other, "entry is", "entries are") + " no conversation, or of a sub-agent"
	}
	r.s.printf("  %s\n", text)
	if t.Redacted > 0 {
		r.s.printf("  %s redacted: they are neither stored nor sent\n", plural(t.Redacted, "secret was", "secrets were"))
	}
	if kinds := leftText(&t.Left); kinds != "" {
		r.s.printf("  left out, reported above: %s\n", kinds)
	}
	if kinds := leftText(&t.Replaced); kinds != "" {
		r.s.printf("  of the recorded model, replaced by what the endpoint's did: %s\n", kinds)
	}
	if t.Faults > 0 {
		r.s.printf("  %s\n", r.s.paint(red, plural(t.Faults, "fault", "faults")+", reported above: what is not in the store"))
	}
}

// countReplaced counts tool calls, their results and images among items.
func countReplaced(left *transcript.Left, items []projection.Item) {
	for i := range items {
		switch items[i].Kind {
		case projection.ToolCall:
			left.Calls++
		case projection.ToolResult:
			left.Results++
		}
		for j := range items[i].Parts {
			if items[i].Parts[j].Type == projection.ImagePart {
				left.Images++
			}
		}
	}
}

// leftText says what was left out, by kind, or is "".
func leftText(l *transcript.Left) string {
	var kinds []string
	for _, k := range []struct {
		n         int
		one, many string
	}{
		{l.Calls, "tool call", "tool calls"}, {l.Results, "tool result", "tool results"}, {l.Refusals, "refusal", "refusals"},
		{l.Images, "image", "images"}, {l.Parts, "part of another type", "parts of other types"},
	} {
		if k.n > 0 {
			kinds = append(kinds, plural(k.n, k.one, k.many))
		}
	}
	return strings.Join(kinds, ", ")
}

// knownText says how much was there already, or is "".
func knownText(n int) string {
	if n == 0 {
		return ""
	}
	return ", " + plural(n, "item was", "items were") + " there already"
}
