package projection

import (
	"context"
	"fmt"
	"strings"
)

// open begins a new epoch: it places the layers, cuts history if necessary, and
// builds the first view.
func (a *assembly) open(ctx context.Context, reason string) (*View, error) {
	prev := a.epoch
	a.epoch = epoch{
		number: prev.number + 1, turns: prev.turns, frame: a.frame.digest,
		from: prev.from, summary: prev.summary, misses: prev.misses,
	}
	a.opened = reason
	if s := a.epoch.summary; s != nil { // it may have been written before other layers contributed
		if now := a.summary(unwrap(s, summaryName)); !now.Equal(s) {
			a.epoch.summary = now
		}
	}
	for i := range a.tracks {
		t := &a.tracks[i]
		t.live = a.placeLive(i, a.price.live(t))
		t.pinned, t.told = nothing, nothing
	}

	must, err := a.mustShow()
	if err != nil {
		return nil, err
	}
	room := a.cap - must.total()
	_, anchorSize := a.place(false, &room)
	live, liveSize := a.place(true, &room)
	anchors := anchored(a.tracks)

	h := history{from: min(max(a.epoch.from, a.begin), must.begin), summary: a.epoch.summary, short: must.short, saved: must.saved}
	a.cutHistory(ctx, &h, room+must.user+must.exchange, &must)
	a.epoch.from, a.epoch.summary, a.epoch.pin = h.from, h.summary, h.pin
	a.epoch.anchors = anchors
	fixed := a.frame.systemSize + anchorSize + liveSize + a.frame.tailSize
	return a.finish(anchors, anchorSize, &h, live, Segment{}, fixed), nil
}

// must is the size of what every view shows, in tokens.
type must struct {
	head, user, exchange, required, tail int

	newest int // index of the newest user message, or -1
	begin  int // index where the newest tool exchange begins, or Len
	short  map[int]Item
	saved  int
}

func (m *must) total() int {
	return add(add(m.head, m.user), add(m.exchange, add(m.required, m.tail)))
}

// mustShow measures what every view shows, and shortens the results of the
// newest tool exchange if necessary.
func (a *assembly) mustShow() (must, error) {
	l := a.log
	m := must{head: a.frame.systemSize, tail: a.frame.tailSize, newest: l.newestUser(), begin: l.exchange()}
	if m.newest >= 0 {
		m.user = l.size(m.newest, m.newest+1)
	}
	for i := range a.tracks {
		if a.layers[i].Required && !a.layers[i].Failed {
			m.required = add(m.required, a.tracks[i].size)
		}
	}
	var results []int
	for i := m.begin; i < l.end(); i++ {
		if i == m.newest || l.halved(i, m.begin) {
			continue
		}
		m.exchange = add(m.exchange, l.size(i, i+1))
		if l.at(i).Kind == ToolResult {
			results = append(results, i)
		}
	}
	a.shorten(&m, results)
	if m.total() > a.cap {
		return m, &BudgetError{Cap: a.cap, System: m.head, User: m.user, Exchange: m.exchange, Required: m.required, Tail: m.tail}
	}
	return m, nil
}

// shorten cuts the texts of tool results, each in proportion, until everything
// that must be shown fits, if it does not; if necessary, to nothing.
func (a *assembly) shorten(m *must, results []int) {
	l, all := a.log, 0
	for _, i := range results {
		all = add(all, l.size(i, i+1))
	}
	over := m.total() - a.cap
	for _, toNothing := range []bool{false, true} {
		for _, i := range results {
			if m.total() <= a.cap {
				break
			}
			size := l.size(i, i+1)
			limit := 0
			if !toNothing && over < all {
				limit = mulDiv(size, all-over, all)
			}
			it, got := shortened(l.at(i).Text(), size, limit, func(text string) (Item, int) {
				it := *l.at(i)
				it.Parts = []Part{{Type: TextPart, Text: text}}
				return it, Size(a.frame.tok, &it)
			})
			was := size
			if before, ok := m.short[i]; ok {
				was = Size(a.frame.tok, &before)
			}
			if got >= was {
				continue
			}
			if m.short == nil {
				m.short = make(map[int]Item)
			}
			m.short[i] = it
			m.saved += was - got
			m.exchange -= was - got
		}
	}
	if m.saved > 0 {
		a.notes = append(a.notes, fmt.Sprintf("%d tool results of the newest exchange were shortened by %d tokens", len(m.short), m.saved))
	}
}

