package memory

import (
	"strconv"

	"github.com/stratamem/strata/internal/appendjson"
	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
)

// texts knows the items outside the log that a lineage showed lately: in which
// turn's record each is stored, its digest and its size. So an unchanged text
// is neither encoded nor hashed again, and costs a record only a reference.
type texts struct {
	tok     projection.Tokenizer
	keep    int // Options.KeepTurns
	byText  map[string]*text
	byItem  map[*projection.Item]*text // shortcut for items seen before, at the same address
	byHash  map[string]int             // turns of texts not seen yet by this run, by digest
	marking int                        // how often startMarking was called
	marked  []*text                    // since startMarking was called, in order
	before  []*text                    // when a turn was last stored
	fresh   []*text                    // found since then
	buffer  []byte                     // of their encodings
	spare   []*text                    // forgotten ones, to be reused
}

// text is one item with where it is stored.
type text struct {
	item    projection.Item
	digest  [32]byte // hex
	turn    int      // the turn whose record has it; 0: none yet
	tokens  int
	marking int                // when it was last marked
	index   int                // its index in marked then
	encoded []byte             // until it is stored
	next    *text              // another text with the same digest
	at      []*projection.Item // its keys in byItem
	atFirst [2]*projection.Item
}

func newTexts(tok projection.Tokenizer, keep int) *texts {
	return &texts{tok: tok, keep: keep, byText: make(map[string]*text), byItem: make(map[*projection.Item]*text), byHash: make(map[string]int)}
}

// startMarking clears the marks. stored forgets what is not marked after this.
func (t *texts) startMarking() { t.marking, t.marked = t.marking+1, t.marked[:0] }

// mark returns the text of an item, and marks it. size is negative if it must
// be counted.
func (t *texts) mark(it *projection.Item, size int) *text {
	x := t.byItem[it]
	if x == nil {
		x = t.find(it, size)
		t.byItem[it] = x
		if x.at == nil {
			x.at = x.atFirst[:0]
		}
		x.at = append(x.at, it)
	}
	if x.marking != t.marking {
		x.marking, x.index = t.marking, len(t.marked)
		t.marked = append(t.marked, x)
	}
	return x
}

// find returns the text of an item at an address where none was seen.
func (t *texts) find(it *projection.Item, size int) *text {
	key := it.Text()
	x := t.byText[key]
	for x != nil && !x.item.Equal(it) {
		x = x.next
	}
	if x != nil {
		return x
	}
	if size < 0 {
		size = projection.Size(t.tok, it)
	}
	x = t.make(it, size, t.byText[key])
	from := len(t.buffer)
	t.buffer = it.AppendJSON(t.buffer)
	x.encoded = t.buffer[from:len(t.buffer):len(t.buffer)]
	x.digest = stored.DigestHex(x.encoded)
	x.turn = t.byHash[string(x.digest[:])]
	t.byText[key] = x
	t.fresh = append(t.fresh, x)
	return x
}

// make returns a text, in the memory of a forgotten one if there is any.
func (t *texts) make(it *projection.Item, size int, next *text) *text {
	var x *text
	if n := len(t.spare); n > 0 {
		x, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		x = new(text)
	}
	x.item, x.tokens, x.next = *it, size, next
	return x
}

// turn returns the turn to whose record turn n refers for a text: n itself if
// the text is new, or stored so long ago that its record will be deleted before
// turn n.
func (t *texts) turn(x *text, n int) int {
	if x.turn == 0 || t.keep > 0 && x.turn <= n-max(t.keep/2, 1) {
		return n
	}
	return x.turn
}

// appendRef appends the ItemRef of a text in the record of turn n.
func (t *texts) appendRef(b []byte, x *text, n int) []byte {
	b = append(b, `{"d":"`...)
	b = append(b, x.digest[:]...)
	b = append(b, `","t":`...)
	b = strconv.AppendInt(b, int64(t.turn(x, n)), 10)
	b = appendjson.Text(b, "layer", x.item.Layer)
	b = appendjson.Int(b, "n", x.tokens)
	return append(b, '}')
}

// seen records where texts are stored.
func (t *texts) seen(rec *thread.Turn) {
	if rec.View == nil {
		return
	}
	for i := range rec.View.Bands {
		for _, ref := range rec.View.Bands[i].Items {
			t.byHash[ref.Digest] = ref.Turn
		}
	}
}

// stored records that turn n was written, and forgets what it does not show.
func (t *texts) stored(n int) {
	for _, x := range t.marked {
		x.turn, x.encoded = t.turn(x, n), nil
	}
	clear(t.byHash)
	for _, x := range t.fresh {
		if x.marking != t.marking { // an earlier try showed it, but not the last one
			t.forget(x)
		}
	}
	t.fresh, t.buffer = t.fresh[:0], t.buffer[:0]
	for _, x := range t.before {
		if x.marking != t.marking {
			t.forget(x)
		} else if len(x.at) > maxPlaces {
			for _, it := range x.at {
				delete(t.byItem, it)
			}
			x.at = x.at[:0]
		}
	}
	t.before, t.marked = t.marked, t.before[:0]
}

// maxPlaces bounds the shortcuts to one text.
const maxPlaces = 16

func (t *texts) forget(x *text) {
	for _, it := range x.at {
		delete(t.byItem, it)
	}
	key := x.item.Text()
	switch before := t.byText[key]; {
	case before == x && x.next == nil:
		delete(t.byText, key)
	case before == x:
		t.byText[key] = x.next
	default:
		for before != nil && before.next != x {
			before = before.next
		}
		if before == nil {
			return
		}
		before.next = x.next
	}
	*x = text{}
	t.spare = append(t.spare, x)
}

// know adds an item that is stored in the record of a turn.
func (t *texts) know(it projection.Item, digest string, turn, tokens int) {
	key := it.Text()
	x := &text{item: it, turn: turn, tokens: tokens, next: t.byText[key]}
	copy(x.digest[:], digest)
	t.byText[key] = x
	t.before = append(t.before, x)
}
