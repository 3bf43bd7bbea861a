package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/storage"
)

// lastSeen describes the value of a key when it was last read or written.
type lastSeen struct {
	there   bool
	version storage.Version
	current bool   // whether version is known
	moved   uint64 // what moves said about the key then
}

// stale reports whether the key must be read before it is written: its version
// is unknown, or another run of the Memory may have changed it.
func (s *lastSeen) stale(moved *atomic.Uint64) bool { return !s.current || s.moved != moved.Load() }

// look reads the value of a key; raw is nil if it is absent.
func (m *Memory) look(ctx context.Context, key string, moved *atomic.Uint64) (raw []byte, s lastSeen, err error) {
	s.current, s.moved = true, moved.Load()
	if raw, s.version, err = m.store.Get(ctx, key); errors.Is(err, storage.ErrNotFound) {
		return nil, lastSeen{current: true, moved: s.moved}, nil
	}
	s.there = err == nil
	return raw, s, err
}

// kept is a state's envelope, as it was last read or written.
type kept struct {
	lastSeen
	stored.Envelope
	raw []byte // nil: absent
	own bool   // whether nothing else refers to the memory of State
}

// loadState reads the envelope of the layer's scope. was is the expected one.
func (c *cell) loadState(ctx context.Context, was *kept) (kept, error) {
	key := c.stateKey
	var k kept
	e, err := stored.ReadEnvelope(ctx, c.m.store, key, func() (raw []byte, err error) {
		k.raw, k.lastSeen, err = c.m.look(ctx, key, c.moved)
		if was.raw != nil && bytes.Equal(k.raw, was.raw) {
			k.Envelope = was.Envelope
			return nil, err
		}
		return k.raw, err
	})
	if e != nil {
		k.Envelope = *e
	}
	return k, err
}

// cellLock guards the cells of a run.
type cellLock struct {
	sync.Mutex
	changed bool // whether a state has changed since [Run.layerStates] was called
}

// cell is one layer in one execution.
type cell struct {
	layer    *Layer
	mu       *cellLock // the run's
	m        *Memory
	prefix   string // of the keys of the layer's scope
	stateKey string
	moved    *atomic.Uint64 // counts the changes of stateKey
	kind     Scope
	absent   string // why the layer is not active here; empty if it is
	inited   bool
	recalls  input // the next inputs of Recall and of Store
	stores   input

	// The following is guarded by mu, which is never held while a hook or an
	// update runs.
	state    any      // what hooks see: settled plus all pending changes
	settled  any      // as Init returned it, or as it was last committed
	origin   any      // as Init returned it when nothing was stored
	born     int      // number of clears stored at that time
	stored   kept     // what settled was computed from, or stored as
	pending  []change // since the last commit, in order
	records  *Records
	cleared  int    // number of clears before records
	seed     bool   // settled came from a parent and will be stored with the next batch
	detached bool   // settled came from a parent and differs from the scope
	revision uint64 // increases with each change of state
}

// input returns the input of the next call of a hook.
func (c *cell) input(h hook) input {
	next := &c.recalls
	switch h {
	case hookStore:
		next = &c.stores
	case hookRecall:
	default:
		return input{}
	}
	if next.among == nil || next.at == inputsAtOnce {
		*next = input{among: c.layer.code.inputs(h)}
	}
	in := *next
	next.at++
	return in
}

// load reads what is stored of the layer's scope.
func (c *cell) load(ctx context.Context) (found bool, err error) {
	ctx, span := c.m.tracing.search(ctx, c.prefix, "state")
	c.stored, err = c.loadState(ctx, &kept{})
	var state any
	if err == nil {
		state, found, err = c.decode(&c.stored)
	}
	span.end(btoi(found), err)
	if err != nil {
		return false, err
	}
	c.begin(state)
	c.records = &Records{m: c.m, prefix: stored.RecordsPrefix(c.prefix, c.stored.Clears)}
	return found, nil
}

// begin sets the state before any change.
func (c *cell) begin(state any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.settled = state, state
	c.mu.changed = true
}

// disable makes the layer absent from the execution.
func (c *cell) disable(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.absent = why
	c.mu.changed = true
}

