package memory

import (
	"sync"
	"time"

	"github.com/stratamem/strata/memory/thread"
)

// account adds up an execution. It may be read and changed at any time: each
// method locks it.
type account struct {
	mu sync.Mutex
	totals
}

// totals are what an account says at one moment.
type totals struct {
	usage   Usage
	cost    float64
	model   string
	step    int         // turns committed
	from    int         // the first of them
	latest  int         // the last of them
	older   *thread.Log // the part of its log before what the run holds; nil: none
	over    bool        // whether it has ended, or is ending
	outcome Outcome     // once ending
	ended   time.Time
	sealed  bool // whether its end is durable, or it was discarded
}

// resume continues from what is stored of an execution.
func (a *account) resume(x *thread.Run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.from, a.latest, a.step = x.FirstTurn, x.LastTurn, x.Step
	a.usage, a.cost = x.Usage, x.Cost
	if x.Model != "" {
		a.model = x.Model
	}
}

// now returns the totals.
func (a *account) now() totals {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.totals
}

// answered adds the usage of a response.
func (a *account) answered(u Usage, cost float64, model string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.usage = a.usage.Plus(u)
	a.cost += cost
	a.model = model
}

// returned adds the usage of a child.
func (a *account) returned(u Usage, cost float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.usage = a.usage.Plus(u)
	a.cost += cost
}

// committed counts a turn that was written.
func (a *account) committed(turn int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.step++
	a.latest = turn
	if a.from == 0 {
		a.from = turn
	}
}

// reach records which part of the log the run does not hold.
func (a *account) reach(older *thread.Log) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.older = older
}

// halt prevents anything new from beginning.
func (a *account) halt() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
}

// conclude sets the outcome unless there is one, and returns it.
func (a *account) conclude(outcome Outcome, at time.Time) Outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.outcome == "" {
		a.outcome, a.ended = outcome, at
	}
	return a.outcome
}

// seal sets whether nothing is left to be written.
func (a *account) seal(sealed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sealed = sealed
}
