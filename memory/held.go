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

// heldLog is what a run holds of its log, and where that is stored. It belongs to the
// operation at work.
type heldLog struct {
	*projection.Prefix         // its items, and what the prompts showed of them
	places             []place // ascending
	start              int     // index of the first item of the turn at work
}

// fork returns the log with which a child of an execution begins.
func (l *heldLog) fork(execution string) heldLog {
	child := heldLog{Prefix: l.Fork(), start: l.start}
	for _, p := range l.places {
		if p.in == "" {
			p.in = execution
		}
		child.places = append(child.places, p)
	}
	return child
}

// add adds a turn that is stored. sized says that the sizes of its items are known.
func (l *heldLog) add(t *tailTurn, sized bool) {
	l.places = append(l.places, place{start: l.Len(), in: t.in, turn: t.Number})
	for i := range t.Items {
		if sized {
			l.AppendSized(t.Items[i], t.Sizes[i])
		} else {
			l.Append(t.Items[i])
		}
	}
	l.start = l.Len()
}

// restore goes on with what the last prompt showed, pinned being the message that it
// had from before what is held. A state that does not fit the log is left out.
func (l *heldLog) restore(e *epochHead, text func(number int) *projection.Item, pinned *projection.Item) {
	if l.Restore(e.state, text, pinned) != nil {
		return
	}
	if _, pin := l.History(); pinned != nil {
		l.places = slices.Insert(l.places, 0, place{start: pin, in: e.Pin.Execution, turn: e.Pin.Turn, item: e.Pin.Item})
	}
}

// committed takes note that the turn at work was written as the one with a number.
func (l *heldLog) committed(turn int) {
	l.places = append(l.places, place{start: l.start, turn: turn})
	l.start = l.Len()
}

// position says where the log item with an index is stored, or will be when the
// turn at work gets the number n.
func (l *heldLog) position(i, n int) thread.Position {
	if i >= l.start {
		return thread.Position{Turn: n, Item: i - l.start}
	}
	at, ok := slices.BinarySearchFunc(l.places, i, func(p place, i int) int { return p.start - i })
	if !ok {
		at--
	}
	p := l.places[at]
	return thread.Position{Execution: p.in, Turn: p.turn, Item: p.item + i - p.start}
}

// endOf returns the log index at which the part that is in an execution's log
// ends.
func (l *heldLog) endOf(execution string) int {
	for i := range l.places {
		if l.places[i].in == execution && (i+1 == len(l.places) || l.places[i+1].in != execution) {
			if i+1 < len(l.places) {
				return l.places[i+1].start
			}
			return l.start
		}
	}
	return l.Len()
}

// held returns the part of the log that hooks are given: all that the run holds
// without a gap.
func (l *heldLog) held() []projection.Item { return l.Items(l.First(), l.Len()) }

// trim drops what no view can show any more, between turns, and reports whether
// anything was. Of a thread that forgets, no more than so many turns are kept.
func (l *heldLog) trim(keep int) (dropped bool) {
	if keep > 0 && len(l.places) > keep {
		l.forget(len(l.places)-max(keep/2, 1), -1)
		dropped = true
	}
	to, user := l.Spare()
	if keep > 0 && user >= 0 { // history reaches back no further than that many turns
		to, user = min(to, user), -1
	}
	at := sort.Search(len(l.places), func(i int) bool { return l.places[i].start > to }) - 1
	if at < 0 {
		return dropped
	}
	first, start, end := l.First(), l.places[at].start, l.Len()
	if start <= first {
		return dropped
	}
	if spare := l.Size(first, start); spare > 0 && spare >= l.Size(start, end) {
		l.forget(at, user)
		dropped = true
	}
	return dropped
}

// forget drops what is stored before a place, but for the user message with an
// index, -1 for none.
func (l *heldLog) forget(at, user int) {
	var places []place
	if from := l.places[at].start; user >= 0 && user < from {
		p := l.position(user, 0)
		places = append(places, place{start: user, in: p.Execution, turn: p.Turn, item: p.Item})
	}
	l.Drop(l.places[at].start, user >= 0)
	l.places = append(places, l.places[at:]...)
}

// older returns what of a log comes before what is held of it; nil if that is all.
func (l *heldLog) older(log *thread.Log) *thread.Log {
	if l.First() == 0 {
		return nil
	}
	at := slices.IndexFunc(l.places, func(p place) bool { return p.start >= l.First() })
	first := &l.places[at]
	older := *log.Of(first.in)
	older.Turn = first.turn - 1
	return &older
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
