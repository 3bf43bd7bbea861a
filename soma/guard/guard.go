package guard

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/vm"
)

// Enforcement is what a rule does to a call that its condition holds for.
type Enforcement string

const (
	// Info adds a note to the verdict; the call is allowed.
	Info Enforcement = "info"
	// Warn allows the call and says why it should not be made.
	Warn Enforcement = "warn"
	// Error blocks the call; the run goes on.
	Error Enforcement = "error"
	// Abort blocks the call and ends the run.
	Abort Enforcement = "abort"
)

// rank orders enforcements, strongest first. A word that is none of them ranks
// as [Error]: a misspelt policy is no weaker than a blocking one.
func (e Enforcement) rank() int {
	switch e {
	case Abort:
		return 0
	case Warn:
		return 2
	case Info:
		return 3
	}
	return 1
}

func (e Enforcement) action() Action {
	switch e {
	case Info:
		return Allow
	case Warn:
		return Warning
	}
	return Block
}

// A Rule is a policy as a constraint: a condition that describes the calls the
// policy is against, and what is done about them.
type Rule struct {
	ID          string // of the canon entry; required
	Name        string // of the canon entry, for people
	Condition   string // in the language of the package comment
	Enforcement Enforcement
	Message     string // for the agent and for people; empty: the name is shown
}

// A Fault is a rule that cannot be evaluated as it is written. Its text quotes
// names of the condition.
type Fault struct {
	Rule Rule
	Err  error // the cause, with line and column
}

func (f Fault) Error() string { return fmt.Sprintf("compile rule %s: %v", f.Rule.ID, f.Err) }

func (f Fault) Unwrap() error { return f.Err }

// Guard holds compiled rules. It does not change after [New] and may be used by
// many goroutines at once.
type Guard struct {
	rules []compiled // strongest enforcement first, then as given
}

type compiled struct {
	Rule
	program *vm.Program
	err     error // why there is no program
}

// New compiles rules. It always returns a guard; rules that do not compile are
// in its Faults and count as violated by every call.
func New(rules []Rule) *Guard {
	g := &Guard{rules: make([]compiled, len(rules))}
	for i, r := range rules {
		program, err := compile(r.Condition)
		switch {
		case r.ID == "":
			err = errors.New("no id of a canon entry")
		case !slices.Contains([]Enforcement{Info, Warn, Error, Abort}, r.Enforcement):
			err = errors.New("enforcement is none of info, warn, error, abort")
		}
		g.rules[i] = compiled{r, program, err}
	}
	slices.SortStableFunc(g.rules, func(a, b compiled) int {
		return cmp.Compare(a.Enforcement.rank(), b.Enforcement.rank())
	})
	return g
}

// Closed returns a guard that blocks every call, and says why: for a loop whose
// policies cannot be read.
func Closed(reason string) *Guard {
	return New([]Rule{{ID: "closed", Condition: "true", Enforcement: Error, Message: "policies cannot be read: " + reason}})
}

// Faults returns the rules that did not compile, strongest enforcement first.
// Show them where policies are made: those of error or abort block every call.
func (g *Guard) Faults() []Fault {
	var all []Fault
	for _, r := range g.rules {
		if r.err != nil {
			all = append(all, Fault{r.Rule, r.err})
		}
	}
	return all
}

// Check judges a call that is about to be made. All rules are evaluated, so
// that the verdict names every one that holds. A rule that cannot be evaluated
// counts as one that holds: what cannot be judged is not allowed silently.
//
// rates answers for what the conditions ask of the past; nil means that there
// is no such knowledge, and rules that ask for it cannot be evaluated. Check
// does not panic, keeps nothing of the call, and takes time in proportion to
// the rules and to the arguments; see the package comment.
func (g *Guard) Check(call Call, rates Rates) Verdict {
	s := &scope{call: &call, rates: rates}
	env := s.env()
	var machine vm.VM
	var v Verdict
	for i := range g.rules {
		r := &g.rules[i]
		held, err := r.err != nil, r.err
		s.read = s.read[:0]
		if !held {
			held, err = run(&machine, r.program, env)
		}
		if !held && err == nil {
			continue
		}
		reason := Reason{Rule: r.Rule, Why: s.why(r.Condition), Err: err}
		if err != nil {
			reason.Why = "it cannot be evaluated: " + err.Error()
		}
		v.add(reason)
	}
	return v
}

// Action is what to do with a call.
type Action int

// In ascending order of strength.
const (
	Allow   Action = iota
	Warning        // make the call, and show the reasons
	Block          // do not make it
)

// String returns allow, warn or block.
func (a Action) String() string { return [...]string{"allow", "warn", "block"}[a] }

// Verdict is what the rules say of a call. The zero Verdict allows it.
type Verdict struct {
	Action  Action
	End     bool     // the run should end: a rule of enforcement abort holds
	Reasons []Reason // the rules that block or warn, strongest first, then as given to New
	Notes   []Reason // the rules that inform
}

// Reason is a rule that holds for a call.
type Reason struct {
	Rule Rule
	Why  string // the condition, with the numbers it read, or why it cannot be evaluated
	Err  error  // of the evaluation; nil when the condition holds
}

func (v *Verdict) add(r Reason) {
	action := r.Rule.Enforcement.action()
	if action == Allow {
		v.Notes = append(v.Notes, r)
		return
	}
	v.Action = max(v.Action, action)
	v.End = v.End || r.Rule.Enforcement == Abort
	v.Reasons = append(v.Reasons, r)
}

// String returns the verdict in the words of the rules, as in
//
//	block: Nothing is written below /etc. (canon-no-etc)
//
// one line for each reason. It holds nothing of the call and may be handed to
// the model as the result of the call.
func (v Verdict) String() string {
	if len(v.Reasons) == 0 {
		return v.Action.String()
	}
	var b strings.Builder
	for i, r := range v.Reasons {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%v: %s (%s)", r.Rule.Enforcement.action(), cmp.Or(r.Rule.Message, r.Rule.Name, r.Rule.Condition), r.Rule.ID)
		if r.Err != nil {
			b.WriteString(", for the rule cannot be evaluated")
		}
	}
	return b.String()
}
