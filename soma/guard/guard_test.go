package guard_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stratamem/strata/soma/guard"
)

// known answers with the same numbers for each subject, whatever the time.
type known map[guard.Subject]guard.Tally

func (k known) Tally(of guard.Subject, _ time.Duration) guard.Tally { return k[of] }

var (
	saturday = time.Date(2026, 11, 21, 20, 30, 0, 0, time.UTC)
	monday   = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
)

func call(tool, args string) guard.Call {
	return guard.Call{Agent: "coder", Team: "core", Tool: tool, Arguments: json.RawMessage(args), Time: monday}
}

func with(c guard.Call, change func(*guard.Call)) guard.Call {
	change(&c)
	return c
}

// examples are the conditions of the package comment, each with a call that it
// holds for and one that it does not.
var examples = []struct {
	condition string
	yes, no   guard.Call
	rates     known // for yes; for no there is nothing known
}{
	{
		condition: "tool == \"shell\" and args.command matches `\\brm\\s+-\\w*r`",
		yes:       call("shell", `{"command":"cd x; rm -fr ."}`), no: call("shell", `{"command":"ls -r"}`),
	},
	{
		condition: `tool == "write_file" and not (args.path startsWith "/srv/data/")`,
		yes:       call("write_file", `{"Path":"/srv/data/x"}`), no: call("write_file", `{"path":"/srv/data/x"}`),
	},
	{
		condition: `tool == "write_file" and args.path contains ".."`,
		yes:       call("write_file", `{"path":"/srv/data/../x"}`), no: call("write_file", `{}`),
	},
	{
		condition: `tool in ["deploy", "migrate"] and weekday in ["friday", "saturday", "sunday"]`,
		yes:       with(call("migrate", ``), func(c *guard.Call) { c.Time = saturday }), no: call("migrate", ``),
	},
	{
		condition: `tool startsWith "delete_" and agent != "janitor"`,
		yes:       call("delete_user", ``), no: with(call("delete_user", ``), func(c *guard.Call) { c.Agent = "janitor" }),
	},
	{
		condition: `args.dry_run != true and tool == "deploy" and (hour < 8 or hour >= 18)`,
		// The hour is that of UTC, wherever the loop runs.
		yes: with(call("deploy", `{}`), func(c *guard.Call) { c.Time = monday.Add(-2 * time.Hour).In(time.FixedZone("", 9*3600)) }),
		no:  with(call("deploy", `{"dry_run":true}`), func(c *guard.Call) { c.Time = saturday }),
	},
	{
		condition: `any(args.recipients ?? [], not (# endsWith "@example.com"))`,
		yes:       call("mail", `{"recipients":["a@example.com","b@example.org"]}`), no: call("mail", `{}`),
	},
	{
		condition: `rate("tool", "10m") > 0.5 and count("tool", "10m") >= 5`,
		yes:       call("search", ``), no: call("search", ``),
		rates: known{{Tool: "search"}: {Calls: 6, Finished: 5, Failures: 3}},
	},
	{
		condition: `count("call", "1m") >= 20`,
		yes:       call("search", ``), no: call("search", ``),
		rates: known{{Agent: "coder", Tool: "search"}: {Calls: 20}},
	},
	{
		condition: `streak("node") >= 3 or attempt > 3`,
		yes:       with(call("search", ``), func(c *guard.Call) { c.Node.ID = "n1" }), no: call("search", ``),
		rates: known{{Node: "n1"}: {Streak: 3}},
	},
	{
		condition: `cost > 5 or tokens > 2000000`,
		yes:       with(call("search", ``), func(c *guard.Call) { c.Cost = 5.01 }), no: call("search", ``),
	},
	{
		condition: `counter("files_deleted") + len(args.files ?? []) > 100`,
		yes: with(call("delete", `{"files":["a","b"]}`), func(c *guard.Call) {
			c.Counters = map[string]float64{"files_deleted": 99}
		}),
		no: with(call("delete", ``), func(c *guard.Call) { c.Counters = map[string]float64{"files_deleted": 100} }),
	},
	{
		condition: `node.type == "subagent" and tool == "pay" and args.amount > 250`,
		yes:       with(call("pay", `{"amount":250.5}`), func(c *guard.Call) { c.Node.Type = "subagent" }),
		no:        call("pay", `{"amount":250.5}`),
	},
}

func TestExamples(t *testing.T) {
	for _, e := range examples {
		g := guard.New([]guard.Rule{{ID: "c", Condition: e.condition, Enforcement: guard.Error}})
		for _, f := range g.Faults() {
			t.Error(f)
		}
		yes, no := g.Check(e.yes, e.rates), g.Check(e.no, known{})
		if yes.Action != guard.Block || yes.Reasons[0].Err != nil {
			t.Errorf("%s: %+v, want it to hold", e.condition, yes)
		}
		if no.Action != guard.Allow {
			t.Errorf("%s: %+v, want it not to hold", e.condition, no)
		}
	}
}

