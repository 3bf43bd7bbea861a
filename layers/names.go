package layers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
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

// nameIndex is the in-memory index of where names are mentioned, in the records
// of one scope:
//
//	n/d/<time>-<digest>   the statements of a turn, a [statement] a line
//	n/head, n/s/…, …      segments of package levels, each a [roll]
//
// A turn writes its statements once, however many names they have, and one
// small segment, which is merged with others when there are many. So the cost
// of a turn depends neither on how many names it has nor on how many are known.
// The newest statements, the head and the newest segment are neighbours: see
// [levels.Set.Key].
//
// A name is found by each of its words, and has the places of its mentions in
// the segments, so the cost of a question depends on how many names have its
// words.
//
// Statements of older stores are at t/<time>-<digest>.
type nameIndex struct {
	set levels.Set[*roll]
	// The names in the segments, by lower-case name and by word. Guarded by the
	// set's lock.
	names map[string]*known
	words map[string][]*known
	// older says whether the scope has mentions as they were kept before there was
	// an index: m/<word of the name>/<item>-<number> → [Mention]. They are read,
	// but no longer written.
	older atomic.Int32
}

// known is a name in the segments.
type known struct {
	in []listed
	// last is the time of its newest mention, or later: the newest may have been
	// removed.
	last int64
}

// listed says where a segment has a name.
type listed struct {
	part *roll
	at   int
}

const (
	rollPrefix  = "n/"
	turnPrefix  = rollPrefix + "d/"
	otherPrefix = "t/" // of turns that are not at turnPrefix
	olderPrefix = "m/"

	unknown, absent, present = 0, 1, 2 // of older

	maxRoll  = 1 << 20 // size in bytes of the segments that are merged into one
	maxPlace = 256     // mentions of a name in a segment, newest first
)

// nameFanIn is how many segments of a level are merged into one of the next
// level, or of the last.
var nameFanIn = [levels.Levels]int{64, 16, 16}

// statement is a line of a turn's record: a [Mention] without the name.
type statement struct {
	Text    string    `json:"text"`
	Speaker string    `json:"speaker"`
	Time    time.Time `json:"time,omitzero"`
	Item    string    `json:"item,omitempty"`
}

func newNameIndex() (*nameIndex, error) {
	x := new(nameIndex)
	x.set = levels.Set[*roll]{
		Name: "names", Load: x.load, Drop: x.drop, Ready: func() bool { return true },
		Reset: func() { x.names, x.words = make(map[string]*known), make(map[string][]*known) },
	}
	return x, nil
}

func (x *nameIndex) load(_ context.Context, _ storage.Reader, key string, stored []byte) (*roll, error) {
	part, err := loadRoll(key, stored)
	if err != nil {
		return nil, err
	}
	for at, name := range part.all() {
		name = strings.ToLower(name)
		k := x.names[name]
		if k == nil {
			k = new(known)
			x.names[name] = k
			for _, w := range nameWords(name) {
				x.words[w] = append(x.words[w], k)
			}
		}
		newest := part.mentions(at)
		k.in = append(k.in, listed{part, at})
		k.last = max(k.last, part.item(newest.at).time())
	}
	return part, nil
}

func (x *nameIndex) drop(part *roll) {
	for _, name := range part.all() {
		name = strings.ToLower(name)
		k := x.names[name]
		if k == nil {
			continue // a duplicate
		}
		k.in = slices.DeleteFunc(k.in, func(l listed) bool { return l.part == part })
		if len(k.in) > 0 {
			continue
		}
		delete(x.names, name)
		for _, w := range nameWords(name) {
			if x.words[w] = slices.DeleteFunc(x.words[w], func(o *known) bool { return o == k }); len(x.words[w]) == 0 {
				delete(x.words, w)
			}
		}
	}
}

