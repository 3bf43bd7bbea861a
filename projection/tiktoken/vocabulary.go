package tiktoken

import (
	"encoding/binary"
	"math"
	"sync"
	"unicode/utf8"
)

// vocabularies are built once per process: they are constants, and too large to
// duplicate.
var vocabularies = map[string]func() (*vocabulary, error){
	CL100K: sync.OnceValues(func() (*vocabulary, error) { return newVocabulary(cl100kTokens, cl100k) }),
	O200K:  sync.OnceValues(func() (*vocabulary, error) { return newVocabulary(o200kTokens, o200k) }),
}

const (
	// maxToken is the length of the longest token of either encoding, in bytes.
	maxToken = 128
	// none is the id of what is not a token.
	none = math.MaxUint32
)

// vocabulary finds the tokens of one encoding. The id of a token is also its
// rank, the order in which pairs are merged. It is immutable once built.
//
// A token of up to seven bytes is a number, with its length in the highest
// byte; one of up to fifteen is two. They are in hash tables with open
// addressing that are half empty, so that most lookups read one cache line.
type vocabulary struct {
	classes *classes
	split   splitter

	short   []shortToken      // 1 to 7 bytes
	long    []longToken       // 8 to 15
	longest map[string]uint32 // of 16 bytes and more, one in forty

	twos  [1 << 16]two // by two bytes, the first in the low half
	bytes []byte       // the tokens one after another, in the order of their bytes
	spans []uint32     // id → offset in bytes << 8 | length
	rooms sync.Pool    // of *room, for merging
}

// The tables have 2¹⁸ and 2¹⁷ slots.
const (
	shortBits = 18
	longBits  = 17
)

func newVocabulary(data string, split splitter) (*vocabulary, error) {
	v := &vocabulary{
		classes: allClasses(),
		split:   split,
		short:   make([]shortToken, 1<<shortBits),
		long:    make([]longToken, 1<<longBits),
	}
	v.rooms.New = func() any { return new(room) }
	// The first write to each page of new memory takes time, a fifth of the total
	// here, so do it while the vocabulary inflates.
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; i < len(v.short); i += 4096 / 12 {
			v.short[i].hi = 0
		}
		for i := 0; i < len(v.long); i += 4096 / 20 {
			v.long[i].hi = 0
		}
		for i := range v.twos {
			v.twos[i].id = none
		}
	})
	p, err := unpack(data)
	wg.Wait()
	if err != nil {
		return nil, err
	}
	v.longest, v.spans = make(map[string]uint32, p.n/40), make([]uint32, p.n)
	v.bytes = make([]byte, p.size+padding)
	var batch entries
	for i, start := 0, 0; i < p.n; i++ {
		length, id := p.next(v.bytes[start:]), p.id(i)
		token := v.bytes[start : start+length]
		v.spans[id] = uint32(start)<<8 | uint32(length)
		start += length
		if length > 1 {
			v.mark(token, id)
		}
		if length > 15 {
			v.longest[string(token)] = id
			continue
		}
		if batch.add(p.lo, p.hi, length, id) {
			batch.insert(v)
		}
	}
	batch.insert(v)
	return v, nil
}

// shortKey returns the key of a token of 1 to 7 bytes, which are the lowest of
// w.
func shortKey(w uint64, length int) uint64 {
	return w&(1<<(8*length)-1) | uint64(length)<<56
}

// longKey returns the key of a token of 8 to 15 bytes.
func longKey(lo, hi uint64, length int) (uint64, uint64) {
	return lo, shortKey(hi, length-8) | 8<<56
}

// golden is 2⁶⁴ divided by the golden ratio: multiplying by it scatters.
const golden = 0x9E3779B97F4A7C15

func shortSlot(key uint64) uint64   { return key * golden >> (64 - shortBits) }
func longSlot(lo, hi uint64) uint64 { return (lo*golden ^ hi) * golden >> (64 - longBits) }

// shortToken and longToken are unused if hi is 0. Their words are halved so
// that there is no padding.
type (
	shortToken struct{ lo, hi, id uint32 }
	longToken  struct {
		lo [2]uint32
		shortToken
	}
)

// entries are tokens to be inserted into the tables together.
type entries struct {
	all [64]struct {
		lo, hi uint64
		id     uint32
	}
	n    int
	warm uint32
}

// add adds a token of up to 15 bytes, and reports whether entries is full.
func (e *entries) add(lo, hi uint64, length int, id uint32) bool {
	if length < 8 {
		lo, hi = 0, shortKey(lo, length)
	} else {
		lo, hi = longKey(lo, hi, length)
	}
	at := &e.all[e.n]
	at.lo, at.hi, at.id = lo, hi, id
	e.n++
	return e.n == len(e.all)
}

