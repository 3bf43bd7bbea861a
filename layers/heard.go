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
	"github.com/stratamem/strata/internal/recent"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/storage"
)

// heard reads mentions and caches what was read lately: whoever is mentioned
// tends to be mentioned again, and unpacking a record takes ten times as long
// as checking that it has not changed.
type heard struct {
	seed  maphash.Seed
	mu    sync.Mutex
	said  recent.Cache[uint64, saidOnce] // by place
	texts recent.Cache[uint64, uint64]   // digests of texts, by place; holds more mentions, because repeated texts are not read
	rooms sync.Pool                      // of *[]byte, to unpack records in
}

// saidOnce is a mention with the digest of the record from which it was read.
type saidOnce struct {
	Mention
	record uint64
}

func newHeard() *heard {
	h := &heard{seed: maphash.MakeSeed()}
	h.said.Limit, h.texts.Limit = 1<<10, 1<<13
	return h
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
	return h.texts.Get(key)
}

// mention returns the content of a line of a record.
func (h *heard) mention(key uint64, turn *turnRecord, line int) (Mention, bool) {
	sum := maphash.Bytes(h.seed, turn.stored)
	h.mu.Lock()
	s, ok := h.said.Get(key)
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
	h.said.Put(key, saidOnce{m, sum})
	h.texts.Put(key, maphash.String(h.seed, m.Text))
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