// add returns c with the operations that add the mentions of a turn, whose
// record has the key turn. items are those of the mentions.
func (x *nameIndex) add(ctx context.Context, r *memory.Records, c memory.Change[struct{}], turn string, found []Mention, items []string) (memory.Change[struct{}], error) {
	var record []byte
	lines := make(map[statement]int)
	names := make(map[string][]spot)
	of, ok := stampOf(turn)
	for i := range found {
		m := &found[i]
		s := statement{m.Text, m.Speaker, m.Time.UTC(), m.Item}
		n, had := lines[s]
		if !had {
			n = len(lines)
			line, err := json.Marshal(s)
			if err != nil {
				return c, fmt.Errorf("encode statement: %w", err)
			}
			lines[s], record = n, append(append(record, line...), '\n')
		}
		item, isItem := stampOf(items[i])
		if !ok || !isItem {
			return c, fmt.Errorf("keep mention: the key of an item is none")
		}
		names[m.Name] = append(names[m.Name], spot{row{item: item, turn: of}, n})
	}
	if err := x.set.View(ctx, below{r, rollPrefix}); err != nil {
		return c, err
	}
	defer x.set.RUnlock()
	return written(c.Put(turnPrefix+turn, pack.Pack(new([]byte), record)), rollPrefix, x.grow(names)), nil
}

// grow returns the operations that add a segment, merging it with others if
// there are many. The caller holds the set's lock.
func (x *nameIndex) grow(names map[string][]spot) []storage.Op {
	var ops []storage.Op
	level, size := 0, 0
	for ; level < len(nameFanIn); level++ {
		keys := x.set.Keys(level)
		last := level == len(nameFanIn)-1
		if last { // what is large stays
			keys = slices.DeleteFunc(keys, func(key string) bool { return len(x.set.Parts[key].data) > maxRoll/2 })
		}
		if len(keys) < nameFanIn[level]-1 {
			break
		}
		merged := 0
		for _, key := range keys {
			part := x.set.Parts[key]
			if size += len(part.data); size > maxRoll {
				break
			}
			for at, name := range part.all() {
				l := part.mentions(at)
				for more := true; more; more = l.on() {
					names[name] = append(names[name], l.spot())
				}
			}
			ops = append(ops, storage.Remove(key))
			merged++
		}
		if merged == 0 || last {
			break
		}
	}
	value := rollOf(names)
	return x.set.Mark(append(ops, storage.Put(x.set.Key(level, value), pack.Pack(new([]byte), value))))
}

// card is what is known about a name that the query asks for.
type card struct {
	name   string // as in the newest mention
	asked  uint32 // a bit for each word of the query that it has
	newest stamp  // the item of that mention
	in     []listed
	older  []olderPlace // mentions that are in no segment, newest first
}

// olderPlace is the place of a mention that is in no segment.
type olderPlace struct {
	item   stamp
	record string // key
}

// mentioned records a mention of a name.
func (c *card) mentioned(name string, item stamp) {
	if by := item.compare(c.newest); by > 0 || by == 0 && (c.name == "" || name < c.name) {
		c.name, c.newest = name, item
	}
}

// look finds the newest mention that is not shown, and reports whether there is
// one.
func (c *card) look(shown *shown) bool {
	for _, in := range c.in {
		if l := in.part.mentions(in.at); l.unseen(shown) {
			c.mentioned(in.part.name(in.at), l.part.item(l.at))
		}
	}
	return c.name != ""
}

// place is the place of a mention.
type place struct {
	record string // key
	line   int    // line of the record; -1: the record is the mention
}

// mentions yields the places of the mentions of a name that are not shown,
// newest first.
func (c *card) mentions(shown *shown) iter.Seq[place] {
	return func(yield func(place) bool) {
		var reels []reel
		for _, in := range c.in {
			if l := in.part.mentions(in.at); l.unseen(shown) {
				reels = append(reels, l)
			}
		}
		older := c.older
		var before spot
		for len(reels)+len(older) > 0 {
			next, newest := -1, spot{}
			for i := range reels {
				if s := reels[i].spot(); next < 0 || cmp.Or(s.row.compare(newest.row), cmp.Compare(s.line, newest.line)) > 0 {
					next, newest = i, s
				}
			}
			if len(older) > 0 && (next < 0 || older[0].item.compare(newest.item) > 0) {
				if !yield(place{older[0].record, -1}) {
					return
				}
				older = older[1:]
				continue
			}
			if l := &reels[next]; !l.on() || !l.unseen(shown) {
				reels = slices.Delete(reels, next, next+1)
			}
			if newest == before { // it is in two segments
				continue
			}
			before = newest
			if !yield(place{newest.record(), newest.line}) {
				return
			}
		}
	}
}

