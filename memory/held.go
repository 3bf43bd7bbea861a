package memory

import (
	"context"
	"iter"
	"math"
	"slices"
	"sort"

	"github.com/stratamem/strata/projection"
)

// What a run holds of its log is what Begin would read, and what it has
// committed since: at most twice as much, so that dropping the rest costs
// nothing that grows. Beside that it holds the newest user message, also where it
// stands further back: every view shows it.

// place says where a stretch of the log is stored.
type place struct {
	start int    // log index
	in    string // execution whose log it is; empty: the run's own
	turn  int
	item  int // index in the turn of the item at start
}

// position says where the log item with an index is stored, or will be when the
// turn at work gets the number n.
func (r *Run) position(i, n int) Position {
	if i >= r.start {
		return Position{Turn: n, Item: i - r.start}
	}
	at, ok := slices.BinarySearchFunc(r.places, i, func(p place, i int) int { return p.start - i })
	if !ok {
		at--
	}
	p := r.places[at]
	return Position{Execution: p.in, Turn: p.turn, Item: p.item + i - p.start}
}

// indexOf is the opposite of position.
func (r *Run) indexOf(p Position) (int, bool) {
	for i := len(r.places) - 1; i >= 0; i-- {
		at := &r.places[i]
		if at.in == p.Execution && at.turn == p.Turn && at.item <= p.Item {
			index := at.start + p.Item - at.item
			return index, index <= r.log.Len()
		}
	}
	return 0, false
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
	return r.log.Len()
}

// held returns the part of the log that hooks are given: all that the run holds
// without a gap.
func (r *Run) held() []projection.Item { return r.log.Slice(r.apart, r.log.Len()) }

// trim drops from the log what no view can show any more, between turns.
func (r *Run) trim() {
	keep := r.m.opts.KeepTurns
	if keep > 0 && len(r.places) > keep {
		r.forget(len(r.places)-max(keep/2, 1), -1)
	}
	from, user := r.log.Needs(r.epoch)
	if r.epoch != nil && r.epoch.Pin >= 0 && r.epoch.Pin != user {
		return // until the next projection has another
	}
	if keep > 0 && user >= 0 { // history reaches back no further than that many turns
		from, user = min(from, user), -1
	}
	// As many of the newest turns as fill a view.
	n, limit := r.log.Len(), r.m.opts.Policy.Cap()
	at := sort.Search(len(r.places), func(i int) bool {
		return r.places[i].start > from || r.log.Size(r.places[i].start, n) < limit
	}) - 1
	if at <= r.apart {
		return
	}
	start := r.places[at].start
	if dropped := r.log.Size(r.apart, start); dropped > 0 && dropped >= r.log.Size(start, n) {
		if user >= start {
			user = -1
		}
		r.forget(at, user)
	}
}

// forget drops all but the newest places from the log in memory, and the user
// message at an index before them, -1 for none. An epoch whose history reaches
// back further ends.
func (r *Run) forget(n, user int) {
	from, apart := r.places[n].start, btoi(user >= 0)
	log := projection.NewLogAfter(r.m.tokenizer, r.log.Earlier()+from-apart)
	places := make([]place, 0, apart+len(r.places)-n)
	keep := func(i int) { log.AppendSized(r.log.Slice(i, i+1)[0], r.log.Size(i, i+1)) }
	if user >= 0 {
		p := r.position(user, 0)
		places = append(places, place{in: p.Execution, turn: p.Turn, item: p.Item})
		keep(user)
	}
	for i := from; i < r.log.Len(); i++ {
		keep(i)
	}
	for _, p := range r.places[n:] {
		p.start -= from - apart
		places = append(places, p)
	}
	r.log, r.places, r.apart = log, places, apart
	r.start -= from - apart
	r.reach()
	if r.epoch == nil {
		return
	}
	e := *r.epoch
	r.epoch = &e
	if e.From < from || e.Pin >= 0 && e.Pin < from && e.Pin != user {
		e.From, e.Pin = math.MaxInt32, -1 // in no log: the next projection opens an epoch
		return
	}
	shift := func(at int) int { return at - from + apart }
	e.From, e.Shown = shift(e.From), shift(e.Shown)
	switch {
	case e.Pin >= from:
		e.Pin = shift(e.Pin)
	case e.Pin >= 0:
		e.Pin = 0
	}
	e.Hidden = append([]int(nil), e.Hidden...)
	for i := range e.Hidden {
		e.Hidden[i] = shift(e.Hidden[i])
	}
	e.Ledger = append([]projection.Published(nil), e.Ledger...)
	for i := range e.Ledger {
		e.Ledger[i].At = shift(e.Ledger[i].At)
	}
}

// reach takes note of what part of its log the run does not hold.
func (r *Run) reach() {
	if r.log.Earlier()+r.apart == 0 {
		return
	}
	first := &r.places[r.apart]
	older := *r.record().origin().of(first.in)
	older.Turn = first.turn - 1
	r.mu.Lock()
	r.older = &older
	r.mu.Unlock()
}

// of returns the part of the log that is an execution's, empty for the last one,
// with what comes before it; nil if there is none.
func (o *origin) of(execution string) *origin {
	for o != nil && execution != "" && o.Execution != execution {
		o = o.Fork
	}
	return o
}

// Earlier yields the items that come before the Log that hooks of this phase are
// given, the newest first. It reads them from the store, a turn at a time and
// only while it is iterated, and holds nothing while the body runs. What
// Options.KeepTurns has made the thread forget is left out. Items are the
// caller's own.
func (x *Execution) Earlier(ctx context.Context) iter.Seq2[projection.Item, error] {
	return func(yield func(projection.Item, error) bool) {
		for t, err := range x.m.backward(ctx, x.older) {
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
