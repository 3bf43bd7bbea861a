package memory

import (
	"context"
	"sync/atomic"

	"github.com/stratamem/strata/memory/internal/stored"
)

// lineage is the sequence of turns to which an execution adds, as far as the
// execution knows it. It belongs to the current operation.
type lineage struct {
	m                 *Memory
	prefix            string // of the keys of its turns
	headKey, epochKey string
	moved             *atomic.Uint64 // counts the changes of headKey
	root              int            // the thread's turn at which the topmost ancestor was spawned; 0 at depth 0
	base              int            // last turn when the execution began
	last              int            // last known turn
	first             int            // first turn that is kept
	own               int            // turns that the execution committed
	gap               bool           // whether others committed turns since it began
	parted            bool           // whether the head has an older format: its epoch is a separate record
	head              lastSeen
}

// follow sets the sequence to which turns are added.
func (l *lineage) follow(m *Memory, prefix string) {
	l.m, l.prefix, l.headKey, l.epochKey = m, prefix, stored.HeadKey(prefix), stored.EpochKey(prefix)
	l.moved = m.moves.of(l.headKey)
}

// next returns the number of the current turn, if nobody else commits first.
func (l *lineage) next() int { return l.last + 1 }

// load reads the lineage's position for an execution that begins or, if it has
// committed already, resumes. The result is nil if there is no turn yet.
func (l *lineage) load(ctx context.Context, resumed bool) (*stored.Head, error) {
	raw, head, err := l.m.look(ctx, l.headKey, l.moved)
	if err != nil {
		return nil, err
	}
	if l.head = head; !head.there {
		return nil, nil
	}
	h, err := stored.Decode[stored.Head](l.headKey, raw)
	if err != nil {
		return nil, err
	}
	if !resumed {
		l.base = h.Turn
	}
	l.standAt(h)
	return h, nil
}

// refresh reads the lineage's position if others may have changed it.
func (l *lineage) refresh(ctx context.Context, again bool) error {
	if !again && !l.head.stale(l.moved) {
		return nil
	}
	raw, head, err := l.m.look(ctx, l.headKey, l.moved)
	if err != nil {
		return err
	}
	switch {
	case head.there:
		h, err := stored.Decode[stored.Head](l.headKey, raw)
		if err != nil {
			return err
		}
		l.standAt(h)
	case l.head.there: // the thread has forgotten the lineage: its numbering continues
		l.first = l.last + 1
	}
	l.head = head
	return nil
}

func (l *lineage) standAt(h *stored.Head) {
	l.last, l.first = h.Turn, h.First
	l.gap, l.parted = l.last-l.base != l.own, !h.HasEpoch()
}

// committed records that the next turn was written.
func (l *lineage) committed(w *turned) {
	l.last, l.first = w.number, w.first
	l.own++
	l.head, l.parted = w.head, false
}
