package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

// ThreadInfo says where a thread stands.
type ThreadInfo struct {
	Thread    string `json:"thread"`
	Turns     int    `json:"turns"`     // number of the last turn; 0 if only children have committed yet
	First     int    `json:"first"`     // number of the first turn that is kept
	Execution string `json:"execution"` // that committed the last turn
}

// Threads yields the threads of a store, in the byte order of their keys,
// reading one record for each.
func Threads(ctx context.Context, store storage.Adapter) iter.Seq2[ThreadInfo, error] {
	return func(yield func(ThreadInfo, error) bool) {
		after := ""
		for {
			var entry storage.Entry
			for e, err := range storage.Scan(ctx, store, threadSpace, &storage.ScanOptions{After: after, Limit: 1}) {
				if err != nil {
					yield(ThreadInfo{}, err)
					return
				}
				entry = e
			}
			if entry.Key == "" {
				return
			}
			segment, _, _ := strings.Cut(entry.Key[len(threadSpace):], "/")
			info, err := threadInfo(ctx, store, segment)
			if !yield(info, err) {
				return
			}
			after = threadSpace + segment + "/\U0010FFFF" // no key of the thread sorts after it
		}
	}
}

func threadInfo(ctx context.Context, store storage.Adapter, segment string) (ThreadInfo, error) {
	thread, err := storage.UnescapeSegment(segment)
	if err != nil {
		return ThreadInfo{}, err
	}
	key := headKey(threadLineage(thread))
	data, _, err := store.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) { // a child has committed, and its parent not yet
		return ThreadInfo{Thread: thread, First: 1}, nil
	}
	if err != nil {
		return ThreadInfo{}, err
	}
	h, err := decodeRecord[head](key, data)
	if err != nil {
		return ThreadInfo{}, err
	}
	return ThreadInfo{Thread: thread, Turns: h.Turn, First: max(h.First, 1), Execution: h.Execution}, nil
}

// Runs yields the executions of a store in the order of their ids, which with
// the default ids is the order in which they began.
func Runs(ctx context.Context, store storage.Adapter) iter.Seq2[*RunInfo, error] {
	return func(yield func(*RunInfo, error) bool) {
		for e, err := range storage.Scan(ctx, store, runSpace, nil) {
			var x *RunInfo
			if err == nil {
				x, err = decodeRecord[RunInfo](e.Key, e.Value)
			}
			if !yield(x, err) || err != nil {
				return
			}
		}
	}
}

// Turns yields the turns of a thread that are kept, from the one after a number
// on, in order, of whatever execution. Those of children are yielded by
// [ExecutionTurns].
func Turns(ctx context.Context, store storage.Adapter, thread string, after int) iter.Seq2[*Turn, error] {
	return turnsAfter(ctx, store, threadLineage(thread), after)
}

