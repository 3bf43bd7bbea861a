package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/soma/guard"
)

func policyCommand(t *tool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "List the policies of canon, and check a call against them",
		Long: `Policies of canon that have a condition are constraints on the tool calls of
agents: an agent loop asks a guard before each call. list shows them, and check
says what the guard would.`,
		Example: "  strata policy list --db agent.db\n  strata policy check shell --args '{\"command\": \"rm -rf build\"}' --db agent.db",
	}
	addVerbs(cmd, policyListCommand(t), policyCheckCommand(t))
	return cmd
}

// rulesOf returns the constraints in force for a team as rules for a guard.
func rulesOf(list []soma.Constraint) []guard.Rule {
	var rules []guard.Rule
	for _, c := range list {
		rules = append(rules, guard.Rule{
			ID: c.ID, Name: c.Name, Condition: c.Condition, Enforcement: guard.Enforcement(c.Enforcement), Message: c.Message,
		})
	}
	return rules
}

// policy is a constraint as listed.
type policy struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Condition   string            `json:"condition"`
	Enforcement guard.Enforcement `json:"enforcement"`
	Message     string            `json:"message,omitempty"`
	Fault       string            `json:"fault,omitempty"`    // why it cannot be evaluated
	Withheld    *withheldJSON     `json:"withheld,omitempty"` // the policy is in doubt: this entry replaces it
}

func policyListCommand(t *tool) *cobra.Command {
	var db, team string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the policies that hold, with their conditions",
		Long: `Lists the policies of canon in force that have a condition: the enforcement, the
id, the name, and the condition, which describes the calls that the policy
forbids. One whose condition cannot be evaluated holds for every call. One that
differs from what was ratified, is missing or unreadable, or is contested after
a merge, is withheld: its substitute is as strong as the policy on record, or
blocks every call. Both are marked, and the exit status is 1.`,
		Example: "  strata policy list --db agent.db\n  strata policy list --db vault:notes --team core --json",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return readKnowledge(ctx, "policy list", db, func(s *soma.Store) error {
				list, err := s.PolicySource(0).Constraints(ctx, team)
				if err != nil {
					return err
				}
				return t.policyList(list, asJSON)
			})
		},
	}
	knowledgeFlag(cmd, &db)
	cmd.Flags().StringVar(&team, "team", "", "with those of this team")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (t *tool) policyList(constraints []soma.Constraint, asJSON bool) error {
	faults := map[guard.Rule]string{}
	for _, f := range guard.New(rulesOf(constraints)).Faults() {
		faults[f.Rule] = f.Err.Error()
	}
	p := newScreen(t.out, t.env)
	list := []policy{}
	withheld := 0
	for i, r := range rulesOf(constraints) {
		fault, held := faults[r], constraints[i].Withheld
		list = append(list, policy{r.ID, r.Name, r.Condition, r.Enforcement, r.Message, fault, heldJSON(held)})
		if held != nil {
			withheld++
		}
		if asJSON {
			continue
		}
		p.printf("%s  %s  %s\n", p.paint(enforcementColor(r.Enforcement), pad(escape(string(r.Enforcement), false), 5)),
			p.paint(bold, escape(r.ID, false)), escape(r.Name, false))
		p.printf("       %s\n", escape(r.Condition, false))
		if held != nil {
			p.printf("       %s\n", p.paint(red, escape(r.Message, false)))
		}
		if fault != "" {
			p.printf("       %s\n", p.paint(red, "cannot be evaluated, so that it holds for every call: "+escape(fault, false)))
		}
	}
	switch {
	case asJSON:
		if err := printJSON(t.out, list); err != nil {
			return err
		}
	case len(list) == 0:
		fmt.Fprintln(t.err, "strata: no policy of canon has a condition")
	}
	switch {
	case p.err != nil:
		return p.err
	case withheld > 0:
		return fmt.Errorf("%s withheld: 'strata review list' says why, and what to do", plural(withheld, "policy is", "policies are"))
	case len(faults) > 0:
		return fmt.Errorf("%s a condition that cannot be evaluated: supersede it by one that can", plural(len(faults), "policy has", "policies have"))
	}
	return nil
}

func enforcementColor(e guard.Enforcement) color {
	switch e {
	case guard.Info:
		return plain
	case guard.Warn:
		return yellow
	}
	return red
}

// checkOptions are the flags of policy check.
type checkOptions struct {
	db, at, args string
	call         guard.Call
	past         past
	counters     []string
	json         bool
}

// past is what every rate, count and streak in a condition sees.
type past struct{ tally guard.Tally }

// Tally implements [guard.Rates].
func (p past) Tally(guard.Subject, time.Duration) guard.Tally { return p.tally }

