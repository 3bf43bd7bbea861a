package layers

import (
	"context"
	"fmt"
	"strings"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

// KnowledgeStore is what [Knowledge] needs from a store of governed knowledge;
// soma's Store is one.
type KnowledgeStore interface {
	// Guide returns what a layer (canon, emerging, working or archive) has for a
	// team, best first: all of canon, whatever the limit; of the archive, what
	// bears on the query; and, as "rules", what bears on the query in canon and in
	// pending proposals. It never includes what belongs to another team.
	Guide(ctx context.Context, layer, team, query string, limit int) ([]Guidance, error)
	// Harvest archives what happened, in order, and returns how many elements of
	// the list it handled. A store may limit how much it takes at once; it is
	// given the rest again. What it already has is left alone. After an error,
	// too, the rest is given again, unless it handled nothing.
	Harvest(ctx context.Context, list []Happening) (taken int, err error)
}

// Guidance is a piece of knowledge. It is an alias, so that a store need not
// import this package.
type Guidance = struct {
	Key        string // its key in the store
	Name, Text string
	Proposed   bool    // whether nobody has decided about it
	Confidence float64 // of a proposal, in [0, 1]
	Unsure     bool    // whether the proposal has no confidence in [0, 1]
}

// Happening is something that an agent did. The same happening has the same ID.
type Happening = struct {
	ID, Type, Name, Status, Team, Body string
	Tags                               []string
	Fields                             map[string]any
}

// KnowledgeOptions configures [Knowledge]. Zero budgets mean the defaults.
type KnowledgeOptions struct {
	Emerging projection.Budget // default at most 600 tokens
	Working  projection.Budget // default at most 800
	Archive  projection.Budget // default at most 800
	TopK     int               // maximum for each layer but canon; 0 means 8
	// NoHarvest turns off archiving what the run did.
	NoHarvest bool
}

// Knowledge returns the layers that put governed knowledge before an agent, and
// keep what it does:
//
//	knowledge-canon     what people have ratified: anchored, required, never cut
//	knowledge-emerging  proposals with their confidence: advice
//	knowledge-working   what the run's team is working on; nothing without a team
//	knowledge-archive   what happened that bears on the newest user message
//
// The team is that of the run's identity; children see what their own team may
// see. A run that cannot read canon does not begin. Only canon is anchored:
// output of tools goes no further than the archive, and is shown as data.
//
// The tool calls of a run and how they ended, its outcome, and its delegations
// to children become entities of the archive, with ids that are the same if the
// turn is repeated. They contain names and outcomes, but no text that a tool
// returned. A store takes a limited number per turn, soma's store a hundred new
// ones. The rest waits in the layer's records, written with the turn, and is
// harvested before anything new by later turns of any run, with a hundred more
// at the end of each run. Harvesting is not part of the turn's batch: if it
// fails, the hook's report says so, and the log still has everything.
func Knowledge(store KnowledgeStore, opts *KnowledgeOptions) []memory.Layer {
	k := knowledge{store: store}
	if opts != nil {
		k.KnowledgeOptions = *opts
	}
	if k.TopK <= 0 {
		k.TopK = 8
	}
	budget := func(given projection.Budget, most int) projection.Budget {
		if given == (projection.Budget{}) {
			return projection.Between(0, most)
		}
		return given
	}
	canon := memory.Define(memory.Spec{
		ID: "knowledge-canon", Slot: memory.SlotSteering, Scope: memory.ScopeGlobal,
		Placement: projection.Anchor, Authority: projection.Instruction, Required: true, Format: 1,
	}, memory.Hooks[struct{}]{Init: k.init, Recall: k.canon})
	emerging := memory.Define(memory.Spec{
		ID: "knowledge-emerging", Slot: memory.SlotProcedural, Scope: memory.ScopeGlobal,
		Budget: budget(k.Emerging, 600), Placement: projection.Live, Format: 1,
	}, memory.Hooks[struct{}]{Recall: recallGuidance(store, "emerging", k.TopK, "no proposal waits for a decision")})
	working := memory.Define(memory.Spec{
		ID: "knowledge-working", Slot: memory.SlotEntity, Scope: memory.ScopeGlobal,
		Budget: budget(k.Working, 800), Placement: projection.Live, Format: 1,
	}, memory.Hooks[struct{}]{Recall: recallGuidance(store, "working", k.TopK, "the team is at nothing")})
	hooks := memory.Hooks[struct{}]{Recall: recallGuidance(store, "archive", k.TopK, "nothing that happened bears on the query")}
	if !k.NoHarvest {
		hooks.Store, hooks.OnComplete, hooks.OnReturn = k.harvest, k.complete, k.returned
	}
	archive := memory.Define(memory.Spec{
		ID: "knowledge-archive", Slot: memory.SlotRAG, Scope: memory.ScopeGlobal,
		Budget: budget(k.Archive, 800), Placement: projection.Live, Format: 1,
	}, hooks)
	return []memory.Layer{canon, emerging, working, archive}
}

type knowledge struct {
	KnowledgeOptions
	store KnowledgeStore
}

// init fails a run that cannot read canon, rather than let it begin as if there
// were no rules. If reading fails later, what was shown last stays.
func (k *knowledge) init(ctx context.Context, in *memory.InitInput[struct{}]) (struct{}, error) {
	const most = 1_000_000 // bytes; a layer may contribute 1 MiB
	list, err := k.store.Guide(ctx, "canon", in.Execution.Identity().Team, "", 0)
	size := 0
	for _, g := range list {
		size += len(g.Name) + len(g.Text)
	}
	if err == nil && size > most {
		err = fmt.Errorf("canon has %d bytes, over %d: retire or shorten entries", size, most)
	}
	return struct{}{}, err
}

// canon returns everything that is ratified.
func (k *knowledge) canon(ctx context.Context, in *memory.RecallInput[struct{}]) (memory.Recalled[struct{}], error) {
	var out memory.Recalled[struct{}]
	list, err := k.store.Guide(ctx, "canon", in.Execution.Identity().Team, "", 0)
	if err != nil {
		return out, err
	}
	for _, g := range list {
		text, _ := tidy(g.Text, len(g.Text))
		out.Items = append(out.Items, item(line(g.Name, 300)+"\n"+strings.TrimSpace(text), g.Key))
	}
	if len(list) == 0 {
		out.Note = "nothing is ratified"
	}
	return out, nil
}

// recallGuidance returns the hook that shows what a layer of a store has for
// the run's team, or that there is nothing.
func recallGuidance(store KnowledgeStore, layer string, topK int, nothing string) func(context.Context, *memory.RecallInput[struct{}]) (memory.Recalled[struct{}], error) {
	return func(ctx context.Context, in *memory.RecallInput[struct{}]) (memory.Recalled[struct{}], error) {
		var out memory.Recalled[struct{}]
		team := in.Execution.Identity().Team
		if layer == "working" && team == "" {
			out.Note = "the run has no team"
			return out, nil
		}
		list, err := store.Guide(ctx, layer, team, query(in.Query), topK)
		if err != nil {
			return out, err
		}
		for _, g := range list {
			out.Items = append(out.Items, guide(g))
		}
		if len(list) == 0 {
			out.Note = nothing
		}
		return out, nil
	}
}

// guide formats what is known and what is only a proposal.
func guide(g Guidance) projection.Item {
	text := line(g.Name+": "+g.Text, 1500)
	switch {
	case g.Proposed && g.Unsure:
		text = "[proposed, not decided; of no known confidence] " + text
	case g.Proposed:
		text = fmt.Sprintf("[proposed, not decided; confidence %.2f] %s", g.Confidence, text)
	}
	it := item(text, g.Key)
	it.Remembered = g.Proposed // whatever else the layer says
	return it
}
