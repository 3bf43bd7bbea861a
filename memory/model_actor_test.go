package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

// actor is a host's goroutine: it begins runs, takes turns, calls tools, spawns
// children and ends it all, and calls again what failed.
type actor struct {
	name string
	p    *process
	m    *memory.Memory
	w    *world
	rng  *rand.Rand
	kids int
}

// can says whether there is a use in going on.
func (a *actor) can() bool { return !a.p.dead.Load() && !a.w.failed() }

func (a *actor) one(in int) bool { return a.rng.IntN(in) == 0 }

// start has a function run as an actor of its own.
func (a *actor) start(name string, f func(b *actor)) (done chan struct{}) {
	b := &actor{name: a.name + name, p: a.p, m: a.m, w: a.w, rng: rand.New(rand.NewPCG(a.rng.Uint64(), 1))}
	done = make(chan struct{})
	a.p.s.live.Add(1)
	a.p.live.Add(1)
	go func() {
		defer a.p.s.live.Add(-1)
		defer a.p.live.Add(-1)
		defer close(done)
		b.turnToGo()
		f(b)
	}()
	return done
}

// turnToGo waits until the scheduler has nobody else at work, so that what happens
// between operations of the store is in an order too.
func (a *actor) turnToGo() {
	_ = a.p.s.ask(context.WithValue(context.Background(), callKey{}, &call{who: a.name}), a.p, "", "", nil)
}

// call makes a call into the memory. x is the execution that it is about, nil if
// there is none yet.
func (a *actor) call(kind string, x *execution, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if a.p.s.w.calls > 0 && !a.p.calm && a.rng.IntN(1000) < a.p.s.w.calls {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(1+a.rng.IntN(300))*time.Millisecond)
		defer stop()
	}
	c := &call{who: a.name, kind: kind, cancel: cancel}
	a.turnToGo()
	id := ""
	a.w.mu.Lock()
	c.started = a.w.tick()
	if x != nil {
		id = x.id
		c.runs, c.over = a.w.family(x, kind), x.ended
		if kind == "return" && !x.tried { // if it fails, the parent may have the usage all the same
			x.tried = true
			x.parent.spent += x.input + x.spent
		}
	}
	a.w.mu.Unlock()
	a.w.said(a.name, "%s %s …", kind, id)
	err := f(context.WithValue(ctx, callKey{}, c))
	a.w.said(a.name, "… %s %s: %v", kind, id, err)
	if err == nil && x != nil {
		a.w.acknowledged(c, x)
	}
	return err
}

// family returns the runs that a batch of a call may be about: the run, its
// descendants, which end with it, and the parent that it returns to.
func (w *world) family(x *execution, kind string) []string {
	ids := []string{x.id}
	for grown := true; grown; {
		grown = false
		for id, other := range w.runs {
			if other.parent != nil && slices.Contains(ids, other.parent.id) && !slices.Contains(ids, id) {
				ids, grown = append(ids, id), true
			}
		}
	}
	if kind == "return" {
		ids = append(ids, x.parent.id)
	}
	return ids
}

// acknowledged checks that what a call that returned nil was to write is written.
func (w *world) acknowledged(c *call, x *execution) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.kind != "commit" && c.kind != "end" && c.kind != "return" || c.over {
		return
	}
	for _, e := range x.edits {
		if strings.Contains(e.key, "/execution/") && (c.kind != "commit" || x.forgot) {
			continue // it went with the execution
		}
		known := e.sure != 0 && e.sure < c.started
		if c.kind == "commit" { // what a tool did since the batch whose answer was lost comes with the next
			known = known && e.sure < x.wrote
		}
		if !e.void && !e.vague && e.batch == 0 && (known || e.hook == "store" || e.hook == "complete") {
			w.wrong("%s of %s was acknowledged, and %q (%s) is not in %s", c.kind, x.id, e.token, e.hook, e.key)
		}
	}
	if c.kind == "return" {
		for _, e := range x.parent.edits {
			if x.parent.forgot && strings.Contains(e.key, "/execution/") {
				continue
			}
			if e.child == x.id && !e.void && !e.vague && e.batch == 0 {
				w.wrong("return of %s was acknowledged, and %q is not in %s", x.id, e.token, e.key)
			}
		}
	}
	if c.kind != "commit" {
		x.ended = true
		return
	}
	l := w.line(x.lineage)
	if x.latest == 0 || l.turns[x.latest-1].execution != x.id || !slices.ContainsFunc(x.atWork(), func(texts []string) bool { return slices.Equal(texts, l.turns[x.latest-1].texts) }) {
		w.wrong("the commit of %s was acknowledged, and its turn %q is not there", x.id, x.turn)
		return
	}
	x.log = append(x.log, l.turns[x.latest-1].texts...)
	x.turn, x.maybe = nil, nil
}