// maxAsked is how many words of a query are looked up, which is the number of
// bits in card.asked.
const maxAsked = 32

// find returns at most limit names that have one of the words and a mention
// that is not shown: those with more of the words first, and among equals the
// one mentioned last. The result reflects the index at this moment, even if the
// index changes.
func (x *nameIndex) find(ctx context.Context, r *memory.Records, words []string, shown *shown, limit int) ([]*card, error) {
	older, err := x.findOlder(ctx, r, words, shown)
	if err != nil {
		return nil, err
	}
	if err := x.set.View(ctx, below{r, rollPrefix}); err != nil {
		return nil, err
	}
	defer x.set.RUnlock()
	asked := make(map[*known]uint32)
	for w, word := range words {
		for _, k := range x.words[word] {
			asked[k] |= 1 << w
		}
	}
	var best []*card
	rank := func(c *card) {
		at, _ := slices.BinarySearchFunc(best, c, (*card).compare)
		if at < limit {
			best = slices.Insert(best[:min(len(best), limit-1)], at, c)
		}
	}
	for name, c := range older {
		if k := x.names[name]; k != nil {
			c.asked |= asked[k]
			c.in = k.in
			delete(asked, k)
			c.look(shown)
		}
		rank(c)
	}
	for k, words := range asked {
		if len(best) == limit && behind(words, k.last, best[limit-1]) {
			continue
		}
		if c := (card{asked: words, in: k.in}); c.look(shown) {
			kept := c
			rank(&kept)
		}
	}
	for _, c := range best {
		c.in = slices.Clone(c.in) // the index may change
	}
	return best, nil
}

// behind reports whether a name with some of the words, mentioned at a time or
// before, sorts after another in any case.
func behind(words uint32, last int64, o *card) bool {
	n, least := bits.OnesCount32(words), bits.OnesCount32(o.asked)
	return n < least || n == least && last < o.newest.time()
}

// compare sorts cards by what is asked for first.
func (c *card) compare(o *card) int {
	return cmp.Or(bits.OnesCount32(o.asked)-bits.OnesCount32(c.asked), o.newest.compare(c.newest), cmp.Compare(c.name, o.name))
}

// findOlder finds the newest mentions of each word as they were kept before
// there was an index, by name in lower case.
func (x *nameIndex) findOlder(ctx context.Context, r *memory.Records, words []string, shown *shown) (map[string]*card, error) {
	if x.older.Load() == unknown {
		older := int32(absent)
		for _, err := range r.Scan(ctx, olderPrefix, &storage.ScanOptions{Limit: 1}) {
			if err != nil {
				return nil, err
			}
			older = present
		}
		x.older.Store(older)
	}
	if x.older.Load() == absent {
		return nil, nil
	}
	cards := make(map[string]*card)
	const newest = 80
	for w, word := range words {
		prefix := olderPrefix + storage.EscapeSegment(word) + "/"
		for e, err := range r.Scan(ctx, prefix, &storage.ScanOptions{Reverse: true, Limit: newest}) {
			if err != nil {
				return nil, err
			}
			var m Mention
			item, ok := stampOf(itemOf(e.Key[len(prefix):]))
			if !ok || json.Unmarshal(e.Value, &m) != nil || shown.has(item) {
				continue // damaged: the others still count
			}
			lower := strings.ToLower(m.Name)
			c := cards[lower]
			if c == nil {
				c = new(card)
				cards[lower] = c
			}
			c.asked |= 1 << w
			c.mentioned(m.Name, item)
			c.older = append(c.older, olderPlace{item, e.Key})
		}
	}
	for _, c := range cards {
		slices.SortFunc(c.older, func(a, b olderPlace) int { return cmp.Or(b.item.compare(a.item), cmp.Compare(a.record, b.record)) })
	}
	return cards, nil
}
