package layers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stratamem/strata/internal/levels"
	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/storage"
)

// nameIndex is a picture in memory of where names are mentioned, in the records of
// one scope:
//
//	n/d/<time>-<digest>   the statements of a turn, a [statement] a line
//	n/head, n/s/…, …      segments of package levels, each a [roll] as JSON
//
// A turn writes its statements once, however many names they have, and one small
// segment, which is merged with others when there are many. So what a turn costs
// does not depend on how many names it has, nor on how many are known. The newest
// statements, the head and the newest segment are neighbours: see [levels.Set.Key].
//
// Statements of older stores are at t/<time>-<digest>.
type nameIndex struct {
	set levels.Set[*roll]
	// older says whether the scope has mentions as they were kept before there
	// was an index: m/<word of the name>/<item>-<number> → [Mention]. They are
	// read, and nobody writes them any more.
	older atomic.Int32
}

const (
	rollPrefix  = "n/"
	turnPrefix  = rollPrefix + "d/"
	otherPrefix = "t/" // of turns where turnPrefix is not
	olderPrefix = "m/"

	unknown, absent, present = 0, 1, 2 // of older

	maxRoll  = 1 << 20 // bytes of segments that become one
	maxPlace = 256     // mentions of a name in a segment, the newest
)

// nameFanIn is how many segments of a level are merged into one of the next.
var nameFanIn = [levels.Levels - 1]int{64, 16}

// statement is a line of a turn's record: a [Mention] without the name.
type statement struct {
	Text    string    `json:"text"`
	Speaker string    `json:"speaker"`
	Time    time.Time `json:"time,omitzero"`
	Item    string    `json:"item,omitempty"`
}

// roll is a segment: the names that some turns mention, and where.
type roll struct {
	Turns []string    `json:"turns"` // keys of their records, without otherPrefix
	Items []string    `json:"items"` // as itemKey names them
	Names []rollEntry `json:"names"`

	size  int                // bytes
	lower []string           // the names in lower case
	words map[string][]int32 // word → the names that have it
}

// rollEntry is a name with its mentions, the newest first, each as three numbers:
// of the item, of the turn, and of the line in the turn's record.
type rollEntry struct {
	Name string  `json:"name"`
	At   []int32 `json:"at"`
}

// place is one mention of a name.
type place struct {
	item   string // as itemKey names it, which sorts by time
	record string // key
	line   int    // of the record; -1: the record is the mention
}

func newNameIndex() (*nameIndex, error) {
	x := new(nameIndex)
	x.set = levels.Set[*roll]{
		Name: "names", Load: loadRoll,
		Drop: func(*roll) {}, Ready: func() bool { return true }, Reset: func() {},
	}
	return x, nil
}

func loadRoll(_ context.Context, _ storage.Reader, key string, stored []byte) (*roll, error) {
	r := &roll{words: make(map[string][]int32)}
	value, err := pack.Unpack(stored)
	if err == nil {
		r.size = len(value)
		err = json.Unmarshal(value, r)
	}
	if err != nil || !r.sound() {
		return nil, &storage.CorruptError{Key: key, Reason: "segment of an index of names is damaged", Repair: "clear the layer"}
	}
	r.lower = make([]string, len(r.Names))
	for i := range r.Names {
		r.lower[i] = strings.ToLower(r.Names[i].Name)
		for _, w := range nameWords(r.Names[i].Name) {
			r.words[w] = append(r.words[w], int32(i))
		}
	}
	return r, nil
}

// sound reports whether all mentions are of items and turns that there are.
func (r *roll) sound() bool {
	for i := range r.Names {
		at := r.Names[i].At
		if len(at)%3 != 0 {
			return false
		}
		for j := 0; j < len(at); j += 3 {
			if item, turn := at[j], at[j+1]; item < 0 || int(item) >= len(r.Items) || turn < 0 || int(turn) >= len(r.Turns) {
				return false
			}
		}
	}
	return true
}

// places appends the mentions of a name whose items are not shown.
func (r *roll) places(list []place, name int32, shown *shown) []place {
	at := r.Names[name].At
	for j := 0; j < len(at); j += 3 {
		if item := r.Items[at[j]]; !shown.has(item) {
			list = append(list, place{item, turnRecord(r.Turns[at[j+1]]), int(at[j+2])})
		}
	}
	return list
}

