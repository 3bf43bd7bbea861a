package memory

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/stratamem/strata/internal/appendjson"
	"github.com/stratamem/strata/projection"
)

// Commit ends the turn: it adds the model's answer to the log, runs the Store
// hooks, and writes the turn's items, its record and all changes of the layers
// in one atomic batch. When it returns nil, the turn is as durable as the store
// promises. After an error nothing is lost: call Commit again, and the turn is
// finished with the response that it already has; Store hooks that have run are
// not run again. An [*ItemError] means that the response was not accepted. What
// tools change after a failed Commit becomes durable with the next Commit that
// returns nil, or with the one after that.
//
// [ErrConflict] means that other executions came first ten times in a row and
// nothing was written. What they committed stays, and the next Commit builds on
// it. Any other error of the store may come back although the batch was
// applied. Commit then checks whether it was; if the store cannot be read
// either, the next Commit or [Run.End] checks first, so a turn is never written
// twice. [ErrPruned] means that it is too late for that check: the thread has
// forgotten the turn, or the turn it was tried after, and what it changed has
// been changed since. Begin another execution.
func (r *Run) Commit(ctx context.Context, resp Response) (err error) {
	ctx, stop, err := r.occupy(ctx)
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	defer r.vacate(stop)
	ctx, span, traced := r.m.tracing.phase(ctx, "commit", r)
	defer endSpan(r, span, &err)
	r.openTurn()
	if err := r.answer(&resp); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if err := r.learn(ctx, traced); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if err := r.m.write(ctx, r, nil); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if traced {
		span.SetAttributes(attrTurn.Int(r.account.now().latest))
	}
	return nil
}

// answer adds the response to the log, once per turn.
func (r *Run) answer(resp *Response) error {
	t := r.turn
	if t.response != nil {
		return nil
	}
	in := intake{m: r.m}
	if math.IsNaN(resp.Cost) || math.IsInf(resp.Cost, 0) {
		return fmt.Errorf("cost %v is not a number", resp.Cost)
	}
	items, err := in.complete(r.taken, resp.Items)
	if err != nil {
		return err
	}
	r.taken = items
	if err := r.enter(items, &in); err != nil {
		return err
	}
	kept := *resp
	kept.Items = r.log.Items(r.log.Len()-len(items), r.log.Len())
	kept.Usage = Usage{}.Plus(resp.Usage)
	if kept.Model == "" {
		kept.Model = r.m.opts.Model
	}
	t.response = &kept
	if t.fromUser && t.view != nil {
		r.log.Observe(kept.Usage.CacheRead, kept.Usage.CacheWrite)
	}
	r.account.answered(kept.Usage, kept.Cost, kept.Model)
	return nil
}

// learn runs the Store hooks, once per turn. If ctx ends, they run again next
// time.
func (r *Run) learn(ctx context.Context, traced bool) error {
	t := r.turn
	if t.learned {
		return nil
	}
	log, added, resp := r.log.held(), r.log.Items(r.log.start+t.given, r.log.Len()), t.response
	hc := r.prepare(ctx, traced, hookStore, r.m.slots, nil)
	hc.log, hc.added, hc.response = log, added, resp
	hc.run()
	if err := ctx.Err(); err != nil {
		r.reportCalls(hc, nil)
		return err
	}
	r.amend(hc)
	r.calls.keep(hc)
	t.learned = true
	return nil
}

// amend applies the changes that hook calls returned, and reports the calls: a
// failed hook does not fail the turn.
func (r *Run) amend(hc *hookCalls) {
	for i := range hc.calls {
		c := &hc.calls[i]
		if c.ok() {
			if err := c.cell.amend(c.change); err != nil {
				c.failed = fmt.Errorf("change: %w", err)
			}
		}
	}
	r.reportCalls(hc, nil)
}

// appendRecord appends the record of the current turn, as turn n of its
// lineage. Its texts must be marked already.
func (r *Run) appendRecord(b []byte, n int, d detail) []byte {
	t := r.turn
	b = append(b, `{"v":1`...)
	b = appendjson.Int(b, "turn", n)
	b = appendjson.Text(b, "execution", r.id)
	b = appendjson.Int(b, "base", r.lineage.base)
	b = appendjson.Int(b, "step", r.account.now().step+1)
	b = appendjson.Time(b, "time", r.m.clock().Round(0).UTC())
	b = appendjson.Text(b, "tokenizer", r.m.frame.Tokenizer().Name())
	b = appendjson.Int(b, "before", r.log.start)
	if len(t.encoded) > 0 {
		b = append(appendjson.Field(b, "items"), '[')
		b = append(b, t.encoded...)
		b = append(b, ']')
		b = appendjson.Int(b, "given", t.given)
		b = append(appendjson.Field(b, "sizes"), '[')
		for i := r.log.start; i < r.log.Len(); i++ {
			if i > r.log.start {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(r.log.Size(i, i+1)), 10)
		}
		b = append(b, ']')
	}
	if t.view != nil && d == whole {
		b = r.appendView(b, t.view, n)
	}
	if d != bare {
		b = r.appendReport(b)
	}
	b = r.appendUsed(b)
	return append(r.appendTexts(b, n), '}')
}