// TestExamplesAreDocumented holds the package comment and the table above to
// each other.
func TestExamplesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "// # Examples\n")
	section, _, _ = strings.Cut(section, "// # Limits\n")
	var documented, tested []string
	for line := range strings.Lines(section) {
		if line, ok := strings.CutPrefix(line, "//\t"); ok {
			documented = append(documented, strings.TrimSpace(line))
		}
	}
	for _, e := range examples {
		tested = append(tested, e.condition)
	}
	if diff := cmp.Diff(tested, documented); diff != "" {
		t.Errorf("examples of the package comment (-tested +documented):\n%s", diff)
	}
}

// TestLanguage evaluates conditions on one call. A want of "fails" is an
// evaluation that cannot be done.
func TestLanguage(t *testing.T) {
	c := guard.Call{
		Agent: "coder", Team: "core", Tool: "shell", Node: guard.Node{ID: "n1", Type: "tool", Name: "run"},
		Arguments: json.RawMessage(`{"path":"/etc/x","n":3,"yes":true,"null":null,"list":["/a",2,null],"files":[{"name":"x"}],
			"big":9223372036854775807,"nested":{"a":{"b":"c"}},"odd name":" A "}`),
		Time: monday, Attempt: 2, Cost: 1.5, Tokens: 1000,
		Counters: map[string]float64{"deleted": 4},
	}
	rates := known{
		{Agent: "coder"}:                {Calls: 10, Finished: 8, Failures: 2, Streak: 1},
		{Tool: "shell"}:                 {Calls: 20, Finished: 20, Failures: 5, Streak: 2},
		{Node: "n1"}:                    {Calls: 30, Finished: 30, Failures: 30, Streak: 30},
		{Agent: "coder", Tool: "shell"}: {Calls: 5, Finished: 4, Failures: 1},
		{}:                              {Calls: 100, Finished: 100, Failures: 10},
	}
	for _, test := range []struct{ condition, want string }{
		{`true`, "holds"},
		{`false`, "no"},
		{`agent == "coder" && team == 'core' && tool == "shell"`, "holds"},
		{`node.id == "n1" and node.type == "tool" and node.name == "run"`, "holds"},
		{`attempt == 2 and cost == 1.5 and tokens == 1000 and hour == 9 and weekday == "monday"`, "holds"},
		{`true or false and false`, "holds"},
		{`1 + 2 * 2 == 5 and 5 - 1 - 1 == 3 and - 1 * 2 == -2`, "holds"},
		{`1 < cost < 2 and not (cost > 2) and !(cost < 1)`, "holds"},
		{`cost * 2 - 1 + attempt == 4 and -cost < 0`, "holds"},
		{`tool not in ["a", "b"] and tool in ["shell"]`, "holds"},
		{`tool contains "hel" and tool startsWith "sh" and tool endsWith "ll"`, "holds"},
		{`tool matches "^s.*l$" and tool not matches "x"`, "holds"},
		{`lower("ÄB") == "äb" and trim(args["odd name"]) == "A"`, "holds"},
		{`len(tool) == 5 and len(args.list) == 3 and len(args.nested) == 1`, "holds"},

		{`args.yes`, "holds"},
		{`args.n`, "fails"},
		{`args.missing`, "fails"},
		{`nil`, "fails"},
		{`any(rate("tool"), true)`, "fails"},
		{`not args.missing`, "fails"},
		{`args.missing == nil and args.null == nil and "null" in args and "missing" not in args`, "holds"},
		{`args.missing == "" or args.missing == false or args.missing == 0`, "no"},
		{`args.missing startsWith "" or args.missing contains "" or args.missing endsWith "" or args.missing matches ""`, "no"},
		{`args.missing > 1`, "fails"},
		{`(args.missing ?? 2) > 1`, "holds"},
		{`args.missing.deeper == 1`, "fails"},
		{`args.missing?.deeper == nil`, "holds"},
		{`args.nested.a.b == "c"`, "holds"},
		{`args.n == 3 and args.n == 3.0 and args.n in [1, 2, 3]`, "holds"},
		{`args.n in ["3"]`, "no"},
		{`args.list in ["/a"]`, "no"},
		{`args.n == "3"`, "no"},
		{`args.n startsWith "3"`, "fails"},
		{`args.n matches "3"`, "fails"},
		{`args.path > 3`, "fails"},
		{`args.path + args.path == 0`, "fails"}, // texts are not joined
		{`args.path * 3 == 0`, "fails"},
		{`args.big * 2 > 0`, "holds"}, // as an integer it would be negative
		{`args.list[0] == "/a" and args.files[0].name == "x"`, "holds"},
		{`args.list[3] == nil`, "fails"},
		{`any(args.list, # == 2) and none(args.list, # == 3)`, "holds"},
		{`all(args.list, # == 2)`, "no"},
		{`any(args.files, .name == "x" and len(.name) == 1 and lower(#.name) matches "x")`, "holds"},
		{`any(args.list, # startsWith "x")`, "fails"},
		{`any(args.missing, true)`, "fails"},
		{`any(args.path, true)`, "fails"},
		{`len(args.missing) == 0`, "fails"},
		{`"/etc" in args.path`, "fails"},
		{`any(["a", "b"], # == "b")`, "holds"},

		{`rate("agent") == 0.25 and rate("tool", "1m") == 0.25 and rate("node") == 1 and rate("call") == 0.25 and rate("all") == 0.1`, "holds"},
		{`count("agent") == 10 and count("tool", "24h") == 20 and count("call", "1s") == 5 and count("all") == 100`, "holds"},
		{`streak("agent") == 1 and streak("tool") == 2 and streak("node") == 30`, "holds"},
		{`counter("deleted") == 4`, "holds"},
		{`counter("missing") == 0`, "fails"},

		// What is not needed is not evaluated.
		{`tool == "other" and args.n`, "no"},
		{`tool == "shell" or args.n`, "holds"},
	} {
		g := guard.New([]guard.Rule{{ID: "c", Condition: test.condition, Enforcement: guard.Error}})
		if f := g.Faults(); f != nil {
			t.Error(f[0])
			continue
		}
		v := g.Check(c, rates)
		got := "no"
		if len(v.Reasons) == 1 {
			got = "holds"
			if v.Reasons[0].Err != nil {
				got = "fails"
			}
		}
		if got != test.want || (got == "no") != (v.Action == guard.Allow) {
			t.Errorf("%s: %s, want %s; %+v", test.condition, got, test.want, v)
		}
	}
}

