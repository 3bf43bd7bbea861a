package memory

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

// loadLog reads the lineage's position, the usable part of its log, and the
// epoch, if that still fits the log.
func (r *Run) loadLog(ctx context.Context) error {
	resumed := r.account.now().step > 0
	h, err := r.lineage.load(ctx, resumed)
	if err != nil {
		return err
	}
	if h == nil {
		return nil // a child that never committed cannot be resumed
	}
	var e *epochHead
	if h.Whole && !resumed || h.Execution == r.id {
		if e, err = r.readEpoch(ctx, h); err != nil {
			return err
		}
	}
	x := r.record()
	log := x.Log()
	turns, err := r.m.readTail(ctx, log, r.tailBound(e))
	if err != nil || len(turns) == 0 {
		return err
	}
	r.log.Prefix = r.m.frame.NewPrefix(turns[0].Before)
	for i := range turns {
		r.log.add(&turns[i], r.sized(&turns[i]))
	}
	r.account.reach(r.log.older(log))
	last := &turns[len(turns)-1]
	if last.in != "" {
		return nil
	}
	r.texts.seen(last.Turn)
	if e == nil {
		return nil
	}
	return r.loadEpoch(ctx, log, e, turns)
}

// readEpoch returns the epoch that the lineage's last turn left, or nil if it
// left none. That of an older head is a separate record.
func (r *Run) readEpoch(ctx context.Context, h *stored.Head) (*epochHead, error) {
	key, data := r.lineage.headKey, h.Epoch
	if !h.HasEpoch() {
		var err error
		key = r.lineage.epochKey
		if data, _, err = r.m.store.Get(ctx, key); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return nil, err
		}
	}
	if len(data) == 0 {
		return nil, nil
	}
	data, err := pack.Unpack(data)
	if err != nil {
		return nil, &storage.CorruptError{Key: key, Reason: err.Error()}
	}
	record, state, _ := bytes.Cut(data, []byte("\n"))
	e, err := stored.Decode[epochHead](key, record)
	if err != nil || len(state) == 0 || e.Turn != r.lineage.last {
		return nil, err
	}
	e.state = state
	return e, nil
}

// loadPinned returns the message that the epoch pins if it is older than the
// first turn of the log, or else nil.
func (r *Run) loadPinned(ctx context.Context, log *thread.Log, e *epochHead, first *tailTurn) (*projection.Item, error) {
	if r.m.opts.KeepTurns > 0 || e.Pin == nil || !before(e.Pin, first) {
		return nil, nil
	}
	o := log.Of(e.Pin.Execution)
	if o == nil {
		return nil, nil
	}
	key := stored.TurnKey(o.Lineage, e.Pin.Turn)
	data, _, err := r.m.store.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t, err := stored.Decode[thread.Turn](key, data)
	if err != nil || e.Pin.Item >= len(t.Items) {
		return nil, err
	}
	return &t.Items[e.Pin.Item], nil
}

// before reports whether the position is in no turn of a log that begins with
// the given one.
func before(p *thread.Position, first *tailTurn) bool {
	return p.Execution != first.in || p.Turn < first.Number
}

// tailTurn is a turn with the execution whose log it is in; empty for the
// reader's own lineage.
type tailTurn struct {
	*thread.Turn
	in string
}

// tailBound returns a function that is called with turns, newest first, and
// reports when there are enough.
func (r *Run) tailBound(e *epochHead) func(t *tailTurn) bool {
	tokens, turns := 0, 0
	limit, keep := r.m.opts.Policy.Cap(), r.m.opts.KeepTurns
	var from, pin *thread.Position // not reached yet
	if e != nil {
		if from = &e.From; keep > 0 {
			pin = e.Pin
		}
	}
	reached := func(p *thread.Position, t *tailTurn) bool {
		return p == nil || p.Execution == t.in && p.Turn >= t.Number
	}
	return func(t *tailTurn) bool {
		turns++
		if reached(from, t) {
			from = nil
		}
		if reached(pin, t) {
			pin = nil
		}
		if r.sized(t) {
			for _, n := range t.Sizes {
				tokens += n
			}
		} else {
			for i := range t.Items {
				tokens += projection.Size(r.m.frame.Tokenizer(), &t.Items[i])
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

// readTail returns turns of a log, oldest first, as many as enough demands.
func (m *Memory) readTail(ctx context.Context, log *thread.Log, enough func(*tailTurn) bool) ([]tailTurn, error) {
	var tail []tailTurn
	for t, err := range log.Backward(ctx, m.store) {
		if err != nil {
			return nil, err
		}
		at := tailTurn{Turn: t.Turn}
		if t.In != log {
			at.in = t.In.Execution
		}
		tail = append(tail, at)
		if enough(&at) {
			break
		}
	}
	slices.Reverse(tail)
	return tail, nil
}

// sized reports whether the sizes in a record come from the run's tokenizer.
func (r *Run) sized(t *tailTurn) bool {
	return t.Tokenizer == r.m.frame.Tokenizer().Name() && len(t.Sizes) == len(t.Items)
}

// loadEpoch continues the prefix of the lineage's last turn. If its state no
// longer fits the log, it is dropped, and the next projection opens an epoch.
func (r *Run) loadEpoch(ctx context.Context, log *thread.Log, e *epochHead, turns []tailTurn) error {
	pinned, err := r.loadPinned(ctx, log, e, &turns[0])
	if err != nil {
		return err
	}
	last := turns[len(turns)-1].Turn
	refs := slices.Concat(shownTexts(last), e.Texts)
	records := map[int]*thread.Turn{last.Number: last}
	texts := make([]*projection.Item, len(refs))
	r.log.restore(e, func(number int) *projection.Item {
		if number >= len(refs) || err != nil {
			return nil
		}
		if texts[number] == nil {
			texts[number], err = r.loadText(ctx, &refs[number], records)
		}
		return texts[number]
	}, pinned)
	return err
}

// shownTexts returns the references of a turn's view, each once.
func shownTexts(t *thread.Turn) []thread.ItemRef {
	if t.View == nil {
		return nil
	}
	var refs []thread.ItemRef
	seen := make(map[string]bool)
	for i := range t.View.Bands {
		for _, ref := range t.View.Bands[i].Items {
			if !seen[ref.Digest] {
				seen[ref.Digest] = true
				refs = append(refs, ref)
			}
		}
	}
	return refs
}

// loadText reads the item that is referred to, or nil if it is gone. records
// are the turns read so far.
func (r *Run) loadText(ctx context.Context, ref *thread.ItemRef, records map[int]*thread.Turn) (*projection.Item, error) {
	t := records[ref.Turn]
	if t == nil {
		key := stored.TurnKey(r.lineage.prefix, ref.Turn)
		data, _, err := r.m.store.Get(ctx, key)
		if errors.Is(err, storage.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if t, err = stored.Decode[thread.Turn](key, data); err != nil {
			return nil, err
		}
		records[ref.Turn] = t
	}
	it, ok := t.Texts[ref.Digest]
	if !ok {
		return nil, nil
	}
	r.texts.know(it, ref.Digest, ref.Turn, ref.Tokens)
	return &it, nil
}
