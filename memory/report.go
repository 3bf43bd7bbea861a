package memory

import (
	"slices"

	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
)

// TurnReport says how a turn went: of the turn at work, or of the last one if
// none is. What Begin saw is in the report of the first turn.
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
	StatusTimeout = thread.StatusTimeout // its time was up
	StatusSkipped = thread.StatusSkipped // it was not called: the layer is disabled, or the phase was cancelled
)

// Degraded says whether a hook failed or was skipped.
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

// view takes over what a view came to.
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
