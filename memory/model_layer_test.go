package memory_test

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

// tokens is the state of every layer of the model: what was added, in order.
type tokens struct {
	T []string `json:"t"`
}

// modelLayers are the layers that a seed chooses from. The name of one that keeps
// records begins with "re", that of one whose state crosses into children with
// "x".
var modelLayers = []struct {
	id    string
	scope memory.Scope
}{
	{"thread", memory.ScopeThread},
	{"res-a", memory.ScopeResource},
	{"res-b", memory.ScopeResource},
	{"global", memory.ScopeGlobal},
	{"rexec", memory.ScopeExecution},
	{"xexec", memory.ScopeExecution},
	{"xres", memory.ScopeResource},
}

// roll is a number below n that a seed has for what happens in a run.
func (w *world) roll(n int, what ...string) int {
	h := fnv.New64a()
	for _, s := range append(what, strconv.FormatUint(w.seed, 10)) {
		_, _ = h.Write([]byte(s + "\x00")) // never fails
	}
	return int(h.Sum64() >> 8 % uint64(n))
}

// layer makes one of the model's layers.
func (w *world) layer(id string, scope memory.Scope) memory.Layer {
	l := &modelLayer{w: w, id: id, scope: scope, record: recorded("_layers/" + id)}
	hooks := memory.Hooks[tokens]{
		Init: l.init, Recall: l.recall, Store: l.store, OnComplete: l.complete, OnReturn: l.onReturn,
		Tools: []memory.Tool[tokens]{memory.NewTool("add", "", l.tool)},
	}
	if id[0] == 'x' {
		hooks.OnSpawn = l.spawn
	}
	if w.seed%2 == 0 {
		hooks.Clone = func(s tokens) tokens { return tokens{slices.Clone(s.T)} }
	}
	return memory.Define(memory.Spec{ID: id, Scope: scope}, hooks)
}

type modelLayer struct {
	w      *world
	id     string
	scope  memory.Scope
	record bool
}

var errModelHook = errors.New("the hook failed on purpose")

// execution returns the model of a run, which it makes at the first sight. mu is
// held.
func (w *world) execution(ctx context.Context, x *memory.Execution) *execution {
	e := w.runs[x.ID()]
	if e == nil {
		e = &execution{id: x.ID(), who: x.Identity(), depth: x.Depth()}
		if e.depth > 0 {
			e.parent = callOf(ctx).parent
		}
		w.runs[e.id] = e
	}
	return e
}

// init checks that what Init is given was stored at a moment since the call began.
func (l *modelLayer) init(ctx context.Context, in *memory.InitInput[tokens]) (tokens, error) {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.execution(ctx, in.Execution)
	key := stateKeyOf(l.id, l.scope, x)
	if !w.fold(key).between(callOf(ctx).started, in.Found, in.State.T) {
		w.wrong("%s begins with %q (%v) in %s, which it never held since: it holds %q", x.id, in.State.T, in.Found, key, w.fold(key).now().tokens)
	}
	return in.State, nil
}

// begins notes that a hook of a turn, or for a child, runs: what it asked for
// before was given up.
func (l *modelLayer) begins(x *execution, hook string, step int, child string) {
	for _, e := range x.edits {
		if e.layer == l.id && e.hook == hook && e.step == step && e.child == child && e.batch == 0 {
			e.void = true
		}
	}
}

// add returns a change that adds a token. mu is held.
func (l *modelLayer) add(x *execution, hook string, step int) (memory.Change[tokens], *edit) {
	e := l.w.issue(x, l.id, stateKeyOf(l.id, l.scope, x), hook, step)
	token := e.token
	ch := memory.Update(func(s tokens) tokens {
		s.T = append(s.T, token)
		return s
	})
	if l.record {
		ch = ch.Put("t/"+token, nil).Put("last", []byte(token))
	}
	return ch, e
}

func (l *modelLayer) recall(ctx context.Context, in *memory.RecallInput[tokens]) (memory.Recalled[tokens], error) {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.execution(ctx, in.Execution)
	out := memory.Recalled[tokens]{Text: l.id + " has " + strconv.Itoa(len(in.State.T))}
	if w.roll(12, x.id, l.id, "recall", strconv.Itoa(w.step(in.Execution)), strconv.Itoa(len(in.Log))) == 0 {
		out.Change, _ = l.add(x, "recall", 0)
	}
	return out, nil
}

// step is the number of the turn at work.
func (w *world) step(x *memory.Execution) int { return x.Step() + 1 }

