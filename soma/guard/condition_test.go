package guard_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stratamem/strata/soma/guard"
)

// refused are conditions that are not of the language, with a part of what
// their faults say.
var refused = []struct{ condition, fault string }{
	{"", "the condition is empty"},
	{" \n\t", "the condition is empty"},
	{"tol == 'x'", "1:1: unknown name tol"},
	{"tool ==\n tol", "2:2: unknown name tol"},
	{"node.typ == 'x'", "no field typ"},
	{"node == nil", "unknown name node"},
	{"tool in node", "unknown name node"},
	{"tool.x == 1", "no field x"},
	{"rate > 1", "unknown name rate"},
	{"$env == nil", "unknown name $env"},
	{"$env['agent'] == 'x'", "unknown name $env"},
	{"' scope' in $env", "unknown name $env"},
	{"tool ==", "unexpected token EOF"},
	{"tool == 'x", "literal not terminated"},
	{"tool == 'x')", "unexpected token"},
	{"\x00", "unrecognized character"},
	{"\xff\xfe == 1", "unrecognized character"},

	// Types.
	{"tool", "the condition is a string, not true or false"},
	{"cost", "the condition is a float64"},
	{"args", "the condition is a map"},
	{"tool > 1", "mismatched types string and int"},
	{"cost == 'x'", "mismatched types float64 and string"},
	{"tool + 'x' == 'y'", "mismatched type string"},
	{"not cost", "mismatched type float64"},
	{"args.n ?? 1 * 2 == 6", "Wrap either by parentheses"},
	{"not tool == 'x'", "mismatched type string"},
	{"tool and true", "mismatched types string and bool"},
	{"args.path startsWith 3", "mismatched types any and int"},
	{"cost.x == 1", "no field x"},

	// Functions.
	{"now() > 1", "unknown function now"},
	{"repeat('x', 1000000000) == ''", "unknown function repeat"},
	{"fromJSON(args.x).y", "unknown function fromJSON"},
	{"filter(args.list, true) == []", "unknown function filter"},
	{"map(args.list, #) == []", "unknown function map"},
	{"reduce(args.list, #acc + 1, 0) > 1", "unknown function reduce"},
	{"::count([1], true) > 1", "unknown function count"},
	{"tool() == 'x'", "unknown function tool"},
	{"args.x() == 1", "this is no function"},
	{"rate('tool')('x') == 1", "unexpected token"},
	{"rate() > 1", "rate has 0 arguments"},
	{"rate('tool', '1m', 'x') > 1", "rate has 3 arguments"},
	{"streak('tool', '1m') > 1", "streak has 2 arguments"},
	{"rate('tools') > 1", "is one of agent, tool, node, call, all"},
	{"rate(tool) > 1", "literal texts"},
	{"counter(args.name) > 1", "literal texts"},
	{"rate('tool', '0s') > 1", `from "1s" to "24h"`},
	{"rate('tool', '-1m') > 1", `from "1s" to "24h"`},
	{"rate('tool', '25h') > 1", `from "1s" to "24h"`},
	{"rate('tool', 'soon') > 1", `from "1s" to "24h"`},

	// What could take long, or not end.
	{"all(1..1000000, all(1..1000000, true))", "unknown operator .."},
	{"any(args.list, any(#, true))", "any inside any"},
	{"any(any(args.list, true), true)", "builtin any takes only array"},
	{"any(tool, true)", "builtin any takes only array"},
	{"any(args.list, args.text contains #)", "only # and literals"},
	{"any(args.list, count('tool') > 1)", "only # and literals"},
	{"any(args.list, #index > 1)", "unknown name #index"},
	{"let a = tool; a == 'x'", "not part of the language"},
	{"tool == 'x'; true", "not part of the language"},
	{"true ? true : false", "not part of the language"},
	{"{'a': 1} == nil", "not part of the language"},
	{"args.path[0:2] == 'a'", "not part of the language"},
	{"2 ** 1000000 > 1", "unknown operator **"},
	{"b'x' == tool", "not part of the language"},
	{strings.Repeat("(", 1e6), "more than 4096"},
	{strings.Repeat("!", 4000) + "true", "maximum allowed nodes"},
	{"cost > 1" + strings.Repeat("+1", 2000), "maximum allowed nodes"},
	{strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + " == nil", "maximum allowed nodes"},
	{"args" + strings.Repeat(".x", 1000), "maximum allowed nodes"},

	// Division.
	{"cost / 0 > 1", "there is no division"},
	{"cost / count('tool') > 1", "there is no division"},
	{"tokens % 2 == 0", "there is no division"},

	// Regular expressions.
	{"tool matches args.pattern", "the right side of matches is a literal"},
	{"tool matches '('", "missing closing )"},
	{`tool matches '(?=x)'`, "invalid or unsupported Perl syntax"},
	{`tool matches '(x)\\1'`, "invalid escape sequence"},
	{"tool matches '(?:x{1000}){1000}'", "invalid repeat count"},
	{"tool matches '(?:" + strings.Repeat("x", 300) + "){1000}'", "more than 500 instructions"},
	{"tool matches '" + strings.Repeat("x", 600) + "'", "more than 512"},
	{"tool matches 'x{300}' or tool matches 'y{300}'", "more than 500 instructions"},
	{"any(args.list, # matches 'x{600}')", "more than 500 instructions"},
}

