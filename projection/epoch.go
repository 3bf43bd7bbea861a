package projection

import "math/bits"

// Epoch is a run of projections of one lineage with one stable prefix. It is a
// value that [Assemble] takes and returns changed; nobody else changes it.
// From, the positions in Ledger, Hidden, Pin and Shown are log indexes, which
// the owner of the log translates when it stores an epoch.
type Epoch struct {
	Number       int         // 1 is the lineage's first
	Projections  int         // in this epoch
	Turns        int         // projections with new items, in the whole lineage
	Head         string      // digest of system items and tools
	From         int         // first item of the contiguous history
	Summary      *Item       // stands for the log before From
	Tracks       []Track     // per layer, in slot order
	Ledger       []Published // updates that became part of history, in log order
	Hidden       []int       // tool items without their other half, left out of the last view
	Pin          int         // newest user message where it stands before From; -1 otherwise
	Shown        int         // length of the log at the last projection
	Stable       int         // items in the last view's stable prefix
	StableTokens int
	Tokens       int  // of the last view
	Missed       bool // the provider reported a cache miss: open anew
	Misses       int  // in a row; at three nobody asks any more

	anchors []Item // of all tracks, in order; rebuilt when nil
}

// Track is what a lineage knows of one layer's output.
type Track struct {
	Layer   string
	Live    bool   // placed live in this epoch
	Changed uint64 // a bit per sample, the newest lowest
	Samples int    // projections that were compared with the one before, at most 64
	Sum     uint32 // of the latest output; all of it that must be stored
	Last    Output // the latest output
	Pinned  Output // what stands in the anchor band
	Told    Output // what the stable prefix says: Pinned, or what was published since
}

// Published is an update that became part of history.
type Published struct {
	At   int // it stands before the log item with this index
	Item Item
	Size int
}

// Observe returns the epoch with what the provider said of its cache after the
// first round of a turn: the prompt tokens that it read from the cache and those
// that it wrote to it, nil if it said nothing. A miss opens a new epoch, unless
// the epoch had no more than two projections, or three misses in a row show that
// asking is no use. To have read nothing and written something is no miss: the
// entry had expired, and the prefix that was sent is in the cache again.
func (e *Epoch) Observe(cacheRead, cacheWrite *int) *Epoch {
	if e == nil || cacheRead == nil {
		return e
	}
	if *cacheRead == 0 && (e.Projections <= 2 || cacheWrite != nil && *cacheWrite > 0) {
		return e
	}
	next := *e
	switch {
	case *cacheRead > 0:
		next.Misses = 0
	case next.Misses < 3:
		next.Misses++
		next.Missed = next.Misses < 3
	}
	return &next
}

// anchorItems returns the anchor band.
func (e *Epoch) anchorItems() []Item {
	if e.anchors == nil {
		for i := range e.Tracks {
			e.anchors = append(e.anchors, e.Tracks[i].Pinned.Items...)
		}
	}
	return e.anchors
}

// enoughSamples is how often an output must have been compared before its
// churn decides anything.
const enoughSamples = 3

// newestSamples are as many as tell a change of habit from chance soon enough.
// Simulated bills of 120 turns, against those of all samples alone: at most 1 %
// more for layers that change at random at one rate, 4 to 30 % less for those that
// change in 30 turns and then in none. A window or a decaying average that forgets
// as soon costs the former up to 10 % more.
const newestSamples = 12

// churn is the share of projections in which the output changed. With few
// samples it is drawn towards one half (the rule of succession). A layer that has
// become calm, or restless, is judged by its newest samples alone: they are off
// what all of them make likely by more than three standard deviations.
func (t *Track) churn() float64 {
	changed, n := float64(bits.OnesCount64(t.Changed)), float64(t.Samples)
	if t.Samples < enoughSamples {
		return (changed + 1) / (n + 2)
	}
	churn := changed / n
	if t.Samples <= newestSamples {
		return churn
	}
	newest := float64(bits.OnesCount64(t.Changed & (1<<newestSamples - 1)))
	if off := newest - newestSamples*churn; off*off > 9*newestSamples*churn*(1-churn) {
		return newest / newestSamples
	}
	return churn
}

// says returns the tokens of what the layer says in the stable prefix, and of
// what it said there before and took back.
func (t *Track) says(ledger []Published) (now, before int) {
	now = t.Pinned.Size
	for i := range ledger {
		p := &ledger[i]
		if p.Item.Layer != t.Layer {
			continue
		}
		if p.Item.Action != Add {
			now, before = 0, add(before, now)
		}
		now = add(now, p.Size)
	}
	return now, before
}

// sample records whether the output changed.
func (t *Track) sample(changed bool) {
	t.Changed <<= 1
	if changed {
		t.Changed |= 1
	}
	t.Samples = min(t.Samples+1, 64)
}