// turnRecord returns the key of the record of a turn of a roll.
func turnRecord(turn string) string {
	if strings.HasPrefix(turn, turnPrefix) {
		return turn
	}
	return otherPrefix + turn
}

// newest returns the item of the newest mention of a name that is not shown,
// or "".
func (r *roll) newest(name int32, shown *shown) string {
	at := r.Names[name].At
	for j := 0; j < len(at); j += 3 {
		if item := r.Items[at[j]]; !shown.has(item) {
			return item
		}
	}
	return ""
}

// newestFirst sorts mentions and leaves out those that are there twice.
func newestFirst(list []place) []place {
	slices.SortFunc(list, func(a, b place) int {
		return cmp.Or(cmp.Compare(b.item, a.item), cmp.Compare(b.line, a.line), cmp.Compare(a.record, b.record))
	})
	return slices.Compact(list)
}

// rollOf returns the segment of some mentions, by name.
func rollOf(names map[string][]place) *roll {
	r := new(roll)
	number := func(list *[]string) func(string) int32 {
		had := make(map[string]int32)
		return func(s string) int32 {
			n, ok := had[s]
			if !ok {
				n = int32(len(*list))
				*list, had[s] = append(*list, s), n
			}
			return n
		}
	}
	item, turn := number(&r.Items), number(&r.Turns)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		list := newestFirst(names[name])
		e := rollEntry{Name: name}
		for _, p := range list[:min(len(list), maxPlace)] {
			e.At = append(e.At, item(p.item), turn(strings.TrimPrefix(p.record, otherPrefix)), int32(p.line))
		}
		r.Names = append(r.Names, e)
	}
	return r
}

// add returns c with what adds the mentions of a turn, whose record has the key
// turn. items are the keys of the mentions' items.
func (x *nameIndex) add(ctx context.Context, r *memory.Records, c memory.Change[struct{}], turn string, found []Mention, items []string) (memory.Change[struct{}], error) {
	var record []byte
	lines := make(map[statement]int)
	names := make(map[string][]place)
	for i := range found {
		m := &found[i]
		s := statement{m.Text, m.Speaker, m.Time.UTC(), m.Item}
		n, ok := lines[s]
		if !ok {
			n = len(lines)
			line, err := json.Marshal(s)
			if err != nil {
				return c, fmt.Errorf("encode statement: %w", err)
			}
			lines[s], record = n, append(append(record, line...), '\n')
		}
		names[m.Name] = append(names[m.Name], place{items[i], turnPrefix + turn, n})
	}
	if err := x.set.View(ctx, below{r, rollPrefix}); err != nil {
		return c, err
	}
	defer x.set.RUnlock()
	ops, err := x.grow(names)
	return written(c.Put(turnPrefix+turn, pack.Pack(new([]byte), record)), rollPrefix, ops), err
}

// grow returns the operations that add a segment, merged with others where there
// are many. Under the set's lock.
func (x *nameIndex) grow(names map[string][]place) ([]storage.Op, error) {
	var ops []storage.Op
	level, size := 0, 0
	for ; level < len(nameFanIn); level++ {
		keys := x.set.Keys(level)
		if len(keys) < nameFanIn[level]-1 {
			break
		}
		merged := 0
		for _, key := range keys {
			part := x.set.Parts[key]
			if size += part.size; size > maxRoll {
				break
			}
			for i := range part.Names {
				names[part.Names[i].Name] = part.places(names[part.Names[i].Name], int32(i), new(shown))
			}
			ops = append(ops, storage.Remove(key))
			merged++
		}
		if merged == 0 {
			break
		}
	}
	value, err := json.Marshal(rollOf(names))
	if err != nil {
		return nil, fmt.Errorf("encode names: %w", err)
	}
	return x.set.Mark(append(ops, storage.Put(x.set.Key(level, value), pack.Pack(new([]byte), value)))), nil
}

// card is what is known of a name.
type card struct {
	name   string // as the newest mention has it
	asked  uint32 // a bit for each word of the query that it has
	newest string // item of that mention
	in     []rollName
	places []place // mentions that are in no segment
}

type rollName struct {
	part *roll
	name int32
}

// mentioned takes note of a mention of a name by the word with an index.
func (c *card) mentioned(name, item string, word int) {
	c.asked |= 1 << word
	if item > c.newest || item == c.newest && name < c.name {
		c.name, c.newest = name, item
	}
}