func TestRefused(t *testing.T) {
	for _, test := range refused {
		g := guard.New([]guard.Rule{{ID: "canon-x", Condition: test.condition, Enforcement: guard.Error}})
		f := g.Faults()
		if len(f) != 1 || f[0].Rule.ID != "canon-x" || !strings.Contains(f[0].Error(), test.fault) || !strings.HasPrefix(f[0].Error(), "compile rule canon-x: ") {
			t.Errorf("%.60q: %v, want %s", test.condition, f, test.fault)
			continue
		}
		if len(f[0].Error()) > 300 {
			t.Errorf("%.60q: the fault has %d bytes", test.condition, len(f[0].Error()))
		}
		if v := g.Check(guard.Call{Tool: "x"}, known{}); v.Action != guard.Block || v.Reasons[0].Err == nil {
			t.Errorf("%.60q: %v, want it blocked", test.condition, v)
		}
	}
}

// TestClosed pins that a rule that cannot be evaluated acts as if it held.
func TestClosed(t *testing.T) {
	for _, test := range []struct {
		rule   guard.Rule
		action guard.Action
		end    bool
		notes  int
	}{
		{guard.Rule{ID: "c", Condition: "?", Enforcement: guard.Info}, guard.Allow, false, 1},
		{guard.Rule{ID: "c", Condition: "?", Enforcement: guard.Warn}, guard.Warning, false, 0},
		{guard.Rule{ID: "c", Condition: "?", Enforcement: guard.Error}, guard.Block, false, 0},
		{guard.Rule{ID: "c", Condition: "?", Enforcement: guard.Abort}, guard.Block, true, 0},
		{guard.Rule{ID: "c", Condition: "false", Enforcement: "eror"}, guard.Block, false, 0},
		{guard.Rule{ID: "c", Condition: "false", Enforcement: "ABORT"}, guard.Block, false, 0},
		{guard.Rule{ID: "c", Condition: "false"}, guard.Block, false, 0},
		{guard.Rule{Condition: "false", Enforcement: guard.Error}, guard.Block, false, 0},
	} {
		g := guard.New([]guard.Rule{test.rule})
		if len(g.Faults()) != 1 {
			t.Errorf("%+v: faults %v, want one", test.rule, g.Faults())
		}
		v := g.Check(guard.Call{}, nil)
		if v.Action != test.action || v.End != test.end || len(v.Notes) != test.notes {
			t.Errorf("%+v: %+v", test.rule, v)
		}
	}
}

