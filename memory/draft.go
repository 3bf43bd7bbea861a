package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/storage"
)

// draft is what one batch does to one state key. What a try reads stays in the
// draft: cell.stored, from which a cell's settled state was computed, changes
// only when the draft settles, so that a failed try leaves no trace.
type draft struct {
	parts []part // more than one if a child and its parent share a scope: the first part's changes come first
	own   [1]part
	op    [2]storage.Op
	base  kept // what the changes build on: as the last try knew or read it

	read    bool // whether base was read for this batch, not known before
	rebased bool // whether state was computed from base, not taken from the cell
	state   any  // after the changes
	next    kept // the envelope after them
	ops     []storage.Op
	size    int // bytes

	spare []byte // reusable memory for a state
}

// part is a draft's share of one cell.
type part struct {
	run *Run
	*cell
	parent bool // run's child returns: only what returns changed is written
	covers int  // how many of its pending changes, from the first
	seen   any  // its state with those
}

// changes returns the cell's changes that the draft covers.
func (p *part) changes() []change {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pending[:p.covers:p.covers]
}

func (c *cell) changed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seed || len(c.pending) > 0
}

// hold sets d to the effect of the pending changes of the parts' cells, and reports
// whether there are any.
func (d *draft) hold(parts []part) (some bool) {
	*d = draft{rebased: len(parts) > 1, spare: d.spare}
	d.parts = append(d.own[:0], parts...)
	for i := range d.parts {
		p := &d.parts[i]
		if p.parent {
			p.covers, p.seen = p.returned()
		}
		p.mu.Lock()
		if !p.parent {
			p.covers, p.seen = len(p.pending), p.state
		}
		d.state = p.seen
		some = some || p.seed || p.covers > 0
		d.rebased = d.rebased || p.detached
		p.mu.Unlock()
	}
	return some
}

// prepare returns the ops of one try. fault is an error of the layer's data or
// code, err one of the store.
func (d *draft) prepare(ctx context.Context, again bool) (fault, err error) {
	if fault, err = d.refresh(ctx, again); fault != nil || err != nil {
		return fault, err
	}
	if fault = d.write(); fault != nil || len(d.ops) > 0 || d.read {
		return fault, nil
	}
	// The changes result in what the cell knew, and without an op nothing tests
	// that it is still so.
	if fault, err = d.refresh(ctx, true); fault != nil || err != nil {
		return fault, err
	}
	return d.write(), nil
}

// refresh reads what is stored if it may have changed, and applies the changes
// again if it has.
func (d *draft) refresh(ctx context.Context, again bool) (fault, err error) {
	first := &d.parts[0]
	if !again && !d.rebased && !first.stored.stale(first.moved) {
		d.base = first.stored
		return nil, nil
	}
	d.base, err = first.loadState(ctx, &first.stored)
	var format *FormatError
	if errors.As(err, &format) || errors.Is(err, storage.ErrCorrupt) {
		return err, nil
	}
	if err != nil {
		return nil, err
	}
	d.read = true
	d.rebased = d.rebased || !bytes.Equal(d.base.raw, first.stored.raw)
	if !d.rebased {
		return nil, nil
	}
	return d.rebase(), nil
}

// rebase applies the changes to the stored state.
func (d *draft) rebase() error {
	state, err := d.parts[0].basis(&d.base)
	if err != nil {
		return err
	}
	for i := range d.parts {
		p := &d.parts[i]
		if p.seed && !p.detached {
			state = p.settled
		}
		changes := p.changes()
		for j := range changes {
			if state, err = p.layer.apply(state, &changes[j]); err != nil {
				return err
			}
		}
	}
	d.state = state
	return nil
}

// basis returns the state to which changes are applied when base is stored.
func (c *cell) basis(base *kept) (any, error) {
	state, found, err := c.decode(base)
	switch {
	case err != nil || found:
		return state, err
	case c.kind == ScopeExecution && base.raw == nil && c.stored.raw != nil:
		// Nobody else changes it: the thread has pruned an execution that continued.
		return c.settled, nil
	case c.origin != nil && base.Clears == c.born:
		return c.origin, nil
	}
	return state, nil
}

