package memory

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
)

// Execution is what hooks see of the execution for which they run, as it was
// when their phase began. It is read-only and safe for concurrent use, even
// after the execution has ended.
type Execution struct {
	*snapshot
	span trace.Span // of the hook; nil if tracing is off
}

// snapshot is what all hooks of a phase see.
type snapshot struct {
	m        *Memory
	id       string
	older    *thread.Log
	identity Identity
	depth    int
	step     int
	usage    Usage
	cost     float64
	model    string
	siblings []sibling // by layer, in the order given
}

type sibling struct {
	state  any
	active bool
}

// ID returns the execution's id.
func (x *Execution) ID() string { return x.id }

// Identity says on whose behalf the execution runs.
func (x *Execution) Identity() Identity { return x.identity }

// Depth is 0 for an execution begun by [Memory.Begin], and one more than the
// parent's for a child.
func (x *Execution) Depth() int { return x.depth }

// Step is how many turns the execution has committed.
func (x *Execution) Step() int { return x.step }

// Usage is the sum of what the responses and the returned children reported.
// CacheRead and CacheWrite are nil if none of them did.
func (x *Execution) Usage() Usage { return Usage{}.Plus(x.usage) }

// Cost is the sum of what the responses and the returned children cost.
func (x *Execution) Cost() float64 { return x.cost }

// Model is the model of the last response, before that Options.Model.
func (x *Execution) Model() string { return x.model }

// Count returns the tokens of text.
func (x *Execution) Count(text string) int { return max(x.m.frame.Tokenizer().Count(text), 0) }

// Fits returns how many tokens a text takes as an item of a layer, including
// what the prompt puts around it, and whether that is at most limit. For a text
// that is far too long it returns a lower bound without counting.
func (x *Execution) Fits(layer, text string, limit int) (tokens int, ok bool) {
	authority := projection.Data
	if i, ok := x.m.index[layer]; ok {
		authority = x.m.layers[i].spec.Authority
	}
	return x.m.frame.Fits(layer, authority, text, limit)
}

// Sibling returns the state of another layer, as it was when the phase began,
// and false if that layer is not active here. The state must not be modified.
func (x *Execution) Sibling(layer string) (state any, ok bool) {
	i, known := x.m.index[layer]
	if !known {
		return nil, false
	}
	return x.siblings[i].state, x.siblings[i].active
}

// Attribute sets an attribute of the hook's span. value is a string, bool, int,
// int64 or float64, or a slice of strings. Other values are ignored, and so is
// the call if tracing is off.
func (x *Execution) Attribute(key string, value any) {
	if x.span == nil {
		return
	}
	k := attribute.Key(key)
	switch v := value.(type) {
	case string:
		x.span.SetAttributes(k.String(v))
	case bool:
		x.span.SetAttributes(k.Bool(v))
	case int:
		x.span.SetAttributes(k.Int(v))
	case int64:
		x.span.SetAttributes(k.Int64(v))
	case float64:
		x.span.SetAttributes(k.Float64(v))
	case []string:
		x.span.SetAttributes(k.StringSlice(v))
	}
}

// Event adds an event to the hook's span.
func (x *Execution) Event(name string) {
	if x.span != nil {
		x.span.AddEvent(name)
	}
}
