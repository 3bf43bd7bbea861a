// Package memory gives an agent layered memory: with layers, it decides what a
// model sees before each call, and keeps what is worth remembering after it.
//
// A host calls [Run.Project] before a model call and [Run.Commit] after it. The
// runtime in this package runs the hooks of the layers, lets package projection
// build the view, and writes each turn to a store as one atomic batch. It is
// not an agent loop, calls no model, and has no layers of its own: package
// layers has ready-made ones.
//
// A run holds the end of its log in memory: what a prompt can show and what a
// new run would read. Older items are in the store, where package thread and
// [Execution.Earlier] read them.
//
// The one decision: the runtime owns the state of layers. Hooks read it and
// return changes, so that children, resuming, merging concurrent changes, and
// durability are implemented once, here.
package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

// Options configures [New]. The zero value means the documented defaults.
type Options struct {
	Policy    projection.Policy
	Tokenizer projection.Tokenizer // nil means projection.Estimate
	System    []projection.Item    // first in every view
	Tail      []projection.Item    // last in every view
	Tools     string               // names and schemas of the host's own tools: a change opens a new prefix epoch
	Model     string               // for hooks and traces

	// Parallel is how many Recall or Store hooks run at once; 0 means 8, and 1
	// runs them strictly in slot order.
	Parallel int
	// KeepTurns bounds a thread. With K, its last K turns can be explained and
	// replayed, history reaches back at most K turns (and at least K/2, if the
	// budget allows), and at most about 2K turns are stored. 0 keeps all.
	KeepTurns int
	// VerifyStates is a test mode: a hook that modifies a state it may only read,
	// and returns within its timeout, fails with ErrStateModified, in addition to
	// any error of its own.
	VerifyStates bool

	Clock          func() time.Time     // nil means time.Now
	NewID          func() string        // nil means UUIDv7
	TracerProvider trace.TracerProvider // nil means the global one
	MeterProvider  metric.MeterProvider // nil means the global one
}

// Response is what the model answered.
type Response struct {
	Items []projection.Item // assistant messages, tool calls, reasoning
	Usage Usage
	Cost  float64 // in the host's currency; a child's is added to its parent's
	Model string  // default Options.Model
}

// Usage counts tokens as the provider reported them.
type Usage = thread.Usage

// Outcome says how an execution ended.
type Outcome = thread.Outcome

// The outcomes of an execution.
const (
	Success = thread.Success
	Failure = thread.Failure
	Aborted = thread.Aborted
)

// Result is what a child returns to its parent.
type Result struct {
	Outcome Outcome           `json:"outcome"`
	Text    string            `json:"text,omitempty"`
	Items   []projection.Item `json:"items,omitempty"`
}

// Memory drives a set of layers over a store. It is safe for concurrent use.
type Memory struct {
	store    storage.Adapter
	bounds   bounds
	opts     Options
	layers   []Layer
	index    map[string]int // of layers, by id
	slots    []int          // indexes of layers in slot order
	given    []int          // indexes of layers in the order given
	reverse  []int          // in the reverse of that order
	tools    map[string]toolAt
	frame    *projection.Frame
	parallel int
	long     [hookCount]atomic.Bool // whether the last calls of a hook took long, see hookCalls
	clock    func() time.Time
	newID    func() string
	tracing  *tracing
	closed   atomic.Bool
	open     atomic.Int64 // number of runs that have not ended
	queues   queues
	moves    moves

	mu   sync.Mutex
	late map[*call]string // abandoned hooks that are still running
	idle chan struct{}    // closed when late becomes empty; nil while nobody waits
}

