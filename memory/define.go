package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/stratamem/strata/projection"
)

// Layer is a layer for [New]: a [Spec] with its [Hooks]. Make one with
// [Define]. A Layer holds no state and may be used in several memories.
type Layer struct {
	spec  Spec
	code  code
	tools []tool
	has   [hookCount]bool
}

// Define returns a layer with state S. S must survive a JSON round trip. New
// reports any faults.
func Define[S any](spec Spec, hooks Hooks[S]) Layer {
	if spec.Name == "" {
		spec.Name = spec.ID
	}
	if spec.Scope == "" {
		spec.Scope = ScopeThread
	}
	t := &typed[S]{hooks: hooks, plain: plain(reflect.TypeFor[S]())}
	l := Layer{spec: spec, code: t}
	for i := range hooks.Tools {
		l.tools = append(l.tools, hooks.Tools[i].tool)
	}
	l.has = [hookCount]bool{
		hookInit: hooks.Init != nil, hookAppend: hooks.Append != nil, hookRecall: hooks.Recall != nil,
		hookDelta: hooks.Delta != nil && hooks.Recall != nil, hookStore: hooks.Store != nil, hookSpawn: hooks.OnSpawn != nil, hookReturn: hooks.OnReturn != nil,
		hookComplete: hooks.OnComplete != nil, hookDispose: hooks.Dispose != nil,
	}
	return l
}

// Spec returns the layer's specification with defaults filled in.
func (l Layer) Spec() Spec { return l.spec }

// code is a layer's hooks as the runtime sees them: the same functions, with
// each state as an any that holds an S.
type code interface {
	zero() any
	decode(format, current int, data []byte) (any, error)
	clone(state any) (any, error)

	init(ctx context.Context, x *Execution, r *Records, state any, found bool) (any, error)
	append(ctx context.Context, x *Execution, r *Records, state any, items []projection.Item) (_ []projection.Item, note string, _ error)
	inputs(h hook) any
	recall(ctx context.Context, in input, x *Execution, r *Records, state any, log, shown []projection.Item, query string, budget int) (recalled, change, error)
	delta(old, new string) (string, bool)
	store(ctx context.Context, in input, x *Execution, r *Records, state any, added, log []projection.Item, resp *Response) (change, error)
	spawn(ctx context.Context, x, child *Execution, r *Records, state any) (spawned, error)
	merge(ctx context.Context, x *Execution, r *Records, state any, child *Run, childState any, result Result) (change, Result, error)
	complete(ctx context.Context, x *Execution, r *Records, state any, log []projection.Item, outcome Outcome) (change, error)
	dispose(ctx context.Context, x *Execution, state any) error
}

// change is a [Change] without its state type.
type change struct {
	update func(any) any
	clear  bool
	writes []write
	// returned means that the change was made when a child returned: it is written
	// with the return, others with the turn.
	returned bool
}

func (c *change) empty() bool { return c.update == nil && !c.clear && len(c.writes) == 0 }

// recalled is a [Recalled] without its state type.
type recalled struct {
	text  string
	items []projection.Item
	refs  []string
	note  string
}

// spawned is a [Spawned] without its state type.
type spawned struct {
	state any
	found bool
	items []projection.Item
}

// typed is the code of a layer with state S.
type typed[S any] struct {
	hooks Hooks[S]
	plain bool // whether a copy of S shares nothing that can change
}

// as converts a state back to its type; nil becomes the zero value of an
// interface type.
func as[S any](state any) S {
	s, _ := state.(S)
	return s
}

func forget[S any](c Change[S]) change {
	out := change{clear: c.clear, writes: c.writes}
	if f := c.update; f != nil {
		out.update = func(state any) any { return f(as[S](state)) }
	}
	return out
}

func (t *typed[S]) zero() any {
	var s S
	return s
}

func (t *typed[S]) decode(format, current int, data []byte) (any, error) {
	if format < current {
		if t.hooks.Migrate == nil {
			return nil, fmt.Errorf("state has format %d, the layer %d and no Migrate hook", format, current)
		}
		return t.hooks.Migrate(format, data)
	}
	var s S
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	return s, nil
}

func (t *typed[S]) clone(state any) (any, error) {
	if t.plain {
		return state, nil
	}
	if t.hooks.Clone != nil {
		return t.hooks.Clone(as[S](state)), nil
	}
	data, err := json.Marshal(state)
	if err != nil {
		return nil, fmt.Errorf("copy state: %w", err)
	}
	var s S
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("copy state: %w", err)
	}
	return s, nil
}

func (t *typed[S]) init(ctx context.Context, x *Execution, r *Records, state any, found bool) (any, error) {
	return t.hooks.Init(ctx, &InitInput[S]{Execution: x, Records: r, State: as[S](state), Found: found})
}

func (t *typed[S]) append(ctx context.Context, x *Execution, r *Records, state any, items []projection.Item) (_ []projection.Item, note string, _ error) {
	in := &AppendInput[S]{Execution: x, Records: r, State: as[S](state), Items: items}
	out, err := t.hooks.Append(ctx, in)
	return out, in.note, err
}

