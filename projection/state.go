package projection

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The state of a prefix, other than its log, is stored as opaque bytes, so that
// a conversation can continue elsewhere with the prefix that the provider has
// in its cache. Numbers are unsigned varints, texts are preceded by their
// length, and a place in the log is given by the number of items after it,
// because the reader may number items differently. For items outside the log,
// such as the texts of layers, the state has only a number; the caller stores
// each of them once.

// stateFormat is the first byte of a state. In older states, texts may contain tags
// of blocks, and all of them have the role system, so the next view opens an epoch.
const stateFormat = 3

// ErrState means that a state cannot be restored: it is damaged, of a newer
// version, or taken with a different log. A prefix without it opens an epoch
// with its next view.
var ErrState = errors.New("projection: state does not fit")

// AppendState appends the state of the prefix, without its log; before the
// first view it appends nothing. ref returns a number for each item outside the
// log to which the state refers; size is the item's, in tokens, and -1 for a
// summary. Restoring the state requires these items.
func (p *Prefix) AppendState(b []byte, ref func(it *Item, size int) int) []byte {
	e := p.epoch
	if e == nil {
		return b
	}
	w := stateWriter{append(b, stateFormat), p.log.end(), ref}
	w.number(e.number, e.projections, e.turns)
	w.text(e.frame)
	w.place(e.from)
	w.place(e.shown)
	if e.pin < 0 {
		w.number(0)
	} else {
		w.number(1 + w.end - e.pin)
	}
	w.number(len(e.hidden))
	for _, i := range e.hidden {
		w.place(i)
	}
	if e.summary == nil {
		w.number(0)
	} else {
		w.number(1 + ref(e.summary, -1))
	}
	w.number(e.stable, e.stableTokens, e.tokens, e.misses, btoi(e.missed)|btoi(e.lost)<<1|btoi(e.older)<<2)
	w.number(len(e.tracks))
	for i := range e.tracks {
		t := &e.tracks[i]
		same := t.told == t.pinned || t.told.sum == t.pinned.sum && t.told.reads(t.pinned)
		w.text(t.layer)
		w.number(btoi(t.live) | btoi(same)<<1 | btoi(t.authority == Instruction)<<2)
		w.b = binary.AppendUvarint(w.b, t.changed)
		w.number(t.samples, int(t.sum), t.size)
		w.output(t.pinned)
		if !same {
			w.output(t.told)
		}
	}
	w.number(len(e.ledger))
	for i := range e.ledger {
		l := &e.ledger[i]
		w.place(l.at)
		w.number(ref(&l.item, l.size), l.size)
	}
	return w.b
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

type stateWriter struct {
	b   []byte
	end int
	ref func(it *Item, size int) int
}

func (w *stateWriter) number(ns ...int) {
	for _, n := range ns {
		w.b = binary.AppendUvarint(w.b, uint64(n))
	}
}

func (w *stateWriter) place(i int) { w.number(w.end - i) }

func (w *stateWriter) text(s string) {
	w.number(len(s))
	w.b = append(w.b, s...)
}

func (w *stateWriter) output(o *output) {
	w.number(len(o.items), int(o.sum))
	for i := range o.items {
		w.number(w.ref(&o.items[i], o.sizes[i]), o.sizes[i])
	}
}

// Restore continues from what AppendState wrote for a prefix whose log ended as
// this one does now. item returns the item with a number, or nil if it is
// missing. pinned is the user message that History named if that is older than
// this log, or else nil. If Restore fails, with [ErrState], the prefix is
// unchanged.
func (p *Prefix) Restore(state []byte, item func(number int) *Item, pinned *Item) error {
	r := stateReader{b: state, log: &p.log, find: item}
	format := r.byte()
	if r.err == nil && (format < 1 || format > stateFormat) {
		return fmt.Errorf("%w: it has version %d, and %d is known", ErrState, format, stateFormat)
	}
	e := &epoch{number: r.number(), projections: r.number(), turns: r.number(), frame: r.text(), pin: -1}
	e.from = r.place(p.log.first)
	e.shown = r.place(e.from)
	if back := r.number(); back > 0 {
		e.pin = p.log.end() - back + 1
	}
	least := e.from
	for range r.count() {
		e.hidden = append(e.hidden, r.place(least))
		least = e.hidden[len(e.hidden)-1]
	}
	if at := r.number(); at > 0 {
		e.summary = r.item(at - 1)
	}
	e.stable, e.stableTokens, e.tokens, e.misses = r.number(), r.number(), r.number(), r.number()
	flags := r.number()
	e.missed, e.lost, e.older = flags&1 != 0, flags&2 != 0, flags&4 != 0 || format < stateFormat
	for range r.count() {
		t := track{layer: r.text()}
		flags = r.number()
		if flags&4 != 0 {
			t.authority = Instruction
		}
		t.live, t.changed, t.samples, t.sum, t.size = flags&1 != 0, r.uint(), min(r.number(), 64), uint32(r.number()), r.number()
		t.pinned = r.output()
		if t.told = t.pinned; flags&2 == 0 {
			t.told = r.output()
		}
		t.last = t.told // for a layer whose next Recall fails
		e.tracks = append(e.tracks, t)
	}
	least = e.from
	for range r.count() {
		least = r.place(least)
		it, size := r.item(r.number()), r.number()
		if r.err == nil {
			e.ledger = append(e.ledger, published{at: least, item: *it, size: size})
		}
	}
	switch {
	case r.err == nil && (len(r.b) > 0 || e.number == 0):
		r.fail("it goes on")
	case pinned != nil && (e.pin < 0 || e.pin >= p.log.first):
		r.fail("it pins another message")
	}
	if r.err != nil {
		return r.err
	}
	p.epoch = e
	if pinned != nil {
		p.log.keep(e.pin, *pinned)
	}
	return nil
}

// stateReader reads a state. After an error it returns zeros.
type stateReader struct {
	b    []byte
	log  *log
	find func(number int) *Item
	err  error
}

func (r *stateReader) fail(reason string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrState, reason)
	}
	r.b = nil
}

func (r *stateReader) byte() byte {
	if len(r.b) == 0 {
		r.fail("it is cut short")
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *stateReader) uint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.fail("it is cut short")
		return 0
	}
	r.b = r.b[size:]
	return n
}

// number reads a number that cannot exceed the tokens of a view of the largest
// items.
func (r *stateReader) number() int {
	n := r.uint()
	if n > maxTokens {
		r.fail("a number is out of range")
		return 0
	}
	return int(n)
}

// count reads the number of things that follow, each of at least one byte.
func (r *stateReader) count() int {
	n := r.number()
	if n > len(r.b) {
		r.fail("it is cut short")
		return 0
	}
	return n
}

func (r *stateReader) text() string {
	n := r.count()
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// place reads a place in the log that is not before least.
func (r *stateReader) place(least int) int {
	at := r.log.end() - r.number()
	if at < least {
		r.fail("a place is not in the log, or out of order")
	}
	return at
}

func (r *stateReader) item(number int) *Item {
	if r.err != nil {
		return nil
	}
	it := r.find(number)
	if it == nil {
		r.fail("it refers to an item that is not there")
	}
	return it
}

func (r *stateReader) output() *output {
	n, sum := r.count(), uint32(r.number())
	if n == 0 {
		return nothing
	}
	out := &output{sum: sum}
	for range n {
		it := r.item(r.number())
		if size := r.number(); r.err == nil {
			out.add(*it, size)
		}
	}
	return out
}
