package engine

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"github.com/stratamem/strata/storage"
)

// Cursor walks the index entries of one moment in byte order. A result is valid
// until the next call; nil is the end.
type Cursor interface {
	// Seek moves to the first entry that is not before from.
	Seek(from []byte) []byte
	// Next moves to the entry after the one that Seek or Next returned.
	Next() []byte
}

// Hit is the key of a document that matches a query, or may match: if Verify is
// set, the document must pass [storage.Query.Match].
type Hit struct {
	Key    string
	Verify bool
}

// Plan answers a query with at least one condition on a field, one page of keys
// at a time. The index may change between pages.
type Plan struct {
	q      storage.Query
	fields []string // of the equalities
	after  string
	ranged []Hit // all hits of the range, in key order, once collected
	listed bool
	stale  bool
}

// NewPlan returns the plan of q.
func NewPlan(q storage.Query) *Plan {
	p := &Plan{q: q}
	for field := range q.Equal {
		p.fields = append(p.fields, field)
	}
	slices.Sort(p.fields)
	return p
}

// Hits returns the remaining hits, in key order; after a break the next call
// continues. cursor returns a cursor over the present index.
func (p *Plan) Hits(cursor func() Cursor) iter.Seq[Hit] {
	return func(yield func(Hit) bool) {
		lists := p.lists(cursor)
		for {
			from, beyond := p.q.Prefix, false
			if p.after != "" {
				from, beyond = p.after, true
			}
			hit, ok := meet(lists, from, beyond)
			if !ok || !strings.HasPrefix(hit.Key, p.q.Prefix) {
				return
			}
			p.after = hit.Key
			if !yield(hit) {
				return
			}
		}
	}
}

// lists opens the conditions.
func (p *Plan) lists(cursor func() Cursor) []posting {
	lists := make([]posting, 0, len(p.fields)+1)
	for _, field := range p.fields {
		value := p.q.Equal[field]
		lists = append(lists, &equal{
			c:      cursor(),
			prefix: appendPosting(nil, field, value),
			verify: len(value) > maxIndexed,
		})
	}
	if p.q.Range != nil {
		if !p.listed {
			p.ranged, p.listed = collect(cursor(), *p.q.Range, p.q.Prefix), true
		}
		lists = append(lists, &list{hits: p.ranged, stale: p.stale})
		p.stale = true
	}
	return lists
}

// posting has the documents of one condition, in key order.
type posting interface {
	// seek returns the first hit whose key is not before from or, if beyond is
	// set, after it.
	seek(from string, beyond bool) (Hit, bool)
}

// meet returns the first hit in all lists that is not before from or, if beyond
// is set, after it.
func meet(lists []posting, from string, beyond bool) (Hit, bool) {
	for {
		met := Hit{Key: from}
		for i, l := range lists {
			hit, ok := l.seek(met.Key, beyond && i == 0)
			if !ok {
				return Hit{}, false
			}
			met.Key = hit.Key
			met.Verify = met.Verify || hit.Verify
		}
		if len(lists) == 1 || met.Key == from {
			return met, true
		}
		from, beyond = met.Key, false // ask the first lists again from here
	}
}

// equal is the posting of one value.
type equal struct {
	c      Cursor
	prefix []byte
	verify bool
	last   string // key at the cursor, while placed
	placed bool
	seeker []byte
}

func (e *equal) seek(from string, beyond bool) (Hit, bool) {
	reached := func(key string) bool { return key > from || key == from && !beyond }
	if e.placed && reached(e.last) {
		return Hit{e.last, e.verify}, true
	}
	// The next entry is usually the one needed.
	if e.placed {
		if entry := e.c.Next(); entry == nil || !bytes.HasPrefix(entry, e.prefix) {
			return Hit{}, false
		} else if key := string(entry[len(e.prefix):]); reached(key) {
			e.last = key
			return Hit{key, e.verify}, true
		}
	}
	e.seeker = append(append(e.seeker[:0], e.prefix...), from...)
	if beyond {
		e.seeker = append(e.seeker, 0) // the key that comes right after
	}
	entry := e.c.Seek(e.seeker)
	if entry == nil || !bytes.HasPrefix(entry, e.prefix) {
		return Hit{}, false
	}
	e.last, e.placed = string(entry[len(e.prefix):]), true
	return Hit{e.last, e.verify}, true
}

// list is a posting that was collected, possibly from an earlier index.
type list struct {
	hits  []Hit
	stale bool
}

func (l *list) seek(from string, beyond bool) (Hit, bool) {
	i, found := slices.BinarySearchFunc(l.hits, from, func(h Hit, key string) int { return strings.Compare(h.Key, key) })
	if found && beyond {
		i++
	}
	l.hits = l.hits[i:]
	if len(l.hits) == 0 {
		return Hit{}, false
	}
	return Hit{l.hits[0].Key, l.hits[0].Verify || l.stale}, true
}

// collect gathers the hits of a range. The entries are ordered by value, so all
// must be read before the first key is known.
func collect(c Cursor, r storage.Range, prefix string) []Hit {
	field := appendField(nil, r.Field)
	from := r.From
	if len(from) > maxIndexed {
		from = from[:maxIndexed]
	}
	low := appendEscaped(slices.Clone(field), from)
	// A value v that was cut is stored as its first bytes p ≤ v: it may lie in the
	// range if p does not reach To, whatever follows.
	high := appendEscaped(slices.Clone(field), r.To)
	var hits []Hit
	var value []byte
	for entry := c.Seek(low); entry != nil && bytes.HasPrefix(entry, field); entry = c.Next() {
		escaped, key, cut, ok := splitEntry(entry)
		if !ok || !bytes.HasPrefix(key, []byte(prefix)) {
			continue
		}
		if r.To != "" && bytes.Compare(entry[:len(field)+len(escaped)], high) >= 0 {
			break
		}
		if !cut {
			if value = unescape(value[:0], escaped); !r.Contains(string(value)) {
				continue
			}
		}
		hits = append(hits, Hit{string(key), cut})
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		if c := strings.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		if a.Verify == b.Verify {
			return 0
		}
		if b.Verify {
			return -1
		}
		return 1
	})
	// If several values of a document match, one that is whole is enough, and
	// sorts first.
	return slices.CompactFunc(hits, func(a, b Hit) bool { return a.Key == b.Key })
}

func unescape(out, escaped []byte) []byte {
	for i := 0; i < len(escaped); i++ {
		if out = append(out, escaped[i]); escaped[i] == 0 {
			i++
		}
	}
	return out
}
