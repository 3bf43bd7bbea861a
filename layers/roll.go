package layers

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/storage"
)

// roll is a segment of a [nameIndex]: the names that some turns mention, and
// where. It is searched in its stored form, unpacked:
//
//	2                                    the format
//	rows                                 their number
//	rows × (stamp, 4 bytes)              an item, and the turn that it is of: the row of
//	                                     that turn's key × 2, + 1 for one at otherPrefix
//	names                                their number
//	names × (length, name, mentions, …)  by name; of the mentions, the newest first, how
//	                                     many rows back from the one before, or from the
//	                                     last, and the line in the turn's record
//
// Rows ascend. Numbers are varints, except that of a turn, which is big-endian.
// Segments of older stores are JSON, see [olderRoll].
type roll struct {
	data  []byte
	rows  int
	names int // where they begin
}

const (
	rollFormat = 2
	rowSize    = len(stamp{}) + 4
)

// stamp is an [itemKey] in shorter form: the time and the digest.
type stamp [18]byte

// stampOf returns the stamp of an itemKey, and false for anything else.
func stampOf(key string) (s stamp, ok bool) {
	if len(key) != 2*len(s)+1 || key[16] != '-' {
		return s, false
	}
	_, err := hex.Decode(s[:8], []byte(key[:16]))
	_, failure := hex.Decode(s[8:], []byte(key[17:]))
	return s, err == nil && failure == nil
}

func (s stamp) String() string { return hex.EncodeToString(s[:8]) + "-" + hex.EncodeToString(s[8:]) }

func (s stamp) time() int64 { return int64(binary.BigEndian.Uint64(s[:8])) }

func (s stamp) compare(o stamp) int { return bytes.Compare(s[:], o[:]) }

// spot is one mention of a name.
type spot struct {
	row
	line int // of the record
}

// row is an item and its turn.
type row struct {
	item, turn stamp
	other      bool // whether the turn's record is at otherPrefix
}

func (r row) compare(o row) int {
	switch c := r.item.compare(o.item); {
	case c != 0:
		return c
	case r.turn != o.turn:
		return r.turn.compare(o.turn)
	case r.other != o.other && o.other:
		return -1
	case r.other != o.other:
		return 1
	}
	return 0
}

// record returns the key of the turn's record.
func (r row) record() string {
	if r.other {
		return otherPrefix + r.turn.String()
	}
	return turnPrefix + r.turn.String()
}

// newestFirst sorts mentions and removes duplicates.
func newestFirst(list []spot) []spot {
	slices.SortFunc(list, func(a, b spot) int { return cmp.Or(b.row.compare(a.row), cmp.Compare(b.line, a.line)) })
	return slices.Compact(list)
}

// rollOf returns a segment of mentions by name, the newest of each.
func rollOf(names map[string][]spot) []byte {
	had := make(map[row]bool)
	for name, list := range names {
		list = newestFirst(list)
		names[name] = list[:min(len(list), maxPlace)]
		for _, s := range names[name] {
			had[s.row] = true
		}
	}
	items := make(map[stamp]bool)
	for r := range had {
		items[r.item] = true
	}
	for _, r := range slices.Collect(maps.Keys(had)) {
		if !items[r.turn] {
			had[row{item: r.turn, turn: r.turn}] = true
		}
	}
	rows := slices.SortedFunc(maps.Keys(had), row.compare)
	at := make(map[row]int, len(rows))
	b := binary.AppendUvarint([]byte{rollFormat}, uint64(len(rows)))
	for i, r := range rows {
		at[r] = i
		turn, _ := slices.BinarySearchFunc(rows, r.turn, func(r row, turn stamp) int { return r.item.compare(turn) })
		turn *= 2
		if r.other {
			turn++
		}
		b = binary.BigEndian.AppendUint32(append(b, r.item[:]...), uint32(turn))
	}
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		b = append(binary.AppendUvarint(b, uint64(len(name))), name...)
		b = binary.AppendUvarint(b, uint64(len(names[name])))
		before := len(rows) - 1
		for _, s := range names[name] {
			b = binary.AppendUvarint(b, uint64(before-at[s.row]))
			b = binary.AppendUvarint(b, uint64(s.line))
			before = at[s.row]
		}
	}
	return b
}

// loadRoll returns a segment, checked so that nothing in it points outside.
func loadRoll(key string, stored []byte) (*roll, error) {
	damaged := &storage.CorruptError{Key: key, Reason: "segment of an index of names is damaged", Repair: "clear the layer"}
	value, err := pack.Unpack(stored)
	if err == nil && bytes.HasPrefix(value, []byte("{")) {
		value, err = olderRoll(value)
	}
	if err != nil {
		return nil, damaged
	}
	r := &roll{data: slices.Clip(value)}
	if !r.sound() {
		return nil, damaged
	}
	return r, nil
}

