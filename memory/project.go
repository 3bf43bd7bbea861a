package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/projection"
)

// Project adds items to the log and returns what to send to the model: user
// input before the first call of a turn, tool results before each further call.
// Items from outside first pass through the Append hooks; items that the model
// made (assistant messages, tool calls, reasoning) do not. An item without ID
// or Time gets them. Text that is not valid UTF-8 is repaired, and the report
// says so.
//
// Without items, Project returns the view that it last returned in this turn.
// With items, it extends the turn. Nothing is stored before [Run.Commit].
//
// If an item cannot be accepted ([*ItemError]) or ctx ends before the items are
// in the log, nothing has changed. After any other error, such as [ErrBudget],
// the items are in the log: call again without them. An item whose ID is
// already in the turn is not added again.
//
// An item is at most 4,194,304 bytes, and the items of a turn, including the
// response, at most 4,718,592, as JSON in UTF-8. An item over these limits is
// refused, and the error says which: shorten it and call again. If the results
// of parallel calls are too large together, they can be added one by one, each
// followed by a Commit of the zero Response: until the last is there, the view
// leaves out the calls without a result.
//
// The view and its items are shared and must not be modified.
func (r *Run) Project(ctx context.Context, items ...projection.Item) (_ *projection.View, err error) {
	ctx, stop, err := r.occupy(ctx)
	if err != nil {
		return nil, fmt.Errorf("project: %w", err)
	}
	defer r.vacate(stop)
	t := r.openTurn()
	if len(items) == 0 && t.view != nil {
		return t.view, nil
	}
	if t.response != nil {
		return nil, errors.New("project: the turn has its response: commit it first")
	}
	ctx, span, traced := r.m.tracing.phase(ctx, "project", r)
	defer endSpan(r, span, &err)
	if err := r.extend(ctx, traced, items); err != nil {
		return nil, fmt.Errorf("project: %w", err)
	}
	t.view = nil
	view, err := r.assemble(ctx, span, traced)
	if err != nil {
		return nil, fmt.Errorf("project: %w", err)
	}
	t.view = view
	return view, nil
}

// openTurn returns the current turn, beginning one if there is none.
func (r *Run) openTurn() *turn {
	if r.turn != nil {
		return r.turn
	}
	r.turn = &r.room
	r.reports.open(r.id, r.account.now().step+1)
	return r.turn
}

// extend adds items to the log.
func (r *Run) extend(ctx context.Context, traced bool, items []projection.Item) error {
	t := r.turn
	in := intake{m: r.m}
	taken, err := in.complete(r.taken, items)
	if err != nil {
		return err
	}
	if r.taken = taken; r.hasAppend() { // a hook may retain its input
		r.taken = nil
	}
	if len(t.encoded) > 0 {
		taken = slices.DeleteFunc(taken, func(it projection.Item) bool { return r.holds(it.ID) })
	}
	if r.hasAppend() {
		if taken, err = r.admit(ctx, traced, &in, taken); err != nil {
			return err
		}
	}
	return r.enter(taken, &in)
}

// enter adds complete items to the log, all or none.
func (r *Run) enter(items []projection.Item, in *intake) error {
	t := r.turn
	encoded, err := r.m.appendItems(t.encoded, items)
	if err != nil {
		return err
	}
	t.encoded = encoded
	r.log.Append(items...)
	for i := range items {
		if items[i].FromUser() {
			t.fromUser = true
		}
	}
	if in.repaired > 0 {
		r.reports.warn(fmt.Sprintf("%d texts were not valid UTF-8 and were repaired", in.repaired))
	}
	return nil
}

// holds reports whether an item with an id is in the current turn.
func (w *work) holds(id string) bool {
	return slices.ContainsFunc(w.log.Items(w.log.start, w.log.Len()), func(it projection.Item) bool { return it.ID == id })
}

func (r *Run) hasAppend() bool {
	return slices.ContainsFunc(r.cells, func(c *cell) bool { return c.layer.has[hookAppend] && c.absent == "" })
}

// admit passes items from outside through the Append hooks, each consecutive
// group of them in slot order.
func (r *Run) admit(ctx context.Context, traced bool, in *intake, items []projection.Item) ([]projection.Item, error) {
	var out []projection.Item
	for len(items) > 0 {
		n := 0
		for n < len(items) && outside(&items[n]) == outside(&items[0]) {
			n++
		}
		stretch := items[:n:n]
		items = items[n:]
		if outside(&stretch[0]) {
			var err error
			if stretch, err = r.pipe(ctx, traced, in, stretch); err != nil {
				return nil, err
			}
		}
		out = append(out, stretch...)
	}
	return out, nil
}

func (r *Run) pipe(ctx context.Context, traced bool, in *intake, items []projection.Item) ([]projection.Item, error) {
	for _, i := range r.m.slots {
		if len(items) == 0 {
			break // earlier hooks have dropped all of them
		}
		c, err := r.callHook(ctx, traced, hookAppend, i, func(c *call) error {
			out, note, err := c.cell.layer.code.append(c.ctx, c.x, c.records, c.state, slices.Clip(items))
			if err != nil {
				return err
			}
			c.recalled.note = note
			if c.items, err = (&intake{m: r.m}).complete(nil, out); err == nil {
				_, err = r.m.appendItems(nil, c.items)
			}
			return err
		})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if c != nil && err == nil {
			items = c.items
		}
	}
	return items, nil
}

