package memory

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

// loadLog reads where the lineage stands, the part of its log that can be used,
// and the epoch, if that still fits the log.
func (r *Run) loadLog(ctx context.Context) error {
	h, err := r.readHead(ctx)
	if err != nil {
		return err
	}
	if h == nil {
		return nil // a child that never committed cannot be resumed
	}
	r.last, r.first = h.Turn, h.First
	resumed := r.step > 0
	if !resumed {
		r.base = h.Turn
	}
	r.gap = r.last-r.base != r.own
	var e *epochHead
	if h.Whole && !resumed || h.Execution == r.id {
		if e, err = r.readEpoch(ctx); err != nil {
			return err
		}
	}
	log := r.record().origin()
	turns, err := r.m.readTail(ctx, log, r.tailBound(e))
	if err != nil {
		return err
	}
	if len(turns) > 0 {
		if err := r.beginLog(ctx, log, &turns[0], e); err != nil {
			return err
		}
	}
	for i := range turns {
		r.appendTurn(&turns[i])
	}
	r.start = r.log.Len()
	if len(turns) > 0 {
		r.reach()
	}
	if len(turns) > 0 && turns[len(turns)-1].in == "" {
		r.texts.seen(turns[len(turns)-1].Turn)
	}
	if e == nil {
		return nil
	}
	return r.loadEpoch(ctx, e)
}

// readHead reads the lineage's head; nil if it has none yet.
func (r *Run) readHead(ctx context.Context) (*head, error) {
	where, err := r.m.loadKept(ctx, r.headKey, r.moved)
	if err != nil {
		return nil, err
	}
	r.where = where
	if where.raw == nil {
		return nil, nil
	}
	return decodeRecord[head](r.headKey, where.raw)
}

// readEpoch reads the epoch that the lineage's last turn left; nil if it left
// none.
func (r *Run) readEpoch(ctx context.Context) (*epochHead, error) {
	key := r.epochKey
	data, _, err := r.m.store.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e, err := decodeRecord[epochHead](key, data)
	if err != nil || e.Number == 0 || e.Turn != r.last {
		return nil, err
	}
	return e, nil
}

// beginLog begins the log that goes on with a turn. The message that the epoch
// pins comes first, if it is older.
func (r *Run) beginLog(ctx context.Context, log *origin, first *tailTurn, e *epochHead) error {
	r.log = projection.NewLogAfter(r.m.tokenizer, first.Before)
	if r.m.opts.KeepTurns > 0 || e == nil || e.Pin == nil || !e.Pin.before(first) {
		return nil
	}
	o := log.of(e.Pin.Execution)
	if o == nil {
		return nil
	}
	key := turnKey(o.Lineage, e.Pin.Turn)
	data, _, err := r.m.store.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	t, err := decodeRecord[Turn](key, data)
	if err != nil || e.Pin.Item >= len(t.Items) {
		return err
	}
	r.log, r.apart = projection.NewLogAfter(r.m.tokenizer, first.Before-1), 1
	pinned := *t
	pinned.Items = t.Items[e.Pin.Item:][:1]
	if len(t.Sizes) == len(t.Items) {
		pinned.Sizes = t.Sizes[e.Pin.Item:][:1]
	}
	r.appendTurn(&tailTurn{&pinned, e.Pin.Execution})
	r.places[0].item = e.Pin.Item
	return nil
}

// before reports whether the position is in no turn of the log that begins with
// one.
func (p *Position) before(first *tailTurn) bool {
	return p.Execution != first.in || p.Turn < first.Number
}

// tailTurn is a turn with the execution whose log it is in; empty for the
// reader's own lineage.
type tailTurn struct {
	*Turn
	in string
}

// tailBound returns a function that is shown turns, the newest first, and says
// when there are enough.
func (r *Run) tailBound(e *epochHead) func(t *tailTurn) bool {
	tokens, turns := 0, 0
	limit, keep := r.m.opts.Policy.Cap(), r.m.opts.KeepTurns
	var from, pin *Position // not reached yet
	if e != nil {
		if from = &e.From; keep > 0 {
			pin = e.Pin
		}
	}
	reached := func(p *Position, t *tailTurn) bool { return p == nil || p.Execution == t.in && p.Turn >= t.Number }
	return func(t *tailTurn) bool {
		turns++
		if reached(from, t) {
			from = nil
		}
		if reached(pin, t) {
			pin = nil
		}
		if same := t.Tokenizer == r.m.tokenizer.Name() && len(t.Sizes) == len(t.Items); same {
			for _, n := range t.Sizes {
				tokens += n
			}
		} else {
			for i := range t.Items {
				tokens += projection.Size(r.m.tokenizer, &t.Items[i])
			}
		}
		if keep > 0 && turns >= keep {
			return true
		}
		if from != nil || pin != nil {
			return false
		}
		return tokens >= limit || keep > 0 && turns > keep/2
	}
}