var errGaveUp = errors.New("the actor gave up")

// insist makes a call until it succeeds or it gives up, and has between do
// something in the meantime.
func (a *actor) insist(kind string, x *execution, f func(ctx context.Context) error, between func()) error {
	for try := 1; a.can(); try++ {
		err := a.call(kind, x, f)
		if err == nil {
			return nil
		}
		if a.p.dead.Load() || errors.Is(err, memory.ErrUnknownExecution) {
			return err
		}
		if errors.Is(err, memory.ErrEnded) || a.p.s.w.name == "calm" && errors.Is(err, context.Canceled) {
			return err // its parent has ended
		}
		if a.p.s.w.name == "calm" && (a.p.s.alone || try > 3 || !errors.Is(err, memory.ErrConflict)) {
			a.w.mu.Lock()
			a.w.wrong("%s failed %d times where nothing goes wrong: %v", kind, try, err)
			a.w.mu.Unlock()
		}
		if try > 3 && a.one(3) || try > 12 {
			return errGaveUp
		}
		if between != nil && a.one(3) {
			between()
		}
	}
	return errGaveUp
}

// live is what an actor does.
func (a *actor) live(episodes int) {
	for range episodes {
		if !a.can() {
			return
		}
		if run, x := a.begin(); run != nil {
			a.serve(run, x, 1+a.rng.IntN(3))
		}
	}
}

// begin begins a run, or resumes one that nobody runs.
func (a *actor) begin() (run *memory.Run, x *execution) {
	if x = a.w.orphan(a); x != nil {
		err := a.insist("resume", nil, func(ctx context.Context) (err error) {
			run, err = a.m.Resume(ctx, x.id)
			return err
		}, nil)
		if err != nil {
			return nil, nil
		}
		a.w.resumed(run, x)
		return run, x
	}
	who := memory.Identity{Thread: fmt.Sprint("t", a.rng.IntN(a.p.s.threads)), Resource: "r"}
	low := a.w.length(who.Thread)
	err := a.insist("begin", nil, func(ctx context.Context) (err error) {
		run, err = a.m.Begin(ctx, who)
		return err
	}, nil)
	if err != nil {
		return nil, nil
	}
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	x = a.w.runs[run.Execution().ID()]
	x.p, x.lineage = a.p, "_threads/"+who.Thread+"/"
	x.low, x.high = low, len(a.w.line(x.lineage).turns)
	return run, x
}

// serve takes turns in a run and ends it, or abandons it.
func (a *actor) serve(run *memory.Run, x *execution, turns int) {
	var kids []chan struct{}
	left := true
	defer func() {
		for _, done := range kids {
			<-done
		}
		if left {
			a.w.left(x)
		}
	}()
	for range turns {
		if !a.can() {
			return
		}
		if x.depth < 2 && a.one(4) {
			kids = append(kids, a.spawn(run, x)...)
		}
		if err := a.turn(run, x); err != nil {
			if !a.can() || a.one(2) {
				return
			}
			break
		}
	}
	if !a.one(5) {
		for _, done := range kids {
			<-done
		}
		kids = nil
	}
	left = a.end(run, x) != nil
}

// end ends a run or returns it to its parent, or abandons it, which is an error.
func (a *actor) end(run *memory.Run, x *execution) error {
	if a.one(12) {
		return errGaveUp
	}
	if !x.child || a.one(4) {
		return a.insist("end", x, func(ctx context.Context) error { return run.End(ctx, memory.Success) }, nil)
	}
	result := memory.Result{Text: "done"}
	if a.one(4) {
		result.Outcome = memory.Failure
	}
	var between func()
	if a.one(2) {
		between = func() { a.tool(run, x) }
	}
	return a.insist("return", x, func(ctx context.Context) error {
		_, err := run.Return(ctx, result)
		return err
	}, between)
}

