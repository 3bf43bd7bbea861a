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
// spoke, and what it answered.
type Turn struct {
	Line   int // where its first entry begins
	Offset int64
	Thread string
	Time   time.Time         // of its first entry
	Input  []projection.Item // messages and tool results; empty where the model spoke unasked
	Output []projection.Item // messages, tool calls and thoughts; empty where nobody answered
}

// Turns returns the entries that are left as turns. A turn ends where the model
// has spoken and something else comes from outside, or the file goes on with
// another thread; an unanswered one waits for its thread to go on. Turns that
// are not over are held in memory. Errors are those of [Reader.Entries], each as
// soon as it is met.
func (r *Reader) Turns() iter.Seq2[Turn, error] {
	return func(yield func(Turn, error) bool) {
		open := map[string]*Turn{} // by thread; at most one of them is answered
		var last *Turn
		for e, err := range r.Entries() {
			if err != nil {
				if !yield(Turn{}, err) {
					return
				}
				continue
			}
			if last != nil && len(last.Output) > 0 && (e.Thread != last.Thread || !e.Model) {
				delete(open, last.Thread)
				if !yield(*last, nil) {
					return
				}
			}
			last = open[e.Thread]
			if last == nil {
				last = &Turn{Line: e.Line, Thread: e.Thread, Time: e.Time}
				open[e.Thread] = last
			}
			last.Offset = e.Offset
			if e.Model {
				last.Output = append(last.Output, e.Items...)
			} else {
				last.Input = append(last.Input, e.Items...)
			}
		}
		left := slices.SortedFunc(maps.Values(open), func(a, b *Turn) int { return cmp.Compare(a.Line, b.Line) })
		for _, t := range left {
			if !yield(*t, nil) {
				return
			}
		}
	}
}
