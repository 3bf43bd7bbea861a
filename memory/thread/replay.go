package thread

import (
	"context"
	"errors"
	"fmt"

	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

// Replay rebuilds the view of a recorded turn: the same items in the same
// order, to the byte. Log indexes count from the first item of history, and
// there is no epoch. The turn is numbered within its thread, or within the
// child's own turns. If the turn, or one that it refers to, is no longer kept,
// the error is [ErrPruned]. A turn in which nothing was projected has no view.
func Replay(ctx context.Context, store storage.Adapter, execution string, turn int) (*projection.View, error) {
	a, err := openArchive(ctx, store, execution, turn)
	if err != nil {
		return nil, fmt.Errorf("replay turn %d of %q: %w", turn, execution, err)
	}
	rec := a.turn
	if rec.View == nil {
		return nil, fmt.Errorf("replay turn %d of %q: nothing was projected", turn, execution)
	}
	v := &projection.View{
		Tokens: rec.View.Tokens, Cap: rec.View.Cap, Stable: rec.View.Stable, StableTokens: rec.View.StableTokens,
		Breakpoints: rec.View.Breakpoints, Opened: rec.Opened, Layers: rec.Layers, Notes: rec.Notes,
	}
	if rec.History != nil {
		v.History = *rec.History
	}
	from := 0
	for i := range rec.View.Bands {
		band := &rec.View.Bands[i]
		s := projection.Segment{Band: band.Band, From: -1}
		if band.Log != nil {
			events, err := a.stretch(ctx, *band.Log, band.Count)
			if err != nil {
				return nil, fmt.Errorf("replay turn %d of %q: %w", turn, execution, err)
			}
			s.From = from
			from += len(events)
			for j := range events {
				s.Items = append(s.Items, *events[j].item)
			}
		}
		for j := range band.Items {
			it, err := a.text(ctx, &band.Items[j])
			if err != nil {
				return nil, fmt.Errorf("replay turn %d of %q: %w", turn, execution, err)
			}
			s.Items = append(s.Items, *it)
		}
		v.Segments = append(v.Segments, s)
	}
	return v, nil
}

// archive reads what a turn refers to.
type archive struct {
	store storage.Adapter
	run   *Run
	turn  *Turn
	turns map[string]*Turn // by key; nil for those that are not kept
}

func openArchive(ctx context.Context, store storage.Adapter, execution string, turn int) (*archive, error) {
	x, err := FindRun(ctx, store, execution)
	if err != nil {
		return nil, err
	}
	a := &archive{store: store, run: x, turns: make(map[string]*Turn)}
	if turn < x.FirstTurn || turn > x.LastTurn {
		return nil, fmt.Errorf("it has the turns %d to %d", x.FirstTurn, x.LastTurn)
	}
	if a.turn, err = a.loadTurn(ctx, x.Lineage, turn); err != nil {
		return nil, err
	}
	if a.turn == nil {
		return nil, ErrPruned
	}
	if a.turn.Execution != execution {
		return nil, fmt.Errorf("the turn is one of execution %q", a.turn.Execution)
	}
	return a, nil
}

// loadTurn returns a turn, or nil if it is not kept.
func (a *archive) loadTurn(ctx context.Context, lineage string, n int) (*Turn, error) {
	key := stored.TurnKey(lineage, n)
	if t, ok := a.turns[key]; ok {
		return t, nil
	}
	data, _, err := a.store.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		a.turns[key] = nil
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t, err := stored.Decode[Turn](key, data)
	a.turns[key] = t
	return t, err
}

// text returns an item by reference.
func (a *archive) text(ctx context.Context, ref *ItemRef) (*projection.Item, error) {
	t, err := a.loadTurn(ctx, a.run.Lineage, ref.Turn)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, fmt.Errorf("text of turn %d: %w", ref.Turn, ErrPruned)
	}
	it, ok := t.Texts[ref.Digest]
	if !ok {
		return nil, &storage.CorruptError{Key: stored.TurnKey(a.run.Lineage, ref.Turn), Reason: "text " + ref.Digest + " is missing"}
	}
	return &it, nil
}

// event is an item of a log with its position.
type event struct {
	item *projection.Item
	key  string // of the turn
	at   Event
	size int
}

// eventOf returns the item of a turn at an index.
func eventOf(t *Turn, lineage string, i int) event {
	it := &t.Items[i]
	e := event{item: it, key: stored.TurnKey(lineage, t.Number), at: Event{Execution: t.Execution, Turn: t.Number, Item: i, ID: it.ID, Time: it.Time}}
	if i < len(t.Sizes) {
		e.size = t.Sizes[i]
	}
	return e
}

// stretch returns items of the log from a position on.
func (a *archive) stretch(ctx context.Context, p Position, count int) ([]event, error) {
	o := a.run.Log().Of(p.Execution)
	if o == nil {
		return nil, fmt.Errorf("log of %q: %w", p.Execution, ErrUnknownExecution)
	}
	var events []event
	skip := p.Item
	for n := p.Turn; len(events) < count; n++ {
		if n > o.Turn {
			return nil, &storage.CorruptError{Key: stored.TurnKey(o.Lineage, p.Turn), Reason: "the log ends before the stretch does"}
		}
		t, err := a.loadTurn(ctx, o.Lineage, n)
		if err != nil {
			return nil, err
		}
		if t == nil {
			return nil, fmt.Errorf("turn %d: %w", n, ErrPruned)
		}
		if !o.sees(t) {
			continue
		}
		for i := skip; i < len(t.Items) && len(events) < count; i++ {
			events = append(events, eventOf(t, o.Lineage, i))
		}
		skip = 0
	}
	return events, nil
}