func TestNothingKnown(t *testing.T) {
	all := guard.New([]guard.Rule{{ID: "c", Condition: `rate("node") > 0 or count("agent") > 0 or streak("call") > 0`, Enforcement: guard.Error}})
	everything := known{{}: {Calls: 9, Finished: 9, Failures: 9, Streak: 9}}
	if v := all.Check(guard.Call{}, everything); v.Action != guard.Allow {
		t.Errorf("a call of no node has the numbers of all: %v", v)
	}
	if v := all.Check(guard.Call{}, nil); v.Action != guard.Block || v.Reasons[0].Err == nil {
		t.Errorf("without rates: %v, want it not to be evaluated", v)
	}
}

func TestVerdict(t *testing.T) {
	rule := func(id string, e guard.Enforcement, condition string) guard.Rule {
		return guard.Rule{ID: id, Name: "name of " + id, Condition: condition, Enforcement: e}
	}
	rules := []guard.Rule{
		rule("i", guard.Info, `tool == "info" or tool == "any"`),
		rule("w1", guard.Warn, `tool == "warn" or tool == "any"`),
		rule("w2", guard.Warn, `tool == "warn" or tool == "any"`),
		rule("e", guard.Error, `tool == "error" or tool == "any"`),
		rule("a", guard.Abort, `tool == "abort" or tool == "any"`),
		rule("args", guard.Error, `tool == "args" and args.x`),
	}
	rules[2].Message = "Careful."
	g := guard.New(rules)
	ids := func(reasons []guard.Reason) (all string) {
		for _, r := range reasons {
			all += r.Rule.ID + " "
		}
		return strings.TrimSpace(all)
	}
	for _, test := range []struct {
		tool, action   string
		end            bool
		reasons, notes string
		text           string
	}{
		{tool: "none", action: "allow", text: "allow"},
		{tool: "info", action: "allow", notes: "i", text: "allow"},
		{tool: "warn", action: "warn", reasons: "w1 w2", text: "warn: name of w1 (w1)\nwarn: Careful. (w2)"},
		{tool: "error", action: "block", reasons: "e", text: "block: name of e (e)"},
		{tool: "abort", action: "block", end: true, reasons: "a", text: "block: name of a (a)"},
		{tool: "args", action: "block", reasons: "args", text: "block: name of args (args), for the rule cannot be evaluated"},
		{
			tool: "any", action: "block", end: true, reasons: "a e w1 w2", notes: "i",
			text: "block: name of a (a)\nblock: name of e (e)\nwarn: name of w1 (w1)\nwarn: Careful. (w2)",
		},
	} {
		v := g.Check(guard.Call{Tool: test.tool}, nil)
		if v.Action.String() != test.action || v.End != test.end || ids(v.Reasons) != test.reasons || ids(v.Notes) != test.notes || v.String() != test.text {
			t.Errorf("%s: %+v\n%s", test.tool, v, v)
		}
	}
	if v := guard.New(nil).Check(guard.Call{}, nil); v.Action != guard.Allow || v.Reasons != nil {
		t.Errorf("no rules: %+v", v)
	}
}