// write encodes the draft as ops. None are needed if the changes result in what
// is stored.
func (d *draft) write() error {
	c, was := d.parts[0].cell, &d.base
	d.next = kept{Envelope: stored.Envelope{Clears: was.Clears}}
	has := was.State != nil
	var writes []write
	for i := range d.parts {
		has = has || d.parts[i].seed
		changes := d.parts[i].changes()
		for j := range changes {
			ch := &changes[j]
			if ch.clear {
				has, writes = false, nil
				d.next.Clears = was.Clears + 1
			}
			has = has || ch.update != nil
			writes = append(writes, ch.writes...)
		}
	}
	w := &d.parts[0].run.writer
	if has {
		state, err := w.states.encode(d.state)
		if err != nil {
			return err
		}
		d.next.State, d.next.Format = state, c.layer.spec.Format
	}
	d.ops, d.size = d.op[:0], 0
	if d.next.Clears == was.Clears && len(writes) == 0 && (d.next.State == nil) == (was.State == nil) && bytes.Equal(d.next.State, was.State) {
		d.next = *was
		return nil
	}
	if n := len(d.next.State); n > c.m.bounds.state {
		return fmt.Errorf("write state: %d bytes are over %d", n, c.m.bounds.state)
	}
	d.ownState()
	var ops []storage.Op
	d.next.raw, ops = d.next.Store(c.stateKey, &was.Envelope, &w.layerBytes)
	// The check keeps records out of a generation that another execution cleared,
	// so it is needed even if only records change.
	d.ops = append(d.ops, storage.Put(c.stateKey, d.next.raw).IfVersion(was.version).Making(&d.next.version))
	d.ops = append(d.ops, ops...)
	prefix := ""
	if len(writes) > 0 {
		prefix = stored.RecordsPrefix(c.prefix, d.next.Clears)
	}
	for i := range writes {
		w := &writes[i]
		if w.delete {
			d.ops = append(d.ops, storage.Remove(prefix+w.key))
		} else {
			d.ops = append(d.ops, storage.Put(prefix+w.key, w.value))
		}
	}
	for i := range d.ops {
		d.size += len(d.ops[i].Key) + len(d.ops[i].Value)
	}
	return nil
}

// ownState copies the encoded state out of the encoder's buffer: it is kept until
// the next state replaces it.
func (d *draft) ownState() {
	n := len(d.next.State)
	if n == 0 {
		return
	}
	if d.next.own = len(d.parts) == 1; cap(d.spare) < n || cap(d.spare) > 2*n {
		d.spare = make([]byte, 0, n)
	}
	d.next.State, d.spare = append(d.spare[:0], d.next.State...), nil
}

// clear prepares a written draft for reuse, with the memory of the state that it
// replaced.
func (d *draft) clear() {
	spare := d.spare
	if was := &d.base; was.own && len(d.ops) > 0 && cap(was.State) <= mostSpare && !d.next.Holds(was.State) {
		spare = was.State
	}
	*d = draft{spare: spare}
}

// settle updates the cell of one part after the batch with the draft was
// applied.
func (d *draft) settle(p *part) {
	p.mu.Lock()
	p.stored, p.seed = d.next, false
	// A detached cell continues from what came from the parent.
	inPlace := !d.rebased || p.detached
	if inPlace {
		p.pending = slices.Delete(p.pending, 0, p.covers)
		p.settled = p.seen
		p.rewind()
	}
	p.mu.Unlock()
	if !inPlace {
		p.install(d.state, p.covers)
	}
}

// drop discards the draft's changes: the layer continues as if its hooks had
// changed nothing.
func (d *draft) drop() {
	for i := range d.parts {
		p := &d.parts[i]
		p.install(p.settled, p.covers)
	}
}

// install sets the state to base plus the pending changes after the first n,
// which are done.
func (p *part) install(base any, n int) {
	p.remake(func(_ any, pending []change) (any, []change) { return base, pending[n:] })
}

// returned moves the changes made by children's returns before all other
// pending changes, and returns how many there are and the state with them. The
// caller holds the write token, and no batch holds pending changes.
func (p *part) returned() (n int, state any) {
	p.mu.Lock()
	ordered := slices.IsSortedFunc(p.pending, returnedFirst)
	p.mu.Unlock()
	if !ordered {
		p.remake(func(settled any, pending []change) (any, []change) {
			slices.SortStableFunc(pending, returnedFirst)
			return settled, pending
		})
	}
	p.mu.Lock()
	state, pending := p.settled, p.pending
	if n = slices.IndexFunc(pending, func(ch change) bool { return !ch.returned }); n < 0 {
		n, state = len(pending), p.state
	}
	p.mu.Unlock()
	if n == len(pending) {
		return n, state
	}
	for i := range n {
		next, err := p.layer.apply(state, &pending[i])
		if err != nil { // as it was not when the change was made
			return i, state
		}
		state = next
	}
	return n, state
}

// remake is the cell's remake, with a report of the dropped changes.
func (p *part) remake(f func(settled any, pending []change) (any, []change)) {
	for _, err := range p.cell.remake(f) {
		p.run.changeFailed(p.cell, "commit", err)
	}
}
