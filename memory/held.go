package memory

import (
	"context"
	"iter"
	"slices"
	"sort"

	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
)

// A run holds the part of its log that Begin would read and what it has
// committed since: at most twice as much, so that dropping the rest costs an
// amortized constant. It also holds the newest user message, even if that is
// further back, because every view shows it.

// place says where a stretch of the log is stored.
type place struct {
	start int    // index in the log
	in    string // the execution whose log it is; empty: the run's own
	turn  int
	item  int // index in the turn of the item at start
}

// heldLog is the part of its log that a run holds, and where that is stored. It
// belongs to the current operation.
type heldLog struct {
	*projection.Prefix         // its items, and what the prompts showed of them
	places             []place // ascending
	start              int     // index of the first item of the current turn
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

// add adds a stored turn. sized says that the sizes of its items are known.
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

// restore continues with what the last prompt showed. pinned is the message
// that it had from before what is held. A state that does not fit the log is
// dropped.
func (l *heldLog) restore(e *epochHead, text func(number int) *projection.Item, pinned *projection.Item) {
	if l.Restore(e.state, text, pinned) != nil {
		return
	}
	if _, pin := l.History(); pinned != nil {
		l.places = slices.Insert(l.places, 0, place{start: pin, in: e.Pin.Execution, turn: e.Pin.Turn, item: e.Pin.Item})
	}
}

// committed records the number with which the current turn was written.
func (l *heldLog) committed(turn int) {
	l.places = append(l.places, place{start: l.start, turn: turn})
	l.start = l.Len()
}

// position returns where the log item with an index is stored, or will be if
// the current turn gets number n.
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

// endOf returns the log index where the part in an execution's log ends.
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

// held returns the part of the log that hooks receive: everything that the run
// holds without a gap.
func (l *heldLog) held() []projection.Item { return l.Items(l.First(), l.Len()) }

// trim drops, between turns, what no view can show any more, and reports
// whether it dropped anything. If the thread forgets, no more than that many
// turns are kept.
func (l *heldLog) trim(keep int) (dropped bool) {
	if keep > 0 && len(l.places) > keep {
		l.forget(len(l.places)-max(keep/2, 1), -1)
		dropped = true
	}
	to, user := l.Spare()
	if keep > 0 && user >= 0 { // history reaches back at most that many turns
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

// forget drops what is stored before a place, except the user message with an
// index; -1 means none.
func (l *heldLog) forget(at, user int) {
	var places []place
	if from := l.places[at].start; user >= 0 && user < from {
		p := l.position(user, 0)
		places = append(places, place{start: user, in: p.Execution, turn: p.Turn, item: p.Item})
	}
	l.Drop(l.places[at].start, user >= 0)
	l.places = append(places, l.places[at:]...)
}

// older returns the part of a log before what is held of it, or nil if there is
// none.
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

// Earlier yields the items before the Log that hooks of this phase receive,
// newest first. It reads them from the store, one turn at a time and only while
// iterating, and holds no lock while the loop body runs. It leaves out what the
// thread has forgotten because of Options.KeepTurns. Items belong to the
// caller.
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
