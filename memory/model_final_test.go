package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/storage"
)

// finish checks the store once all is over, with this package's own readers and
// with a memory of a new process for which nothing goes wrong.
func (h *host) finish() {
	p := &process{s: h.s, name: "end", calm: true}
	m, err := memory.New(p, h.layers, &h.opts)
	if err != nil {
		panic(err)
	}
	a := &actor{name: "end", p: p, m: m, w: h.w, rng: h.rng}
	a.start("", func(a *actor) {
		for n := range h.s.threads {
			h.fresh(a, fmt.Sprint("t", n))
		}
	})
	h.s.run()
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	ctx := context.Background()
	if err := errors.Join(h.checkKeys(ctx), h.checkThreads(ctx), h.checkExecutions(ctx)); err != nil {
		h.w.wrong("at the end: %v", err)
	}
}

// fresh begins a run that changes nothing: its Init hooks are given the fold,
// which they check, and its siblings are.
func (h *host) fresh(a *actor, thread string) {
	var run *memory.Run
	if err := a.call("begin", nil, func(ctx context.Context) (err error) {
		run, err = a.m.Begin(ctx, memory.Identity{Thread: thread, Resource: "r"})
		return err
	}); err != nil {
		h.wrong("begin %s: %v", thread, err)
		return
	}
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	x := h.w.runs[run.Execution().ID()]
	for i := range h.layers {
		spec := h.layers[i].Spec()
		state, _ := run.Execution().Sibling(spec.ID)
		if want := h.w.fold(stateKeyOf(spec.ID, spec.Scope, x)).now().tokens; !slices.Equal(state.(tokens).T, want) {
			h.w.wrong("a fresh run on %s has %q in %s, not %q", thread, state, spec.ID, want)
		}
	}
}

func (h *host) wrong(format string, args ...any) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.w.wrong(format, args...)
}

// checkKeys checks that the states and records in the store are the fold, and
// that nothing else is there.
func (h *host) checkKeys(ctx context.Context) error {
	left := maps.Clone(h.w.states)
	for e, err := range h.s.inner.Scan(ctx, "_layers/", nil) {
		if err != nil {
			return err
		}
		at := strings.Split(e.Key, "/")
		key := strings.Join(at[:4], "/") + "/state"
		f := h.w.states[key]
		if f == nil {
			return fmt.Errorf("%s is there, and nobody wrote it", e.Key)
		}
		v := f.now()
		if e.Key == key {
			var env envelope
			record, err := pack.Unpack(e.Value)
			if err != nil {
				return err
			}
			if err := json.Unmarshal(record, &env); err != nil {
				return err
			}
			if (env.State != nil) != v.found || env.Clears != v.clears || v.found && !slices.Equal(env.State.T, v.tokens) {
				return fmt.Errorf("%s holds %s, not %q", key, e.Value, v.tokens)
			}
			delete(left, key)
			continue
		}
		x := h.w.runs[at[3]]
		if at[2] == string(memory.ScopeExecution) && x != nil && (x.ended || x.forgot) {
			continue // unreachable: its removal failed
		}
		name := at[len(at)-1]
		switch gen := fmt.Sprint("r", v.clears); {
		case at[4] != gen: // unreachable: its removal failed
		case name == "last" && len(v.tokens) > 0 && string(e.Value) == v.tokens[len(v.tokens)-1]:
		case name != "last" && slices.Contains(v.tokens, name):
		default:
			return fmt.Errorf("%s is a record of what %s does not hold: %q", e.Key, key, v.tokens)
		}
	}
	for key, f := range left {
		v := f.now()
		if v.found || v.clears > 0 {
			return fmt.Errorf("%s is not there: it should hold %q", key, v.tokens)
		}
	}
	for key, f := range h.w.states {
		v := f.now()
		for _, token := range v.tokens {
			if !recorded(key) || strings.HasPrefix(token, "spawn.") {
				continue
			}
			at := fmt.Sprintf("%sr%d/t/%s", strings.TrimSuffix(key, "state"), v.clears, token)
			if _, _, err := h.s.inner.Get(ctx, at); err != nil && !h.forgotten(key) {
				return err
			}
		}
	}
	return nil
}

// forgotten says whether a state key is one of an execution that was pruned.
func (h *host) forgotten(key string) bool {
	x := h.w.runs[strings.Split(key, "/")[3]]
	return x != nil && x.forgot
}

// checkThreads checks that the turns of each lineage can be read back in order,
// those that KeepTurns lets go excepted.
func (h *host) checkThreads(ctx context.Context) error {
	for n := range h.s.threads {
		id := fmt.Sprint("t", n)
		l := h.w.line("_threads/" + id + "/")
		at := l.first
		for t, err := range thread.Turns(ctx, h.s.inner, id, 0) {
			if err != nil {
				return err
			}
			if t.Number != at || at > len(l.turns) {
				return fmt.Errorf("thread %s has turn %d where %d of %d should be", id, t.Number, at, len(l.turns))
			}
			made := l.turns[at-1]
			if texts := turnTexts(t); t.Execution != made.execution || t.Step != made.step || !slices.Equal(texts, made.texts) {
				return fmt.Errorf("turn %d of %s is of %s, step %d: %q, not %+v", t.Number, id, t.Execution, t.Step, texts, made)
			}
			at++
		}
		if at != len(l.turns)+1 {
			return fmt.Errorf("thread %s has its turns up to %d, not %d", id, at-1, len(l.turns))
		}
	}
	return nil
}

func turnTexts(t *thread.Turn) (texts []string) {
	for i := range t.Items {
		texts = append(texts, t.Items[i].Text())
	}
	return texts
}

// checkExecutions checks that each execution's record says where it stands, that
// its turns are its own, and that what it was shown replays to the same bytes.
func (h *host) checkExecutions(ctx context.Context) error {
	for id, x := range h.w.runs {
		if x.forgot || x.step == 0 {
			continue
		}
		var numbers []int
		steps := 0
		for t, err := range thread.RunTurns(ctx, h.s.inner, id) {
			if err != nil {
				return fmt.Errorf("turns of %s: %w", id, err)
			}
			if steps = t.Step; t.Execution != id {
				return fmt.Errorf("turn %d of %s is one of %s", t.Number, id, t.Execution)
			}
			numbers = append(numbers, t.Number)
			want, ok := x.shown[t.Step]
			if !ok || t.View == nil || h.w.seed%3 > 0 { // it takes its time
				continue
			}
			v, err := thread.Replay(ctx, h.s.inner, id, t.Number)
			if errors.Is(err, memory.ErrPruned) && h.w.keep > 0 {
				continue
			}
			if err != nil {
				return err
			}
			if got := viewText(v); got != want {
				return fmt.Errorf("turn %d of %s replays to %q, it was %q", t.Number, id, got, want)
			}
		}
		if steps != x.step {
			return fmt.Errorf("the last turn of %s (%v) has step %d of %d", id, numbers, steps, x.step)
		}
	}
	for x, err := range thread.Runs(ctx, h.s.inner) {
		if err != nil {
			return err
		}
		if y := h.w.runs[x.ID]; y == nil || y.gone || (x.Outcome != "") != y.ended || x.Step != y.step {
			return fmt.Errorf("the record of %s says %q after step %d", x.ID, x.Outcome, x.Step)
		}
	}
	return nil
}

var _ storage.Adapter = (*process)(nil)
