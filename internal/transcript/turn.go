package transcript

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/stratamem/strata/projection"
)

// Turn is one round of a loop: what came from outside since the model last
// spoke, and its answer.
type Turn struct {
	Line   int // where its first entry begins
	Offset int64
	Thread string
	Time   time.Time         // of its first entry
	Input  []projection.Item // messages and tool results; empty if the model spoke unprompted
	Output []projection.Item // messages, tool calls and thoughts; empty if there was no answer
	Lines  map[string]int    // where the entry of each item begins, by item ID
	System *System           // of the thread; nil if there is none
	More   bool              // whether it is only a part, continued in the thread's next turn

	input, output int // bytes
}

// System is the system text of threads. Threads with the same text share it.
type System struct {
	Line  int // where the first entry with it begins
	Items []projection.Item
}

// Anything larger becomes several turns, so that a turn fits in memory and in
// one batch.
const (
	maxItems  = 256
	maxInput  = 1 << 20  // bytes of a turn's input, unless one item has more
	maxOutput = 1 << 20  // likewise of its output
	maxTurn   = 3 << 20  // of both
	maxOpen   = 16 << 20 // of all unfinished turns
)

// full reports whether an item of a given size belongs to the next turn.
func (t *Turn) full(model bool, size int) bool {
	switch n := len(t.Input) + len(t.Output); {
	case n == 0:
		return false
	case n == maxItems, t.input+t.output+size > maxTurn:
		return true
	case model:
		return t.output > 0 && t.output+size > maxOutput
	}
	return t.input > 0 && t.input+size > maxInput
}

func (t *Turn) add(e *Entry, it projection.Item, size int) {
	t.Offset = e.Offset
	t.Lines[it.ID] = e.Line
	if e.Model {
		t.Output = append(t.Output, it)
		t.output += size
	} else {
		t.Input = append(t.Input, it)
		t.input += size
	}
}

// turns makes turns from entries.
type turns struct {
	open    map[string]*Turn // by thread; at most one of them has an answer
	held    int              // bytes of open turns
	systems map[string]*System
	known   map[digest]*System
	yield   func(Turn, error) bool
}

// Turns returns the remaining entries as turns. A turn ends when the model has
// spoken and something else comes from outside, or when the file continues with
// another thread; one without an answer waits for its thread to continue. A
// turn of more than 256 items or about a megabyte comes in parts, and so do
// waiting turns that together exceed 16 MB: no more is held in memory. Errors
// are those of [Reader.Entries], each as soon as it occurs.
func (r *Reader) Turns() iter.Seq2[Turn, error] {
	return func(yield func(Turn, error) bool) {
		ts := turns{open: map[string]*Turn{}, systems: map[string]*System{}, known: map[digest]*System{}, yield: yield}
		var last *Turn
		for e, err := range r.Entries() {
			if err != nil {
				if !yield(Turn{}, err) {
					return
				}
				continue
			}
			if e.System {
				ts.begin(&e)
				continue
			}
			if last != nil && len(last.Output) > 0 && (e.Thread != last.Thread || !e.Model) && !ts.end(last, false) {
				return
			}
			for _, it := range e.Items {
				size := sizeOf(&it)
				if t := ts.of(&e); t.full(e.Model, size) && !ts.end(t, true) {
					return
				}
				last = ts.of(&e)
				last.add(&e, it, size)
				ts.held += size
			}
			if ts.held > maxOpen && !ts.endAll(true) {
				return
			}
		}
		ts.endAll(false)
	}
}

// of returns the open turn of an entry's thread.
func (ts *turns) of(e *Entry) *Turn {
	t := ts.open[e.Thread]
	if t == nil {
		t = &Turn{Line: e.Line, Thread: e.Thread, Time: e.Time, Lines: map[string]int{}, System: ts.systems[e.Thread]}
		ts.open[e.Thread] = t
	}
	return t
}

// end yields a turn, if it is still open.
func (ts *turns) end(t *Turn, more bool) bool {
	if ts.open[t.Thread] != t {
		return true
	}
	delete(ts.open, t.Thread)
	ts.held -= t.input + t.output
	t.More = more
	return ts.yield(*t, nil)
}

func (ts *turns) endAll(more bool) bool {
	for _, t := range slices.SortedFunc(maps.Values(ts.open), func(a, b *Turn) int { return cmp.Compare(a.Line, b.Line) }) {
		if !ts.end(t, more && len(t.Output) == 0) {
			return false
		}
	}
	return true
}

// begin adds to the system text of a thread that has not begun.
func (ts *turns) begin(e *Entry) {
	s := &System{Line: e.Line}
	if before := ts.systems[e.Thread]; before != nil {
		s.Line, s.Items = before.Line, slices.Clip(before.Items)
	}
	for _, it := range e.Items {
		it.ID = "" // it is not in a log
		it.Time = time.Time{}
		s.Items = append(s.Items, it)
	}
	d := sum(&Entry{Items: s.Items})
	if ts.known[d] == nil {
		ts.known[d] = s
	}
	ts.systems[e.Thread] = ts.known[d]
}
