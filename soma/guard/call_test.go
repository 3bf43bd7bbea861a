package guard_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stratamem/strata/soma/guard"
)

// unreadable are arguments that a condition cannot read, with why.
var unreadable = []struct{ args, why string }{
	{`[1]`, "not a JSON object"},
	{`"path"`, "not a JSON object"},
	{`3`, "not a JSON object"},
	{`true`, "not a JSON object"},
	{`{`, "not valid JSON"},
	{`{"a":}`, "not valid JSON"},
	{`{"a":1,}`, "not valid JSON"},
	{`{"a" 1}`, "not valid JSON"},
	{`{1:1}`, "not valid JSON"},
	{`{"a":[1}`, "not valid JSON"},
	{`{"a":1}]`, "more than one JSON value"},
	{`nul`, "not valid JSON"},
	{`{"a":1e999}`, "not valid JSON"},
	{`{'a':1}`, "not valid JSON"},
	{`{"a":1}{"a":2}`, "more than one JSON value"},
	{`{"a":1} x`, "more than one JSON value"},
	{`{"path":"/ok","path":"/etc"}`, "name a member twice"},
	{`{"a":[{"b":1,"b":2}]}`, "name a member twice"},
	{`{"p\u0061th":"/ok","path":"/etc"}`, "name a member twice"},
	{`{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "nested more than 100 deep"},
	{strings.Repeat(`{"a":`, 50000), "nested more than 100 deep"},
	{`{"a":"` + strings.Repeat("x", guard.MaxArguments) + `"}`, "more than 524288"},
}

func TestUnreadableArguments(t *testing.T) {
	rules := []guard.Rule{
		{ID: "reads", Condition: `tool == "shell" and args.path == "/etc"`, Enforcement: guard.Error},
		{ID: "inside", Condition: `(args.path ?? "") == "/etc"`, Enforcement: guard.Error},
		{ID: "other", Condition: `tool == "other" and args.path == "/etc"`, Enforcement: guard.Error},
	}
	g := guard.New(rules)
	for _, test := range unreadable {
		v := g.Check(guard.Call{Tool: "shell", Arguments: json.RawMessage(test.args)}, nil)
		if v.Action != guard.Block || len(v.Reasons) != 2 || v.Reasons[0].Rule.ID != "reads" || v.Reasons[1].Rule.ID != "inside" {
			t.Errorf("%.60s: %+v, want the two that read them", test.args, v)
			continue
		}
		if why := v.Reasons[0].Why; !strings.Contains(why, test.why) || len(why) > 200 {
			t.Errorf("%.60s: %s, want %s", test.args, why, test.why)
		}
	}
	for _, none := range []string{"", " ", "null", "{}", " {} \n"} {
		if v := g.Check(guard.Call{Tool: "shell", Arguments: json.RawMessage(none)}, nil); v.Action != guard.Allow {
			t.Errorf("%q: %v", none, v)
		}
	}
}

// TestVerdictHoldsNothingOfTheCall: a verdict goes to logs and to the model.
func TestVerdictHoldsNothingOfTheCall(t *testing.T) {
	const secret = "hunter2"
	for _, condition := range []string{
		`args.p == "x" or true`, `args.p > 3`, `args.p * 2 > 3`, `args.p.deeper`, `args[args.p] > 1`, `args.list[9] == 1`,
		`any(args.p, true)`, `any(args.list, # > 1)`, `args.list < 3`, `len(args.missing) > 1`, `not args.p`, `args.p`,
		`args.list[args.p] == 1`, `args.p in args.p`, `lower(args.list) == ""`, `agent >= args.p`, `tool == args.p or tool > args.list`,
		`args.missing[args.p] == 1`, `args.p[args.p] == 1`, `args[args.p][args.list[0]] == 1`,
		`args.p - 1 > 0`, `-args.p > 0`, `args.p and true`, `args.p matches "x" or args.list matches "x"`,
	} {
		g := guard.New([]guard.Rule{{ID: "c", Condition: condition, Enforcement: guard.Error}})
		if f := g.Faults(); f != nil {
			t.Error(f[0])
			continue
		}
		for _, args := range []string{`{"p":"hunter2","list":["hunter2"]}`, `{"p":{"hunter2":1},"list":["hunter2"]}`, `{"hunter2`, `{"hunter2":1,"hunter2":2}`} {
			v := g.Check(guard.Call{Agent: secret, Team: secret, Tool: secret, Arguments: json.RawMessage(args)}, nil)
			text := fmt.Sprintf("%v %+v", v, v.Reasons)
			if v.Action != guard.Block || strings.Contains(text, secret) {
				t.Errorf("%s with %s: %s", condition, args, text)
			}
		}
	}
}
