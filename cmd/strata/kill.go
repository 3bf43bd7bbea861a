package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"

	"github.com/stratamem/strata/internal/transcript"
	"github.com/stratamem/strata/memory/thread"
)

// The demo shows durability by losing a process: it lets a copy of this program
// play one sitting on the same file, kills it with SIGKILL in the middle of the
// sitting's last turn, and resumes the execution itself.

// victimLog is what the killed process had acknowledged.
type victimLog struct {
	process   int
	execution string
	thread    string
	acked     int
}

// playVictim is the process to be killed: it plays a sitting, projects its last turn
// but does not commit it, and waits for its end.
func (d *demoRun) playVictim(ctx context.Context) error {
	if d.o.sitting >= len(d.sittings) {
		return usagef("demo: there is no sitting %d", d.o.sitting)
	}
	var err error
	d.o.trace.add = true
	if d.tracing, err = startTracing(ctx, d.t, &d.o.trace); err != nil {
		return err
	}
	defer d.tracing.close()
	d.print = eventWriter(d.t.out)
	s := d.sittings[d.o.sitting]
	return d.withLoop(ctx, func() error {
		d.loop.number = s.from
		d.loop.onCommit = func(ctx context.Context) error {
			d.tracing.flush(ctx) // a killed process sends nothing more
			return nil
		}
		for d.loop.number < s.to-1 {
			if err := d.loop.playTurn(ctx, &d.turns[d.loop.number]); err != nil {
				return err
			}
		}
		last := &d.turns[s.to-1]
		d.loop.clock.set(last.Time)
		if _, err := d.loop.run.Project(ctx, last.Input...); err != nil {
			return err
		}
		if err := d.print(&event{Event: eventFlight, Number: s.to, Thread: last.Thread, Execution: d.loop.run.Execution().ID()}); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, d.t.in); err != nil { // until it is killed
			return err
		}
		return errors.New("whoever would kill this process is gone")
	})
}

// killVictim lets a process play a sitting and kills it in the middle of a
// turn.
func (d *demoRun) killVictim(ctx context.Context, sitting int, sum *totals) (*victimLog, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	args := []string{"demo", "--sitting", strconv.Itoa(sitting), "--db", d.o.db}
	if d.o.trace.endpoint != "" {
		args = append(args, "--otlp", d.o.trace.endpoint)
	}
	if d.o.trace.file != "" {
		args = append(args, "--trace-file", d.o.trace.file)
	}
	var complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Args[0] = os.Args[0]
	cmd.Stderr = &complaint
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a second process: %w", err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a second process: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a second process: %w", err)
	}
	log := &victimLog{process: cmd.Process.Pid}
	err = d.watchVictim(ctx, out, log, sum)
	killErr := cmd.Process.Kill()
	waitErr := cmd.Wait() // reports that it was killed, unless it ended by itself
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("the second process ended by itself: %w: %s", waitErr, preview(complaint.String(), 300))
	case err != nil:
		return nil, err
	case killErr != nil:
		return nil, fmt.Errorf("kill the second process: %w", killErr)
	}
	return log, d.show(ctx, &event{
		Event: eventKill, Process: log.process, Thread: log.thread, Execution: log.execution,
		Acked: log.acked, Number: d.sittings[sitting].to,
	})
}

// watchVictim shows what the second process acknowledges, until a turn is in flight.
func (d *demoRun) watchVictim(ctx context.Context, out io.Reader, log *victimLog, sum *totals) error {
	for dec := json.NewDecoder(out); ; {
		var e event
		if err := dec.Decode(&e); err != nil {
			return err
		}
		switch e.Event {
		case eventFlight:
			return nil
		case eventBegin:
			log.execution, log.thread = e.Execution, e.Thread
			e.Process = log.process
		case eventTurn:
			log.acked++
			sum.add(&e)
		}
		if err := d.show(ctx, &e); err != nil {
			return err
		}
	}
}

// resumeVictim continues the execution of the killed process, after checking
// that everything it had acknowledged is there.
func (d *demoRun) resumeVictim(ctx context.Context, log *victimLog) error {
	run, err := d.loop.memory.Resume(ctx, log.execution)
	if err != nil {
		return err
	}
	d.loop.startWork(run)
	if err := d.loop.loadPrompt(ctx, log.thread); err != nil {
		return err
	}
	first := d.loop.number
	d.loop.number += log.acked
	d.loop.last = d.turns[d.loop.number-1].Time
	found := 0
	for rec, err := range thread.RunTurns(ctx, d.loop.store, log.execution) {
		if err != nil {
			return err
		}
		if i := first + rec.Step - 1; i < len(d.turns) && sameTurn(&d.turns[i], rec) {
			found++
		}
	}
	if step := run.Execution().Step(); found != log.acked || step != log.acked {
		return fmt.Errorf("resume: %d turns were acknowledged, %d of %d that are there are as they were", log.acked, found, step)
	}
	return d.show(ctx, &event{
		Event: eventResume, Thread: log.thread, Execution: log.execution,
		Acked: log.acked, Found: found, Number: d.loop.number + 1,
	})
}

// sameTurn reports whether a stored turn has the same items as a turn of the
// conversation.
func sameTurn(t *transcript.Turn, rec *thread.Turn) bool {
	return slices.Equal(quote(rec.Items), quote(slices.Concat(t.Input, t.Output)))
}

func (d *demoRun) drawDeath(e *event) {
	s := d.s
	if e.Event == eventKill {
		s.printf("\n   %s %s\n", s.paint(red, "kill -9 "+strconv.Itoa(e.Process)),
			s.paint(bold, fmt.Sprintf("a second process played this sitting; it died in the middle of turn %d", e.Number)))
		s.printf("   %s\n", s.paint(faint, fmt.Sprintf("%s acknowledged; of turn %d the prompt was projected, the answer not committed",
			plural(e.Acked, "turn was", "turns were"), e.Number)))
		return
	}
	s.printf("   %s %s\n", s.paint(green, "resumed"), s.paint(bold, "execution "+printable(e.Execution)+" in this process"))
	s.printf("   %s\n\n", s.paint(faint, fmt.Sprintf("%d of %d acknowledged turns are there, to the byte; turn %d left nothing and is played again",
		e.Found, e.Acked, e.Number)))
}
