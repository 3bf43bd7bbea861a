package layers

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/storage"
)

// leaves say where the names of a large roll are: in records of their own, of
// which a query reads one for each of its words that the roll has.
//
//	n/b/<name of the roll>/<number>  a leaf: a [roll] of the names that have one of
//	                                 some words, which follow one another
//
// A name with several words may be in as many leaves.
type leaves struct {
	First []string `json:"first"` // the first word of each
	Words []byte   `json:"words"` // FNV-1a of all words, 4 bytes each, big-endian, ascending
	Size  int      `json:"size"`  // bytes of all leaves
	Sum   string   `json:"sum"`   // digest of all leaves
}

const (
	leafPrefix = "b/"

	maxInline = 128 << 10 // bytes of a roll without leaves
	maxLeaf   = 16 << 10  // bytes of a leaf, about
	maxKept   = 3 << 20   // bytes of what is known of words, in memory
	maxKnown  = 64        // mentions of a name in it, the newest: nearly always enough
)

// known is a name that rolls with leaves have, with its mentions, the newest
// first.
type known struct {
	name, lower string
	places      []place
	cut         bool // there are more
}

func sizeKnown(word string, list []known) int {
	size := len(word) + 96
	for i := range list {
		size += 2*len(list[i].name) + 72
		for _, p := range list[i].places {
			size += len(p.item) + len(p.record) + 40
		}
	}
	return size
}

func hashWord(word string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(word))
	return h.Sum32()
}