func TestWhy(t *testing.T) {
	g := guard.New([]guard.Rule{
		{ID: "a", Condition: `rate("tool", "10m") > 0.2 and rate("tool", "10m") < 1 and attempt == 1`, Enforcement: guard.Error},
		{ID: "b", Condition: `tool == "x"`, Enforcement: guard.Info},
		{ID: "c", Condition: `cost > "x"`, Enforcement: guard.Warn},
		{ID: "d", Condition: `counter("y") > 1`, Enforcement: guard.Warn},
	})
	v := g.Check(guard.Call{Tool: "x"}, known{{Tool: "x"}: {Finished: 3, Failures: 1}})
	var got []string
	for _, r := range slices.Concat(v.Reasons, v.Notes) {
		got = append(got, r.Why)
	}
	want := []string{
		`rate("tool", "10m") > 0.2 and rate("tool", "10m") < 1 and attempt == 1, where rate("tool", "10m") = 0.333333, attempt = 1`,
		`it cannot be evaluated: 1:6: invalid operation: > (mismatched types float64 and string)`,
		`it cannot be evaluated: 1:1: counter("y"): no such counter is given with the call`,
		`tool == "x"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("why (-want +got):\n%s", diff)
	}
}

// panicking is a source that breaks; the call must be refused, not the process.
type panicking struct{}

func (panicking) Tally(guard.Subject, time.Duration) guard.Tally { panic("broken") }

func TestBrokenSource(t *testing.T) {
	g := guard.New([]guard.Rule{
		{ID: "a", Condition: `rate("tool") > 1`, Enforcement: guard.Abort},
		{ID: "b", Condition: `tool == "x"`, Enforcement: guard.Error},
	})
	v := g.Check(guard.Call{Tool: "x"}, panicking{})
	if !v.End || len(v.Reasons) != 2 || v.Reasons[0].Err == nil || v.Reasons[1].Err != nil {
		t.Errorf("%+v", v)
	}
}

func TestNumbersOfTheCall(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []guard.Call{{Cost: inf - inf}, {Cost: inf}, {Cost: -inf}} {
		c.Counters = map[string]float64{"n": c.Cost}
		for _, condition := range []string{`cost > 5`, `counter("n") > 5`} {
			v := guard.New([]guard.Rule{{ID: "c", Condition: condition, Enforcement: guard.Error}}).Check(c, nil)
			if v.Action != guard.Block || v.Reasons[0].Err == nil {
				t.Errorf("%s with %v: %v, want it not to be evaluated", condition, c.Cost, v)
			}
		}
	}
}

func TestConcurrency(t *testing.T) {
	g, calls, rates := hundred()
	want := g.Check(calls[0], rates).String()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if got := g.Check(calls[0], rates).String(); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
		})
	}
	all.Wait()
}

// hundred is a guard of a hundred rules, the examples over and over, with calls
// that some of them hold for.
func hundred() (*guard.Guard, []guard.Call, known) {
	var rules []guard.Rule
	for i := range 100 {
		rules = append(rules, guard.Rule{ID: "c", Condition: examples[i%len(examples)].condition, Enforcement: guard.Error})
	}
	c := with(call("shell", `{"command":"ls -la /srv/data","path":"/srv/data/x","recipients":["a@example.com"]}`), func(c *guard.Call) {
		c.Counters = map[string]float64{"files_deleted": 3}
	})
	blocked := c
	blocked.Arguments = json.RawMessage(`{"command":"rm -rf /","path":"/srv/data/x"}`)
	return guard.New(rules), []guard.Call{blocked, c}, known{{Tool: "shell"}: {Calls: 9, Finished: 9, Failures: 2}}
}

func BenchmarkCheck(b *testing.B) {
	g, calls, rates := hundred()
	if f := g.Faults(); f != nil {
		b.Fatal(f)
	}
	for i, name := range []string{"blocked", "allowed"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g.Check(calls[i], rates)
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	rules := []guard.Rule{{ID: "c", Condition: examples[3].condition, Enforcement: guard.Error}}
	b.ReportAllocs()
	for b.Loop() {
		guard.New(rules)
	}
}

func TestFaultUnwraps(t *testing.T) {
	f := guard.New([]guard.Rule{{ID: "c", Condition: "tol"}}).Faults()
	var fault guard.Fault
	if len(f) != 1 || !errors.As(error(f[0]), &fault) || errors.Unwrap(fault) == nil {
		t.Errorf("%v", f)
	}
}
