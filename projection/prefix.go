package projection

import (
	"context"
	"sort"
)

// Prefix is the growing prompt of one conversation: the log of its items, and
// how much of the last view a provider's cache holds. It takes items and
// contributions of layers and makes views; it decides where a cut or a changed
// text breaks the cached beginning.
//
// An index is the number of an item in the conversation, from 0, whatever the
// log has dropped. A Prefix is not safe for concurrent use. The items that it
// returns are shared, also with views, and must not be modified.
type Prefix struct {
	frame   *Frame
	log     log
	epoch   *epoch   // as the last view left it; nil before the first
	markers *markers // of the layers that contributed last; nil before
	scratch []byte
	spare   *epoch // the previous one: its memory is reused
	begin   int    // earliest beginning of history if the next view opens an epoch, as Shown said
}

// NewPrefix returns the prefix of a conversation whose first earlier items are
// missing and never appear in a view.
func (f *Frame) NewPrefix(earlier int) *Prefix {
	return &Prefix{frame: f, log: newLog(f.tok, earlier)}
}

// Append adds items to the log, and counts the tokens of each once.
func (p *Prefix) Append(items ...Item) {
	for i := range items {
		p.log.append(items[i], Size(p.frame.tok, &items[i]))
	}
}

// AppendSized adds an item whose size is known from an earlier count by a
// tokenizer of the same name.
func (p *Prefix) AppendSized(it Item, size int) { p.log.append(it, size) }

// Fork returns a prefix with the same log that has shown nothing yet and grows
// independently.
func (p *Prefix) Fork() *Prefix { return &Prefix{frame: p.frame, log: p.log.clone()} }

// Items returns the items from index i up to j. From [Prefix.First] on all
// items are available, and before it only the newest user message.
func (p *Prefix) Items(i, j int) []Item { return p.log.slice(i, j) }

// Size returns the tokens of the items from index i up to j.
func (p *Prefix) Size(i, j int) int { return p.log.size(i, j) }

// First returns the index of the oldest available item, or Len if there is
// none.
func (p *Prefix) First() int { return p.log.first }

// Len returns the number of items in the conversation, including those that are
// no longer available.
func (p *Prefix) Len() int { return p.log.end() }

// Query returns the text of the newest user message, or "".
func (p *Prefix) Query() string {
	u := p.log.newestUser()
	if u < 0 {
		return ""
	}
	return p.log.at(u).Text()
}

// Project returns the view of what was appended and of what layers contribute
// now, in slot order. If what must be shown exceeds the cap, the error is a
// [*BudgetError]. After any error, including that of a ctx that ended, the
// prefix is unchanged.
//
// The cost does not depend on the length of the log, except when an epoch
// opens.
func (p *Prefix) Project(ctx context.Context, layers []Contribution) (*View, error) {
	v, e, err := p.assemble(ctx, layers)
	p.begin = 0 // what Shown said was about this view
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	p.epoch, p.spare = e, p.epoch
	return v, nil
}

// Observe takes what the provider said about its cache after the first call of
// a turn: the prompt tokens that it read from the cache and those that it wrote
// to it, nil if it said nothing. A miss opens a new epoch, unless the epoch had
// no more than two projections, or three misses in a row show that caching does
// not work. Reading nothing but writing something is not a miss: the entry had
// expired, and the prefix that was sent is in the cache again.
func (p *Prefix) Observe(cacheRead, cacheWrite *int) {
	p.epoch = p.epoch.observe(cacheRead, cacheWrite)
}

// Shown predicts what the next view will show of the log: the items from an
// index on, without incomplete tool exchanges, preceded by the newest user
// message if it is older.
//
// Layers may use it to avoid recalling what is shown anyway, so it is available
// before they recall. It assumes that they contribute as much as in the last
// view; Texts need not be set. The view shows more in a turn in which layers
// contribute so much less that nothing is cut, and less in one in which their
// contributions leave less room.
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
	h.short = nil // they are shown, though not whole
	return h.from, h.shown(a.log)
}

// History returns the index of the first item of the last view's history, and
// that of the user message pinned before it, or -1 if there is none. Before the
// first view, everything is history.
func (p *Prefix) History() (from, pin int) {
	if p.epoch == nil {
		return p.log.first, -1
	}
	return p.epoch.from, p.epoch.pin
}

// Spare returns the index before which [Prefix.Drop] affects no future view,
// apart from the newest user message, and that message's index, or -1 if there
// is none. Enough of the newest items stay to fill a view.
func (p *Prefix) Spare() (to, user int) {
	l := &p.log
	to = l.end()
	if p.epoch != nil {
		to = min(to, p.epoch.from)
	}
	if calls, came := l.lastCalls(); calls < came { // more items may belong to the exchange
		to = min(to, calls)
	}
	over := sort.Search(len(l.items), func(k int) bool { return l.size(l.first+k, l.end()) < p.frame.Cap() })
	return max(min(to, l.first+over-1), l.first), l.newestUser()
}

// Drop forgets the items before an index, except the newest user message if
// keepUser is set. If the last view showed more of them, the next one opens an
// epoch.
func (p *Prefix) Drop(to int, keepUser bool) {
	p.log.drop(to, keepUser)
	p.epoch = p.epoch.without(to, p.log.newestUser())
}

// shown returns the items of the log that are in history.
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
