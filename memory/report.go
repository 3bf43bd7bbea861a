package memory

import (
	"slices"
	"sync"

	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
)

// TurnReport says how a turn went: the current turn, or the last one if there
// is none. The report of the first turn includes what happened in Begin.
type TurnReport struct {
	Execution string                `json:"execution"`
	Turn      int                   `json:"turn,omitempty"` // its number in the thread; 0 before it is committed
	Step      int                   `json:"step"`           // its number in the execution, from 1
	Tokens    int                   `json:"tokens"`         // of the view
	Cap       int                   `json:"cap"`
	Stable    int                   `json:"stable_tokens"`
	Opened    string                `json:"opened,omitempty"` // why the view opened a prefix epoch
	Layers    []projection.LayerUse `json:"layers,omitempty"` // in slot order
	History   projection.HistoryUse `json:"history"`
	Hooks     []HookReport          `json:"hooks,omitempty"`     // in the order in which they were called
	Notes     []string              `json:"notes,omitempty"`     // degradations
	Conflicts int                   `json:"conflicts,omitempty"` // tries of the commit that lost to other executions
}

// HookReport says how one hook call went.
type HookReport = thread.HookReport

// Status is how a hook call went.
type Status = thread.Status

// The statuses of a hook call.
const (
	StatusOK      = thread.StatusOK
	StatusError   = thread.StatusError   // it returned an error or panicked
	StatusTimeout = thread.StatusTimeout // it did not return in time
	StatusSkipped = thread.StatusSkipped // not called: the layer is disabled, or the phase was cancelled
)

// Degraded reports whether a hook failed or was skipped.
func (t *TurnReport) Degraded() bool {
	return slices.ContainsFunc(t.Hooks, func(h HookReport) bool { return h.Status != StatusOK })
}

// notable returns the hook calls that a turn record keeps.
func (t *TurnReport) notable() []HookReport {
	var out []HookReport
	for i := range t.Hooks {
		if h := &t.Hooks[i]; h.Status != StatusOK || h.Note != "" {
			out = append(out, *h)
		}
	}
	return out
}

// view copies what a view says about itself.
func (t *TurnReport) view(v *projection.View) {
	t.Tokens, t.Cap, t.Stable, t.Opened = v.Tokens, v.Cap, v.StableTokens, v.Opened
	t.Layers, t.History = v.Layers, v.History
	t.Notes = append(t.Notes, v.Notes...)
}

func (t *TurnReport) clone() TurnReport {
	c := *t
	c.Layers = slices.Clone(t.Layers)
	c.Hooks = slices.Clone(t.Hooks)
	c.Notes = slices.Clone(t.Notes)
	return c
}

// reports holds the report of the current turn, or of the last one. It may be
// read and extended at any time: each method locks it. The reports of hook calls
// stand in an array that the next turn uses again: callers get copies.
type reports struct {
	mu   sync.Mutex
	turn TurnReport
	lost []HookReport // about changes that could not be reapplied after their turn was written
}

// now returns a copy.
func (r *reports) now() TurnReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turn.clone()
}

// open begins the report of a step, unless it has begun.
func (r *reports) open(execution string, step int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turn.Step != step {
		clear(r.turn.Hooks)
		r.turn = TurnReport{Execution: execution, Step: step, Hooks: append(r.turn.Hooks[:0], r.lost...)}
		r.lost = nil
	}
}

// called adds n reports of hook calls, and returns copies if they are wanted.
// most is about how many a turn has.
func (r *reports) called(n, most int, wanted bool, report func(i int) HookReport) []HookReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turn.Hooks == nil {
		r.turn.Hooks = make([]HookReport, 0, most)
	}
	from := len(r.turn.Hooks)
	for i := range n {
		r.turn.Hooks = append(r.turn.Hooks, report(i))
	}
	if !wanted {
		return nil
	}
	return slices.Clone(r.turn.Hooks[from:])
}

// add adds the report of a hook that was not called.
func (r *reports) add(rep HookReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn.Hooks = append(r.turn.Hooks, rep)
}

// failed adds the report of a change that could not be made. If the turn is
// written already, it goes to the record of the next one.
func (r *reports) failed(rep HookReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn.Hooks = append(r.turn.Hooks, rep)
	if r.turn.Turn != 0 {
		r.lost = append(r.lost, rep)
	}
}

// warn adds a note.
func (r *reports) warn(note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn.Notes = append(r.turn.Notes, note)
}

// projected copies what a view says about itself.
func (r *reports) projected(v *projection.View) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn.view(v)
}

// conflicted counts a failed try of the commit.
func (r *reports) conflicted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn.Conflicts++
}

// committed sets which turn was written.
func (r *reports) committed(turn int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn.Turn = turn
}

// recorded returns what the record of the turn contains.
func (r *reports) recorded() (hooks []HookReport, notes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turn.notable(), r.turn.Notes
}
