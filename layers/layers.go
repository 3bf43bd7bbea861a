// Package layers has ready-made memory layers: [Instructions], [WorkingMemory],
// [Entity], [Observations], [Episodic], [SemanticRecall], [RAG], [Knowledge] and
// [Procedural]; and [Secrets], which keeps credentials out of all of them.
//
// The layer contract itself is in package memory. This package calls no model:
// each layer extracts and ranks by simple, deterministic rules, most of them
// for English, as its documentation says. A function in a layer's options
// replaces them.
//
// The one decision: if a function fails, what it was to learn from is not lost.
// The raw events stay in the layer's records, under keys of their own, and are
// tried again in a later turn; until then the layer's note in the turn report
// says what failed and why. State changes only through update functions that
// merge, so executions that share a layer's data do not overwrite each other.
//
// The constructors take options whose zero fields, and nil, mean the
// documented defaults. The field Spec of the options overrides the layer's
// memory.Spec field by field; its Format belongs to the layer and is ignored.
package layers

import (
	"cmp"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

// override returns spec with the non-zero fields of over.
func override(spec, over memory.Spec) memory.Spec {
	spec.ID = cmp.Or(over.ID, spec.ID)
	spec.Name = cmp.Or(over.Name, spec.Name)
	spec.Slot = cmp.Or(over.Slot, spec.Slot)
	spec.Scope = cmp.Or(over.Scope, spec.Scope)
	spec.Budget = cmp.Or(over.Budget, spec.Budget)
	spec.Placement = cmp.Or(over.Placement, spec.Placement)
	spec.Authority = cmp.Or(over.Authority, spec.Authority)
	spec.Required = over.Required
	spec.Timeouts = over.Timeouts
	spec.OnInitError = over.OnInitError
	return spec
}

// query returns the part of a query that layers look at: after its first pages,
// a pasted file asks nothing more.
func query(text string) string {
	text, _ = tidy(text, 16<<10)
	return text
}

// item returns a layer's output of a single text.
func item(text string, refs ...string) projection.Item {
	it := projection.Text("", text)
	it.Refs = refs
	return it
}
