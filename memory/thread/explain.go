package thread

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

// Explanation says why each item of a recorded prompt was in it, and what was
// left out.
type Explanation struct {
	Execution string                 `json:"execution"`
	Thread    string                 `json:"thread"`
	Turn      int                    `json:"turn"`
	Time      time.Time              `json:"time"`
	Tokens    int                    `json:"tokens"`
	Cap       int                    `json:"cap"`
	Stable    int                    `json:"stable"` // number of items from the start that the provider's cache can hold
	Opened    string                 `json:"opened,omitempty"`
	Items     []Explained            `json:"items"`
	LeftOut   []LeftOut              `json:"left_out,omitempty"`
	Layers    []projection.LayerUse  `json:"layers,omitempty"`
	History   *projection.HistoryUse `json:"history,omitempty"`
	Hooks     []HookReport           `json:"hooks,omitempty"`
	Notes     []string               `json:"notes,omitempty"`
}

// Explained is one item of a prompt with its origin: an event of the log, or a
// layer and what the layer made it from.
type Explained struct {
	Band    projection.Band `json:"band"`
	Item    projection.Item `json:"item"`
	Tokens  int             `json:"tokens,omitempty"`
	Key     string          `json:"key"`              // of the turn record that holds the item
	Digest  string          `json:"digest,omitempty"` // if the item is not in the log
	Layer   string          `json:"layer,omitempty"`
	State   string          `json:"state,omitempty"` // key of the layer's state, if it has one
	Event   *Event          `json:"event,omitempty"` // if the item is in the log
	Sources []Source        `json:"sources,omitempty"`
}

// Event is an item of a log.
type Event struct {
	Execution string    `json:"execution"` // the one that committed it
	Turn      int       `json:"turn"`
	Item      int       `json:"item"` // index in the turn
	ID        string    `json:"id,omitempty"`
	Time      time.Time `json:"time,omitzero"`
}

// Source is one of an item's Refs: a record, or an event of this or another
// thread.
type Source struct {
	Ref   string `json:"ref"`
	Key   string `json:"key,omitempty"`   // of the record, or of the turn with the event; empty if it is gone
	Event *Event `json:"event,omitempty"` // nil for a record
}

// LeftOut is what was left out of a prompt. If a layer's Recall failed, Reason
// also says what the prompt still has of the layer.
type LeftOut struct {
	Layer  string `json:"layer,omitempty"` // empty: history
	Items  int    `json:"items,omitempty"`
	Reason string `json:"reason"`
}

// Explain traces every item of a recorded prompt to a layer, stored record and
// event, and says what was left out and why. The turn is numbered as in
// [Replay].
func Explain(ctx context.Context, store storage.Adapter, execution string, turn int) (*Explanation, error) {
	a, err := openArchive(ctx, store, execution, turn)
	if err != nil {
		return nil, fmt.Errorf("explain turn %d of %q: %w", turn, execution, err)
	}
	rec := a.turn
	x := &Explanation{
		Execution: execution, Thread: a.run.Identity.Thread, Turn: turn, Time: rec.Time,
		Opened: rec.Opened, Layers: rec.Layers, History: rec.History, Hooks: rec.Hooks, Notes: rec.Notes,
		LeftOut: rec.leftOut(),
	}
	if rec.View == nil {
		return x, nil
	}
	x.Tokens, x.Cap, x.Stable = rec.View.Tokens, rec.View.Cap, rec.View.Stable
	for i := range rec.View.Bands {
		if x.Items, err = a.explain(ctx, x.Items, &rec.View.Bands[i]); err != nil {
			return nil, fmt.Errorf("explain turn %d of %q: %w", turn, execution, err)
		}
	}
	if err := a.resolve(ctx, x.Items); err != nil {
		return nil, fmt.Errorf("explain turn %d of %q: %w", turn, execution, err)
	}
	return x, nil
}

// explain appends the items of a band.
func (a *archive) explain(ctx context.Context, out []Explained, band *Band) ([]Explained, error) {
	if band.Log != nil {
		events, err := a.stretch(ctx, *band.Log, band.Count)
		if err != nil {
			return nil, err
		}
		for i := range events {
			e := &events[i]
			out = append(out, Explained{Band: band.Band, Item: *e.item, Tokens: e.size, Key: e.key, Event: &e.at})
		}
	}
	for i := range band.Items {
		ref := &band.Items[i]
		it, err := a.text(ctx, ref)
		if err != nil {
			return nil, err
		}
		e := Explained{
			Band: band.Band, Item: *it, Tokens: ref.Tokens, Digest: ref.Digest, Layer: ref.Layer,
			Key: stored.TurnKey(a.run.Lineage, ref.Turn),
		}
		if e.State, err = a.stateOf(ctx, ref.Layer); err != nil {
			return nil, err
		}
		for _, ref := range it.Refs {
			e.Sources = append(e.Sources, Source{Ref: ref})
		}
		out = append(out, e)
	}
	return out, nil
}

