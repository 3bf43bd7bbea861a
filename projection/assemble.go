package projection

import (
	"context"
	"slices"
)

// assembly is the construction of one view.
type assembly struct {
	frame  *Frame
	log    *log
	layers []Contribution
	prev   *epoch // as the previous view left it; never nil
	mark   *markers
	begin  int  // earliest beginning of history if an epoch opens, as Shown said
	fresh  bool // whether the log has new items since the previous view: churn is sampled

	cap     int
	scratch *[]byte
	spare   []track // for reuse
	price   prices
	epoch   epoch // as this view leaves it
	tracks  []track
	uses    []LayerUse // by layer
	opened  string     // why an epoch opens, or ""
	notes   []string
}

// assemble builds the view, and the epoch as it leaves it. It does not change
// the prefix; the same prefix and layers yield the same view.
//
// Its cost does not depend on the length of the log, except when an epoch
// opens.
func (p *Prefix) assemble(ctx context.Context, layers []Contribution) (*View, *epoch, error) {
	a := p.assembly(layers)
	a.follow()
	reason := a.mustOpen()
	if reason == "" {
		var v *View
		if v, reason = a.resume(); reason == "" {
			return v, p.after(&a), nil
		}
		a = p.assembly(layers)
		a.follow()
	}
	v, err := a.open(ctx, reason)
	return v, p.after(&a), err
}

// assembly returns the basis of a view, and of predicting what it will show.
func (p *Prefix) assembly(layers []Contribution) assembly {
	p.markers = p.frame.markers.with(layers, p.markers)
	a := assembly{
		frame: p.frame, log: &p.log, layers: layers, mark: p.markers, prev: p.epoch, begin: p.begin, cap: p.frame.Cap(), scratch: &p.scratch,
	}
	if p.spare != nil {
		a.spare = p.spare.tracks
	}
	if a.prev == nil {
		a.prev = &epoch{from: p.log.first}
	}
	a.fresh = p.epoch == nil || p.epoch.shown != p.log.end()
	a.epoch = *a.prev
	return a
}

// after returns the epoch, in the memory of the one before the current. It is a copy:
// a pointer into the assembly would keep alive everything the view was made from,
// including the previous epoch, and so every epoch since the conversation began.
func (p *Prefix) after(a *assembly) *epoch {
	if p.spare == nil {
		p.spare = new(epoch)
	}
	*p.spare = a.epoch
	return p.spare
}

// follow brings the tracks of the layers up to date.
func (a *assembly) follow() {
	if a.fresh {
		a.epoch.turns++
	}
	a.price = a.frame.policy.prices(a.epoch.turns)
	a.uses = make([]LayerUse, len(a.layers))
	if a.tracks = a.spare; cap(a.tracks) < len(a.layers) {
		a.tracks = make([]track, len(a.layers))
	}
	a.tracks = a.tracks[:len(a.layers)]
	for i := range a.layers {
		c, t, use := &a.layers[i], &a.tracks[i], &a.uses[i]
		*use = LayerUse{Layer: c.Layer, Allocated: c.Budget}
		old := a.prev.track(i, c.Layer)
		if old != nil {
			*t = *old
		} else {
			*t = track{layer: c.Layer, last: nothing, pinned: nothing, told: nothing}
		}
		if c.Failed {
			continue
		}
		t.authority = c.Authority
		now := outputOf(a.frame.tok, a.mark, c, a.cap, t.last, a.scratch)
		use.Trimmed = now.trimmed
		if a.fresh && old != nil {
			t.sample(now.sum != t.sum)
		}
		t.last, t.sum, t.size = now, now.sum, now.size
	}
}

// mustOpen returns why the previous epoch cannot continue, or "".
func (a *assembly) mustOpen() string {
	e := a.prev
	switch {
	case e.number == 0:
		return "first projection"
	case e.older:
		return "the prompt is another version's"
	case e.frame != a.frame.digest:
		return "system text or tools changed"
	case e.missed:
		return "the provider's cache missed"
	case e.lost:
		return "history was forgotten"
	case len(e.tracks) != len(a.layers):
		return "layers changed"
	case a.log.exchange() < e.from:
		return "the newest tool exchange begins before history"
	case e.pin != a.pin(e.from):
		return "a newer message took the place of the pinned one"
	}
	for i := range a.layers {
		t := &e.tracks[i]
		if c := &a.layers[i]; t.layer != c.Layer || t.authority != c.Authority || t.live != a.placeLive(i, t.live) {
			return "layers changed"
		}
	}
	return ""
}