// ExecutionTurns yields the turns that an execution committed and that are
// kept, in order.
func ExecutionTurns(ctx context.Context, store storage.Adapter, execution string) iter.Seq2[*Turn, error] {
	return func(yield func(*Turn, error) bool) {
		x, err := loadExecution(ctx, store, execution)
		if err != nil {
			yield(nil, err)
			return
		}
		for t, err := range turnsAfter(ctx, store, x.Lineage, x.FirstTurn-1) {
			switch {
			case err == nil && t.Number > x.LastTurn:
				return
			case err == nil && t.Execution != execution:
				continue
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

func turnsAfter(ctx context.Context, store storage.Adapter, lineage string, after int) iter.Seq2[*Turn, error] {
	return func(yield func(*Turn, error) bool) {
		opts := &storage.ScanOptions{After: turnKey(lineage, max(after, 0))}
		for e, err := range storage.Scan(ctx, store, turnsPrefix(lineage), opts) {
			var t *Turn
			if err == nil {
				t, err = decodeRecord[Turn](e.Key, e.Value)
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// StateInfo is what is stored of a layer in one scope.
type StateInfo struct {
	Layer  string          `json:"layer"`
	Kind   Scope           `json:"kind"` // thread also for a resource scope without a resource
	ID     string          `json:"id"`
	Key    string          `json:"key"`
	Format int             `json:"format"`
	Clears int             `json:"clears,omitempty"` // how often it was cleared
	Size   int             `json:"size"`             // bytes of State
	State  json.RawMessage `json:"state,omitempty"`  // nil: cleared, or never written
}

// States yields the stored states of layers, of all if layer is empty, in the
// byte order of their keys.
func States(ctx context.Context, store storage.Adapter, layer string) iter.Seq2[StateInfo, error] {
	prefix := layerSpace
	if layer != "" {
		prefix += layer + "/"
	}
	return func(yield func(StateInfo, error) bool) {
		for key, err := range store.List(ctx, prefix) {
			segments := strings.Split(key, "/")
			if err == nil && (len(segments) != 5 || segments[4] != "state") {
				continue
			}
			var info StateInfo
			if err == nil {
				info, err = stateInfo(ctx, store, key, segments)
			}
			if errors.Is(err, storage.ErrNotFound) {
				continue // deleted meanwhile
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

func stateInfo(ctx context.Context, store storage.Adapter, key string, segments []string) (StateInfo, error) {
	id, err := storage.UnescapeSegment(segments[3])
	if err != nil {
		return StateInfo{}, err
	}
	e, err := readEnvelope(ctx, store, key, func() ([]byte, error) {
		raw, _, err := store.Get(ctx, key)
		return raw, err
	})
	if err != nil {
		return StateInfo{}, err
	}
	return StateInfo{
		Layer: segments[1], Kind: Scope(segments[2]), ID: id, Key: key,
		Format: e.Format, Clears: e.Clears, Size: len(e.State), State: e.State,
	}, nil
}

// Replay builds the view of a recorded turn again: the same items in the same
// order, to the byte. Log indexes count from the first item of history, and there
// is no epoch. The turn is numbered in its thread, or for a child among the
// child's own. A turn, or one that it refers to, that is no longer kept is
// [ErrPruned]; a turn in which nothing was projected has no view.
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

// archive reads what one turn refers to.
type archive struct {
	store storage.Adapter
	run   *RunInfo
	turn  *Turn
	turns map[string]*Turn // by key; nil for those that are not kept
}

func openArchive(ctx context.Context, store storage.Adapter, execution string, turn int) (*archive, error) {
	x, err := loadExecution(ctx, store, execution)
	if err != nil {
		return nil, err
	}
	a := &archive{store: store, run: x, turns: make(map[string]*Turn)}
	if turn < x.FirstTurn || turn > x.LastTurn {
		return nil, fmt.Errorf("it has the turns %d to %d", x.FirstTurn, x.LastTurn)
	}
	if a.turn, err = a.load(ctx, x.Lineage, turn); err != nil {
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

// load returns a turn, nil if it is not kept.
func (a *archive) load(ctx context.Context, lineage string, n int) (*Turn, error) {
	key := turnKey(lineage, n)
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
	t, err := decodeRecord[Turn](key, data)
	a.turns[key] = t
	return t, err
}

// text returns an item by reference.
func (a *archive) text(ctx context.Context, ref *ItemRef) (*projection.Item, error) {
	t, err := a.load(ctx, a.run.Lineage, ref.Turn)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, fmt.Errorf("text of turn %d: %w", ref.Turn, ErrPruned)
	}
	it, ok := t.Texts[ref.Digest]
	if !ok {
		return nil, &storage.CorruptError{Key: turnKey(a.run.Lineage, ref.Turn), Reason: "text " + ref.Digest + " is missing"}
	}
	return &it, nil
}

// event is an item of a log with its place.
type event struct {
	item *projection.Item
	key  string // of the turn
	at   Event
	size int
}

// stretch returns items of the log from a position on.
func (a *archive) stretch(ctx context.Context, p Position, count int) ([]event, error) {
	o := a.run.origin()
	for o != nil && p.Execution != "" && o.Execution != p.Execution {
		o = o.Fork
	}
	if o == nil {
		return nil, fmt.Errorf("log of %q: %w", p.Execution, ErrUnknownExecution)
	}
	var events []event
	skip := p.Item
	for n := p.Turn; len(events) < count; n++ {
		if n > o.Turn {
			return nil, &storage.CorruptError{Key: turnKey(o.Lineage, p.Turn), Reason: "the log ends before the stretch does"}
		}
		t, err := a.load(ctx, o.Lineage, n)
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
			e := event{item: &t.Items[i], key: turnKey(o.Lineage, n), at: Event{Execution: t.Execution, Turn: n, Item: i, ID: t.Items[i].ID, Time: t.Items[i].Time}}
			if i < len(t.Sizes) {
				e.size = t.Sizes[i]
			}
			events = append(events, e)
		}
		skip = 0
	}
	return events, nil
}
