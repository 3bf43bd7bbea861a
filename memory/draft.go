package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/stratamem/strata/storage"
)

// draft is what one batch does to one state key. There is more than one cell
// if a child and its parent share a scope: the changes of the first come first.
type draft struct {
	cells []*cell
	take  []int // changes of each cell that the draft holds

	rebased bool
	state   any  // after the changes
	next    kept // the envelope after them
	ops     []storage.Op
	size    int // bytes
}

func (c *cell) changed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seed || len(c.pending) > 0
}

// newDraft returns what the pending changes of cells come to, or nil if there
// are none.
func newDraft(cells ...*cell) *draft {
	d := &draft{cells: cells, take: make([]int, len(cells))}
	some := false
	for i, c := range cells {
		c.mu.Lock()
		d.take[i] = len(c.pending)
		d.state = c.state
		some = some || c.seed || len(c.pending) > 0
		d.rebased = d.rebased || c.detached
		c.mu.Unlock()
	}
	d.rebased = d.rebased || len(cells) > 1
	if !some {
		return nil
	}
	return d
}

// refresh reads what is stored if it may have changed, and in that case makes
// the changes again on what it is now. fault is an error of the layer's data or
// code, err one of the store.
func (d *draft) refresh(ctx context.Context, again bool) (fault, err error) {
	first := d.cells[0]
	if first.stored.current && !again && !d.rebased {
		return nil, nil
	}
	now, err := loadKept(ctx, first.m.store, first.stateKey, &first.stored)
	var format *FormatError
	if errors.As(err, &format) || errors.Is(err, storage.ErrCorrupt) {
		return err, nil
	}
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(now.raw, first.stored.raw) {
		d.rebased = true
	}
	for _, c := range d.cells {
		c.mu.Lock()
		c.stored = now
		c.mu.Unlock()
	}
	if !d.rebased {
		return nil, nil
	}
	return d.rebase(), nil
}

// rebase makes the changes on the stored state.
func (d *draft) rebase() error {
	c := d.cells[0]
	state, found, err := c.decode(&c.stored)
	if err != nil {
		return err
	}
	if !found && c.origin != nil {
		state = c.origin
	}
	for i, c := range d.cells {
		c.mu.Lock()
		changes := c.pending[:d.take[i]]
		c.mu.Unlock()
		if c.seed && !c.detached {
			state = c.settled
		}
		for j := range changes {
			if state, err = c.layer.apply(state, &changes[j]); err != nil {
				return err
			}
		}
	}
	d.state = state
	return nil
}

// write encodes the draft as ops. None are needed if the changes come to what
// is stored.
func (d *draft) write() error {
	c := d.cells[0]
	was := &c.stored
	d.next = kept{envelope: envelope{Clears: was.Clears}}
	has := was.State != nil
	var writes []write
	for i, c := range d.cells {
		has = has || c.seed
		c.mu.Lock()
		changes := c.pending[:d.take[i]]
		c.mu.Unlock()
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
	if has {
		state, err := c.layer.encode(d.state)
		if err != nil {
			return err
		}
		d.next.State, d.next.Format = state, c.layer.spec.Format
	}
	d.ops, d.size = d.ops[:0], 0
	if d.next.Clears == was.Clears && len(writes) == 0 && (d.next.State == nil) == (was.State == nil) && bytes.Equal(d.next.State, was.State) {
		d.next = *was
		return nil
	}
	d.next.raw = d.next.append(make([]byte, 0, len(d.next.State)+48))
	// The check is what keeps records out of a generation that another
	// execution cleared, so it is needed even where only records change.
	d.ops = append(d.ops, storage.Put(c.stateKey, d.next.raw).IfVersion(was.version).Making(&d.next.version))
	prefix := recordsPrefix(c.prefix, d.next.Clears)
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
	if len(d.next.raw) > storage.MaxValue {
		return fmt.Errorf("write state: %d bytes are over %d", len(d.next.raw), storage.MaxValue)
	}
	return nil
}

// encode is the layer's encoding of a state. A panic is an error.
func (l *Layer) encode(state any) (data []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if data, err = l.code.encode(state); err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	return data, nil
}

// settle takes note that the batch with the draft was applied.
func (d *draft) settle() {
	if len(d.ops) > 0 {
		d.next.current = d.next.version != ""
	}
	for i, c := range d.cells {
		c.mu.Lock()
		c.stored, c.seed = d.next, false
		inPlace := !d.rebased || c.detached
		if inPlace {
			c.pending = slices.Delete(c.pending, 0, d.take[i])
			switch {
			case !c.detached:
				c.settled = d.state
			case len(c.pending) == 0:
				c.settled = c.state
			}
			c.rewind()
		}
		c.mu.Unlock()
		if !inPlace {
			c.install(d.state, d.take[i])
		}
	}
}

// drop gives up the draft's changes: the layer goes on as if its hooks had
// changed nothing.
func (d *draft) drop() {
	for i, c := range d.cells {
		c.install(c.settled, d.take[i])
	}
}
