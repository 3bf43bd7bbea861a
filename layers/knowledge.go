package layers

import (
	"context"
	"fmt"
	"strings"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

// KnowledgeStore is what [Knowledge] needs of a store of governed knowledge;
// soma's Store is one.
type KnowledgeStore interface {
	// Guide returns what a layer (canon, emerging, working or archive) has for a
	// team, best first: canon all of it, whatever limit is; archive what bears
	// on the query; and "rules" what of canon, and of proposals that wait, bears
	// on the query. Another team's is never in it.
	Guide(ctx context.Context, layer, team, query string, limit int) ([]Guidance, error)
	// Harvest keeps what happened in the archive, in order, and returns how much
	// of the list it has taken: a store may take no more than so much at once, and
	// is given the rest again. What it has is left alone. After an error, too, what
	// it has not taken is given again, unless it has taken nothing.
	Harvest(ctx context.Context, list []Happening) (taken int, err error)
}

// Guidance is something known. It is an alias, so that a store need not know
// this package.
type Guidance = struct {
	Key        string // in the store
	Name, Text string
	Proposed   bool    // nobody has decided on it
	Confidence float64 // of a proposal, in [0, 1]
	Unsure     bool    // a proposal that says no confidence, or none in [0, 1]
}

// Happening is something that an agent did. ID is the same for the same.
type Happening = struct {
	ID, Type, Name, Status, Team, Body string
	Tags                               []string
	Fields                             map[string]any
}

// KnowledgeOptions are the options of [Knowledge]. Zero budgets are the
// defaults.
type KnowledgeOptions struct {
	Emerging projection.Budget // default at most 600 tokens
	Working  projection.Budget // default at most 800
	Archive  projection.Budget // default at most 800
	TopK     int               // of each layer but canon, at most so many; 0 means 8
	// NoHarvest leaves out what the run did.
	NoHarvest bool
}

// Knowledge returns the layers that put governed knowledge before an agent, and
// keep what it does:
//
//	knowledge-canon     what people have ratified: anchored, required, never cut
//	knowledge-emerging  proposals with their confidence: advice
//	knowledge-working   what the run's team is at; nothing without a team
//	knowledge-archive   what happened that bears on the newest user message
//
// The team is that of the run's identity, and children see what their own team
// may. A run that cannot read canon does not begin. Canon alone is anchored: what tools return gets no further than the
// archive, and is shown as data.
//
// The tool calls of a run, with how they ended, its outcome, and its delegations
// to children become entities of the archive, by ids that a repeated turn gives
// again. They hold names and outcomes, no text that a tool returned. A store takes
// so many in a turn, soma's a hundred new ones; the rest waits in the layer's
// records, written with the turn, and is harvested before what is new by the
// turns that follow, of any run, a hundred more by the end of each run. Harvesting
// is no part of the turn's batch: where nothing could be harvested the hook's
// report says so, and the log still has all of it.
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
		Placement: projection.Anchor, Required: true, Format: 1,
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

// init lets a run fail that cannot read canon, rather than begin as if there
// were no rules. Where reading fails later, what was shown last stays.
func (k *knowledge) init(ctx context.Context, in *memory.InitInput[struct{}]) (struct{}, error) {
	const most = 1_000_000 // bytes; a layer may say 1 MiB
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

// canon says all that is ratified.
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

// recallGuidance returns the hook that says what a layer of a store has for the
// run's team, or that there is nothing.
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

// guide shows what is known, and what is a mere proposal.
func guide(g Guidance) projection.Item {
	text := line(g.Name+": "+g.Text, 1500)
	switch {
	case g.Proposed && g.Unsure:
		text = "[proposed, not decided; of no known confidence] " + text
	case g.Proposed:
		text = fmt.Sprintf("[proposed, not decided; confidence %.2f] %s", g.Confidence, text)
	}
	return item(text, g.Key)
}
