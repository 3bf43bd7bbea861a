package projection

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// Overflow says what happens when history exceeds its budget.
type Overflow string

// The overflow policies.
const (
	Truncate      Overflow = "truncate"       // drop the oldest items
	SlidingWindow Overflow = "sliding_window" // show at most Window items, cut in blocks to no less than half, then truncate
	Summarize     Overflow = "summarize"      // replace what is dropped by a summary
)

// Placement says where a layer's output is in the prompt.
type Placement string

// The placements of a layer.
const (
	Auto   Placement = ""       // decided by cost, according to how often the output changes
	Anchor Placement = "anchor" // before history, held still for an epoch
	Live   Placement = "live"   // after history, rendered anew every time
)

// Authority says how a model should take the text of a layer.
type Authority string

// The authorities of a layer.
const (
	// Data is what somebody said or did: the user, a tool, a page. It is sent as a
	// user message, and both its tag and its item mark it as remembered data.
	Data Authority = ""
	// Instruction is what the model should follow, because the host or a reviewer
	// vouches for it. It is sent as a system message.
	Instruction Authority = "instruction"
)

func (a Authority) role() Role {
	if a == Instruction {
		return System
	}
	return User
}

// Summarizer writes a summary of items in at most max tokens. If there is a
// previous summary, the items begin with it. It replaces the model that other
// frameworks call on overflow.
type Summarizer func(ctx context.Context, items []Item, max int) (string, error)

// Policy limits a view. The zero value means the documented defaults.
type Policy struct {
	Budget   int      // tokens of prompt and answer together; 0 means 128,000
	Reserve  int      // tokens kept for the answer; 0 means 4,000, negative none
	Overflow Overflow // empty means Truncate
	// Window is the maximum number of history items that a view shows with
	// SlidingWindow, which requires it. The newest user message counts, wherever
	// it is. The newest tool exchange is shown whole, even if it is longer.
	// History that outgrows the window is cut to about half of it, so that the
	// prefix then stays unchanged for as many items again.
	Window    int
	Summarize Summarizer // required for Summarize

	// UncachedFactor and CachedFactor are the prices of a prompt token that
	// the provider must read anew, and of one that its cache holds, relative
	// to an ordinary input token. 0 means 1.25 and 0.1.
	UncachedFactor float64
	CachedFactor   float64
	// NoAnchors renders every layer live, for providers without a cache.
	NoAnchors bool
}

// Cap returns the most tokens that a view may have.
func (p *Policy) Cap() int {
	return p.total() - p.reserve()
}

func (p *Policy) total() int {
	if p.Budget == 0 {
		return 128_000
	}
	return p.Budget
}

func (p *Policy) reserve() int {
	switch {
	case p.Reserve == 0:
		return 4_000
	case p.Reserve < 0:
		return 0
	}
	return p.Reserve
}

func (p *Policy) factors() (uncached, cached float64) {
	uncached, cached = p.UncachedFactor, p.CachedFactor
	if uncached == 0 {
		uncached = 1.25
	}
	if cached == 0 {
		cached = 0.1
	}
	return uncached, cached
}

// Validate reports all faults of the policy.
func (p *Policy) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("policy: "+format, args...)) }
	if p.Budget < 0 {
		fault("budget %d is negative", p.Budget)
	} else if p.Cap() <= 0 {
		fault("budget %d leaves nothing beside the reserve of %d", p.total(), p.reserve())
	}
	if p.Budget >= maxTokens {
		fault("budget %d is not below %d", p.Budget, maxTokens)
	}
	switch p.Overflow {
	case "", Truncate:
	case SlidingWindow:
		if p.Window <= 0 {
			fault("sliding_window needs a window of at least one item, not %d", p.Window)
		}
	case Summarize:
		if p.Summarize == nil {
			fault("summarize needs a Summarize function")
		}
	default:
		fault("overflow %q is none of truncate, sliding_window, summarize", p.Overflow)
	}
	for _, f := range []struct {
		name  string
		value float64
	}{{"uncached", p.UncachedFactor}, {"cached", p.CachedFactor}} {
		if math.IsNaN(f.value) || math.IsInf(f.value, 0) || f.value < 0 {
			fault("%s factor %v is not a price", f.name, f.value)
		}
	}
	return errors.Join(errs...)
}