// TestWorst evaluates what is slowest of the language on large arguments.
func TestWorst(t *testing.T) {
	text := strings.Repeat("a", 32<<10)
	args, err := json.Marshal(map[string]any{"text": text, "list": make([]int, 32<<10)})
	if err != nil {
		t.Fatal(err)
	}
	if len(args) > guard.MaxArguments {
		t.Fatalf("%d bytes of arguments", len(args))
	}
	for _, condition := range []string{
		`args.text matches "[ab]*a[ab]{480}c"`,
		`args.text matches "(?:a?){150}a{150}c"`,
		`args.text matches "(?:(?:a+)+)+b"`,
		`any(args.list, # == 1)` + strings.Repeat(` or any(args.list, # == 1)`, 25),
		`args.list != args.list` + strings.Repeat(` or args.list != args.list`, 20),
		`lower(args.text) == "" ` + strings.Repeat(` or args.text not contains args.text`, 20),
	} {
		g := guard.New([]guard.Rule{{ID: "c", Condition: condition, Enforcement: guard.Error}})
		if f := g.Faults(); f != nil {
			t.Error(f[0])
			continue
		}
		start := time.Now()
		v := g.Check(guard.Call{Arguments: args}, nil)
		if v.Action != guard.Allow {
			t.Errorf("%.60s: %v", condition, v)
		}
		// Ten times what it takes on a busy machine: a bound on the shape of the
		// cost, which without limits would be hours.
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%.60s took %v", condition, d)
		}
	}
}

func FuzzCondition(f *testing.F) {
	for _, e := range examples {
		f.Add(e.condition, string(e.yes.Arguments))
	}
	for _, r := range refused {
		if len(r.condition) < 500 {
			f.Add(r.condition, `{"list":[1,"x",null,{"a":[]}],"text":"x"}`)
		}
	}
	for _, a := range unreadable {
		f.Add("args.x == 1", a.args)
	}
	f.Fuzz(func(t *testing.T, condition, args string) {
		rules := []guard.Rule{
			{ID: "c", Condition: condition, Enforcement: guard.Error},
			{ID: "last", Condition: "true", Enforcement: guard.Warn},
		}
		g := guard.New(rules)
		c := guard.Call{
			Agent: "a", Tool: "shell", Arguments: json.RawMessage(args), Time: monday,
			Counters: map[string]float64{"n": 1},
		}
		v := g.Check(c, known{{Tool: "shell"}: {Calls: 3, Finished: 2, Failures: 1}})
		last := v.Reasons[len(v.Reasons)-1]
		if last.Rule.ID != "last" || last.Err != nil {
			t.Errorf("a rule spoils the next: %+v", v)
		}
		// Blocked if and only if the condition holds or cannot be evaluated.
		if (v.Action == guard.Block) != (len(v.Reasons) == 2) {
			t.Errorf("%+v", v)
		}
		if faults := g.Faults(); faults != nil {
			if v.Action != guard.Block || v.Reasons[0].Err == nil {
				t.Errorf("a fault does not block: %+v", v)
			}
			return
		}
		// The negation is its opposite, or fails with it.
		not := guard.New([]guard.Rule{{ID: "c", Condition: "not (" + condition + "\n)", Enforcement: guard.Error}})
		if not.Faults() != nil {
			return // over a limit, or of more than one line of comment
		}
		n := not.Check(c, known{{Tool: "shell"}: {Calls: 3, Finished: 2, Failures: 1}})
		failed := len(v.Reasons) == 2 && v.Reasons[0].Err != nil
		if failed != (len(n.Reasons) == 1 && n.Reasons[0].Err != nil) || !failed && (v.Action == guard.Block) == (n.Action == guard.Block) {
			t.Errorf("%q: %v, negated %v", condition, v, n)
		}
	})
}
