package layers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"iter"
	"slices"
	"sync"

	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/storage"
)

// heard reads mentions and caches what was read lately: whoever is mentioned
// tends to be mentioned again, and unpacking a record takes ten times as long
// as checking that it has not changed.
type heard struct {
	seed  maphash.Seed
	mu    sync.Mutex
	said  recent[saidOnce] // by place
	texts recent[uint64]   // digests of texts, by place; holds more mentions, because repeated texts are not read
	rooms sync.Pool        // of *[]byte, to unpack records in
}

// saidOnce is a mention with the digest of the record from which it was read.
type saidOnce struct {
	Mention
	record uint64
}

func newHeard() *heard {
	return &heard{seed: maphash.MakeSeed(), said: recent[saidOnce]{limit: 1 << 10}, texts: recent[uint64]{limit: 1 << 13}}
}

// recent is a map of recently used entries, at most twice the limit.
type recent[V any] struct {
	limit      int
	young, old map[uint64]V
}

func (r *recent[V]) get(key uint64) (V, bool) {
	v, ok := r.young[key]
	if !ok {
		if v, ok = r.old[key]; ok {
			r.put(key, v)
		}
	}
	return v, ok
}

func (r *recent[V]) put(key uint64, v V) {
	if r.young == nil || len(r.young) == r.limit {
		r.young, r.old = make(map[uint64]V), r.young
	}
	r.young[key] = v
}

// read returns the first n mentions at places that say different things, and
// their records.
func (h *heard) read(ctx context.Context, r *memory.Records, places iter.Seq[place], n int) (list []Mention, refs []string, err error) {
	turns := make(map[string]*turnRecord)
	room, _ := h.rooms.Get().(*[]byte)
	if room == nil {
		room = new([]byte)
	}
	defer func() {
		*room = (*room)[:0]
		h.rooms.Put(room)
	}()
	var texts []uint64 // of list
	for p := range places {
		key := maphash.Comparable(h.seed, struct {
			memory.Space
			place
		}{r.Space(), p})
		if text, ok := h.text(key); ok && slices.Contains(texts, text) {
			continue
		}
		turn := turns[p.record]
		if turn == nil {
			turn = &turnRecord{room: room}
			turns[p.record] = turn
			if turn.stored, err = r.Get(ctx, p.record); err != nil && !errors.Is(err, storage.ErrNotFound) {
				return nil, nil, err
			}
		}
		m, ok := h.mention(key, turn, p.line)
		if !ok {
			continue // damaged or gone: the others still count
		}
		if text := maphash.String(h.seed, m.Text); !slices.Contains(texts, text) {
			list, refs, texts = append(list, m), append(refs, r.Key(p.record)), append(texts, text)
		}
		if len(list) == n {
			break
		}
	}
	return list, slices.Compact(refs), nil
}

func (h *heard) text(key uint64) (uint64, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.texts.get(key)
}

// mention returns the content of a line of a record.
func (h *heard) mention(key uint64, turn *turnRecord, line int) (Mention, bool) {
	sum := maphash.Bytes(h.seed, turn.stored)
	h.mu.Lock()
	s, ok := h.said.get(key)
	h.mu.Unlock()
	if ok && s.record == sum {
		return s.Mention, true
	}
	var m Mention
	if json.Unmarshal(turn.line(line), &m) != nil {
		return m, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said.put(key, saidOnce{m, sum})
	h.texts.put(key, maphash.String(h.seed, m.Text))
	return m, true
}

// turnRecord is the record of what was said in a turn.
type turnRecord struct {
	stored, unpacked []byte
	room             *[]byte // to unpack it in
}

// line returns a line of a record, or all of it if n is negative; nothing if
// the record is damaged.
func (t *turnRecord) line(n int) []byte {
	if t.unpacked == nil {
		if t.unpacked, _ = pack.UnpackTo(t.room, t.stored); t.unpacked == nil {
			return nil
		}
	}
	if n < 0 {
		return t.unpacked
	}
	for line := range bytes.Lines(t.unpacked) {
		if n == 0 {
			return line
		}
		n--
	}
	return nil
}