// placeLive reports whether a layer is placed after history. auto is the answer
// for a layer that leaves this to cost.
func (a *assembly) placeLive(i int, auto bool) bool {
	switch {
	case a.frame.policy.NoAnchors || a.layers[i].Placement == Live:
		return true
	case a.layers[i].Placement == Anchor:
		return false
	}
	return auto
}

// pin returns the newest user message if it is before from, or else -1.
func (a *assembly) pin(from int) int {
	if u := a.log.newestUser(); u < from {
		return u
	}
	return -1
}

// overBudget is the reason to open an epoch when history must be cut.
const overBudget = "history is over its budget"

// resume builds the next view of the epoch, or returns why a new one must open.
func (a *assembly) resume() (*View, string) {
	hidden, late := a.stillHidden()
	if late {
		return nil, "a tool result came late"
	}
	updates, sent := a.updates()
	live, liveSize := a.liveItems()
	anchors, anchorSize := a.epoch.anchorItems(), 0
	for i := range a.tracks {
		anchorSize = add(anchorSize, a.tracks[i].pinned.size)
	}
	h := history{from: a.epoch.from, pin: a.epoch.pin, summary: a.epoch.summary, ledger: a.epoch.ledger, hidden: hidden}
	h.measure(a)
	if a.windowStart(h.from) > h.from {
		return nil, "history is over its window"
	}
	fixed := add(add(a.frame.systemSize, anchorSize), add(add(liveSize, sent), add(a.frame.tailSize, h.published)))
	if add(fixed, h.tokens) > a.cap {
		return nil, overBudget
	}
	if a.cheaperAnew(&h, add(fixed, h.tokens), anchorSize) {
		return nil, "cheaper to start anew"
	}
	return a.finish(anchors, anchorSize, &h, live, updates, fixed), ""
}

// stillHidden returns the tool items that are left out, and whether the other
// half of one that was left out has arrived although later items were shown.
func (a *assembly) stillHidden() (hidden []int, late bool) {
	e, l := a.prev, a.log
	visible := e.shown // nothing from here to Shown was shown
	for visible > e.from && slices.Contains(e.hidden, visible-1) {
		visible--
	}
	if n := len(e.ledger); n > 0 {
		visible = max(visible, e.ledger[n-1].at)
	}
	for _, i := range e.hidden {
		if l.halved(i, e.from) {
			hidden = append(hidden, i)
		} else if i < visible {
			return nil, true
		}
	}
	for i := max(e.shown, e.from); i < l.end(); i++ {
		if l.halved(i, e.from) {
			hidden = append(hidden, i)
		}
	}
	return hidden, false
}

// updates determines what changed in the anchored layers. It publishes changes
// where that is cheaper, and returns the others as items to send, with the
// tokens of both.
func (a *assembly) updates() (sent Segment, tokens int) {
	sent = Segment{Band: BandUpdates, From: -1}
	left := 0
	for i := range a.tracks {
		left += btoi(a.changed(i))
	}
	for i := range a.tracks {
		if !a.changed(i) {
			continue
		}
		t, c, use := &a.tracks[i], &a.layers[i], &a.uses[i]
		says, _ := t.says(a.epoch.ledger)
		it, size := update(a.frame.tok, a.mark, c, t.told, t.last, c.Budget-says)
		if a.price.publish(t) {
			a.epoch.ledger = append(slices.Clip(a.epoch.ledger), published{at: a.log.end(), item: it, size: size})
			t.told = t.last
			use.Update = "published"
			continue
		}
		use.Update, use.Used = "sent", size
		if sent.Items == nil {
			sent.Items, sent.Sizes = make([]Item, 0, left), make([]int, 0, left)
		}
		sent.Items, sent.Sizes = append(sent.Items, it), append(sent.Sizes, size)
		tokens = add(tokens, size)
	}
	return sent, tokens
}

// changed reports whether an anchored layer says something other than what the
// stable prefix has for it.
func (a *assembly) changed(i int) bool {
	t := &a.tracks[i]
	return !t.live && !a.layers[i].Failed && !t.told.reads(t.last)
}

func (a *assembly) liveItems() (items []Item, tokens int) {
	n := 0
	for i := range a.tracks {
		if t := &a.tracks[i]; t.live && !a.layers[i].Failed {
			n += len(t.last.items)
			tokens = add(tokens, t.last.size)
			a.uses[i].Items, a.uses[i].Used = len(t.last.items), t.last.size
		}
	}
	items = make([]Item, 0, n)
	for i := range a.tracks {
		if t := &a.tracks[i]; t.live && !a.layers[i].Failed {
			items = append(items, t.last.items...)
		}
	}
	return items, tokens
}