func (t *typed[S]) recall(ctx context.Context, in input, x *Execution, r *Records, state any, log, shown []projection.Item, query string, budget int) (recalled, change, error) {
	given := &in.among.(*[inputsAtOnce]RecallInput[S])[in.at]
	*given = RecallInput[S]{Execution: x, Records: r, State: as[S](state), Log: log, Shown: shown, Query: query, Budget: budget}
	out, err := t.hooks.Recall(ctx, given)
	if err != nil {
		return recalled{}, change{}, err
	}
	return recalled{out.Text, out.Items, out.Refs, out.Note}, forget(out.Change), nil
}

// inputsAtOnce is how many inputs of a hook that runs every turn are allocated
// at once. None is reused: a hook may keep its input.
const inputsAtOnce = 4

// input is the input of one call: a pointer to an array of inputs, and an index
// into it.
type input struct {
	among any
	at    int
}

func (t *typed[S]) inputs(h hook) any {
	if h == hookRecall {
		return new([inputsAtOnce]RecallInput[S])
	}
	return new([inputsAtOnce]StoreInput[S])
}

func (t *typed[S]) delta(old, new string) (string, bool) { return t.hooks.Delta(old, new) }

func (t *typed[S]) store(ctx context.Context, in input, x *Execution, r *Records, state any, added, log []projection.Item, resp *Response) (change, error) {
	given := &in.among.(*[inputsAtOnce]StoreInput[S])[in.at]
	*given = StoreInput[S]{Execution: x, Records: r, State: as[S](state), New: added, Log: log, Response: resp}
	out, err := t.hooks.Store(ctx, given)
	return forget(out), err
}

func (t *typed[S]) spawn(ctx context.Context, x, child *Execution, r *Records, state any) (spawned, error) {
	out, err := t.hooks.OnSpawn(ctx, &SpawnInput[S]{Execution: x, Child: child, Records: r, State: as[S](state)})
	if err != nil || out.State == nil {
		return spawned{items: out.Items}, err
	}
	return spawned{state: *out.State, found: true, items: out.Items}, nil
}

func (t *typed[S]) merge(ctx context.Context, x *Execution, r *Records, state any, child *Run, childState any, result Result) (change, Result, error) {
	out, err := t.hooks.OnReturn(ctx, &ReturnInput[S]{
		Execution: x, Child: child.Execution(), Records: r, State: as[S](state), ChildState: as[S](childState),
		ChildLog: child.log.held(), Result: result,
	})
	return forget(out.Change), out.Result, err
}

func (t *typed[S]) complete(ctx context.Context, x *Execution, r *Records, state any, log []projection.Item, outcome Outcome) (change, error) {
	out, err := t.hooks.OnComplete(ctx, &CompleteInput[S]{Execution: x, Records: r, State: as[S](state), Log: log, Outcome: outcome})
	return forget(out), err
}

func (t *typed[S]) dispose(ctx context.Context, x *Execution, state any) error {
	return t.hooks.Dispose(ctx, &DisposeInput[S]{Execution: x, State: as[S](state)})
}

// plain reports whether values of a type share nothing when they are copied.
func plain(t reflect.Type) bool {
	if t == reflect.TypeFor[time.Time]() {
		return true
	}
	switch t.Kind() {
	case reflect.Array:
		return plain(t.Elem())
	case reflect.Struct:
		for field := range t.Fields() {
			if !plain(field.Type) {
				return false
			}
		}
		return true
	case reflect.Chan, reflect.Func, reflect.Interface, reflect.Map, reflect.Pointer, reflect.Slice, reflect.UnsafePointer:
		return false
	}
	return true
}

// faults returns what is wrong with the layer, without naming it.
func (l *Layer) faults() []error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	s := &l.spec
	switch {
	case l.code == nil:
		return []error{errors.New("not made by Define")}
	case s.ID == "":
		fault("ID is empty")
	case !validID(s.ID):
		fault("ID %q is not 1 to %d of [a-z0-9-]", s.ID, maxLayerID)
	}
	if s.Slot < 0 {
		fault("slot %d is negative", s.Slot)
	}
	switch s.Scope {
	case ScopeThread, ScopeResource, ScopeGlobal, ScopeExecution:
	default:
		fault("scope %q is none of thread, resource, global, execution", s.Scope)
	}
	switch s.Placement {
	case projection.Auto, projection.Anchor, projection.Live:
	default:
		fault("placement %q is none of auto (empty), anchor, live", s.Placement)
	}
	switch s.Authority {
	case projection.Data, projection.Instruction:
	default:
		fault("authority %q is none of data (empty), instruction", s.Authority)
	}
	if s.OnInitError > InitDisables {
		fault("OnInitError %d is unknown", s.OnInitError)
	}
	if s.Format < 0 {
		fault("format %d is negative", s.Format)
	}
	if err := s.Budget.Validate(); err != nil {
		errs = append(errs, err)
	}
	if l.has == [hookCount]bool{} && len(l.tools) == 0 {
		fault("no hooks")
	}
	for i := range l.tools {
		if err := l.tools[i].fault(s.ID); err != nil {
			fault("tool %q: %w", l.tools[i].name, err)
		}
	}
	return errs
}

const maxLayerID = 48

func validID(id string) bool {
	for i := range len(id) {
		if c := id[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return id != "" && len(id) <= maxLayerID
}
