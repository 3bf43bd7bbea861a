package layers

import (
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

// ProceduralOptions configures [Procedural].
type ProceduralOptions struct {
	// Spec overrides: ID "procedural", slot [memory.SlotProcedural], scope
	// global, budget at most 600 tokens, placement live.
	Spec memory.Spec
	TopK int // maximum number of rules; 0 means 6
}

// Procedural returns the layer that recalls how things are done: rules of
// canon, and proposals with their confidence, that bear on the newest user
// message. It is for stores whose canon is too large to show the agent as a
// whole, as [Knowledge] does; it stores nothing.
func Procedural(store KnowledgeStore, opts *ProceduralOptions) memory.Layer {
	var o ProceduralOptions
	if opts != nil {
		o = *opts
	}
	if o.TopK <= 0 {
		o.TopK = 6
	}
	spec := override(memory.Spec{
		ID: "procedural", Slot: memory.SlotProcedural, Scope: memory.ScopeGlobal,
		Budget: projection.Between(0, 600), Placement: projection.Live, Authority: projection.Instruction, Format: 1,
	}, o.Spec)
	return memory.Define(spec, memory.Hooks[struct{}]{
		Recall: recallGuidance(store, "rules", o.TopK, "no rule bears on the query"),
	})
}
