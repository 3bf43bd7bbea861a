// Package layers has ready-made memory layers: [Instructions], [WorkingMemory],
// [Entity], [Observations], [Episodic], [SemanticRecall], [RAG], [Knowledge] and
// [Procedural]; and [Secrets], which keeps credentials out of all of them.
//
// It is not the layer contract, which is package memory, and it calls no model:
// each layer extracts and ranks by plain, deterministic rules that are written
// in English and say so. A function in a layer's options replaces them.
//
// The one decision: a function that fails never loses what it was to learn
// from. The raw events stay in the layer's records, under keys of their own,
// and are tried again in a later turn; until then the layer's note in the turn
// report says what failed and why. State changes only by
// update functions that merge, so executions that share a layer's data lose
// nothing to each other.
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

// override returns spec with the fields that over sets.
func override(spec, over memory.Spec) memory.Spec {
	spec.ID = cmp.Or(over.ID, spec.ID)
	spec.Name = cmp.Or(over.Name, spec.Name)
	spec.Slot = cmp.Or(over.Slot, spec.Slot)
	spec.Scope = cmp.Or(over.Scope, spec.Scope)
	spec.Budget = cmp.Or(over.Budget, spec.Budget)
	spec.Placement = cmp.Or(over.Placement, spec.Placement)
	spec.Required = over.Required
	spec.Timeouts = over.Timeouts
	spec.OnInitError = over.OnInitError
	return spec
}

// query is the part of a query that layers look at: a pasted file asks nothing
// more after its first pages.
func query(text string) string {
	text, _ = tidy(text, 16<<10)
	return text
}

// item makes a layer's output of one text.
func item(text string, refs ...string) projection.Item {
	it := projection.Text(projection.System, text)
	it.Refs = refs
	return it
}