// appendTexts appends the marked texts that turn n is the first to show, or
// that are stored in a turn too old to refer to.
func (w *work) appendTexts(b []byte, n int) []byte {
	some := false
	for _, x := range w.texts.marked {
		if w.texts.turn(x, n) != n {
			continue
		}
		if !some {
			b = append(appendjson.Field(b, "texts"), '{')
		} else {
			b = append(b, ',')
		}
		some = true
		if x.encoded == nil {
			x.encoded = x.item.AppendJSON(nil)
		}
		b = append(append(append(b, '"'), x.digest[:]...), '"', ':')
		b = append(b, x.encoded...)
	}
	if some {
		b = append(b, '}')
	}
	return b
}

// appendReport appends how the turn went.
func (r *Run) appendReport(b []byte) []byte {
	hooks, notes := r.reports.recorded()
	if t := r.turn; t.view != nil {
		v := t.view
		b = append(appendjson.Field(b, "layers"), '[')
		for i := range v.Layers {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendUse(b, &v.Layers[i])
		}
		b = append(b, ']')
		b = appendHistory(appendjson.Field(b, "history"), &v.History)
		b = appendjson.Text(b, "opened", v.Opened)
	}
	b = appendjson.Texts(b, "notes", notes)
	if len(hooks) > 0 {
		b = appendjson.Value(appendjson.Field(b, "hooks"), hooks)
	}
	return b
}

// appendUsed appends what the turn cost.
func (w *work) appendUsed(b []byte) []byte {
	if resp := w.turn.response; resp != nil {
		if u := &resp.Usage; *u != (Usage{}) {
			b = appendUsage(appendjson.Field(b, "usage"), u)
		}
		if resp.Cost != 0 {
			b = appendjson.Value(appendjson.Field(b, "cost"), resp.Cost)
		}
		b = appendjson.Text(b, "model", resp.Model)
	}
	return b
}

// appendView appends a view by reference.
func (w *work) appendView(b []byte, v *projection.View, n int) []byte {
	b = append(appendjson.Field(b, "view"), '{')
	b = strconv.AppendInt(appendjson.Field(b, "cap"), int64(v.Cap), 10)
	b = strconv.AppendInt(appendjson.Field(b, "tokens"), int64(v.Tokens), 10)
	b = appendjson.Int(b, "stable", v.Stable)
	b = appendjson.Int(b, "stable_tokens", v.StableTokens)
	b = appendjson.Ints(b, "breakpoints", v.Breakpoints)
	b = append(appendjson.Field(b, "bands"), '[')
	for i := range v.Segments {
		s := &v.Segments[i]
		if s.From >= 0 {
			b = w.appendStretch(b, s.Band, s.From, len(s.Items), n)
			continue
		}
		b = beginBand(b, s.Band)
		b = append(appendjson.Field(b, "items"), '[')
		for j := range s.Items {
			if j > 0 {
				b = append(b, ',')
			}
			b = w.texts.appendRef(b, w.texts.mark(&s.Items[j], -1), n)
		}
		b = append(b, ']', '}')
	}
	return append(b, ']', '}')
}

func beginBand(b []byte, band projection.Band) []byte {
	if b[len(b)-1] != '[' {
		b = append(b, ',')
	}
	return appendjson.String(append(b, `{"band":`...), string(band))
}

// appendStretch appends a stretch of the log: one range, or one for each
// lineage that it spans.
func (w *work) appendStretch(b []byte, band projection.Band, from, count, n int) []byte {
	for count > 0 {
		p := w.log.position(from, n)
		here := count
		if p.Execution != "" { // it may end before the stretch does
			here = min(here, w.log.endOf(p.Execution)-from)
		}
		b = beginBand(b, band)
		b = appendPosition(appendjson.Field(b, "log"), p)
		b = appendjson.Int(b, "count", here)
		b = append(b, '}')
		from, count = from+here, count-here
	}
	return b
}