const cutMark = " … [shortened to fit]"

// shortened returns an item with as much of a text as fits limit tokens, and
// its size, which may still be more. made returns the item for a text and its
// size; the whole text's are given.
func shortened(text string, size, limit int, made func(text string) (Item, int)) (it Item, got int) {
	for n := len(text); ; {
		n = min(n-1, int(float64(n)*0.95*float64(max(limit, 0))/float64(max(size, 1))))
		it, size = made(strings.ToValidUTF8(text[:max(n, 0)], "") + cutMark)
		if size <= limit || n <= 0 {
			return it, size
		}
	}
}

// place fills one band with the items that fit the room, required layers first.
func (a *assembly) place(live bool, room *int) (items []Item, tokens int) {
	for i := range a.tracks {
		t, c, use := &a.tracks[i], &a.layers[i], &a.uses[i]
		if t.live != live || c.Failed {
			continue
		}
		fits := &output{items: make([]Item, 0, len(t.last.items)), sizes: make([]int, 0, len(t.last.items))}
		for j := range t.last.items {
			size := t.last.sizes[j]
			switch {
			case c.Required: // counted as part of what must be shown
			case size <= *room:
				*room -= size
			default:
				use.Skipped++
				continue
			}
			fits.add(t.last.items[j], size)
		}
		if use.Skipped == 0 {
			fits = t.last
		}
		use.Items, use.Used = len(fits.items), fits.size
		items = append(items, fits.items...)
		tokens += fits.size
		if !live {
			t.pinned, t.told = fits, t.last
		}
	}
	return items, tokens
}

// cutHistory makes history fit its budget.
func (a *assembly) cutHistory(ctx context.Context, h *history, budget int, m *must) {
	was := a.epoch.from
	a.cut(h, budget, m)
	if h.cut = h.from > was; h.cut && a.frame.policy.Overflow == Summarize {
		h.summary = a.summarize(ctx, a.dropped(was, h.from, h.summary), budget/summaryShare, h.summary)
		h.measure(a)
	}
	if h.tokens > budget { // what must be shown leaves no room for a summary
		h.summary = nil
		h.measure(a)
	}
}

// cut moves the beginning of history to where it fits its budget, together with
// a summary if there is to be one.
func (a *assembly) cut(h *history, budget int, m *must) {
	l := a.log
	settle := func(from int) {
		h.from, h.pin = from, a.pin(from)
		h.hidden = l.unpaired(from)
		h.measure(a)
	}
	settle(a.windowStart(h.from))
	full := budget
	if a.opened == overBudget && h.from <= a.epoch.from { // the prefix is lost anyway: make room for several turns
		full = budget / 4 * 3
	}
	if h.tokens > full {
		room := budget
		if a.frame.policy.Overflow == Summarize {
			room -= budget / summaryShare
		} else {
			h.summary = nil
		}
		settle(cutAt(l, h.from, m.begin, budget, func(i int) bool {
			n := l.size(i, l.end()) - h.saved
			if p := a.pin(i); p >= 0 {
				n = add(n, l.size(p, p+1))
			}
			return n <= room
		}))
	}
}

// summaryShare limits a summary to 1/summaryShare of the history budget.
const summaryShare = 8

// summarize asks the policy's function for a summary of what was dropped. If it
// fails, history is truncated and the previous summary stays.
func (a *assembly) summarize(ctx context.Context, dropped []Item, limit int, previous *Item) *Item {
	text, err := callSummarizer(ctx, a.frame.policy.Summarize, dropped, limit)
	if err != nil {
		a.notes = append(a.notes, "history was truncated, the summariser failed: "+err.Error())
		return previous
	}
	if text = strings.ToValidUTF8(text, "\uFFFD"); text == "" {
		return nil
	}
	made := func(text string) (Item, int) {
		it := *a.summary(text)
		return it, sizeWithin(a.frame.tok, &it, limit)
	}
	it, size := made(text)
	if size > limit {
		if it, size = shortened(text, size, limit, made); size > limit {
			return nil
		}
		a.notes = append(a.notes, "the summary was shortened to its budget")
	}
	return &it
}