// sound records where things are in the data, and reports whether all mentions
// refer to existing items and turns.
func (r *roll) sound() bool {
	n := numbers{r.data, 0}
	if n.next() != rollFormat {
		return false
	}
	rows := n.next()
	n.at += rows * rowSize
	if rows < 0 || rows > len(r.data) || n.at > len(r.data) {
		return false
	}
	r.rows, r.names = rows, n.at
	for i := range rows {
		if turn := r.turn(i); turn/2 >= rows {
			return false
		}
	}
	for range n.next() {
		size := n.next()
		if n.at += size; size < 0 || n.at > len(r.data) {
			return false
		}
		mentions := n.next()
		if mentions <= 0 {
			return false
		}
		row := rows - 1
		for range mentions {
			back, line := n.next(), n.next()
			if row -= back; back < 0 || line < 0 || row < 0 {
				return false
			}
		}
	}
	return n.at == len(r.data)
}

// numbers reads varints. At the end of the data, or if it is malformed, next
// returns -1.
type numbers struct {
	data []byte
	at   int
}

func (n *numbers) next() int {
	if n.at < len(n.data) && n.data[n.at] < 0x80 { // nearly always
		n.at++
		return int(n.data[n.at-1])
	}
	if n.at > len(n.data) {
		return -1
	}
	v, size := binary.Uvarint(n.data[n.at:])
	if size <= 0 || v > maxNumber {
		n.at = len(n.data) + 1
		return -1
	}
	n.at += size
	return int(v)
}

// maxNumber bounds a varint, so that the sum of two does not overflow.
const maxNumber = 1 << 30

// first returns where the rows begin.
func (r *roll) first() int { return r.names - r.rows*rowSize }

func (r *roll) item(i int) stamp { return stamp(r.data[r.first()+i*rowSize:]) }

func (r *roll) turn(i int) int {
	return int(binary.BigEndian.Uint32(r.data[r.first()+i*rowSize+len(stamp{}):]))
}

func (r *roll) row(i int) row {
	turn := r.turn(i)
	return row{r.item(i), r.item(turn / 2), turn%2 == 1}
}

// all yields the names and their offsets.
func (r *roll) all() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		n := numbers{r.data, r.names}
		for range n.next() {
			at := n.at
			size := n.next()
			name := n.data[n.at : n.at+size]
			n.at += size
			if !yield(at, string(name)) {
				return
			}
			for range n.next() {
				n.next()
				n.next()
			}
		}
	}
}

// name returns the name at an offset.
func (r *roll) name(at int) string {
	n := numbers{r.data, at}
	size := n.next()
	return string(n.data[n.at : n.at+size])
}

// reel iterates over the mentions of a name in a segment, newest first.
type reel struct {
	part *roll
	numbers
	left int // mentions after this one
	at   int // row
	line int
}

// mentions returns a reel at the first mention of the name at an offset.
func (r *roll) mentions(at int) reel {
	n := numbers{r.data, at}
	size := n.next()
	n.at += size
	l := reel{part: r, left: n.next(), at: r.rows - 1, numbers: n}
	l.on()
	return l
}

// on moves to the next mention, and returns false if there is none.
func (l *reel) on() bool {
	if l.left == 0 {
		return false
	}
	l.left--
	l.at -= l.next()
	l.line = l.next()
	return true
}

func (l *reel) spot() spot { return spot{l.part.row(l.at), l.line} }

// unseen moves to the first mention, from this one on, whose item is not shown.
func (l *reel) unseen(shown *shown) bool {
	for shown.has(l.part.item(l.at)) {
		if !l.on() {
			return false
		}
	}
	return true
}

// olderRoll returns the segment stored in the older format.
func olderRoll(value []byte) ([]byte, error) {
	var r struct {
		Turns []string `json:"turns"` // keys of their records, without otherPrefix
		Items []string `json:"items"` // as itemKey names them
		Names []struct {
			Name string `json:"name"`
			// The mentions, each as three numbers: the item, the turn, and the line in
			// the turn's record.
			At []int `json:"at"`
		} `json:"names"`
	}
	if err := json.Unmarshal(value, &r); err != nil {
		return nil, err
	}
	names := make(map[string][]spot)
	for _, n := range r.Names {
		for at := range slices.Chunk(n.At, 3) {
			if len(at) < 3 || at[0] < 0 || at[0] >= len(r.Items) || at[1] < 0 || at[1] >= len(r.Turns) || at[2] < 0 {
				return nil, fmt.Errorf("mention of a name: it is nowhere")
			}
			turn, inOther := r.Turns[at[1]], false
			if turn, inOther = strings.CutPrefix(turn, turnPrefix); !inOther {
				turn = r.Turns[at[1]]
			}
			s := spot{row{other: !inOther}, at[2]}
			var isItem, isTurn bool
			s.item, isItem = stampOf(r.Items[at[0]])
			s.turn, isTurn = stampOf(turn)
			if !isItem || !isTurn {
				return nil, fmt.Errorf("mention of a name: its key is none")
			}
			names[n.Name] = append(names[n.Name], s)
		}
	}
	return rollOf(names), nil
}