// assemble recalls from all layers and builds the view.
func (r *Run) assemble(ctx context.Context, span trace.Span, traced bool) (*projection.View, error) {
	hc := r.recall(ctx, traced, r.log.Shown(r.contribs))
	if err := ctx.Err(); err != nil {
		r.reportCalls(hc, nil)
		return nil, err
	}
	r.contribute(hc)
	from, _ := r.log.History()
	view, err := r.log.Project(ctx, r.contribs)
	r.reportCalls(hc, view) // a failed Recall does not fail the turn
	r.calls.keep(hc)
	if err != nil {
		return nil, err
	}
	r.reports.projected(view)
	r.m.tracing.measureView(ctx, view, from)
	if traced {
		span.SetAttributes(attrTokens.Int(view.Tokens), attrItems.Int(view.Len()))
	}
	return view, nil
}

func useOf(v *projection.View, layer string) *projection.LayerUse {
	if v == nil {
		return nil
	}
	return stored.UseOf(v.Layers, layer)
}

// recall runs the Recall hooks, telling them what is shown of the log.
func (r *Run) recall(ctx context.Context, traced bool, shown []projection.Item) *hookCalls {
	log, query := r.log.held(), r.log.Query()
	hc := r.prepare(ctx, traced, hookRecall, r.m.slots, nil)
	hc.log, hc.shown, hc.query = log, shown, query
	for i := range hc.calls {
		hc.calls[i].budget = r.contribs[i].Budget
	}
	hc.run()
	if traced && r.m.tracing.content {
		for i := range hc.calls {
			if span := hc.calls[i].span; span != nil {
				span.SetAttributes(attrQuery.String(query))
			}
		}
	}
	return hc
}

// contribute turns what the layers recalled into contributions and collects the
// changes that they want.
func (r *Run) contribute(hc *hookCalls) {
	room := r.m.bounds.outputs
	for i := range hc.calls {
		con, call := &r.contribs[i], &hc.calls[i]
		if call.cell.layer.has[hookDelta] {
			con.Delta = r.delta(hc, call.cell)
		}
		if con.Failed = !call.ok(); con.Failed {
			continue
		}
		if err := call.cell.amend(call.change); err != nil {
			call.failed = fmt.Errorf("change: %w", err)
		}
		call.passages = passages(&call.recalled, con.Texts)
		if note := unshown(call.recalled.items); note != "" {
			call.recalled.note = strings.TrimPrefix(call.recalled.note+"; "+note, "; ")
		}
		for j := range call.passages {
			n := encodedLen(call.passages[j].Text, room)
			for _, ref := range call.passages[j].Refs {
				n += encodedLen(ref, room)
			}
			if room -= n; room < 0 {
				room += n
				call.failed = fmt.Errorf("output of %d bytes at item %d is over what is left of %d", n, j, r.m.bounds.outputs)
				call.passages = call.passages[:j:j]
				break
			}
		}
		con.Texts = call.passages
	}
}

// delta returns a layer's Delta hook in the form in which package projection
// calls it, after the calls of Recall.
func (r *Run) delta(hc *hookCalls, c *cell) func(old, new string) (string, bool) {
	return func(old, new string) (string, bool) {
		d := r.prepare(hc.ctx, hc.trace, hookDelta, []int{r.m.index[c.layer.spec.ID]}, func(c *call) error {
			if text, ok := c.cell.layer.code.delta(old, new); ok {
				c.passages = []projection.Passage{{Text: strings.ToValidUTF8(text, "\uFFFD")}}
			}
			return nil
		})
		d.run()
		hc.after = append(hc.after, d)
		if call := &d.calls[0]; call.ok() && len(call.passages) > 0 {
			return call.passages[0].Text, true
		}
		return "", false
	}
}

// passages returns what a layer recalled, as valid texts. If the layer recalled
// the same as before, they are the same.
func passages(out *recalled, before []projection.Passage) []projection.Passage {
	if out.text == "" && len(out.items) == 0 {
		return nil
	}
	if len(out.items) == 0 && len(before) == 1 && before[0].Text == out.text && !before[0].Data && slices.Equal(before[0].Refs, out.refs) {
		return before
	}
	texts := make([]projection.Passage, 0, len(out.items)+1)
	add := func(text string, refs []string, data bool) {
		if text == "" {
			return
		}
		if !utf8.ValidString(text) {
			text = strings.ToValidUTF8(text, "\uFFFD")
		}
		for i := range refs {
			if !utf8.ValidString(refs[i]) {
				refs = slices.Clone(refs)
				refs[i] = strings.ToValidUTF8(refs[i], "\uFFFD")
			}
		}
		texts = append(texts, projection.Passage{Text: text, Refs: refs, Data: data})
	}
	add(out.text, out.refs, false)
	for i := range out.items {
		add(out.items[i].Text(), out.items[i].Refs, out.items[i].Remembered)
	}
	return texts
}

// unshown says which parts of recalled items a prompt does not show, or nothing
// if there are none.
func unshown(items []projection.Item) string {
	var media, names, roles int
	for i := range items {
		it := &items[i]
		media += btoi(slices.ContainsFunc(it.Parts, func(p projection.Part) bool { return p.Type != projection.TextPart }))
		names += btoi(it.Name != "" && it.Kind != projection.ToolCall) // whose text includes it
		roles += btoi(it.Kind != "" && it.Kind != projection.Message || it.Role != "" && it.Role != projection.System && !it.Remembered)
	}
	var had []string
	count := func(n int, what string) {
		if n > 0 {
			had = append(had, fmt.Sprintf("%d with %s", n, what))
		}
	}
	count(media, "an image or a file")
	count(names, "a name")
	count(roles, "a role or kind")
	if had == nil {
		return ""
	}
	return fmt.Sprintf("only the text is shown of %d items: %s", len(items), strings.Join(had, ", "))
}