// New returns a memory that runs layers over store. It reports all faults of
// its arguments together, each naming its layer, and starts nothing. The caller
// closes the store, after the memory. A nil opts means the defaults.
func New(store storage.Adapter, layers []Layer, opts *Options) (*Memory, error) {
	m := &Memory{store: store, layers: slices.Clone(layers), index: make(map[string]int), tools: make(map[string]toolAt), late: make(map[*call]string)}
	if opts != nil {
		m.opts = *opts
	}
	var errs []error
	fault := func(err error) { errs = append(errs, err) }
	if store == nil {
		fault(errors.New("new memory: store is nil: open one, for example mem.New"))
	}
	for i := range m.layers {
		l := &m.layers[i]
		name := l.spec.ID
		if name == "" {
			name = fmt.Sprintf("#%d", i+1)
		}
		for _, err := range l.faults() {
			fault(fmt.Errorf("layer %s: %w", name, err))
		}
		if _, ok := m.index[l.spec.ID]; ok && l.spec.ID != "" {
			fault(fmt.Errorf("layer %s: ID is used twice", name))
		}
		m.index[l.spec.ID] = i
		m.given = append(m.given, i)
		m.addTools(i, fault)
	}
	if m.opts.KeepTurns < 0 {
		fault(fmt.Errorf("new memory: KeepTurns %d is negative", m.opts.KeepTurns))
	}
	if m.opts.Parallel < 0 {
		fault(fmt.Errorf("new memory: Parallel %d is negative", m.opts.Parallel))
	}
	m.fillDefaults()
	var err error
	if m.bounds, err = boundsOf(storage.LimitsOf(store), m.layers); err != nil {
		fault(fmt.Errorf("new memory: %w", err))
	}
	if m.tracing, err = newTracing(m.opts.TracerProvider, m.opts.MeterProvider); err != nil {
		fault(fmt.Errorf("new memory: %w", err))
	}
	if m.frame, err = m.newFrame(); err != nil {
		fault(fmt.Errorf("new memory: %w", err))
	} else {
		m.checkBudgets(fault)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	m.slots = slices.Clone(m.given)
	slices.SortStableFunc(m.slots, func(a, b int) int { return m.layers[a].spec.Slot - m.layers[b].spec.Slot })
	m.reverse = slices.Clone(m.given)
	slices.Reverse(m.reverse)
	return m, nil
}

func (m *Memory) fillDefaults() {
	m.parallel = m.opts.Parallel
	if m.parallel <= 0 {
		m.parallel = 8
	}
	if m.clock = m.opts.Clock; m.clock == nil {
		m.clock = time.Now
	}
	if m.newID = m.opts.NewID; m.newID == nil {
		m.newID = func() string { return uuid.Must(uuid.NewV7()).String() }
	}
}

// checkBudgets returns an error if the exact budgets of all layers do not fit;
// if they do, so do those of the layers in a run.
func (m *Memory) checkBudgets(fault func(error)) {
	budgets := make([]projection.Budget, len(m.layers))
	for i := range m.layers {
		if m.layers[i].has[hookRecall] {
			budgets[i] = m.layers[i].spec.Budget
		}
	}
	_, err := m.frame.Allocate(budgets)
	var short *projection.AllocationError
	if errors.As(err, &short) {
		fault(fmt.Errorf("layer %s: budget of exactly %d tokens: %d are left of the policy's: %w",
			m.layers[short.Index].spec.ID, short.Want, short.Left, projection.ErrBudget))
	}
}

// newFrame returns what is the same in every view. Its items get neither id nor
// time, so that a view does not depend on anything else.
func (m *Memory) newFrame() (*projection.Frame, error) {
	opts := projection.FrameOptions{Policy: m.opts.Policy, Tokenizer: m.opts.Tokenizer, Tools: m.toolText()}
	for i := range m.layers {
		opts.Layers = append(opts.Layers, m.layers[i].spec.ID)
	}
	var errs [3]error
	opts.System, errs[0] = fixed("system", m.opts.System, m.bounds.fixed)
	opts.Tail, errs[1] = fixed("tail", m.opts.Tail, m.bounds.fixed)
	frame, err := projection.NewFrame(&opts)
	errs[2] = err
	return frame, errors.Join(errs[:]...)
}

// fixed returns items, with valid text, that are in every view, of at most most
// bytes together.
func fixed(what string, items []projection.Item, most int) ([]projection.Item, error) {
	items = slices.Clone(items)
	size := 0
	for i := range items {
		items[i].Repair()
		if !items[i].Time.IsZero() {
			items[i].Time = items[i].Time.Round(0).UTC()
		}
		size += len(items[i].AppendJSON(nil))
	}
	if size > most {
		return items, fmt.Errorf("%s items of %d bytes are over %d", what, size, most)
	}
	return items, nil
}

// Close waits for hooks that outlived their timeouts, until ctx ends, and
// reports those still running. It also reports runs that have not ended; what
// they did not commit is lost. From now on, Begin fails.
func (m *Memory) Close(ctx context.Context) error {
	m.closed.Store(true)
	m.mu.Lock()
	if len(m.late) > 0 && m.idle == nil {
		m.idle = make(chan struct{})
	}
	idle := m.idle
	m.mu.Unlock()
	if idle != nil {
		select {
		case <-idle:
		case <-ctx.Done():
		}
	}
	var errs []error
	m.mu.Lock()
	if len(m.late) > 0 {
		var names []string
		for _, name := range m.late {
			names = append(names, name)
		}
		slices.Sort(names)
		errs = append(errs, fmt.Errorf("close memory: hooks still running: %s", strings.Join(names, ", ")))
	}
	m.mu.Unlock()
	if n := m.open.Load(); n > 0 {
		errs = append(errs, fmt.Errorf("close memory: %d runs have not ended", n))
	}
	return errors.Join(errs...)
}

// abandon gives up a call, unless it has settled.
func (m *Memory) abandon(c *call, h hook) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !c.progress.CompareAndSwap(callRunning, callAbandoned) {
		return false
	}
	m.late[c] = hooks[h].name + " " + c.cell.layer.spec.ID
	return true
}

// forgetLate records that an abandoned hook has returned.
func (m *Memory) forgetLate(c *call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.late, c)
	if len(m.late) == 0 && m.idle != nil {
		close(m.idle)
		m.idle = nil
	}
}
