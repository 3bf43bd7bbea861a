package killtest_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/soma"
)

// plan is what a turn is to be, written into its first item.
type plan struct {
	token  string
	calls  int  // tool calls
	mark   bool // a tool of a layer notes it as well
	closes bool // it is written with the end of its run
}

func (p plan) text() string {
	return fmt.Sprintf("Remember that the code of box %s is %s. Anna told Bob about Depot %s. (calls %d, mark %t, closes %t)",
		p.token, p.token, p.token, p.calls, p.mark, p.closes)
}

var planned = regexp.MustCompile(`^Remember that the code of box (\S+) is .*\(calls (\d), mark (\w+), closes (\w+)\)$`)

func planOf(text string) (p plan, ok bool) {
	m := planned.FindStringSubmatch(text)
	if m == nil {
		return p, false
	}
	n, _ := strconv.Atoi(m[2])
	return plan{m[1], n, m[3] == "true", m[4] == "true"}, true
}

func (p plan) answer() string { return "Noted: the code of box " + p.token + "." }

// ledger is the state of a layer that keeps the tokens of all turns.
type ledger struct {
	Turns []string `json:"turns,omitempty"`
	Marks []string `json:"marks,omitempty"`
}

func (l ledger) with(turns, marks []string) ledger {
	return ledger{slices.Concat(l.Turns, turns), slices.Concat(l.Marks, marks)}
}

type markArgs struct {
	Token string `json:"token"`
}

// ledgerLayer returns the layer of a scope. Its records say the same as its
// state. In execution scope a parent takes over what a child that succeeded has.
func ledgerLayer(scope memory.Scope) memory.Layer {
	hooks := memory.Hooks[ledger]{
		Store: func(_ context.Context, in *memory.StoreInput[ledger]) (memory.Change[ledger], error) {
			var c memory.Change[ledger]
			for i := range in.New {
				if p, ok := planOf(in.New[i].Text()); ok {
					c = memory.Update(func(l ledger) ledger { return l.with([]string{p.token}, nil) })
					c = c.Put("turn/"+p.token, []byte(p.token))
				}
			}
			return c, nil
		},
		Tools: []memory.Tool[ledger]{memory.NewTool("mark", "Mark a token.",
			func(_ context.Context, _ *memory.ToolInput[ledger], args markArgs) (struct{}, memory.Change[ledger], error) {
				c := memory.Update(func(l ledger) ledger { return l.with(nil, []string{args.Token}) })
				return struct{}{}, c.Put("mark/"+args.Token, []byte(args.Token)), nil
			})},
	}
	if scope == memory.ScopeExecution {
		hooks.OnReturn = func(_ context.Context, in *memory.ReturnInput[ledger]) (memory.Returned[ledger], error) {
			child := in.ChildState.with(nil, nil)
			c := memory.Update(func(l ledger) ledger { return l.with(child.Turns, child.Marks) })
			for _, t := range child.Turns {
				c = c.Put("turn/"+t, []byte(t))
			}
			for _, t := range child.Marks {
				c = c.Put("mark/"+t, []byte(t))
			}
			return memory.Returned[ledger]{Change: c, Result: in.Result}, nil
		}
	}
	return memory.Define(memory.Spec{ID: ledgerID(scope), Scope: scope, Placement: projection.Live, Format: 1}, hooks)
}

var scopes = []memory.Scope{memory.ScopeThread, memory.ScopeResource, memory.ScopeGlobal, memory.ScopeExecution}

func ledgerID(scope memory.Scope) string { return "ledger-" + string(scope) }

// stack are the layers of every agent.
func stack(s *soma.Store) []memory.Layer {
	list := []memory.Layer{
		layers.Instructions(&layers.InstructionsOptions{Text: "Be kind."}),
		layers.WorkingMemory(nil), layers.Entity(nil), layers.Observations(&layers.ObservationsOptions{ObserveAt: 300, CondenseAt: 600}),
		layers.Episodic(nil), layers.SemanticRecall(nil), layers.Procedural(s, nil),
	}
	list = append(list, layers.Knowledge(s, nil)...)
	for _, scope := range scopes {
		list = append(list, ledgerLayer(scope))
	}
	return list
}