// summary returns the item that contains a summary.
func (a *assembly) summary(text string) *Item {
	it := a.mark.wrap(summaryName, Data, "", text)
	it.Layer = ""
	return &it
}

func callSummarizer(ctx context.Context, f Summarizer, items []Item, limit int) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f(ctx, items, limit)
}

// finish joins the bands and completes the accounts.
func (a *assembly) finish(anchors []Item, anchorSize int, h *history, live []Item, updates Segment, fixed int) *View {
	e := &a.epoch
	made := new(struct { // one allocation, if there are few segments
		View
		segments    [6]Segment
		breakpoints [4]int
	})
	v := &made.View
	*v = View{
		Segments: made.segments[:0],
		Tokens:   add(fixed, h.tokens), Cap: a.cap, Opened: a.opened, Layers: a.uses, Notes: a.notes,
	}
	band := func(b Band, items []Item) {
		if len(items) > 0 {
			v.Segments = append(v.Segments, Segment{b, items, nil, -1})
		}
	}
	band(BandSystem, a.frame.system)
	band(BandAnchor, anchors)
	front := len(a.frame.system) + len(anchors)
	v.Segments = h.segments(v.Segments, a.log)
	band(BandLive, live)
	if len(updates.Items) > 0 {
		v.Segments = append(v.Segments, updates)
	}
	band(BandTail, a.frame.tail)

	before := e.stable
	if v.Opened != "" {
		before = front
	}
	v.Stable, v.StableTokens = front, a.frame.systemSize+anchorSize
	if h.pin < 0 && len(h.short) == 0 {
		v.Stable += len(h.ledger) + h.items
		v.StableTokens = add(v.StableTokens, h.tokens+h.published)
		if h.summary != nil {
			v.Stable++
		}
	}
	v.Breakpoints = breakpoints(made.breakpoints[:0], len(a.frame.system), front, before, v.Stable)

	v.History = HistoryUse{
		From: h.from, Items: h.items, Tokens: h.tokens, Budget: a.cap - fixed,
		Dropped: h.from, Unpaired: len(h.hidden), Cut: h.cut,
	}
	if h.pin >= 0 {
		v.History.Dropped--
	}
	for i := range a.tracks {
		use := &v.Layers[i]
		use.Placement, use.Authority = Live, a.layers[i].Authority
		if t := &a.tracks[i]; !t.live {
			use.Placement = Anchor
			use.inPrefix(t, h.ledger, updates.Items)
		}
		use.Yielded = max(use.Allocated-use.Used, 0)
	}

	e.projections++
	e.tracks, e.hidden, e.shown = a.tracks, h.hidden, a.log.end()
	e.stable, e.stableTokens, e.tokens, e.missed = v.Stable, v.StableTokens, v.Tokens, false
	return v
}

// inPrefix counts what an anchored layer says, and what it said earlier that is
// still in the prefix.
func (use *LayerUse) inPrefix(t *track, ledger []published, sent []Item) {
	use.Items = len(t.pinned.items)
	says, carried := t.says(ledger)
	for i := range ledger {
		if ledger[i].item.Layer == t.layer {
			use.Items++
		}
	}
	for i := range sent {
		if sent[i].Layer == t.layer {
			use.Items++
			if sent[i].Action != Add {
				says, carried = 0, add(carried, says)
			}
			says = add(says, use.Used)
		}
	}
	use.Used, use.Carried = says, carried
}

// breakpoints appends the counts that are positive and ascending.
func breakpoints(points []int, counts ...int) []int {
	last := 0
	for _, n := range counts {
		if n > last {
			points = append(points, n)
			last = n
		}
	}
	return points
}
