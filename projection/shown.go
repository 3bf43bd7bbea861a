package projection

// Shown returns what of the log the view of an input will show: the items from an
// index on, without halves of tool exchanges, and before them the newest user message
// if it is older. The items are shared: do not change them.
//
// Layers may ask for it to recall nothing twice, so it is known before they recall: it
// takes them to say as much as in the last view, and Input.Layers need have no
// items. Pass the index on as Input.From, so that history is cut there if it is cut.
// The view shows more in a turn in which layers say so much less that nothing is
// cut, and less in one in which what they say leaves less room.
func Shown(in *Input) (from int, items []Item) {
	a := &assembly{Input: in, tok: in.Log.tok, cap: in.Policy.Cap(), view: &View{}, epoch: Epoch{Pin: -1}}
	if in.Epoch != nil {
		a.epoch = *in.Epoch
	}
	for i := range in.Tail {
		a.tail = add(a.tail, Size(a.tok, &in.Tail[i]))
	}
	e := &a.epoch
	if a.view.Opened = a.mustOpen(); a.view.Opened == "" {
		h := history{from: e.From, pin: e.Pin}
		h.hidden, _ = a.stillHidden()
		h.measure(a)
		over := add(e.Tokens, in.Log.Size(e.Shown, in.Log.Len())) > a.cap
		if !over && (a.Policy.Overflow != SlidingWindow || h.items <= a.Policy.Window) {
			return e.From, h.shown(in.Log)
		}
		a.view.Opened = overBudget
	}
	if e.From > in.Log.Len() {
		e.From = 0
	}
	a.tracks = make([]Track, len(in.Layers))
	for i := range in.Layers {
		if t := e.track(i, in.Layers[i].Layer); t != nil {
			a.tracks[i] = *t
		}
	}
	m, err := a.mustShow()
	if err != nil {
		from = min(e.From, m.begin)
		return from, in.Log.Slice(from, in.Log.Len())
	}
	room := a.cap - m.total()
	for i := range a.tracks {
		if !in.Layers[i].Required {
			room -= min(a.tracks[i].Last.Size, room)
		}
	}
	h := history{from: min(e.From, m.begin), summary: e.Summary, short: m.short, saved: m.saved}
	a.cut(&h, room+m.user+m.exchange, &m)
	h.short = nil // they are shown, if not whole
	return h.from, h.shown(in.Log)
}

// shown returns the items of the log that stand in history.
func (h *history) shown(log *Log) []Item {
	if h.pin < 0 && len(h.hidden) == 0 {
		return log.Slice(h.from, log.Len())
	}
	var items []Item
	for _, s := range h.segments(nil, log) {
		if s.From >= 0 {
			items = append(items, s.Items...)
		}
	}
	return items
}
