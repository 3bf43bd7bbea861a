package projection

// prices has the costs of a token, and how many turns a prefix is expected to
// remain useful: as many as the lineage has lasted (Lindy's law), at least 8,
// and at most 20, because few conversations continue before a provider forgets
// them.
type prices struct {
	uncached, cached, horizon float64
}

func (p *Policy) prices(turns int) prices {
	u, c := p.factors()
	return prices{u, c, float64(min(max(turns, 8), 20))}
}

// publish reports whether an update is billed less if it is published once and
// carried in history than if it is sent every turn. At every change, carrying
// it costs the uncached price once and the cached price for the horizon.
func (p prices) publish(t *track) bool {
	return t.samples >= enoughSamples && p.carry(t) < p.uncached
}

// carry is the cost of a published token per turn.
func (p prices) carry(t *track) float64 {
	return t.churn() * (p.uncached + p.cached*p.horizon)
}

// live reports whether an automatic layer belongs after history: whether
// sending it every turn is billed less than keeping it still and publishing its
// changes.
func (p prices) live(t *track) bool {
	return t.samples >= enoughSamples && p.uncached < p.cached+p.carry(t)
}

// bill is the cost of a course of action: of this view, and of each later one.
type bill struct{ now, turn float64 }

func (b bill) over(turns float64) float64 { return b.now + turns*b.turn }

// cheaperAnew reports whether opening an epoch now is billed less, over the
// horizon, than continuing the present one, whose view has total tokens.
func (a *assembly) cheaperAnew(h *history, total, anchorSize int) bool {
	if !a.fresh || !a.worn(h) {
		return false
	}
	return a.billAnew(h).over(a.price.horizon) < a.billOn(h, total, anchorSize).over(a.price.horizon)
}

// worn reports whether a new epoch would look different at all: a text in the
// prefix is superseded, or a layer would change its placement.
func (a *assembly) worn(h *history) bool {
	for i := range a.tracks {
		t := &a.tracks[i]
		if t.live != a.placeLive(i, a.price.live(t)) || !t.live && !t.pinned.reads(t.last) {
			return true
		}
	}
	return len(h.ledger) > 0
}

// billOn is the bill of continuing the epoch.
func (a *assembly) billOn(h *history, total, anchorSize int) bill {
	p, cached := a.price, a.prev.stableTokens
	b := bill{
		now:  p.uncached*float64(total-cached) + p.cached*float64(cached),
		turn: p.cached * float64(a.frame.systemSize+anchorSize+h.tokens+h.published),
	}
	for i := range a.tracks {
		resent := a.tracks[i].live || a.uses[i].Update == "sent"
		b.turn += p.changes(&a.tracks[i], resent)
	}
	return b
}

// billAnew is the bill of a new epoch: the history without what was published
// in this one, after anchors, of which those before the first change are still
// cached.
func (a *assembly) billAnew(h *history) bill {
	p := a.price
	prefix, live := a.frame.systemSize+h.tokens, 0
	cached, unbroken := a.frame.systemSize, true
	var b bill
	place := func(i int) {
		t := &a.tracks[i]
		toLive := a.placeLive(i, p.live(t))
		b.turn += p.changes(t, toLive)
		if toLive {
			live += t.size
			unbroken = unbroken && len(t.pinned.items) == 0
			return
		}
		prefix += t.size
		if unbroken = unbroken && t.pinned.reads(t.last); unbroken {
			cached += t.pinned.size
		}
	}
	for _, first := range []bool{true, false} { // as they stand in the band
		for i := range a.tracks {
			if (a.tracks[i].authority == Instruction) == first {
				place(i)
			}
		}
	}
	b.turn += p.cached * float64(prefix)
	b.now = p.uncached*float64(prefix+live+a.frame.tailSize-cached) + p.cached*float64(cached)
	return b
}

// changes is the cost per turn of keeping the model up to date about a layer:
// the whole text if it is sent every turn, or else its changes, in the cheaper
// way.
func (p prices) changes(t *track, resent bool) float64 {
	if resent {
		return p.uncached * float64(t.size)
	}
	return min(p.carry(t), p.uncached) * float64(t.size)
}
