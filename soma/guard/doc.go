// Package guard judges tool calls by policies before they are made. It compiles
// rules, which are canon policies with a condition, and decides whether a call
// is allowed, warned about or blocked, and by which entries.
//
// It is not a sandbox: it sees what the model asks for, not what a tool does
// with it, and it guards only loops that ask it.
//
// The one decision: what cannot be judged counts as a violation. A rule that
// does not compile holds for every call, and one whose evaluation fails holds
// for that call, each with its own enforcement, so that a blocking policy never
// silently has no effect. [Guard.Faults] lists the former for those who write
// rules. A policy in doubt, because its document was changed without a review
// or is missing, is a rule too: soma's Constraints returns a substitute for it.
// If the constraints cannot be read, use [Closed].
//
// # Verdicts
//
// A condition describes the calls that a policy forbids. If it is true, the
// enforcement of the rule decides:
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
// integers up to 2^53. A missing member is nil: it equals nothing else, and
// contains, startsWith, endsWith and matches are false for it; other operators
// fail. Names are exact: a tool that takes Path for path has to be asked about
// both.
//
// # Functions
//
//	rate(of, over)     number  failures among the calls that finished, 0 to 1; 0 if there were none
//	count(of, over)    number  calls begun
//	streak(of)         number  failures since the last success
//	counter(name)      number  the loop's counter of this name; fails if there is none
//	len(x)             number  bytes of a text, elements of a list, members of an object
//	lower(x), trim(x)  text    in lower case; without white space at its ends
//	any(list, p)       bool    whether p holds for an element, written # in p
//	all(list, p)       bool    … of every element
//	none(list, p)      bool    … of no element
//
// The argument of selects calls: "agent" those of this agent, "tool" those of
// this tool, "node" those of this node, "call" those of this tool by this
// agent, "all" every call. over is how far back to look, such as "90s", "15m"
// or "24h", from "1s" to "24h"; the default is "1h". Both are literals, and so
// is the name of a counter.
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
// The operators from == to matches have the same precedence, and ?? needs
// parentheses when another operator follows.
//
// Literals are numbers, "texts" or 'texts', true, false, nil and [lists].
// Backslashes in them are escapes, so a regular expression needs them doubled;
// in `texts` they are not.
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
// There are no loops except any, all and none, which do not nest and whose
// second argument may use only #, literals, operators, len, lower and trim; no
// user-defined functions or variables; no division, so no division by zero:
// compare products instead; and nothing that builds a text, so no value is
// larger than the arguments. A condition has at most 4,096 bytes and 256 nodes
// of syntax, a regular expression 512 bytes, and all of a condition together
// 500 instructions of RE2's. Arguments cannot be read if they are not a JSON
// object, name a member twice, exceed [MaxArguments] bytes, or are nested more
// than 100 deep; this fails only the conditions that read them.
//
// So a condition costs at most its size times that of the arguments: a
// microsecond or less with usual ones, and about four seconds for the worst
// expression of RE2 on the largest arguments.
//
// # The library
//
// Conditions are parsed, type-checked and evaluated by
// github.com/expr-lang/expr, restricted to the above. CEL has a budget for
// evaluation, which a language without loops does not need, but it links seven
// more modules, adds almost six times as much to a program (9.3 MB, not 1.6),
// and is five times slower to compile and three to ten times slower to
// evaluate. Rego and Starlark are languages for programs, not for conditions.
package guard
