package layers

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
)

// deed is a decision of a run that waits to be harvested.
type deed struct {
	Run     string `json:"run"`
	Agent   string `json:"agent"`
	Team    string `json:"team,omitempty"`
	Rule    string `json:"rule"`
	Node    string `json:"node"` // the id of a call, or of a child
	Choice  string `json:"choice"`
	Outcome string `json:"outcome"`
}

func newDeed(x *memory.Execution, rule, node, choice, outcome string) deed {
	return deed{x.ID(), agentOf(x), x.Identity().Team, rule, node, line(choice, 200), outcome}
}

func agentOf(x *memory.Execution) string {
	if agent := line(x.Identity().Agent, 100); agent != "" {
		return agent
	}
	return "agent"
}

// happening returns the deed as a Happening.
func (d *deed) happening() Happening {
	h := Happening{
		ID: "decision-" + digest(d.Run, d.Node) + "-" + strings.ReplaceAll(d.Rule, "_", "-"), Type: "decision", Team: d.Team,
		Name: fmt.Sprintf("%s: %s (%s)", d.Rule, d.Choice, d.Agent), Status: "active", Tags: []string{"explicit", d.Rule},
		Body: fmt.Sprintf("# %s: %s\n\n%s decided this in the run %s.\n\n- choice: %s\n- outcome: %s\n",
			d.Rule, d.Choice, d.Agent, line(d.Run, 100), d.Choice, d.Outcome),
		Fields: map[string]any{
			"decision_type": d.Rule, "choice": d.Choice, "outcome": d.Outcome, "agent_id": d.Agent, "graph_id": d.Run,
			"trace_id": "decision-" + d.Run + "-" + line(d.Node, 100),
		},
	}
	if d.Rule == delegation {
		h.Fields["child"] = d.Node
	}
	return h
}

const delegation = "delegation"

// waiting/<time>-<run and step> → deeds that the store did not take, a JSON
// list, in order of time. They are records, not state, because most turns leave
// none.
const waitingPrefix = "waiting/"

// crop is the deeds of one record.
type crop struct {
	key   string
	deeds []deed
	fresh bool // whether there is no record of it yet
}

// atOnce is for how many waiting deeds a turn reads records, at least.
const atOnce = 100

// waitingCrops returns what waits, oldest first.
func waitingCrops(ctx context.Context, r *memory.Records) ([]crop, error) {
	var list []crop
	n := 0
	for entry, err := range r.Scan(ctx, waitingPrefix, nil) {
		if err != nil {
			return nil, err
		}
		c := crop{key: entry.Key}
		if err := json.Unmarshal(entry.Value, &c.deeds); err != nil {
			c.deeds = nil // damaged: there is nothing to harvest, so delete it
		}
		list = append(list, c)
		if n += len(c.deeds); n >= atOnce {
			break
		}
	}
	return list, nil
}

// reap harvests first, then the waiting deeds, then new ones; what the store
// does not take keeps waiting.
func (k *knowledge) reap(ctx context.Context, x *memory.Execution, r *memory.Records, first []Happening, fresh crop) (memory.Change[struct{}], error) {
	var change memory.Change[struct{}]
	crops, err := waitingCrops(ctx, r)
	if err != nil {
		return change, err
	}
	if len(fresh.deeds) > 0 {
		crops = append(crops, fresh)
	}
	list := first
	for i := range crops {
		for j := range crops[i].deeds {
			list = append(list, crops[i].deeds[j].happening())
		}
	}
	if len(list) == 0 && len(crops) == 0 {
		return change, nil
	}
	taken, err := k.store.Harvest(ctx, list)
	if err != nil {
		if taken == 0 {
			return change, err
		}
		x.Event("the harvest was cut short") // a permanent fault is an error once nothing can be taken
	}
	taken = max(taken-len(first), 0)
	for _, c := range crops {
		n := min(taken, len(c.deeds))
		taken -= n
		switch left := c.deeds[n:]; {
		case len(left) == 0 && !c.fresh:
			change = change.Delete(c.key)
		case len(left) > 0 && (c.fresh || n > 0):
			value, err := json.Marshal(left)
			if err != nil { // strings can always be encoded
				panic(err)
			}
			change = change.Put(c.key, value)
		}
	}
	return change, nil
}

// harvest keeps the tool calls of a turn that have ended.
func (k *knowledge) harvest(ctx context.Context, in *memory.StoreInput[struct{}]) (memory.Change[struct{}], error) {
	calls := make(map[string]*projection.Item)
	c := crop{fresh: true}
	for i := range in.New {
		result := &in.New[i]
		if result.Kind != projection.ToolResult {
			continue
		}
		if len(calls) == 0 {
			for j := range in.Log {
				if it := &in.Log[j]; it.Kind == projection.ToolCall && calls[it.CallID] == nil {
					calls[it.CallID] = it
				}
			}
		}
		call := calls[result.CallID]
		if call == nil {
			continue
		}
		outcome := "ok"
		if result.Failed {
			outcome = "failed"
		}
		c.deeds = append(c.deeds, newDeed(in.Execution, "tool_choice", result.CallID, call.Name, outcome))
		if result.Failed {
			c.deeds = append(c.deeds, newDeed(in.Execution, "failure", result.CallID, call.Name, outcome))
		}
		c.key = waitingPrefix + timeKey(result.Time) + "-" + digest(in.Execution.ID(), fmt.Sprint(in.Execution.Step()))
	}
	return k.reap(ctx, in.Execution, in.Records, nil, c)
}

// complete keeps the outcome of the run.
func (k *knowledge) complete(ctx context.Context, in *memory.CompleteInput[struct{}]) (memory.Change[struct{}], error) {
	x := in.Execution
	status := "failed"
	if in.Outcome == memory.Success {
		status = "completed"
	}
	agent := agentOf(x)
	return k.reap(ctx, x, in.Records, []Happening{{
		ID: "execution-" + digest(x.ID()), Type: "execution", Team: x.Identity().Team, Status: status,
		Name: fmt.Sprintf("Run of %s: %s", agent, in.Outcome), Tags: []string{"run"},
		Body: fmt.Sprintf("# Run of %s\n\n- outcome: %s\n- turns: %d\n", agent, in.Outcome, x.Step()),
		Fields: map[string]any{
			"agent_id": agent, "graph_id": x.ID(), "thread": line(x.Identity().Thread, 200), "outcome": string(in.Outcome),
		},
	}}, crop{})
}

// returned records that a child was given work and how it ended, in addition to
// what the child itself harvested. It does not touch waiting deeds, so that
// children that return at the same time do not conflict.
func (k *knowledge) returned(ctx context.Context, in *memory.ReturnInput[struct{}]) (memory.Returned[struct{}], error) {
	d := newDeed(in.Execution, delegation, in.Child.ID(), agentOf(in.Child), "returned")
	_, err := k.store.Harvest(ctx, []Happening{d.happening()})
	return memory.Returned[struct{}]{Result: in.Result}, err
}