// leaf returns the number of the leaf that has a word, if one may have it.
func (l *leaves) leaf(word string) (int, bool) {
	hash, n := hashWord(word), len(l.Words)/4
	lo, hi := 0, n
	for lo < hi {
		if mid := (lo + hi) / 2; binary.BigEndian.Uint32(l.Words[4*mid:]) < hash {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == n || binary.BigEndian.Uint32(l.Words[4*lo:]) != hash {
		return 0, false
	}
	at, ok := slices.BinarySearch(l.First, word)
	if !ok {
		at--
	}
	return at, at >= 0
}

func leafKey(roll string, n int) string {
	return leafPrefix + roll[strings.LastIndexByte(roll, '/')+1:] + "/" + strconv.Itoa(n)
}

func readLeaf(ctx context.Context, r below, of string, n int) (*roll, error) {
	key := leafKey(of, n)
	value, err := r.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read names: %w", err)
	}
	return loadRoll(key, value)
}

// all returns the leaves of a roll, or the roll if it has none.
func (r *roll) all(ctx context.Context, records below) ([]*roll, error) {
	if r.Leaves == nil {
		return []*roll{r}, nil
	}
	var list []*roll
	for n := range r.Leaves.First {
		leaf, err := readLeaf(ctx, records, r.key, n)
		if err != nil {
			return nil, err
		}
		list = append(list, leaf)
	}
	return list, nil
}

// remove adds to ops those that remove a roll.
func (r *roll) remove(ops []storage.Op) []storage.Op {
	ops = append(ops, storage.Remove(r.key))
	if r.Leaves != nil {
		for n := range r.Leaves.First {
			ops = append(ops, storage.Remove(leafKey(r.key, n)))
		}
	}
	return ops
}

// put adds to ops those that store a roll of mentions, by name.
func (x *nameIndex) put(ops []storage.Op, level int, names map[string][]place) ([]storage.Op, error) {
	for name, list := range names {
		names[name] = newestFirst(list)
	}
	value, err := json.Marshal(rollOf(names))
	if err != nil {
		return nil, fmt.Errorf("encode names: %w", err)
	}
	var parts [][]byte
	if len(value) > maxInline {
		if value, parts, err = split(names); err != nil {
			return nil, fmt.Errorf("encode names: %w", err)
		}
	}
	key := x.set.Key(level, value)
	ops = append(ops, storage.Put(key, pack.Pack(new([]byte), value)))
	for n, leaf := range parts {
		ops = append(ops, storage.Put(leafKey(key, n), pack.Pack(new([]byte), leaf)))
	}
	return ops, nil
}

// split returns the record of a roll with leaves, and the leaves.
func split(names map[string][]place) (record []byte, parts [][]byte, err error) {
	byWord := make(map[string][]string)
	for name := range names {
		for _, w := range nameWords(name) {
			byWord[w] = append(byWord[w], name)
		}
	}
	words := make([]string, 0, len(byWord))
	hashes := make([]uint32, 0, len(byWord))
	for w := range byWord {
		words, hashes = append(words, w), append(hashes, hashWord(w))
	}
	slices.Sort(words)
	slices.Sort(hashes)
	l := new(leaves)
	for _, h := range slices.Compact(hashes) {
		l.Words = binary.BigEndian.AppendUint32(l.Words, h)
	}
	leaf, size := make(map[string][]place), 0
	var sums []string
	flush := func() error {
		part, err := json.Marshal(rollOf(leaf))
		parts, sums = append(parts, part), append(sums, string(part))
		l.Size += len(part)
		leaf, size = make(map[string][]place), 0
		return err
	}
	for _, w := range words {
		if len(leaf) == 0 {
			l.First = append(l.First, w)
		}
		for _, name := range byWord[w] {
			if _, ok := leaf[name]; !ok {
				leaf[name] = names[name]
				size += len(name) + 24 + 40*min(len(names[name]), maxPlace)
			}
		}
		if size >= maxLeaf {
			if err := flush(); err != nil {
				return nil, nil, err
			}
		}
	}
	if len(leaf) > 0 {
		if err := flush(); err != nil {
			return nil, nil, err
		}
	}
	l.Sum = digest(sums...)
	record, err = json.Marshal(&roll{Leaves: l})
	return record, parts, err
}

// findKnown adds what the index knows of words to cards.
func (x *nameIndex) findKnown(ctx context.Context, r below, words []string, shown *shown, cards map[string]*card) (err error) {
	// A roll may be gone when a leaf of it is read, merged by another writer.
	var found [][]known
	for range 8 {
		if err := x.set.View(ctx, r); err != nil {
			return err
		}
		found, err = x.known(ctx, r, words)
		if err == nil {
			break
		}
		x.set.RUnlock()
		if !errors.Is(err, storage.ErrNotFound) {
			break
		}
	}
	if err != nil {
		return err
	}
	defer x.set.RUnlock()
	for w, word := range words {
		for i := range found[w] {
			k := &found[w][i]
			at := slices.IndexFunc(k.places, func(p place) bool { return !shown.has(p.item) })
			if at < 0 && k.cut { // all that are kept are shown
				if k, at, err = x.beyond(ctx, r, word, k.name, shown); err != nil {
					return err
				}
			}
			if at < 0 {
				continue
			}
			c := cardOf(cards, k.lower)
			c.mentioned(k.name, k.places[at].item, w)
			for _, p := range k.places[at:] {
				if !shown.has(p.item) {
					c.places = append(c.places, p)
				}
			}
			if k.cut {
				c.cut = word
			}
		}
		for _, part := range x.set.Parts {
			for _, name := range part.words[word] {
				if item := part.newest(name, shown); item != "" {
					c := cardOf(cards, part.lower[name])
					c.mentioned(part.Names[name].Name, item, w)
					c.in = append(c.in, rollName{part, name})
				}
			}
		}
	}
	return nil
}

// known returns the names that have a word, of the rolls with leaves, for each of
// the words. Under the set's lock.
func (x *nameIndex) known(ctx context.Context, r below, words []string) ([][]known, error) {
	found := make([][]known, len(words))
	for w, word := range words {
		list, ok := x.kept.Get(word)
		if !ok {
			var err error
			if list, err = x.readKnown(ctx, r, word); err != nil {
				return nil, err
			}
			for i := range list {
				k := &list[i]
				k.cut = len(k.places) > maxKnown
				k.places = slices.Clone(k.places[:min(len(k.places), maxKnown)])
			}
			x.kept.Put(word, list, maxKept)
		}
		found[w] = list
	}
	return found, nil
}

func (x *nameIndex) readKnown(ctx context.Context, r below, word string) ([]known, error) {
	var list []known
	had := make(map[string]int) // index in list
	for _, part := range x.set.Parts {
		if part.Leaves == nil {
			continue
		}
		n, ok := part.Leaves.leaf(word)
		if !ok {
			continue
		}
		leaf, err := readLeaf(ctx, r, part.key, n)
		if err != nil {
			return nil, err
		}
		for _, name := range leaf.words[word] {
			e := &leaf.Names[name]
			at, ok := had[e.Name]
			if !ok {
				at = len(list)
				had[e.Name] = at
				list = append(list, known{name: e.Name, lower: leaf.lower[name]})
			}
			list[at].places = leaf.places(list[at].places, name, new(shown))
		}
	}
	for i := range list {
		newest := newestFirst(list[i].places)
		list[i].places = newest[:min(len(newest), maxPlace)]
	}
	slices.SortFunc(list, func(a, b known) int { return cmp.Compare(a.name, b.name) })
	return list, nil
}

// beyond returns all that rolls with leaves know of a name, and which of its
// mentions is the newest that is not shown, -1 for none. Under the set's lock.
func (x *nameIndex) beyond(ctx context.Context, r below, word, name string, shown *shown) (*known, int, error) {
	list, err := x.readKnown(ctx, r, word)
	for i := range list {
		if k := &list[i]; k.name == name {
			return k, slices.IndexFunc(k.places, func(p place) bool { return !shown.has(p.item) }), nil
		}
	}
	if errors.Is(err, storage.ErrNotFound) { // merged at this moment: what is known will do
		err = nil
	}
	return new(known), -1, err
}

// complete adds to a card the mentions that are not kept in memory.
func (x *nameIndex) complete(ctx context.Context, records *memory.Records, c *card, shown *shown) error {
	r := below{records, rollPrefix}
	if err := x.set.View(ctx, r); err != nil {
		return err
	}
	defer x.set.RUnlock()
	list, err := x.readKnown(ctx, r, c.cut)
	if err != nil && !errors.Is(err, storage.ErrNotFound) { // merged at this moment: what is known will do
		return err
	}
	for i := range list {
		if list[i].lower != strings.ToLower(c.name) {
			continue
		}
		for _, p := range list[i].places {
			if !shown.has(p.item) {
				c.places = append(c.places, p)
			}
		}
	}
	c.cut = ""
	return nil
}
