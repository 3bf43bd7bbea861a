package projection

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// Head is what stands first in every view of a lineage, measured once.
type Head struct {
	items  []Item
	size   int
	digest string
}

// NewHead returns the head made of system items, for requests that carry the
// given tools (their names and schemas, in any form that changes when they do).
func NewHead(tok Tokenizer, system []Item, tools string) *Head {
	h := &Head{items: slices.Clone(system)}
	sum := sha256.New()
	enc := json.NewEncoder(sum)
	for i := range h.items {
		h.size = add(h.size, Size(tok, &h.items[i]))
		_ = enc.Encode(&h.items[i]) // an Item always encodes, a hash never fails
	}
	sum.Write([]byte(tools))
	h.digest = hex.EncodeToString(sum.Sum(nil)[:16])
	return h
}

// Size returns the tokens of the head.
func (h *Head) Size() int { return h.size }

// Contribution is what one layer brings to a projection.
type Contribution struct {
	Layer     string
	Placement Placement
	Required  bool
	Budget    int    // tokens allocated to it; wrappers count
	Items     []Item // not wrapped; trimmed here
	Failed    bool   // recall failed: a text pinned in the epoch stays, nothing else is shown
	// Delta describes the change from old to new text shortly, or says no. It is
	// called at most once in an assembly, and what it panics with is the caller's.
	Delta func(old, new string) (delta string, ok bool)
}

// Input is everything that a view depends on.
type Input struct {
	Policy *Policy
	Head   *Head
	Layers []Contribution // in slot order
	Log    *Log
	Tail   []Item // last in the view
	Epoch  *Epoch // as the previous view left it; nil in the first projection
	Fresh  bool   // the log has new items since the last projection: churn is sampled
	From   int    // where history begins at the earliest if an epoch opens, as [Shown] said
}

// Assemble builds the view. It changes nothing that it is given, and the same
// input gives the same view. If what must be shown exceeds the cap, the error
// is a [*BudgetError].
//
// Its cost does not depend on the length of the log, except when an epoch opens.
func Assemble(ctx context.Context, in *Input) (*View, error) {
	a := newAssembly(in)
	reason := a.mustOpen()
	if reason == "" {
		v, r := a.resume()
		if r == "" {
			return v, nil
		}
		reason = r
		a = newAssembly(in)
	}
	return a.open(ctx, reason)
}

// assembly is the state of one call of Assemble.
type assembly struct {
	*Input
	tok    Tokenizer
	cap    int
	price  prices
	tail   int // tokens
	epoch  Epoch
	tracks []Track
	view   *View
}

func newAssembly(in *Input) *assembly {
	a := &assembly{Input: in, tok: in.Log.tok, cap: in.Policy.Cap()}
	prev := in.Epoch
	if prev == nil {
		prev = &Epoch{Pin: -1}
	}
	a.epoch = *prev
	if in.Fresh {
		a.epoch.Turns++
	}
	a.price = in.Policy.prices(a.epoch.Turns)
	for i := range in.Tail {
		a.tail = add(a.tail, Size(a.tok, &in.Tail[i]))
	}
	a.view = &View{Cap: a.cap, Layers: make([]LayerUse, len(in.Layers))}
	a.tracks = make([]Track, len(in.Layers))
	for i := range in.Layers {
		a.follow(i, prev)
	}
	return a
}

// follow brings the track of a layer up to date.
func (a *assembly) follow(i int, prev *Epoch) {
	c, t := &a.Layers[i], &a.tracks[i]
	if old := prev.track(i, c.Layer); old != nil {
		*t = *old
	}
	known := t.Layer != ""
	t.Layer = c.Layer
	a.view.Layers[i] = LayerUse{Layer: c.Layer, Allocated: c.Budget}
	if c.Failed {
		return
	}
	now := output(a.tok, c, a.cap, &t.Last)
	a.view.Layers[i].Trimmed = now.trimmed
	if a.Fresh && known {
		t.sample(now.Sum != t.Sum)
	}
	t.Last, t.Sum = now, now.Sum
}

// track finds the track of a layer, first where it is expected.
func (e *Epoch) track(i int, layer string) *Track {
	if i < len(e.Tracks) && e.Tracks[i].Layer == layer {
		return &e.Tracks[i]
	}
	for i := range e.Tracks {
		if e.Tracks[i].Layer == layer {
			return &e.Tracks[i]
		}
	}
	return nil
}