func (l *modelLayer) store(ctx context.Context, in *memory.StoreInput[tokens]) (ch memory.Change[tokens], err error) {
	w, step := l.w, l.w.step(in.Execution)
	w.mu.Lock()
	x := w.execution(ctx, in.Execution)
	l.begins(x, "store", step, "")
	w.checkLog(x, in.Log)
	what := w.roll(16, x.id, l.id, "store", strconv.Itoa(step))
	w.mu.Unlock()
	if what%3 == 0 && l.record {
		// A read in the midst of the turn lets others go on meanwhile.
		if _, err := in.Records.Get(ctx, "last"); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return ch, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case what < 9:
		ch, _ = l.add(x, "store", step)
	case what == 9:
		return ch, errModelHook
	case what == 10:
		ch, e := l.add(x, "store", step)
		e.void = true
		return ch, errModelHook
	case what == 11:
		ch, e := l.add(x, "store", step)
		e.void = true
		_ = ch
		return memory.Update(func(tokens) tokens { panic("on purpose") }), nil
	case what == 12:
		w.issue(x, l.id, stateKeyOf(l.id, l.scope, x), "store", step).clear = true
		ch = memory.Clear[tokens]()
	}
	return ch, nil
}

func (l *modelLayer) complete(ctx context.Context, in *memory.CompleteInput[tokens]) (ch memory.Change[tokens], err error) {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.execution(ctx, in.Execution)
	if w.roll(3, x.id, l.id, "complete") == 0 {
		ch, _ = l.add(x, "complete", 0)
	}
	return ch, nil
}

// spawn lets the state cross, with a mark: in a shared scope, what crosses must
// never be stored.
func (l *modelLayer) spawn(ctx context.Context, in *memory.SpawnInput[tokens]) (out memory.Spawned[tokens], err error) {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	child := w.execution(ctx, in.Child)
	if w.roll(4, child.id, l.id, "spawn") == 0 {
		return out, nil
	}
	state := tokens{append(slices.Clone(in.State.T), "spawn."+child.id)}
	if l.scope == memory.ScopeExecution {
		if child.seeds == nil {
			child.seeds = make(map[string][]string)
		}
		child.seeds[stateKeyOf(l.id, l.scope, child)] = slices.Clone(state.T)
	} else {
		if child.apart == nil {
			child.apart = make(map[string]bool)
		}
		child.apart[l.id] = true
	}
	out.State = &state
	return out, nil
}

func (l *modelLayer) onReturn(ctx context.Context, in *memory.ReturnInput[tokens]) (out memory.Returned[tokens], err error) {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	x, child := w.execution(ctx, in.Execution), w.execution(ctx, in.Child)
	out.Result = in.Result
	for _, e := range x.edits {
		if e.hook == "return" && e.layer == l.id && e.child == child.id && e.batch == 0 {
			e.void = true
		}
	}
	if w.roll(2, child.id, l.id, "return") == 0 {
		var e *edit
		out.Change, e = l.add(x, "return", 0)
		e.child = child.id
	}
	return out, nil
}

type toolArgs struct {
	Read bool `json:"read"`
	Fail bool `json:"fail"`
}

type toolResult struct{}

func (l *modelLayer) tool(ctx context.Context, in *memory.ToolInput[tokens], args toolArgs) (out toolResult, ch memory.Change[tokens], err error) {
	if args.Read {
		if _, err := in.Records.Get(ctx, "last"); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return out, ch, err
		}
	}
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	ch, e := l.add(w.execution(ctx, in.Execution), "tool", 0)
	callOf(ctx).token = e.token
	if args.Fail {
		e.void = true
		return out, ch, errModelHook
	}
	return out, ch, nil
}

// checkLog checks that a hook sees the log of its run: the turns of the thread
// when it began, or those of its parent, its own, and the one at work. Only
// Options.KeepTurns lets the oldest go.
func (w *world) checkLog(x *execution, log []projection.Item) {
	var got []string
	for i := range log {
		got = append(got, log[i].Text())
	}
	fits := func(prior []string) bool {
		return slices.ContainsFunc(x.atWork(), func(turn []string) bool {
			want := slices.Concat(prior, x.log, turn)
			if len(got) > len(want) || w.keep == 0 && len(got) != len(want) {
				return false
			}
			return slices.Equal(got, want[len(want)-len(got):])
		})
	}
	if x.based {
		if !fits(x.prior) {
			w.wrong("%s sees the log %q, which should be %q, %q and %q", x.id, got, x.prior, x.log, x.turn)
		}
		return
	}
	for n := x.low; n <= x.high; n++ {
		if prior := append(w.thread(x, n), x.mid...); fits(prior) {
			x.prior, x.based = prior, true
			return
		}
	}
	w.wrong("%s sees the log %q, which should be %d to %d turns of its thread, %q and %q", x.id, got, x.low, x.high, x.log, x.turn)
}

// thread returns the texts of the first turns of a run's thread.
func (w *world) thread(x *execution, n int) []string {
	var texts []string
	for _, t := range w.line("_threads/" + x.who.Thread + "/").turns[:n] {
		texts = append(texts, t.texts...)
	}
	return texts
}