// mentions returns the mentions of a name that are not shown, the newest first.
func (c *card) mentions(shown *shown) []place {
	list := c.places
	for _, in := range c.in {
		list = in.part.places(list, in.name, shown)
	}
	return newestFirst(list)
}

// maxAsked is how many words of a query are looked up: those of a card's asked.
const maxAsked = 32

// find returns at most limit names that have one of the words and a mention that
// is not shown: those with more of the words first, of equals the one mentioned
// last.
func (x *nameIndex) find(ctx context.Context, r *memory.Records, words []string, shown *shown, limit int) ([]*card, error) {
	cards := make(map[string]*card) // by name in lower case
	if err := x.findOlder(ctx, r, words, shown, cards); err != nil {
		return nil, err
	}
	if err := x.set.View(ctx, below{r, rollPrefix}); err != nil {
		return nil, err
	}
	defer x.set.RUnlock()
	for _, part := range x.set.Parts {
		for w, word := range words {
			for _, name := range part.words[word] {
				if item := part.newest(name, shown); item != "" {
					c := cardOf(cards, part.lower[name])
					c.mentioned(part.Names[name].Name, item, w)
					c.in = append(c.in, rollName{part, name})
				}
			}
		}
	}
	var best []*card
	for _, c := range cards {
		at, _ := slices.BinarySearchFunc(best, c, (*card).compare)
		if at < limit {
			best = slices.Insert(best[:min(len(best), limit-1)], at, c)
		}
	}
	return best, nil
}

// compare orders what is asked for first before the rest.
func (c *card) compare(o *card) int {
	return cmp.Or(bits.OnesCount32(o.asked)-bits.OnesCount32(c.asked), cmp.Compare(o.newest, c.newest), cmp.Compare(c.name, o.name))
}

func cardOf(cards map[string]*card, lower string) *card {
	c := cards[lower]
	if c == nil {
		c = new(card)
		cards[lower] = c
	}
	return c
}

// findOlder finds mentions as they were kept before there was an index: the
// newest ones of each word.
func (x *nameIndex) findOlder(ctx context.Context, r *memory.Records, words []string, shown *shown, cards map[string]*card) error {
	if x.older.Load() == unknown {
		older := int32(absent)
		for _, err := range r.Scan(ctx, olderPrefix, &storage.ScanOptions{Limit: 1}) {
			if err != nil {
				return err
			}
			older = present
		}
		x.older.Store(older)
	}
	if x.older.Load() == absent {
		return nil
	}
	const newest = 80
	for w, word := range words {
		prefix := olderPrefix + storage.EscapeSegment(word) + "/"
		for e, err := range r.Scan(ctx, prefix, &storage.ScanOptions{Reverse: true, Limit: newest}) {
			if err != nil {
				return err
			}
			var m Mention
			item := itemOf(e.Key[len(prefix):])
			if json.Unmarshal(e.Value, &m) != nil || shown.has(item) {
				continue // damaged: the others still count
			}
			c := cardOf(cards, strings.ToLower(m.Name))
			c.mentioned(m.Name, item, w)
			c.places = append(c.places, place{item, e.Key, -1})
		}
	}
	return nil
}

// read returns the mentions at places, the first n that say different things,
// and their records.
func readMentions(ctx context.Context, r *memory.Records, places []place, n int) (list []Mention, refs []string, err error) {
	turns := make(map[string][]byte)
	for _, p := range places {
		if len(list) == n {
			break
		}
		record, ok := turns[p.record]
		if !ok {
			if record, err = r.Get(ctx, p.record); err != nil && !errors.Is(err, storage.ErrNotFound) {
				return nil, nil, err
			}
			if record, err = pack.Unpack(record); err != nil {
				record = nil // damaged: the others still count
			}
			turns[p.record] = record
		}
		var m Mention
		if json.Unmarshal(lineOf(record, p.line), &m) != nil {
			continue // damaged or gone: the others still count
		}
		if !slices.ContainsFunc(list, func(o Mention) bool { return o.Text == m.Text }) {
			list, refs = append(list, m), append(refs, r.Key(p.record))
		}
	}
	return list, slices.Compact(refs), nil
}

// lineOf returns a line of a record, or all of it if n is negative.
func lineOf(record []byte, n int) []byte {
	if n < 0 {
		return record
	}
	for line := range bytes.Lines(record) {
		if n == 0 {
			return line
		}
		n--
	}
	return nil
}
