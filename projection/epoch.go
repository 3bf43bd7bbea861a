package projection

import "math/bits"

// epoch is a run of projections of one lineage with one stable prefix. It is a
// value: changing it makes another. Positions are indexes of the log.
type epoch struct {
	number       int         // 1 is the first of the lineage
	projections  int         // in this epoch
	turns        int         // projections with new items in the whole lineage
	frame        string      // digest of the frame
	from         int         // first item of the contiguous history
	summary      *Item       // replaces the log before from
	tracks       []track     // per layer, in slot order
	ledger       []published // updates that became part of history, in log order
	hidden       []int       // tool items without their other half, left out of the last view
	pin          int         // newest user message if it is before from; otherwise -1
	shown        int         // end of the log at the last projection
	stable       int         // number of items in the last view's stable prefix
	stableTokens int
	tokens       int  // of the last view
	missed       bool // the provider reported a cache miss: open a new epoch
	misses       int  // in a row; after three, misses are ignored
	lost         bool // the log has dropped items of its history: open a new epoch
	older        bool // an older version made the prompt: open a new epoch

	anchors []Item // of all tracks, in order; nil in a restored epoch
}

// track is what a lineage knows about one layer's output.
type track struct {
	layer     string
	authority Authority
	live      bool    // whether it is placed live in this epoch
	changed   uint64  // one bit per sample, the newest lowest
	samples   int     // projections compared with the previous one, at most 64
	sum       uint32  // of the latest output
	size      int     // of the latest output, in tokens
	last      *output // the latest output; in a restored epoch, told
	pinned    *output // what is in the anchor band
	told      *output // what the stable prefix says: pinned, or what was published since
}

// published is an update that became part of history.
type published struct {
	at   int // index of the log item that it precedes
	item Item
	size int
}

// observe returns the epoch updated with what the provider said about its
// cache.
func (e *epoch) observe(cacheRead, cacheWrite *int) *epoch {
	if e == nil || cacheRead == nil {
		return e
	}
	if *cacheRead == 0 && (e.projections <= 2 || cacheWrite != nil && *cacheWrite > 0) {
		return e
	}
	next := *e
	switch {
	case *cacheRead > 0:
		next.misses = 0
	case next.misses < 3:
		next.misses++
		next.missed = next.misses < 3
	}
	return &next
}

// without returns the epoch after the log has dropped the items before index
// to, except the user message at index user.
func (e *epoch) without(to, user int) *epoch {
	if e == nil || e.from >= to && (e.pin < 0 || e.pin >= to || e.pin == user) {
		return e
	}
	next := *e
	next.lost, next.from, next.shown, next.pin = true, max(e.from, to), max(e.shown, to), -1
	next.summary, next.ledger, next.hidden = nil, nil, nil
	return &next
}

// track finds the track of a layer, trying its expected index first.
func (e *epoch) track(i int, layer string) *track {
	if i < len(e.tracks) && e.tracks[i].layer == layer {
		return &e.tracks[i]
	}
	for i := range e.tracks {
		if e.tracks[i].layer == layer {
			return &e.tracks[i]
		}
	}
	return nil
}

// anchorItems returns the anchor band.
func (e *epoch) anchorItems() []Item {
	if e.anchors == nil {
		e.anchors = anchored(e.tracks)
	}
	return e.anchors
}

// anchored returns the anchor band: instructions first, which an adapter may move to
// a provider's system field, then data.
func anchored(tracks []track) (items []Item) {
	for _, data := range []bool{false, true} {
		for i := range tracks {
			for _, it := range tracks[i].pinned.items {
				if it.Remembered == data {
					items = append(items, it)
				}
			}
		}
	}
	return items
}

// enoughSamples is how often an output must have been compared before its churn
// decides anything.
const enoughSamples = 3

// newestSamples is how many samples distinguish a change of habit from chance
// soon enough. Simulated bills of 120 turns, compared with those of all samples
// alone: at most 1 % more for layers that change at random at a constant rate,
// 4 to 30 % less for those that change during 30 turns and then never. A window
// or a decaying average that forgets as fast costs the former up to 10 % more.
const newestSamples = 12

// churn is the share of projections in which the output changed. With few
// samples it is drawn towards one half (the rule of succession). A layer that
// has become calm, or restless, is judged by its newest samples alone: if they
// differ by more than three standard deviations from what all samples make
// likely.
func (t *track) churn() float64 {
	changed, n := float64(bits.OnesCount64(t.changed)), float64(t.samples)
	if t.samples < enoughSamples {
		return (changed + 1) / (n + 2)
	}
	churn := changed / n
	if t.samples <= newestSamples {
		return churn
	}
	newest := float64(bits.OnesCount64(t.changed & (1<<newestSamples - 1)))
	if off := newest - newestSamples*churn; off*off > 9*newestSamples*churn*(1-churn) {
		return newest / newestSamples
	}
	return churn
}

// says returns the tokens of what the layer says in the stable prefix, and of
// what it said there earlier and took back.
func (t *track) says(ledger []published) (now, before int) {
	now = t.pinned.size
	for i := range ledger {
		p := &ledger[i]
		if p.item.Layer != t.layer {
			continue
		}
		if p.item.Action != Add {
			now, before = 0, add(before, now)
		}
		now = add(now, p.size)
	}
	return now, before
}

// sample records whether the output changed.
func (t *track) sample(changed bool) {
	t.changed <<= 1
	if changed {
		t.changed |= 1
	}
	t.samples = min(t.samples+1, 64)
}