// turn takes one turn: a view, tools, and a commit that is called until it is
// acknowledged.
func (a *actor) turn(run *memory.Run, x *execution) error {
	for n := a.rng.IntN(3); n > 0; n-- {
		if err := a.project(run, x); err != nil {
			return err
		}
		if a.one(3) {
			a.tool(run, x)
		}
	}
	var busy []chan struct{}
	for range a.rng.IntN(3) {
		if a.one(2) {
			a.kids++
			busy = append(busy, a.start(fmt.Sprint("/tool", a.kids), func(b *actor) { b.tool(run, x) }))
		}
	}
	defer func() {
		for _, done := range busy {
			<-done
		}
	}()
	text := a.text(x, "answer")
	a.w.mu.Lock()
	x.maybe = append(x.maybe, text)
	x.spent++ // the turn may never be stored, and be paid for
	a.w.mu.Unlock()
	resp := memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, text)}, Usage: memory.Usage{Input: 1}}
	return a.insist("commit", x, func(ctx context.Context) error { return run.Commit(ctx, resp) }, func() { a.tool(run, x) })
}

func (a *actor) text(x *execution, what string) string {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.count++
	return fmt.Sprintf("%s.%s%d", x.id, what, a.w.count)
}

// project gives a run an item. It has an ID, so that it can be given again.
func (a *actor) project(run *memory.Run, x *execution) error {
	text := a.text(x, "ask")
	it := projection.Text(projection.User, text)
	it.ID = text
	a.w.mu.Lock()
	x.maybe = append(x.maybe, text)
	a.w.mu.Unlock()
	var view *projection.View
	err := a.insist("project", x, func(ctx context.Context) (err error) {
		view, err = run.Project(ctx, it)
		return err
	}, nil)
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	if err != nil {
		return err
	}
	x.turn, x.maybe = append(x.turn, text), nil
	if x.shown == nil {
		x.shown = make(map[int]string)
	}
	x.shown[x.step+1] = viewText(view)
	a.w.known(x, "recall")
	return nil
}

func viewText(v *projection.View) string {
	var b strings.Builder
	for _, it := range v.Items() {
		b.WriteString(string(it.Role) + ": " + it.Text() + "\n")
	}
	return b.String()
}

// tool has a layer's tool change its state. An answer says that it is changed, an
// error that it is not.
func (a *actor) tool(run *memory.Run, x *execution) {
	names := run.Tools()
	name := names[a.rng.IntN(len(names))].Name
	args := fmt.Sprintf(`{"read":%v,"fail":%v}`, a.one(2), a.one(6))
	var c *call
	err := a.call("call "+name, nil, func(ctx context.Context) error {
		c = callOf(ctx)
		_, err := run.Call(ctx, name, json.RawMessage(args))
		return err
	})
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	switch e := a.w.edits[c.token]; {
	case err == nil:
		e.sure = a.w.tick()
	case e != nil && e.batch != 0:
		a.w.wrong("%s failed and changed the state: %q is stored", name, e.token)
	case e != nil:
		e.void = true
	}
}

// spawn begins children, which this goroutine or others serve.
func (a *actor) spawn(run *memory.Run, x *execution) (busy []chan struct{}) {
	var children []*memory.Run
	log := a.one(2)
	err := a.insist("spawn", nil, func(ctx context.Context) (err error) {
		callOf(ctx).parent = x
		if log && a.one(2) {
			children, err = run.Fork(ctx, 2)
			return err
		}
		child, err := run.Spawn(ctx, &memory.SpawnOptions{Log: log})
		children = []*memory.Run{child}
		return err
	}, nil)
	if err != nil {
		return nil
	}
	for _, child := range children {
		y := a.w.spawned(child, x, log)
		turns := a.rng.IntN(3)
		if a.one(2) {
			a.serve(child, y, turns)
			continue
		}
		a.kids++
		busy = append(busy, a.start(fmt.Sprint("/kid", a.kids), func(b *actor) { b.serve(child, y, turns) }))
	}
	return busy
}
