package projection

import (
	"context"
	"sort"
)

// Prefix is the prompt of one conversation as it grows: the log of its items, and
// what of the last view a provider's cache holds. It takes items and what layers
// contribute, and gives views; where a cut or a changed text breaks the cached
// beginning is its decision.
//
// An index is the number of an item in the conversation, from 0, whatever the log
// has dropped. A Prefix is used by one caller at a time. The items that it gives
// are shared, with the views too: do not change them.
type Prefix struct {
	frame   *Frame
	log     log
	epoch   *epoch   // as the last view left it; nil before the first
	markers *markers // of the last layers that contributed; nil before
	scratch []byte
	spare   []track // of the epoch before
	begin   int     // where history begins at the earliest if the next view opens an epoch, as Shown said
}

// NewPrefix returns the prefix of a conversation of which the first items are not
// at hand, and never in a view: so many as earlier says.
func (f *Frame) NewPrefix(earlier int) *Prefix {
	return &Prefix{frame: f, log: newLog(f.tok, earlier)}
}

// Append adds items to the log, counting each once.
func (p *Prefix) Append(items ...Item) {
	for i := range items {
		p.log.append(items[i], Size(p.frame.tok, &items[i]))
	}
}

// AppendSized adds an item whose size is known from an earlier count by a
// tokenizer of the same name.
func (p *Prefix) AppendSized(it Item, size int) { p.log.append(it, size) }

// Fork returns a prefix with the same log, that has shown nothing yet and grows on
// its own.
func (p *Prefix) Fork() *Prefix { return &Prefix{frame: p.frame, log: p.log.clone()} }

// Items returns the items from index i up to j. All but the newest user message
// are at hand from [Prefix.First] on.
func (p *Prefix) Items(i, j int) []Item { return p.log.slice(i, j) }

// Size returns the tokens of the items from index i up to j.
func (p *Prefix) Size(i, j int) int { return p.log.size(i, j) }

// First returns the index of the oldest item at hand, and Len where the next one
// goes.
func (p *Prefix) First() int { return p.log.first }

// Len returns the number of items of the conversation, those that are not at hand
// among them.
func (p *Prefix) Len() int { return p.log.end() }

// Query returns the text of the newest user message, or "".
func (p *Prefix) Query() string {
	u := p.log.newestUser()
	if u < 0 {
		return ""
	}
	return p.log.at(u).Text()
}

// Project returns the view of what was appended and of what layers contribute now,
// in slot order. If what must be shown exceeds the cap, the error is a
// [*BudgetError]. After an error, also that of a ctx which ended meanwhile, the
// prefix is what it was.
//
// The cost does not depend on the length of the log, except when an epoch opens.
func (p *Prefix) Project(ctx context.Context, layers []Contribution) (*View, error) {
	v, e, err := p.assemble(ctx, layers)
	p.begin = 0 // what Shown said is of this view
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	if p.epoch != nil {
		p.spare = p.epoch.tracks
	}
	p.epoch = e
	return v, nil
}

// Observe tells what the provider said of its cache after the first call of a turn:
// the prompt tokens that it read from the cache and those that it wrote to it, nil
// if it said nothing. A miss opens a new epoch, unless the epoch had no more than
// two projections, or three misses in a row show that asking is no use. To have read
// nothing and written something is no miss: the entry had expired, and the prefix
// that was sent is in the cache again.
func (p *Prefix) Observe(cacheRead, cacheWrite *int) {
	p.epoch = p.epoch.observe(cacheRead, cacheWrite)
}

// Shown returns what of the log the next view will show: the items from an index
// on, without halves of tool exchanges, and before them the newest user message if it
// is older.
//
// Layers may ask for it to recall nothing twice, so it is known before they recall: it
// takes them to say as much as in the last view; Texts need not be set. The view
// shows more in a turn in which layers say so much less that nothing is cut, and
// less in one in which what they say leaves less room.
func (p *Prefix) Shown(layers []Contribution) []Item {
	var items []Item
	p.begin, items = p.shown(layers)
	return items
}

func (p *Prefix) shown(layers []Contribution) (from int, items []Item) {
	a := p.assembly(layers)
	e := a.prev
	if a.opened = a.mustOpen(); a.opened == "" {
		h := history{from: e.from, pin: e.pin}
		h.hidden, _ = a.stillHidden()
		h.measure(&a)
		over := add(e.tokens, a.log.size(e.shown, a.log.end())) > a.cap
		if !over && a.windowStart(e.from) == e.from {
			return e.from, h.shown(a.log)
		}
		a.opened = overBudget
	}
	a.tracks = make([]track, len(layers))
	for i := range layers {
		if t := e.track(i, layers[i].Layer); t != nil {
			a.tracks[i] = *t
		}
	}
	m, err := a.mustShow()
	if err != nil {
		from = min(a.epoch.from, m.begin)
		return from, a.log.slice(from, a.log.end())
	}
	room := a.cap - m.total()
	for i := range a.tracks {
		if !layers[i].Required {
			room -= min(a.tracks[i].size, room)
		}
	}
	h := history{from: min(a.epoch.from, m.begin), summary: e.summary, short: m.short, saved: m.saved}
	a.cut(&h, room+m.user+m.exchange, &m)
	h.short = nil // they are shown, if not whole
	return h.from, h.shown(a.log)
}

// History returns the index of the first item of the history of the last view, and
// that of the user message pinned before it, -1 if there is none. Before the first
// view, all is history.
func (p *Prefix) History() (from, pin int) {
	if p.epoch == nil {
		return p.log.first, -1
	}
	return p.epoch.from, p.epoch.pin
}

// Spare returns the index before which [Prefix.Drop] changes no view to come, but
// for the newest user message, and that message's index, -1 if there is none. As
// many of the newest items stay as fill a view.
func (p *Prefix) Spare() (to, user int) {
	l := &p.log
	to = l.end()
	if p.epoch != nil {
		to = min(to, p.epoch.from)
	}
	if calls, came := l.lastCalls(); calls < came { // more items may go on with them
		to = min(to, calls)
	}
	over := sort.Search(len(l.items), func(k int) bool { return l.size(l.first+k, l.end()) < p.frame.Cap() })
	return max(min(to, l.first+over-1), l.first), l.newestUser()
}

// Drop forgets the items before an index, but for the newest user message where
// keepUser says so. If the last view showed more of them, the next one opens an epoch.
func (p *Prefix) Drop(to int, keepUser bool) {
	p.log.drop(to, keepUser)
	p.epoch = p.epoch.without(to, p.log.newestUser())
}

// shown returns the items of the log that stand in history.
func (h *history) shown(l *log) []Item {
	if h.pin < 0 && len(h.hidden) == 0 {
		return l.slice(h.from, l.end())
	}
	var items []Item
	for _, s := range h.segments(nil, l) {
		if s.From >= 0 {
			items = append(items, s.Items...)
		}
	}
	return items
}