func policyCheckCommand(t *tool) *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check TOOL",
		Short: "Say whether a tool call would be allowed, and which policies decide",
		Long: `Evaluates a tool call against the policies of canon, as an agent loop's guard
does: allow, warn or block, with the canon entries responsible. Nothing is
called. The exit status is 1 if the call is blocked, as every call is if the
policies cannot be read.

Flags give what conditions ask about the past: --calls, --failures and --streak
for every rate, count and streak, and --counter for a counter.`,
		Example: `  strata policy check shell --args '{"command": "rm -rf build"}' --agent coder --db agent.db
  strata policy check deploy --at 2026-11-20T17:00:00Z --calls 20 --failures 15 --db vault:notes --json`,
		Args: exactly(1, "a tool"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.call.Tool = args[0]
			if err := o.parse(time.Now()); err != nil {
				return err
			}
			ctx := cmd.Context()
			return readKnowledge(ctx, "policy check", o.db, func(s *soma.Store) error {
				list, err := s.PolicySource(0).Constraints(ctx, o.call.Team)
				g := guard.New(rulesOf(list))
				if err != nil {
					g = guard.Closed(err.Error())
				}
				return cmp.Or(err, t.policyCheck(g.Check(o.call, o.past), o.json))
			})
		},
	}
	knowledgeFlag(cmd, &o.db)
	f := cmd.Flags()
	f.StringVar(&o.args, "args", "", "the arguments of the call, a JSON object")
	f.StringVar(&o.call.Agent, "agent", "", "the agent that makes the call")
	f.StringVar(&o.call.Team, "team", "", "its team, whose policies count too")
	f.StringVar(&o.call.Node.ID, "node-id", "", "id of the node that makes the call")
	f.StringVar(&o.call.Node.Type, "node-type", "", "its type")
	f.StringVar(&o.call.Node.Name, "node-name", "", "its name")
	f.StringVar(&o.at, "at", "", "when it is made: 2026-01-31T08:00:00Z (default now)")
	f.IntVar(&o.call.Attempt, "attempt", 1, "number of the attempt")
	f.Float64Var(&o.call.Cost, "cost", 0, "what the run has cost so far")
	f.IntVar(&o.call.Tokens, "tokens", 0, "what the run has used so far")
	f.IntVar(&o.past.tally.Calls, "calls", 0, "calls made before")
	f.IntVar(&o.past.tally.Failures, "failures", 0, "how many of those calls failed")
	f.IntVar(&o.past.tally.Streak, "streak", 0, "failures since the last success")
	f.StringArrayVar(&o.counters, "counter", nil, "a counter of the loop, as name=number (may be repeated)")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// parse parses the flags that are more than a text or a number.
func (o *checkOptions) parse(now time.Time) error {
	for _, n := range []int{o.past.tally.Calls, o.past.tally.Failures, o.past.tally.Streak, o.call.Attempt, o.call.Tokens} {
		if n < 0 {
			return usagef("policy check: %d is negative", n)
		}
	}
	o.past.tally.Finished = o.past.tally.Calls
	if o.past.tally.Failures > o.past.tally.Calls {
		return usagef("policy check: --failures %d are more than --calls %d", o.past.tally.Failures, o.past.tally.Calls)
	}
	if o.args != "" {
		var object map[string]json.RawMessage
		if json.Unmarshal([]byte(o.args), &object) != nil || object == nil {
			return usagef("policy check: --args is no JSON object")
		}
		o.call.Arguments = json.RawMessage(o.args)
	}
	at, err := momentFlag("policy check: --at", o.at, now)
	if err != nil {
		return err
	}
	o.call.Time = at
	counters, err := parseFields("policy check", "--counter", o.counters)
	if err != nil {
		return err
	}
	o.call.Counters = make(map[string]float64, len(counters))
	for name, value := range counters {
		n, ok := value.(json.Number)
		if !ok {
			return usagef("policy check: --counter %s is no number", name)
		}
		if o.call.Counters[name], err = n.Float64(); err != nil {
			return usagef("policy check: --counter %s is no number", name)
		}
	}
	return nil
}

// verdict is a [guard.Verdict] as JSON.
type verdict struct {
	Action  string       `json:"action"` // allow, warn, block
	End     bool         `json:"end"`    // the run should end
	Reasons []reasonJSON `json:"reasons"`
	Notes   []reasonJSON `json:"notes"`
}

type reasonJSON struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Enforcement guard.Enforcement `json:"enforcement"`
	Message     string            `json:"message,omitempty"`
	Why         string            `json:"why"`
	Fault       bool              `json:"fault,omitempty"` // whether it holds because it cannot be evaluated
}

func (t *tool) policyCheck(v guard.Verdict, asJSON bool) error {
	if asJSON {
		out := verdict{v.Action.String(), v.End, reasonsJSON(v.Reasons), reasonsJSON(v.Notes)}
		if err := printJSON(t.out, out); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(t.out, v.Action)
		for _, r := range reasonsJSON(append(v.Reasons, v.Notes...)) {
			text := r.Message
			if text == "" {
				text = r.Name
			}
			fmt.Fprintf(t.out, "    %s  %s  %s\n           %s\n", pad(escape(string(r.Enforcement), false), 5), escape(r.ID, false),
				escape(text, false), escape(strings.Join(strings.Fields(r.Why), " "), false))
		}
	}
	if v.Action != guard.Block {
		return nil
	}
	if v.End {
		return fmt.Errorf("the call is blocked, and the run should end")
	}
	return fmt.Errorf("the call is blocked")
}

func reasonsJSON(list []guard.Reason) []reasonJSON {
	out := []reasonJSON{}
	for _, r := range list {
		out = append(out, reasonJSON{r.Rule.ID, r.Rule.Name, r.Rule.Enforcement, r.Rule.Message, r.Why, r.Err != nil})
	}
	return out
}
