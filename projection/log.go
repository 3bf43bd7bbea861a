package projection

import (
	"maps"
	"slices"
	"sort"
)

// log is the append-only sequence of items that a lineage has seen, with their
// sizes. An index is the number of an item in the whole conversation, so it
// stays valid when the log drops its oldest items. Views share the items and
// stay valid while the log grows.
type log struct {
	tok   Tokenizer
	first int // index of items[0]: how many items came before
	items []Item
	sums  []int // sums[k] is the size of items[:k], and of all that was dropped
	mate  []int // index of the item's other half, -1 if it has none (tool calls and results)
	open  map[string]int
	users []int // indexes of user messages; at most the newest of those before first

	older     Item // the user message before first, if users has one
	olderSize int
}

func newLog(t Tokenizer, first int) log {
	return log{tok: t, first: first, sums: []int{0}, open: make(map[string]int)}
}

// end returns the index after the last item.
func (l *log) end() int { return l.first + len(l.items) }

// at returns the item at an index.
func (l *log) at(i int) *Item {
	if i < l.first {
		return &l.older
	}
	return &l.items[i-l.first]
}

// slice returns items from index i up to j, shared.
func (l *log) slice(i, j int) []Item {
	if i < l.first {
		return []Item{l.older}
	}
	i, j = i-l.first, j-l.first
	return l.items[i:j:j]
}

// size returns the tokens of the items from i up to j.
func (l *log) size(i, j int) int {
	if i < l.first {
		return l.olderSize
	}
	return l.sums[j-l.first] - l.sums[i-l.first]
}

// append adds an item with its size.
func (l *log) append(it Item, size int) {
	at := l.end()
	l.items = append(l.items, it)
	l.sums = append(l.sums, l.sums[len(l.sums)-1]+min(max(size, 0), maxTokens))
	l.mate = append(l.mate, -1)
	switch {
	case it.Kind == ToolCall:
		l.open[it.CallID] = at
	case it.Kind == ToolResult:
		call, ok := l.open[it.CallID]
		if !ok {
			break
		}
		l.mate[at-l.first], l.mate[call-l.first] = call, at
		delete(l.open, it.CallID)
	case it.FromUser():
		l.users = append(l.users, at)
	}
}

// clone returns a log with the same items that grows independently.
func (l *log) clone() log {
	c := *l
	c.items, c.sums, c.users = slices.Clip(l.items), slices.Clip(l.sums), slices.Clip(l.users)
	c.mate, c.open = slices.Clone(l.mate), maps.Clone(l.open)
	return c
}

// drop forgets the items before an index, except the newest user message if
// keepUser is set. It no longer shares memory with views.
func (l *log) drop(to int, keepUser bool) {
	n := to - l.first
	if u := l.newestUser(); !keepUser || u >= to {
		l.older, l.olderSize = Item{}, 0
		l.users = slices.Clone(l.users[sort.SearchInts(l.users, to):])
	} else if u >= 0 {
		l.older, l.olderSize = *l.at(u), l.size(u, u+1)
		l.users = []int{u}
	}
	l.first, l.items, l.sums, l.mate = to, slices.Clone(l.items[n:]), slices.Clone(l.sums[n:]), slices.Clone(l.mate[n:])
	maps.DeleteFunc(l.open, func(_ string, call int) bool { return call < to })
}

// keep retains the user message at an index before the first item.
func (l *log) keep(at int, it Item) {
	l.older, l.olderSize = it, Size(l.tok, &it)
	l.users = slices.Insert(l.users, 0, at)
}

// newestUser returns the index of the newest user message, or -1.
func (l *log) newestUser() int {
	if len(l.users) == 0 {
		return -1
	}
	return l.users[len(l.users)-1]
}

// userAtMost returns the index of the newest user message at or before i, or -1.
func (l *log) userAtMost(i int) int {
	n := sort.SearchInts(l.users, i+1)
	if n == 0 {
		return -1
	}
	return l.users[n-1]
}

// exchange returns the index where the newest tool exchange begins: the model's
// last calls, if results of them are among what came since. Without such an
// exchange it returns the end.
func (l *log) exchange() int {
	calls, came := l.lastCalls()
	for i := came; i < l.end(); i++ {
		if l.at(i).Kind == ToolResult && l.mate[i-l.first] >= calls {
			return calls
		}
	}
	return l.end()
}

// lastCalls returns the index where the model's last calls begin, with the
// reasoning among them, and the index of what came since.
func (l *log) lastCalls() (calls, came int) {
	came = l.end()
	for came > l.first && l.at(came-1).outside() {
		came--
	}
	return l.callsBefore(came), came
}

// callsBefore returns the index where the calls and reasoning directly before
// index i begin.
func (l *log) callsBefore(i int) int {
	for i > l.first && (l.at(i-1).Kind == ToolCall || l.at(i-1).Kind == Reasoning) {
		i--
	}
	return i
}

// exchangeAt returns the index where the tool exchange of item i begins:
// results, with the calls and reasoning before them. It returns i if the item
// is not part of an exchange.
func (l *log) exchangeAt(i int) int {
	call := i
	for call > l.first && l.at(call).Kind == ToolResult {
		call--
	}
	if l.at(call).Kind != ToolCall {
		return i
	}
	return l.callsBefore(call)
}

// unpaired returns the tool items from index from on whose other half is
// missing or before from.
func (l *log) unpaired(from int) []int {
	var halves []int
	for i := from; i < l.end(); i++ {
		if l.halved(i, from) {
			halves = append(halves, i)
		}
	}
	return halves
}

// halved reports whether item i is a tool item without its other half, given
// that the log before from is not shown.
func (l *log) halved(i, from int) bool {
	k := l.at(i).Kind
	return (k == ToolCall || k == ToolResult) && l.mate[i-l.first] < from
}