// readTail returns turns of a log, oldest first: as many as enough wants.
func (m *Memory) readTail(ctx context.Context, o *origin, enough func(*tailTurn) bool) ([]tailTurn, error) {
	var tail []tailTurn
	for t, err := range m.backward(ctx, o) {
		if err != nil {
			return nil, err
		}
		tail = append(tail, t)
		if enough(&t) {
			break
		}
	}
	slices.Reverse(tail)
	return tail, nil
}

// backward yields the turns of a log, the newest first; none of nil.
func (m *Memory) backward(ctx context.Context, o *origin) iter.Seq2[tailTurn, error] {
	return func(yield func(tailTurn, error) bool) {
		for in := ""; o != nil; o = o.Fork {
			prefix := turnsPrefix(o.Lineage)
			opts := storage.ScanOptions{Reverse: true, After: prefix + pad(o.Turn+1)}
			for e, err := range storage.Scan(ctx, m.store, prefix, &opts) {
				var t *Turn
				if err == nil {
					t, err = decodeRecord[Turn](e.Key, e.Value)
				}
				if err == nil && !o.sees(t) {
					continue
				}
				if !yield(tailTurn{t, in}, err) || err != nil {
					return
				}
			}
			if o.Fork != nil {
				in = o.Fork.Execution
			}
		}
	}
}

func (r *Run) appendTurn(t *tailTurn) {
	r.places = append(r.places, place{start: r.log.Len(), in: t.in, turn: t.Number})
	sized := t.Tokenizer == r.m.tokenizer.Name() && len(t.Sizes) == len(t.Items)
	for i := range t.Items {
		if sized {
			r.log.AppendSized(t.Items[i], t.Sizes[i])
		} else {
			r.log.Append(t.Items[i])
		}
	}
}

// loadEpoch restores the epoch. One that does not fit the log any more is left
// out: the next projection opens another.
func (r *Run) loadEpoch(ctx context.Context, h *epochHead) error {
	items := make([]projection.Item, len(h.Texts))
	records := make(map[int]*Turn)
	for i := range h.Texts {
		ref := &h.Texts[i]
		t := records[ref.Turn]
		if t == nil {
			key := turnKey(r.lineage, ref.Turn)
			data, _, err := r.m.store.Get(ctx, key)
			if errors.Is(err, storage.ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			if t, err = decodeRecord[Turn](key, data); err != nil {
				return err
			}
			records[ref.Turn] = t
		}
		it, ok := t.Texts[ref.Digest]
		if !ok {
			return nil
		}
		items[i] = it
		r.texts.know(it, ref.Digest, ref.Turn, ref.Tokens)
	}
	r.epoch = r.restoreEpoch(h, items)
	return nil
}

// restoreEpoch is the opposite of saveEpoch; nil if a position is not in the log.
func (r *Run) restoreEpoch(h *epochHead, items []projection.Item) *projection.Epoch {
	ok := h.valid()
	if !ok {
		return nil
	}
	index := func(p Position) int {
		i, found := r.indexOf(p)
		ok = ok && found
		return i
	}
	output := func(o *outputHead) (out projection.Output) {
		ok = ok && len(o.Items) == len(o.Sizes)
		out.Sum = o.Sum
		for _, at := range o.Items {
			out.Items = append(out.Items, items[at])
		}
		for i := 0; ok && i < len(o.Sizes); i++ {
			out.Sizes = append(out.Sizes, o.Sizes[i])
			out.Size += o.Sizes[i]
		}
		return out
	}
	e := &projection.Epoch{
		Number: h.Number, Projections: h.Projections, Turns: h.Turns, Head: h.Head,
		From: index(h.From), Shown: index(h.Shown), Pin: -1,
		Stable: h.Stable, StableTokens: h.StableTokens, Tokens: h.Tokens, Missed: h.Missed, Misses: h.Misses,
	}
	if h.Pin != nil {
		e.Pin = index(*h.Pin)
	}
	for _, p := range h.Hidden {
		e.Hidden = append(e.Hidden, index(p))
	}
	if h.Summary != nil {
		e.Summary = &items[*h.Summary]
	}
	for i := range h.Tracks {
		t := &h.Tracks[i]
		track := projection.Track{
			Layer: t.Layer, Live: t.Live, Changed: t.Changed, Samples: t.Samples, Sum: t.Sum, Pinned: output(&t.Pinned),
		}
		if track.Told = track.Pinned; !t.Same {
			track.Told = output(&t.Told)
		}
		track.Last = track.Told // for a layer whose next Recall fails
		e.Tracks = append(e.Tracks, track)
	}
	for _, p := range h.Ledger {
		e.Ledger = append(e.Ledger, projection.Published{At: index(p.At), Item: items[p.Item], Size: p.Size})
	}
	if !ok {
		return nil
	}
	return e
}
