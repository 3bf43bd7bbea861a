package projection

import (
	"maps"
	"slices"
	"sort"
)

// Log is the append-only sequence of items that a lineage has seen, with the
// size of each. Appending is not safe for concurrent use; views taken from a
// log share its items and stay valid while it grows.
type Log struct {
	tok   Tokenizer
	items []Item
	sums  []int // sums[i] is the size of items[:i]
	mate  []int // index of the item's other half, -1 if it has none (tool calls and results)
	open  map[string]int
	users []int // indexes of user messages

	earlier int // items before the first
}

// NewLog returns an empty log whose items are measured by t.
func NewLog(t Tokenizer) *Log {
	return &Log{tok: t, sums: []int{0}, open: make(map[string]int)}
}

// NewLogAfter returns an empty log that goes on after n items which are not in
// it, and which no view can show. All of them are older than the second item
// of the log; the first may be the newest user message, from among them.
func NewLogAfter(t Tokenizer, n int) *Log {
	l := NewLog(t)
	l.earlier = n
	return l
}

// Earlier returns how many items the log went on after that are not in it.
func (l *Log) Earlier() int { return l.earlier }

// Len returns the number of items.
func (l *Log) Len() int { return len(l.items) }

// Tokenizer returns what measures the log.
func (l *Log) Tokenizer() Tokenizer { return l.tok }

// Slice returns items from index i up to j. The items are shared: do not
// change them.
func (l *Log) Slice(i, j int) []Item { return l.items[i:j:j] }

// Size returns the tokens of items i up to j.
func (l *Log) Size(i, j int) int { return l.sums[j] - l.sums[i] }

// Append adds items, counting each once.
func (l *Log) Append(items ...Item) {
	for i := range items {
		l.AppendSized(items[i], Size(l.tok, &items[i]))
	}
}

// AppendSized adds an item whose size is known from an earlier count by a
// tokenizer of the same name.
func (l *Log) AppendSized(it Item, size int) {
	at := len(l.items)
	l.items = append(l.items, it)
	l.sums = append(l.sums, l.sums[at]+min(max(size, 0), maxTokens))
	l.mate = append(l.mate, -1)
	switch {
	case it.Kind == ToolCall:
		l.open[it.CallID] = at
	case it.Kind == ToolResult:
		call, ok := l.open[it.CallID]
		if !ok {
			break
		}
		l.mate[at], l.mate[call] = call, at
		delete(l.open, it.CallID)
	case it.Kind == Message && it.Role == User:
		l.users = append(l.users, at)
	}
}

// Clone returns a log with the same items that grows on its own.
func (l *Log) Clone() *Log {
	return &Log{
		tok: l.tok, items: slices.Clip(l.items), sums: slices.Clip(l.sums),
		mate: slices.Clone(l.mate), users: slices.Clip(l.users),
		open: maps.Clone(l.open), earlier: l.earlier,
	}
}

// newestUser returns the index of the newest user message, or -1.
func (l *Log) newestUser() int {
	if len(l.users) == 0 {
		return -1
	}
	return l.users[len(l.users)-1]
}

// Needs returns what of the log the projections after one that left e can still
// look at, e nil if there was none: the items from an index on, and the newest
// user message, -1 if there is none. Without an epoch that is all, as far as
// the policy's budget goes.
func (l *Log) Needs(e *Epoch) (from, user int) {
	from = len(l.items)
	if e != nil {
		from = min(from, e.From)
	}
	if calls, came := l.lastCalls(); calls < came { // more items may go on with them
		from = min(from, calls)
	}
	return from, l.newestUser()
}

// userAtMost returns the index of the newest user message at or before i, or -1.
func (l *Log) userAtMost(i int) int {
	n := sort.SearchInts(l.users, i+1)
	if n == 0 {
		return -1
	}
	return l.users[n-1]
}

// exchange returns the index at which the newest tool exchange begins: the calls
// that the model made last, if results of them are among what came since. It is
// Len if there is none.
func (l *Log) exchange() int {
	calls, came := l.lastCalls()
	for i := came; i < len(l.items); i++ {
		if l.items[i].Kind == ToolResult && l.mate[i] >= calls {
			return calls
		}
	}
	return len(l.items)
}

// lastCalls returns the index at which the calls begin that the model made last,
// with the reasoning among them, and the index of what came since.
func (l *Log) lastCalls() (calls, came int) {
	came = len(l.items)
	for came > 0 && l.items[came-1].outside() {
		came--
	}
	calls = came
	for calls > 0 && (l.items[calls-1].Kind == ToolCall || l.items[calls-1].Kind == Reasoning) {
		calls--
	}
	return calls, came
}

// exchangeAt returns the index at which the tool exchange of item i begins:
// results, with the calls and the reasoning before them. It is i if the item is
// not part of one.
func (l *Log) exchangeAt(i int) int {
	call := i
	for call > 0 && l.items[call].Kind == ToolResult {
		call--
	}
	if l.items[call].Kind != ToolCall {
		return i
	}
	for call > 0 && (l.items[call-1].Kind == ToolCall || l.items[call-1].Kind == Reasoning) {
		call--
	}
	return call
}

// hidden returns the tool items from index from on whose other half is missing
// or stands before from.
func (l *Log) hidden(from int) []int {
	var h []int
	for i := from; i < len(l.items); i++ {
		if l.halved(i, from) {
			h = append(h, i)
		}
	}
	return h
}

// halved says whether item i is a tool item without its other half, given that
// the log before from is not shown.
func (l *Log) halved(i, from int) bool {
	k := l.items[i].Kind
	return (k == ToolCall || k == ToolResult) && l.mate[i] < from
}

// Query returns the text of the newest user message, or "".
func (l *Log) Query() string {
	u := l.newestUser()
	if u < 0 {
		return ""
	}
	return l.items[u].Text()
}
