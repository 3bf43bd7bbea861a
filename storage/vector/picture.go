package vector

import (
	"math"
	"slices"
)

// picture has the vectors of an index in the form that searches need: in
// contiguous rows, along with what is known about each ID, including deleted
// ones that are still in a segment.
type picture struct {
	dim    int
	words  int // in a code
	slots  []slot
	free   []uint32 // slots without an ID
	byID   map[string]uint32
	owners []uint32 // the slot of each row
	blocks []block
	time   uint64 // the highest of all entries

	average []int16 // codes are relative to it
	coded   int     // number of rows when the average was computed
	changed int     // rows since
	stale   bool    // an ID lost its newest entry but has older ones: read everything again
}

// slot is what is known about an ID: its newest entry, and how many segments
// have an entry for it.
type slot struct {
	id     string
	newest stamp
	refs   int32
	older  int32
	row    int32 // -1: deleted
	in     *part // of the segments that have it, the one loaded last
}

// part is a loaded segment.
type part struct {
	entries   []held
	weight    int
	vectors   int
	dead      int // number of superseded vectors
	deletions int
}

// held is an entry of a part.
type held struct {
	stamp
	slot uint32
}

// block is up to blockRows vectors. The codes of eight are interleaved, first
// the first word of each, then the second, so that eight are compared at once,
// whatever the number of words.
type block struct {
	vectors []int16
	codes   []uint64
	radii   []float32 // depends on the distance from the average; see search.rank
}

const (
	blockRows = 1024
	lanes     = 8
)

func newPicture(dim int) *picture {
	return &picture{dim: dim, words: (dim + 63) / 64, byID: make(map[string]uint32), average: make([]int16, dim)}
}

func (p *picture) len() int { return len(p.owners) }

// vector returns the vector of a row.
func (p *picture) vector(row uint32) []int16 {
	at := int(row%blockRows) * p.dim
	return p.blocks[row/blockRows].vectors[at : at+p.dim : at+p.dim]
}

// find returns the row of an ID that is not deleted.
func (p *picture) find(id string) (uint32, bool) {
	at, ok := p.byID[id]
	if !ok || p.slots[at].row < 0 {
		return 0, false
	}
	return uint32(p.slots[at].row), true
}

// load adds a segment.
func (p *picture) load(s *segment) *part {
	l := &part{entries: make([]held, len(s.entries)), weight: s.weight()}
	for i := range s.entries {
		e := &s.entries[i]
		p.time = max(p.time, e.time)
		if e.sum == gone {
			l.deletions++
		} else {
			l.vectors++
		}
		at, ok := p.byID[e.id]
		if !ok {
			at = p.slotOf(e.id)
		}
		l.entries[i] = held{e.stamp, at}
		t := &p.slots[at]
		order := e.compare(t.newest)
		if !ok {
			order = 1
		}
		switch {
		case order < 0:
			t.older++
			if e.sum != gone {
				l.dead++
			}
		case order == 0:
			t.refs++
			t.in = l
		default:
			if ok && t.newest.sum != gone {
				t.in.dead++
			}
			t.older += t.refs
			t.refs, t.newest, t.in = 1, e.stamp, l
			p.set(at, e.vector)
		}
	}
	return l
}

// unload removes a segment that no longer exists.
func (p *picture) unload(l *part) {
	for _, h := range l.entries {
		t := &p.slots[h.slot]
		if h.stamp != t.newest {
			t.older--
			continue
		}
		if t.refs--; t.refs > 0 {
			continue
		}
		if t.older > 0 {
			p.stale = true
		}
		p.set(h.slot, nil)
		delete(p.byID, t.id)
		*t = slot{row: -1}
		p.free = append(p.free, h.slot)
	}
}

func (p *picture) slotOf(id string) uint32 {
	var at uint32
	if n := len(p.free); n > 0 {
		at, p.free = p.free[n-1], p.free[:n-1]
	} else {
		at = uint32(len(p.slots))
		p.slots = append(p.slots, slot{})
	}
	p.slots[at] = slot{id: id, row: -1}
	p.byID[id] = at
	return at
}

// set gives a slot a vector, or removes it.
func (p *picture) set(at uint32, vector []int16) {
	t := &p.slots[at]
	switch {
	case vector != nil:
		if t.row < 0 {
			t.row = int32(p.len())
			p.owners = append(p.owners, at)
			p.grow()
		}
		p.write(uint32(t.row), vector)
	case t.row >= 0:
		last := uint32(p.len() - 1)
		if row := uint32(t.row); row != last {
			p.write(row, p.vector(last))
			p.owners[row] = p.owners[last]
			p.slots[p.owners[row]].row = t.row
		}
		p.owners = p.owners[:last]
		if last%blockRows == 0 {
			p.blocks = p.blocks[:len(p.blocks)-1]
		}
		t.row = -1
		p.changed++
	}
}

// grow allocates memory for the last row.
func (p *picture) grow() {
	row := p.len() - 1
	if row%blockRows == 0 {
		var b block
		if row > 0 { // the first grows as needed
			b.vectors = make([]int16, 0, blockRows*p.dim)
			b.codes = make([]uint64, 0, blockRows*p.words)
			b.radii = make([]float32, 0, blockRows)
		}
		p.blocks = append(p.blocks, b)
	}
	b, at := &p.blocks[row/blockRows], row%blockRows
	if need := (at + 1) * p.dim; len(b.vectors) < need {
		b.vectors = slices.Grow(b.vectors, p.dim)[:need]
	}
	if need := (at/lanes + 1) * lanes * p.words; len(b.codes) < need {
		b.codes = slices.Grow(b.codes, lanes*p.words)[:need]
		b.radii = slices.Grow(b.radii, lanes)[:at/lanes*lanes+lanes]
	}
}

func (p *picture) write(row uint32, vector []int16) {
	copy(p.vector(row), vector)
	p.changed++
	if p.coded > 0 {
		p.code(row)
	}
}

// settle computes the average again and codes every row by it, once as many
// rows have changed as there were the last time.
func (p *picture) settle() {
	if p.changed <= p.coded {
		return
	}
	p.coded, p.changed = p.len(), 0
	if p.coded == 0 {
		return
	}
	sums := make([]int64, p.dim)
	for row := range uint32(p.coded) {
		for i, x := range p.vector(row) {
			sums[i] += int64(x)
		}
	}
	for i, sum := range sums {
		p.average[i] = int16(sum / int64(p.coded))
	}
	for row := range uint32(p.coded) {
		p.code(row)
	}
}

// code sets the code and the radius of a row.
func (p *picture) code(row uint32) {
	b, at := &p.blocks[row/blockRows], int(row%blockRows)
	codes := b.codes[at/lanes*lanes*p.words+at%lanes:]
	v := p.vector(row)
	for w := range p.words {
		codes[w*lanes] = p.word(v, w)
	}
	b.radii[at] = float32(p.fromAverage(v) * math.Sqrt(rankScale/2))
}

// fromAverage returns the distance of a vector from the average.
func (p *picture) fromAverage(vector []int16) float64 {
	average := p.average[:len(vector)]
	sum := int64(0)
	for i, x := range vector {
		d := int64(x) - int64(average[i])
		sum += d * d
	}
	return math.Sqrt(float64(sum)) / one
}

// word returns 64 bits of the code of a vector: which coordinates are above the
// average.
func (p *picture) word(vector []int16, w int) uint64 {
	v := vector[w*64 : min(w*64+64, p.dim)]
	average := p.average[w*64:][:len(v)]
	var word uint64
	for i, x := range v {
		word |= uint64(uint32(int32(average[i])-int32(x))>>31) << i
	}
	return word
}