// stateOf returns the key of the state that a layer has for the execution.
func (a *archive) stateOf(ctx context.Context, layer string) (string, error) {
	if layer == "" {
		return "", nil
	}
	for _, scope := range []Scope{ScopeExecution, ScopeThread, ScopeResource, ScopeGlobal} {
		kind, id := scope.Of(a.run.Identity, a.run.ID)
		key := stored.StateKey(stored.ScopeKey(layer, string(kind), id))
		_, _, err := a.store.Get(ctx, key)
		if err == nil {
			return key, nil
		}
		if !errors.Is(err, storage.ErrNotFound) {
			return "", err
		}
	}
	return "", nil
}

// resolve finds what the items' sources refer to: records by key, and events by
// id, first in the log from its end and then in other threads.
func (a *archive) resolve(ctx context.Context, items []Explained) error {
	wanted := make(unresolved)
	for i := range items {
		for j := range items[i].Sources {
			s := &items[i].Sources[j]
			if strings.HasPrefix(s.Ref, "_") || strings.Contains(s.Ref, "/") {
				_, _, err := a.store.Get(ctx, s.Ref)
				if err == nil {
					s.Key = s.Ref
					continue
				}
				if !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, storage.ErrInvalid) {
					return err
				}
			}
			wanted[s.Ref] = append(wanted[s.Ref], s)
		}
	}
	for e, err := range a.events(ctx) {
		if len(wanted) == 0 {
			break
		}
		if err != nil {
			return err
		}
		wanted.found(e)
	}
	return a.resolveElsewhere(ctx, wanted)
}

// unresolved returns the sources that refer to events, by event id.
type unresolved map[string][]*Source

func (u unresolved) found(e event) {
	for _, s := range u[e.at.ID] {
		s.Key, s.Event = e.key, &e.at
	}
	delete(u, e.at.ID)
}

// resolveElsewhere looks for events in the other threads of the store, from
// which layers of a wider scope may have them. An event in no thread is no
// longer kept.
func (a *archive) resolveElsewhere(ctx context.Context, wanted unresolved) error {
	for info, err := range List(ctx, a.store) {
		if err != nil {
			return err
		}
		if len(wanted) == 0 {
			return nil
		}
		if info.Thread == a.run.Identity.Thread {
			continue
		}
		for t, err := range Turns(ctx, a.store, info.Thread, 0) {
			if err != nil {
				return err
			}
			for i := range t.Items {
				wanted.found(eventOf(t, stored.ThreadLineage(info.Thread), i))
			}
		}
	}
	return nil
}

// events yields the items of the execution's log up to the turn, from the end.
func (a *archive) events(ctx context.Context) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		log := a.run.Log()
		log.Turn = a.turn.Number
		for t, err := range log.Backward(ctx, a.store) {
			if err != nil {
				yield(event{}, err)
				return
			}
			for i := range t.Items {
				if !yield(eventOf(t.Turn, t.In.Lineage, i), nil) {
					return
				}
			}
		}
	}
}

// leftOut returns what was left out of the turn's view.
func (t *Turn) leftOut() []LeftOut {
	var out []LeftOut
	for i := range t.Hooks {
		h := &t.Hooks[i]
		told := h.Hook == stored.Append && h.Status == StatusOK && h.Note != ""
		if h.Hook != stored.Recall && !told {
			continue
		}
		reason := h.Note
		if h.Status != StatusOK {
			reason = fmt.Sprintf("recall %s: %s", h.Status, cmp.Or(h.Error, h.Note))
			if shown := stored.InPrompt(stored.UseOf(t.Layers, h.Layer)); shown != "" {
				reason += "; " + shown
			}
		}
		out = append(out, LeftOut{Layer: h.Layer, Reason: reason})
	}
	for i := range t.Layers {
		l := &t.Layers[i]
		if l.Trimmed > 0 {
			out = append(out, LeftOut{Layer: l.Layer, Items: l.Trimmed, Reason: fmt.Sprintf("over the layer's budget of %d tokens", l.Allocated)})
		}
		if l.Skipped > 0 {
			out = append(out, LeftOut{Layer: l.Layer, Items: l.Skipped, Reason: "did not fit what was left of the prompt"})
		}
	}
	if h := t.History; h != nil {
		if h.Dropped > 0 {
			out = append(out, LeftOut{Items: h.Dropped, Reason: fmt.Sprintf("history is over its budget of %d tokens", h.Budget)})
		}
		if h.Unpaired > 0 {
			out = append(out, LeftOut{Items: h.Unpaired, Reason: "a tool call without its result, or a result without its call"})
		}
	}
	return out
}
