package projection

import "sort"

// history is the part of the log that a view shows, with what is inserted into
// it.
type history struct {
	from    int
	pin     int // newest user message if it is before from; otherwise -1
	summary *Item
	ledger  []published
	hidden  []int        // log indexes from from on that are left out, ascending
	short   map[int]Item // shortened tool results, by log index
	saved   int          // tokens saved by shortening

	tokens    int // of the log items and the summary
	published int // tokens of the ledger
	items     int // number of log items shown
	cut       bool
}

// measure fills in tokens, published and items.
func (h *history) measure(a *assembly) {
	n := a.log.end()
	h.items = n - h.from - len(h.hidden)
	h.tokens = a.log.size(h.from, n) - h.saved
	for _, i := range h.hidden {
		h.tokens -= a.log.size(i, i+1)
	}
	h.published = 0
	for i := range h.ledger {
		h.published = add(h.published, h.ledger[i].size)
	}
	if h.summary != nil {
		h.tokens = add(h.tokens, Size(a.frame.tok, h.summary))
	}
	if h.pin >= 0 {
		h.tokens = add(h.tokens, a.log.size(h.pin, h.pin+1))
		h.items++
	}
}

// segments appends the history band to segs. The log is shared, not copied.
func (h *history) segments(segs []Segment, l *log) []Segment {
	own := func(it Item) { segs = append(segs, Segment{BandHistory, []Item{it}, nil, -1}) }
	stretch := func(i, j int) {
		if i < j {
			segs = append(segs, Segment{BandHistory, l.slice(i, j), nil, i})
		}
	}
	if h.summary != nil {
		own(*h.summary)
	}
	if h.pin >= 0 {
		stretch(h.pin, h.pin+1)
	}
	at := h.from
	ledger := h.ledger
	upTo := func(i int) {
		for len(ledger) > 0 && ledger[0].at <= i {
			stretch(at, max(at, ledger[0].at))
			at = max(at, ledger[0].at)
			own(ledger[0].item)
			ledger = ledger[1:]
		}
		stretch(at, i)
		at = i
	}
	hidden := h.hidden
	for _, i := range h.breaks() {
		upTo(i)
		if len(hidden) > 0 && hidden[0] == i {
			hidden = hidden[1:]
		} else {
			own(h.short[i])
		}
		at = i + 1
	}
	upTo(l.end())
	return segs
}

// breaks returns the log indexes where shared stretches end: at items that are
// left out or shortened.
func (h *history) breaks() []int {
	if len(h.short) == 0 {
		return h.hidden
	}
	b := append([]int(nil), h.hidden...)
	for i := range h.short {
		b = append(b, i)
	}
	sort.Ints(b)
	return b
}

// windowStart returns where history that begins at from must begin for the
// sliding window. That is from, as long as the window holds all items from
// there on and the user's newest message, which is shown before history if it
// is older. Otherwise at least half of the window is kept, beginning at a user
// message if one is in the right place. What must be shown is shown, even if
// that exceeds the window.
func (a *assembly) windowStart(from int) int {
	if a.frame.policy.Overflow != SlidingWindow {
		return from
	}
	l, window := a.log, a.frame.policy.Window
	n, pinned := l.end(), btoi(a.pin(from) >= 0)
	if n-from+pinned <= window {
		return from
	}
	half := max(from, n-(window+1)/2)
	start := l.userAtMost(half)
	if start < max(from, n-window) {
		// There is no user message there, so the newest may be in front.
		start = max(l.exchangeAt(half), from, n-window+btoi(a.pin(half) >= 0))
	}
	return max(from, min(start, l.exchange()))
}

// cutAt returns where history must begin to fit budget tokens: it keeps at
// least half of the budget, so that several turns fit again, and begins at a
// user message if one is in the right place. last is the last index allowed;
// fits says whether history that begins at i fits.
func cutAt(l *log, from, last, budget int, fits func(i int) bool) int {
	n := l.end()
	// half is the last index from which at least half of the budget is kept.
	half := from + sort.Search(last-from+1, func(k int) bool { return 2*l.size(from+k, n) < budget }) - 1
	if half = max(half, from); half < n {
		half = max(l.exchangeAt(half), from) // keep a call with its result
	}
	if u := l.userAtMost(half); u > from && 4*l.size(u, n) <= 3*budget && fits(u) {
		return u
	}
	return half + sort.Search(last-half, func(k int) bool { return fits(half + k) })
}

// dropped returns the items that a cut from one index to another removes from
// view.
func (a *assembly) dropped(from, to int, summary *Item) []Item {
	var items []Item
	if summary != nil {
		items = append(items, *summary)
	}
	return append(items, a.log.slice(from, to)...)
}
