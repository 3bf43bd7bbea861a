package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/internal/demo"
	"github.com/stratamem/strata/internal/transcript"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
)

// demoOptions are the flags of demo.
type demoOptions struct {
	db    string
	speed float64
	fast  bool
	json  bool
	trace traceFlags

	sitting int // hidden: play this sitting as the process to be killed
}

// The budget of the demo: small, so that its history overflows soon.
const (
	demoBudget  = 4000
	demoReserve = 800
)

// showcase is asked in one thread about what was said in the other.
const showcase = "What did we decide about them last week"

func demoCommand(t *tool) *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch memory at work on a bundled conversation",
		Long: `Replays a conversation of three weeks, in two threads, through a real agent loop
over a bolt file. Recorded answers stand in for the model, so it needs no key
and no network.

For each turn it shows how much of its allocation every layer put into the
prompt, what was left out, and how much of the prompt is the stable start that a
provider's cache holds. Half-way through, a process is killed with SIGKILL in
the middle of a turn, and its execution is resumed.

In a second part two agents of a team fail in the same way, a worker proposes a
rule, a person promotes it, and the next run has it in its prompt and is judged
by it; then what nobody has decided about decays. At the end it says what was
remembered and how to look closer: the file stays.`,
		Example: "  strata demo\n  strata demo --fast --db demo.db\n  strata demo --json | jq -c 'select(.event == \"turn\") | .report.layers'\n  strata demo --otlp http://localhost:4318",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !(o.speed > 0) { // also rejects NaN
				return usagef("demo: --speed %g is not positive: use 2 for twice as fast", o.speed)
			}
			return runDemo(cmd.Context(), t, &o)
		},
	}
	dbFlag(cmd, &o.db, "file to write, kept afterwards (default a temporary one, kept too)")
	cmd.Flags().Float64Var(&o.speed, "speed", 1, "how fast, on a terminal: 2 is twice as fast")
	cmd.Flags().BoolVar(&o.fast, "fast", false, "do not pause; as when the output is not a terminal")
	cmd.Flags().BoolVar(&o.json, "json", false, "print events as JSON lines")
	o.trace.register(cmd)
	cmd.Flags().IntVar(&o.sitting, "sitting", -1, "")
	_ = cmd.Flags().MarkHidden("sitting") // it exists
	return cmd
}

// demoRun is a demo in progress.
type demoRun struct {
	t       *tool
	o       *demoOptions
	s       *screen
	draw    *drawing
	print   func(*event) error // JSON; nil when drawn
	tracing *tracing
	pace    time.Duration

	turns     []transcript.Turn
	sittings  []sitting // the executions
	loop      *loop
	showcased *event // a turn that recalled something from another thread
	teamSteps int    // of the second part, drawn
}

