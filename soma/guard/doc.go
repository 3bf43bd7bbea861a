// Package guard judges tool calls by policies before they are made: it
// compiles rules, which are canon policies with a condition, and says of a call
// whether it is allowed, warned of or blocked, and by which entries.
//
// It is no sandbox. It sees what the model asks for, not what a tool does with
// it, and a loop that does not ask it is not guarded.
//
// The one decision: what cannot be judged counts as a violation. A rule that
// does not compile holds for every call, one whose evaluation fails holds for
// that call, each with its own enforcement, so that a blocking policy is never
// silently without effect. [Guard.Faults] lists the former where rules are made.
// A policy in doubt, because its document was changed past a review or is gone, comes
// as a rule too: soma's Constraints has what stands in for it. Where those cannot
// be read, [Closed] is the guard.
//
// # Verdicts
//
// A condition describes the calls that a policy is against. Where it is true,
// the enforcement of the rule decides:
//
//	info    allow, with a note
//	warn    allow, with a warning
//	error   block
//	abort   block, and the run should end
//
// The strongest wins, and all rules that hold are named.
//
// # Variables
//
//	agent, team, tool              text    of the call
//	node.id, node.type, node.name  text    of the node that makes it, "" outside a graph
//	args                           object  the arguments: args.path, args["dry-run"], args.files[0]
//	attempt                        number  1 for the first attempt at this call, 2 for a retry, …
//	cost                           number  spent by the run so far, in the currency of the loop
//	tokens                         number  used by the run so far
//	hour                           number  0 to 23, UTC
//	weekday                        text    "monday" to "sunday", UTC
//
// Values in args have the types of JSON. Numbers are 64-bit floats, exact for
// integers up to 2^53. A member that is missing is nil: equal to nothing else,
// and contains, startsWith, endsWith and matches are false of it; other
// operators fail. Names are exact: a tool that takes Path for path has to be
// asked about both.
//
// # Functions
//
//	rate(of, over)     number  failures among the calls that finished, 0 to 1; 0 if there were none
//	count(of, over)    number  calls begun
//	streak(of)         number  failures since the last success
//	counter(name)      number  that the loop gives under this name; fails where it does not
//	len(x)             number  bytes of a text, elements of a list, members of an object
//	lower(x), trim(x)  text    in lower case; without white space at its ends
//	any(list, p)       bool    whether p is true of an element, written # in p
//	all(list, p)       bool    … of every element
//	none(list, p)      bool    … of no element
//
// of says whose calls: "agent" for those of this agent, "tool" for those of
// this tool, "node" for those of this node, "call" for those that this agent
// makes of this tool, "all". over is how far back, such as "90s", "15m" or
// "24h", from "1s" to "24h"; it may be left out and is then "1h". Both are
// literals, and so is the name of a counter.
//
// # Operators
//
// From the loosest to the tightest:
//
//	or ||                         of bools, and so is and: the right side is evaluated only if need be
//	and &&
//	== != < <= > >=
//	in                            x in list, "name" in object; not in
//	contains startsWith endsWith  of texts, case counts; not contains, …
//	matches                       of a text and a literal RE2 expression, found anywhere in it
//	+ -                           of numbers
//	not !                         of bools: not (a == b), for without brackets it is (not a) == b
//	*                             of numbers
//	??                            the right side where the left is nil: (args.mode ?? "r") == "w"
//
// == to matches bind alike, and ?? is put in brackets when another operator
// follows.
//
// Literals are numbers, "texts" or 'texts', true, false, nil and [lists].
// Backslashes in texts are escapes, so that a regular expression has them
// twice; in `texts` they are not.
//
// # Examples
//
//	tool == "shell" and args.command matches `\brm\s+-\w*r`
//	tool == "write_file" and not (args.path startsWith "/srv/data/")
//	tool == "write_file" and args.path contains ".."
//	tool in ["deploy", "migrate"] and weekday in ["friday", "saturday", "sunday"]
//	tool startsWith "delete_" and agent != "janitor"
//	args.dry_run != true and tool == "deploy" and (hour < 8 or hour >= 18)
//	any(args.recipients ?? [], not (# endsWith "@example.com"))
//	rate("tool", "10m") > 0.5 and count("tool", "10m") >= 5
//	count("call", "1m") >= 20
//	streak("node") >= 3 or attempt > 3
//	cost > 5 or tokens > 2000000
//	counter("files_deleted") + len(args.files ?? []) > 100
//	node.type == "subagent" and tool == "pay" and args.amount > 250
//
// # Limits
//
// There are no loops but any, all and none, which do not nest and whose second
// argument sees only #, literals, operators, len, lower and trim; no functions
// or variables of one's own; no division, so no division by zero: compare
// products; and nothing that builds a text, so that no value is larger than the
// arguments. A condition has at most 4,096 bytes and 256 nodes of syntax, a
// regular expression 512 bytes, and all of a condition together 500
// instructions of RE2's. Arguments that are no JSON object, that name a member
// twice, have more than [MaxArguments] bytes or are more than 100 deep cannot be
// read; only a condition that comes to need them fails by that.
//
// So a condition costs at most its size times that of the arguments: a
// microsecond or less with usual ones, and about four seconds for the worst
// expression of RE2 on the largest arguments.
//
// # The library
//
// Conditions are parsed, type-checked and evaluated by github.com/expr-lang/expr,
// restricted to the above. CEL has a budget for evaluation, which no loops make
// unnecessary, but links seven modules besides its own, adds almost six times as
// much to a program (9.3 MB, not 1.6), and is five times slower to compile and
// three to ten times slower to evaluate. Rego and Starlark are languages for
// programs, not for conditions.
package guard