// insert moves e into the tables. It reads all slots first: those reads do not
// wait for each other, as consecutive lookups would. This takes a third of the
// time.
func (e *entries) insert(v *vocabulary) {
	for i := range e.n {
		if t := &e.all[i]; t.hi>>56 < 8 {
			e.warm += v.short[shortSlot(t.hi)].hi
		} else {
			e.warm += v.long[longSlot(t.lo, t.hi)].hi
		}
	}
	for i := range e.n {
		if t := &e.all[i]; t.hi>>56 < 8 {
			slot := shortSlot(t.hi)
			for v.short[slot].hi != 0 {
				slot = (slot + 1) % (1 << shortBits)
			}
			v.short[slot] = shortToken{uint32(t.hi), uint32(t.hi >> 32), t.id}
		} else {
			slot := longSlot(t.lo, t.hi)
			for v.long[slot].hi != 0 {
				slot = (slot + 1) % (1 << longBits)
			}
			v.long[slot] = longToken{[2]uint32{uint32(t.lo), uint32(t.lo >> 32)}, shortToken{uint32(t.hi), uint32(t.hi >> 32), t.id}}
		}
	}
	e.n = 0
}

// id returns the id of the token s[i:j], or none. If the text continues after
// j, it can read eight bytes at once.
func (v *vocabulary) id(s string, i, j int) uint32 {
	switch length := j - i; {
	case length < 8:
		key := shortKey(load(s, i), length)
		for slot := shortSlot(key); ; slot = (slot + 1) % (1 << shortBits) {
			t := &v.short[slot]
			if t.lo == uint32(key) && t.hi == uint32(key>>32) {
				return t.id
			}
			if t.hi == 0 {
				return none
			}
		}
	case length < 16:
		lo, hi := longKey(load(s, i), load(s, i+8), length)
		for slot := longSlot(lo, hi); ; slot = (slot + 1) % (1 << longBits) {
			t := &v.long[slot]
			if t.lo == [2]uint32{uint32(lo), uint32(lo >> 32)} && t.shortToken.lo == uint32(hi) && t.hi == uint32(hi>>32) {
				return t.id
			}
			if t.hi == 0 {
				return none
			}
		}
	case length <= maxToken:
		if id, ok := v.longest[s[i:j]]; ok {
			return id
		}
	}
	return none
}

// load returns the eight bytes of s at i, the first the lowest, with zeros
// after the end of s.
func load(s string, i int) uint64 {
	if len(s)-i < 8 {
		return loadEnd(s, i)
	}
	return binary.LittleEndian.Uint64([]byte(s[i : i+8])) // one load, no copy
}

func loadEnd(s string, i int) uint64 {
	var w uint64
	for k := len(s) - 1; k >= i; k-- {
		w = w<<8 | uint64(s[k])
	}
	return w
}

// token returns the bytes of a token, or nil if there is none with this id.
func (v *vocabulary) token(id int) []byte {
	if id < 0 || id >= len(v.spans) {
		return nil
	}
	span := v.spans[id]
	return v.bytes[span>>8:][:span&0xFF]
}

// two is what the vocabulary knows about two bytes.
type two struct {
	id uint32 // of the token that they form, or none
	// lengths has a bit for each length of the tokens that begin with the two
	// bytes, the highest for 31 and more. The lowest is set if some token that
	// begins or ends within a character spans these two, which are the last byte
	// of a character and the first of another.
	lengths uint32
}

const crossed = 1

func (v *vocabulary) two(first, second byte) *two {
	return &v.twos[uint16(first)|uint16(second)<<8]
}

// mark records a token of at least two bytes.
func (v *vocabulary) mark(token []byte, id uint32) {
	at := v.two(token[0], token[1])
	at.lengths |= 1 << min(len(token), 31)
	if len(token) == 2 {
		at.id = id
	}
	first, last := 0, len(token)-1
	for first < len(token) && !utf8.RuneStart(token[first]) {
		first++
	}
	if first > 0 && first < len(token) {
		v.two(token[first-1], token[first]).lengths |= crossed
	}
	for last > 0 && !utf8.RuneStart(token[last]) {
		last--
	}
	if last > 0 && !utf8.FullRune(token[last:]) {
		v.two(token[last-1], token[last]).lengths |= crossed
	}
}

// joined returns the id of the token s[i:j] of at least two bytes, or none,
// which is likely: the length alone usually decides.
func (v *vocabulary) joined(s string, i, j int) uint32 {
	at := v.two(s[i], s[i+1])
	switch {
	case j-i == 2:
		return at.id
	case at.lengths>>min(j-i, 31)&1 == 0:
		return none
	}
	return v.id(s, i, j)
}

// whole returns the length of the character at i of the piece s[:n] if it is a
// token and is certain to become one before any of its bytes is joined with a
// neighbouring character; otherwise 1.
func (v *vocabulary) whole(s string, i, n int) int {
	_, width := utf8.DecodeRuneInString(s[i:])
	end := i + width
	if i > 0 && v.two(s[i-1], s[i]).lengths&crossed != 0 ||
		end < n && v.two(s[end-1], s[end]).lengths&crossed != 0 ||
		v.id(s, i, end) == none {
		return 1
	}
	return width
}