func (c *cell) decode(k *kept) (state any, found bool, err error) {
	l := c.layer
	if k.State == nil {
		return l.code.zero(), false, nil
	}
	if k.Format > l.spec.Format {
		return nil, false, &FormatError{Key: c.stateKey, Have: k.Format, Supported: l.spec.Format}
	}
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if state, err = l.code.decode(k.Format, l.spec.Format, k.State); err != nil {
		return nil, false, fmt.Errorf("decode state of layer %s: %w", l.spec.ID, err)
	}
	return state, true, nil
}

// mostSpare is how many bytes of memory are kept for the next state.
const mostSpare = 64 << 10

// stateEncoder encodes states into a buffer that it reuses.
type stateEncoder struct {
	buffer bytes.Buffer
	json   *json.Encoder // to buffer
}

// encode returns the JSON of a state, which is valid until the next call. A panic
// becomes an error.
func (e *stateEncoder) encode(state any) (data []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if e.json == nil {
		e.json = json.NewEncoder(&e.buffer)
	}
	if e.buffer.Reset(); e.buffer.Cap() > mostSpare {
		e.buffer = bytes.Buffer{}
	}
	if err := e.json.Encode(state); err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	return bytes.TrimSuffix(e.buffer.Bytes(), []byte("\n")), nil
}

// apply returns the state after a change, without modifying the state itself.
func (l *Layer) apply(state any, ch *change) (next any, err error) {
	if ch.clear {
		state = l.code.zero()
	}
	if ch.update == nil {
		return state, nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if state, err = l.code.clone(state); err != nil {
		return nil, err
	}
	return ch.update(state), nil
}

// amend makes a change visible to the next hook and keeps it for the next
// batch. A change that cannot be applied changes nothing.
func (c *cell) amend(ch change) error {
	if ch.empty() {
		return nil
	}
	for i := range ch.writes {
		w := &ch.writes[i]
		if err := c.m.bounds.ValidateEntry(stored.RecordsPrefix(c.prefix, 1<<30)+w.key, w.value); err != nil {
			return err
		}
	}
	for {
		c.mu.Lock()
		state, revision := c.state, c.revision
		c.mu.Unlock()
		next, err := c.layer.apply(state, &ch)
		if err != nil {
			return err
		}
		c.mu.Lock()
		if c.revision == revision {
			c.revision++
			c.state, c.mu.changed = next, true
			c.pending = append(c.pending, ch)
			c.see(&ch)
			c.mu.Unlock()
			return nil
		}
		c.mu.Unlock()
	}
}

// see updates records after a change was added to pending.
func (c *cell) see(ch *change) {
	if ch.clear {
		c.records = &Records{m: c.m, prefix: stored.RecordsPrefix(c.prefix, c.stored.Clears+1)}
	}
	if len(ch.writes) > 0 {
		c.records = c.records.with(ch.writes)
	}
}

func returnedFirst(a, b change) int { return btoi(b.returned) - btoi(a.returned) }

// remake sets settled and pending to what f returns for them, and recomputes
// state. It drops changes that can no longer be applied; lost says why.
func (c *cell) remake(f func(settled any, pending []change) (any, []change)) (lost []error) {
	for {
		c.mu.Lock()
		settled, pending, revision := c.settled, slices.Clone(c.pending), c.revision
		c.mu.Unlock()
		base, rest := f(settled, pending)
		state := base
		lost = nil
		rest = slices.DeleteFunc(rest, func(ch change) bool {
			next, err := c.layer.apply(state, &ch)
			if err == nil {
				state = next
			} else {
				lost = append(lost, fmt.Errorf("make change again: %w", err))
			}
			return err != nil
		})
		c.mu.Lock()
		if c.revision == revision {
			c.revision++
			c.state, c.settled, c.pending = state, base, rest
			c.mu.changed = true
			c.rewind()
			c.mu.Unlock()
			return lost
		}
		c.mu.Unlock()
	}
}

// rewind sets records to what is stored and what is still pending.
func (c *cell) rewind() {
	if c.records == nil || c.cleared != c.stored.Clears || len(c.records.pending) > 0 {
		c.records, c.cleared = &Records{m: c.m, prefix: stored.RecordsPrefix(c.prefix, c.stored.Clears)}, c.stored.Clears
	}
	for i := range c.pending {
		c.see(&c.pending[i])
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
