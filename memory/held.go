package memory

import (
	"context"
	"iter"
	"slices"
	"sort"

	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
)

// What a run holds of its log is what Begin would read, and what it has
// committed since: at most twice as much, so that dropping the rest costs
// nothing that grows. Beside that it holds the newest user message, also where it
// stands further back: every view shows it.

// place says where a stretch of the log is stored.
type place struct {
	start int    // index in the log
	in    string // execution whose log it is; empty: the run's own
	turn  int
	item  int // index in the turn of the item at start
}

// position says where the log item with an index is stored, or will be when the
// turn at work gets the number n.
func (r *Run) position(i, n int) thread.Position {
	if i >= r.start {
		return thread.Position{Turn: n, Item: i - r.start}
	}
	at, ok := slices.BinarySearchFunc(r.places, i, func(p place, i int) int { return p.start - i })
	if !ok {
		at--
	}
	p := r.places[at]
	return thread.Position{Execution: p.in, Turn: p.turn, Item: p.item + i - p.start}
}

// endOf returns the log index at which the part that is in an execution's log
// ends.
func (r *Run) endOf(execution string) int {
	for i := range r.places {
		if r.places[i].in == execution && (i+1 == len(r.places) || r.places[i+1].in != execution) {
			if i+1 < len(r.places) {
				return r.places[i+1].start
			}
			return r.start
		}
	}
	return r.prefix.Len()
}

// held returns the part of the log that hooks are given: all that the run holds
// without a gap.
func (r *Run) held() []projection.Item { return r.prefix.Items(r.prefix.First(), r.prefix.Len()) }

// trim drops from the log what no view can show any more, between turns.
func (r *Run) trim() {
	keep := r.m.opts.KeepTurns
	if keep > 0 && len(r.places) > keep {
		r.drop(len(r.places)-max(keep/2, 1), -1)
	}
	to, user := r.prefix.Spare()
	if keep > 0 && user >= 0 { // history reaches back no further than that many turns
		to, user = min(to, user), -1
	}
	at := sort.Search(len(r.places), func(i int) bool { return r.places[i].start > to }) - 1
	if at < 0 {
		return
	}
	first, start, end := r.prefix.First(), r.places[at].start, r.prefix.Len()
	if start <= first {
		return
	}
	if dropped := r.prefix.Size(first, start); dropped > 0 && dropped >= r.prefix.Size(start, end) {
		r.drop(at, user)
	}
}

// drop forgets what is stored before a place, but for the user message with an
// index, -1 for none.
func (r *Run) drop(at, user int) {
	var places []place
	if from := r.places[at].start; user >= 0 && user < from {
		p := r.position(user, 0)
		places = append(places, place{start: user, in: p.Execution, turn: p.Turn, item: p.Item})
	}
	r.prefix.Drop(r.places[at].start, user >= 0)
	r.places = append(places, r.places[at:]...)
	r.reach()
}

// reach takes note of what part of its log the run does not hold.
func (r *Run) reach() {
	if r.prefix.First() == 0 {
		return
	}
	at := slices.IndexFunc(r.places, func(p place) bool { return p.start >= r.prefix.First() })
	first := &r.places[at]
	older := *r.record().Log().Of(first.in)
	older.Turn = first.turn - 1
	r.account.reach(&older)
}

// Earlier yields the items that come before the Log that hooks of this phase are
// given, the newest first. It reads them from the store, a turn at a time and
// only while it is iterated, and holds nothing while the body runs. What
// Options.KeepTurns has made the thread forget is left out. Items are the
// caller's own.
func (x *Execution) Earlier(ctx context.Context) iter.Seq2[projection.Item, error] {
	return func(yield func(projection.Item, error) bool) {
		for t, err := range x.older.Backward(ctx, x.m.store) {
			if err != nil {
				yield(projection.Item{}, err)
				return
			}
			for _, it := range slices.Backward(t.Items) {
				if !yield(it, nil) {
					return
				}
			}
		}
	}
}