// mustOpen says why the previous epoch cannot go on, or "".
func (a *assembly) mustOpen() string {
	e := a.Epoch
	switch {
	case e == nil || e.Number == 0:
		return "first projection"
	case e.Head != a.Head.digest:
		return "system text or tools changed"
	case e.Missed:
		return "the provider's cache missed"
	case e.From > a.Log.Len() || e.Shown > a.Log.Len():
		return "the log is not the one of the epoch"
	case len(e.Tracks) != len(a.Layers):
		return "layers changed"
	case a.Log.exchange() < e.From:
		return "the newest tool exchange begins before history"
	case e.Pin != a.pin(e.From):
		return "a newer message took the place of the pinned one"
	}
	for i := range a.Layers {
		t := &e.Tracks[i]
		if t.Layer != a.Layers[i].Layer || t.Live != a.placeLive(i, t.Live) {
			return "layers changed"
		}
	}
	return ""
}

// placeLive says whether a layer stands after history, where auto is the answer
// for a layer that leaves it to cost.
func (a *assembly) placeLive(i int, auto bool) bool {
	switch {
	case a.Policy.NoAnchors || a.Layers[i].Placement == Live:
		return true
	case a.Layers[i].Placement == Anchor:
		return false
	}
	return auto
}

// pin returns the newest user message if it stands before from, else -1.
func (a *assembly) pin(from int) int {
	if u := a.Log.newestUser(); u < from {
		return u
	}
	return -1
}

// overBudget is why an epoch opens whose history is due for a cut.
const overBudget = "history is over its budget"

// resume builds the next view of the epoch, or says why a new one must open.
func (a *assembly) resume() (*View, string) {
	hidden, late := a.stillHidden()
	if late {
		return nil, "a tool result came late"
	}
	updates, sent := a.updates()
	live, liveSize := a.liveItems()
	anchors, anchorSize := a.epoch.anchorItems(), 0
	for i := range a.tracks {
		anchorSize = add(anchorSize, a.tracks[i].Pinned.Size)
	}
	h := history{from: a.epoch.From, pin: a.epoch.Pin, summary: a.epoch.Summary, ledger: a.epoch.Ledger, hidden: hidden}
	h.measure(a)
	if a.Policy.Overflow == SlidingWindow && h.items > a.Policy.Window {
		return nil, "history is over its window"
	}
	fixed := add(add(a.Head.size, anchorSize), add(add(liveSize, sent), add(a.tail, h.published)))
	if add(fixed, h.tokens) > a.cap {
		return nil, overBudget
	}
	if a.cheaperAnew(&h, add(fixed, h.tokens), anchorSize) {
		return nil, "cheaper to start anew"
	}
	return a.finish(anchors, anchorSize, &h, live, updates, fixed), ""
}

// stillHidden returns the tool items that are left out, and whether one that
// was left out now has its other half although later items were shown.
func (a *assembly) stillHidden() (hidden []int, late bool) {
	e, l := &a.epoch, a.Log
	visible := e.Shown // nothing was shown after the items from here to Shown
	for visible > e.From && slices.Contains(e.Hidden, visible-1) {
		visible--
	}
	if n := len(e.Ledger); n > 0 {
		visible = max(visible, e.Ledger[n-1].At)
	}
	for _, i := range e.Hidden {
		if l.halved(i, e.From) {
			hidden = append(hidden, i)
		} else if i < visible {
			return nil, true
		}
	}
	for i := max(e.Shown, e.From); i < l.Len(); i++ {
		if l.halved(i, e.From) {
			hidden = append(hidden, i)
		}
	}
	return hidden, false
}

// updates says what changed in the anchored layers: it publishes the changes
// for which that is cheaper, and returns the others as items to send, with
// the tokens of all.
func (a *assembly) updates() (sent Segment, tokens int) {
	sent = Segment{Band: BandUpdates, From: -1}
	for i := range a.tracks {
		t, c := &a.tracks[i], &a.Layers[i]
		if t.Live || c.Failed || sameText(t.Told.Items, t.Last.Items) {
			continue
		}
		says, _ := t.says(a.epoch.Ledger)
		it, size := update(a.tok, c, &t.Told, &t.Last, c.Budget-says)
		use := &a.view.Layers[i]
		if a.price.publish(t) {
			a.epoch.Ledger = append(slices.Clip(a.epoch.Ledger), Published{At: a.Log.Len(), Item: it, Size: size})
			t.Told = t.Last
			use.Update = "published"
			continue
		}
		use.Update = "sent"
		use.Used = size
		sent.Items, sent.Sizes = append(sent.Items, it), append(sent.Sizes, size)
		tokens = add(tokens, size)
	}
	return sent, tokens
}

func (a *assembly) liveItems() (items []Item, tokens int) {
	for i := range a.tracks {
		if t := &a.tracks[i]; t.Live && !a.Layers[i].Failed {
			if items == nil {
				items = t.Last.Items[:len(t.Last.Items):len(t.Last.Items)]
			} else {
				items = append(items, t.Last.Items...)
			}
			tokens = add(tokens, t.Last.Size)
			a.view.Layers[i].Items = len(t.Last.Items)
			a.view.Layers[i].Used = t.Last.Size
		}
	}
	return items, tokens
}