func runDemo(ctx context.Context, t *tool, o *demoOptions) (err error) {
	turns, err := demo.Turns()
	if err != nil {
		return err
	}
	d := &demoRun{t: t, o: o, turns: turns, sittings: sittingsOf(turns)}
	if o.sitting >= 0 {
		return d.playVictim(ctx)
	}
	if o.db, err = demoFile(o.db); err != nil {
		return err
	}
	if d.tracing, err = startTracing(ctx, t, &o.trace); err != nil {
		return err
	}
	defer d.tracing.close()
	ctx, span := d.tracing.tracer().Start(ctx, "strata demo")
	defer span.End()
	if o.json {
		d.print = eventWriter(t.out)
	} else {
		d.s = newScreen(t.out, t.env)
		d.draw = &drawing{s: d.s, palette: newPalette(readyLayers("")), cap: demoBudget - demoReserve}
		if d.s.live() && !o.fast {
			d.pace = time.Duration(float64(170*time.Millisecond) / o.speed)
		}
	}
	err = d.playAll(ctx)
	if err != nil && ctx.Err() != nil {
		fmt.Fprintf(t.err, "strata: what was acknowledged is stored in %s\n", printable(o.db))
		return errInterrupted
	}
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

// demoFile returns the spec of the file to write.
func demoFile(db string) (string, error) {
	if db == "" {
		dir, err := os.MkdirTemp("", "strata-demo-")
		if err != nil {
			return "", fmt.Errorf("demo: make directory: %w", err)
		}
		return filepath.Join(dir, "demo.db"), nil
	}
	if storeSpec(db) == "mem:" {
		return "", usagef("demo: --db mem: does not outlive the process that the demo kills: name a file")
	}
	return db, nil
}

// sitting is what one execution plays: the turns from from to to, excluding the
// latter.
type sitting struct{ from, to int }

// sittingsOf divides a conversation where the loop begins new executions.
func sittingsOf(turns []transcript.Turn) []sitting {
	var list []sitting
	for i := range turns {
		if i == 0 || turns[i].Thread != turns[i-1].Thread || turns[i].Time.Sub(turns[i-1].Time) > longestRest {
			list = append(list, sitting{i, i})
		}
		list[len(list)-1].to = i + 1
	}
	return list
}

// doomedSitting returns the sitting whose process is killed in its last turn:
// the first of the second half with at least four turns.
func (d *demoRun) doomedSitting() int {
	for i, s := range d.sittings {
		if s.from >= len(d.turns)/2 && s.to-s.from >= 4 {
			return i
		}
	}
	return len(d.sittings) - 1
}

func (d *demoRun) settings() *settings {
	return &settings{
		instructions: demo.Instructions,
		policy:       projection.Policy{Budget: demoBudget, Reserve: demoReserve},
	}
}

// playAll plays the conversation, with a kill in it, and the ending.
func (d *demoRun) playAll(ctx context.Context) error {
	if err := d.makeFile(ctx); err != nil {
		return err
	}
	if err := d.show(ctx, &event{Event: eventStart, DB: d.o.db, Cap: demoBudget - demoReserve}); err != nil {
		return err
	}
	doomed := d.doomedSitting()
	sum := &totals{}
	playSittings := func(first, last int, resume *victimLog) error {
		return d.withLoop(ctx, func() error {
			d.loop.totals, d.loop.number = sum, d.sittings[first].from
			if resume != nil {
				if err := d.resumeVictim(ctx, resume); err != nil {
					return err
				}
			}
			for d.loop.number < d.sittings[last-1].to {
				if err := d.loop.playTurn(ctx, &d.turns[d.loop.number]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := playSittings(0, doomed, nil); err != nil {
		return err
	}
	log, err := d.killVictim(ctx, doomed, sum)
	if err != nil {
		return err
	}
	if err := playSittings(doomed, len(d.sittings), log); err != nil {
		return err
	}
	if err := d.playTeam(ctx); err != nil {
		return err
	}
	return d.sumUp(ctx, sum)
}

// makeFile creates the file, and refuses one that already has the conversation.
func (d *demoRun) makeFile(ctx context.Context) error {
	store, err := openStore(ctx, d.o.db)
	if err != nil {
		return err
	}
	for info, err := range thread.List(ctx, store) {
		if err == nil && info.Thread == d.turns[0].Thread {
			err = fmt.Errorf("%s has the demo already: look at it with 'strata show --db %s', or name another file", d.o.db, d.o.db)
		}
		if err != nil {
			return errors.Join(err, store.Close())
		}
	}
	return store.Close()
}

// withLoop opens store and memory for f, and closes them.
func (d *demoRun) withLoop(ctx context.Context, f func() error) error {
	store, err := openStore(ctx, d.o.db)
	if err != nil {
		return err
	}
	d.loop, err = newLoop(ctx, store, d.tracing, memory.Identity{Resource: demo.Resource}, d.settings(), nil, func(e *event) error { return d.show(ctx, e) })
	if err != nil {
		return errors.Join(err, store.Close())
	}
	err = f()
	err = errors.Join(err, d.loop.close(ctx, err))
	return errors.Join(err, store.Close())
}

// show draws or prints an event, and keeps the pace.
func (d *demoRun) show(ctx context.Context, e *event) error {
	if e.Event == eventTurn && e.Elsewhere != nil && (d.showcased == nil || strings.Contains(opening(e), showcase)) {
		d.showcased = e
	}
	if d.print != nil {
		return d.print(e)
	}
	pause := time.Duration(0)
	switch e.Event {
	case eventStart:
		d.s.printf("%s  an agent's prompts, projected from memory\n", d.s.paint(bold, "Strata demo"))
		d.s.printf("%s turns, %s executions, 2 threads, %s to %s; prompts of at most %s tokens\n",
			thousands(len(d.turns)), thousands(len(d.sittings)), day(d.turns[0].Time), day(d.turns[len(d.turns)-1].Time), thousands(e.Cap))
		d.s.printf("%s\n", d.s.paint(faint, "stored in "+printable(e.DB)))
		pause = 4 * d.pace
	case eventBegin:
		d.draw.drawThread(e)
	case eventTurn:
		d.draw.drawTurn(e)
		pause = d.pace
	case eventKill, eventResume:
		d.drawDeath(e)
		pause = 8 * d.pace
	case eventTeam:
		d.drawTeam(e)
		pause = 8 * d.pace
	case eventDone:
		d.drawEnding(e)
	}
	if d.s.err != nil {
		return d.s.err
	}
	return wait(ctx, pause)
}

// wait waits, unless somebody interrupts.
func wait(ctx context.Context, pause time.Duration) error {
	if pause <= 0 {
		return nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
