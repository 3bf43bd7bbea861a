package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stratamem/strata/internal/levels"
	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/storage"
)

// Options configures an index. The zero value means the defaults.
type Options struct {
	// Language is that of stemming and stop words: "english" (the default),
	// "french", "hungarian", "norwegian", "russian", "spanish", "swedish", or
	// "none" for neither. Scripts without spaces, and Korean, are indexed by pairs
	// of adjacent letters in every language.
	Language string
	// Ranking says how relevance is computed.
	Ranking Ranking
	// Bundle keeps in one record the texts of documents whose IDs are equal up to
	// the last hyphen, such as the passages of a whole, which saves a third of the
	// space. Only one writer at a time may add or delete documents of the same
	// bundle. Whoever deletes from an index must open it with the same setting as
	// those who add to it; any reader finds what is in bundles, and what was added
	// before there were any.
	Bundle bool
}

// Index is an in-memory view of an index in a store. It is safe for concurrent
// use, always with the same scope of a store, and any number of processes may
// use the same index. Every method first reads what changed in the store, which
// is one record if nothing did. The first call reads the small segments, a few
// thousand documents that it keeps with all their postings, and some 15 bytes
// about each other document, which take 30 or so in memory. At most 6 MB of
// other postings and of IDs are cached when they are needed, and read again if
// necessary.
//
// The methods that change an index return operations but do not apply them: the
// caller does, alone or with others in one batch, by [storage.Scoped.Apply] or
// as writes of a layer. The change takes effect with the batch.
type Index struct {
	analysis *analysis
	ranking  Ranking
	bundled  bool

	set     levels.Set[*part]
	picture *picture // under set
	cache   cache
	scratch sync.Pool // of *scratch

	unpacked unpacked
	made     atomic.Pointer[made] // by Append: what is in the store next, most likely
}

// made is a segment and the key under which it is stored, which contains its
// digest.
type made struct {
	key string
	of  *segment
}

// MismatchError means that an index was made with another language than it is
// opened with. Rebuild it, or open it as what it is.
type MismatchError struct {
	Stored, Wanted string // languages
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("read index: it is of language %q, not %q: open it as such or rebuild it", e.Stored, e.Wanted)
}

// New returns an index; it reads nothing yet. nil opts mean the defaults. An
// unknown language is an error.
func New(opts *Options) (*Index, error) {
	if opts == nil {
		opts = &Options{}
	}
	a, err := analysisOf(opts.Language)
	if err != nil {
		return nil, err
	}
	ix := &Index{analysis: a, ranking: opts.Ranking.withDefaults(), bundled: opts.Bundle}
	ix.set = levels.Set[*part]{
		Name:  "index",
		Load:  ix.load,
		Drop:  func(s *part) { ix.picture.release(s) },
		Ready: func() bool { return ix.picture.ready() },
		Reset: func() { ix.picture = newPicture(ix.picture) },
	}
	return ix, nil
}

func (ix *Index) load(ctx context.Context, r storage.Reader, key string, value []byte) (*part, error) {
	if m := ix.made.Load(); m != nil && m.key == key {
		ix.made.Store(nil)
		return ix.include(ctx, r, nil, m.of)
	}
	record, format, err := unpackSegment(value)
	var s *segment
	var h *header
	language := ""
	switch {
	case err != nil:
	case format == sealedFormat:
		if h, err = decodeHeader(key, record); err == nil {
			language = h.language
		}
	default:
		if s, err = decodeSegment(record); err == nil {
			language = s.language
		}
	}
	if err != nil {
		return nil, corrupt(key, err)
	}
	if language != ix.analysis.language {
		return nil, &MismatchError{Stored: language, Wanted: ix.analysis.language}
	}
	return ix.include(ctx, r, h, s)
}

// include adds a segment to the picture; it is a sealed one if there is a
// header.
func (ix *Index) include(ctx context.Context, r storage.Reader, h *header, s *segment) (*part, error) {
	p := ix.picture
	if p.stale = p.stale || p.made && h != nil; p.stale {
		return new(part), nil
	}
	l := ix.reading(ctx, r)
	var added *part
	if h != nil {
		added = p.seal(l, h)
	} else {
		added = p.load(l, s)
	}
	if errors.Is(l.err, storage.ErrNotFound) && p.made { // a sealed segment was removed meanwhile
		p.stale, l.err = true, nil
	}
	p.made = p.made || l.err != nil
	return added, l.err
}

func (ix *Index) reading(ctx context.Context, r storage.Reader) *reading {
	return &reading{ctx: ctx, r: r, cache: &ix.cache, text: make([]byte, 0, 2*maxWord+8)}
}

// fanIn is how many segments of a level are merged into one of the next; for
// the last level, how many small ones into one of the same level.
var fanIn = [levels.Levels]int{64, 16, 16}

const sealedLevel = levels.Levels - 1

// Len returns the number of documents in the index.
func (ix *Index) Len(ctx context.Context, r storage.Reader) (int, error) {
	if err := ix.set.View(ctx, r); err != nil {
		return 0, err
	}
	defer ix.set.RUnlock()
	return ix.picture.live, nil
}

// Append returns the operations that add documents, with keys relative to the
// index: one for each document or bundle, four or five more, and occasionally
// up to 400 more. Documents already in the index are left out. At most 400
// documents fit in a batch.
//
// Concurrent appends all take effect, in any order.
func (ix *Index) Append(ctx context.Context, r storage.Reader, docs ...Doc) ([]storage.Op, error) {
	return ix.Replace(ctx, r, nil, docs...)
}

// fresh returns those of docs that are not in the index. None may be among
// those to be removed.
func (ix *Index) fresh(l *reading, docs []Doc, gone map[string]bool) (fresh []Doc, err error) {
	ids := make([]string, len(docs))
	for i := range docs {
		ids[i] = docs[i].ID
	}
	known := ix.picture.find(l, ids)
	if l.err != nil {
		return nil, l.err
	}
	had := make(map[string]bool)
	for i := range docs {
		d := &docs[i]
		if err := d.validate(); err != nil {
			return nil, err
		}
		if gone[d.ID] {
			return nil, errors.New("replace: a document is both removed and added: give a different text a different ID")
		}
		if o, ok := known[d.ID]; had[d.ID] || ok && o.sum == sum(d.encode()) {
			continue
		} else if ok {
			return nil, errors.New("append: the index has another document of that id: delete it first")
		}
		if err := ix.Fits(l.r, d); err != nil {
			return nil, fmt.Errorf("append: %w", err)
		}
		had[d.ID] = true
		fresh = append(fresh, *d)
	}
	if ix.picture.live+len(fresh) > maxDocs {
		return nil, fmt.Errorf("append: the index is full: it has %d documents", ix.picture.live)
	}
	return fresh, nil
}

// grow adds to ops those that add a segment, and those that merge others if
// there are many.
func (ix *Index) grow(ctx context.Context, r storage.Reader, ops []storage.Op, s *segment) ([]storage.Op, error) {
	for level, most := range fanIn {
		if s.level() > level {
			continue
		}
		keys, limit := ix.set.Keys(level), maxMerged
		if level == sealedLevel {
			limit = 4 * sealBytes
			keys = slices.DeleteFunc(keys, func(key string) bool { return !ix.set.Parts[key].small() })
		}
		if len(keys) < most-1 {
			break
		}
		room := roomOf(r)
		if keys = room.merged(ix, keys, len(ops)); keys == nil {
			break
		}
		parts, err := readSegments(ctx, r, keys, min(limit, room.bytes()))
		if errors.Is(err, storage.ErrNotFound) {
			break // another writer is merging them
		}
		if err != nil {
			return nil, err
		}
		if len(parts) < 2 { // not enough room
			break
		}
		for _, key := range keys[:len(parts)] {
			ops = ix.remove(ops, key)
		}
		s = merge(append(parts, s), nil)
		if s.level() <= level { // many have been deleted
			break
		}
	}
	return ix.set.Mark(ix.put(r, ops, s)), nil
}

// put adds to ops the op that stores a segment, unless it is empty; several if
// the store accepts only smaller values.
func (ix *Index) put(r storage.Reader, ops []storage.Op, s *segment) []storage.Op {
	if len(s.docs) == 0 {
		return ops
	}
	level, seals := s.level(), roomOf(r).seals()
	if level >= sealedLevel && seals {
		return ix.putSealed(ops, s)
	}
	record := s.encode()
	if len(record) >= sealBytes && seals {
		return ix.putSealed(ops, s)
	}
	packed := pack.Pack(new([]byte), record)
	if len(packed) > r.Limits().Value && len(s.docs) > 1 {
		a, b := s.halves()
		return ix.put(r, ix.put(r, ops, a), b)
	}
	key := ix.set.Key(level, record)
	ix.made.Store(&made{key, s})
	return append(ops, storage.Put(key, packed))
}

// putSealed adds to ops those that store a segment with its postings in blocks.
func (ix *Index) putSealed(ops []storage.Op, s *segment) []storage.Op {
	record, blocks := s.seal()
	key := ix.set.Key(sealedLevel, record)
	for i, block := range blocks {
		ops = append(ops, storage.Put(blockKey(key, i), block))
	}
	return append(ops, storage.Put(key, pack.Pack(new([]byte), record)))
}

// removing returns the number of operations that remove a segment.
func (ix *Index) removing(key string) int {
	if s := ix.set.Parts[key].sealed; s != nil {
		return len(s.sums) + 1
	}
	return 1
}

// remove adds to ops those that remove a segment.
func (ix *Index) remove(ops []storage.Op, key string) []storage.Op {
	if s := ix.set.Parts[key].sealed; s != nil {
		for i := range s.sums {
			ops = append(ops, storage.Remove(blockKey(key, i)))
		}
	}
	return append(ops, storage.Remove(key))
}

// Delete returns the operations that remove documents, text and postings, in
// one batch: it rewrites the segments that hold them, each at most 1,024
// appends. Unknown IDs are ignored.
func (ix *Index) Delete(ctx context.Context, r storage.Reader, ids ...string) ([]storage.Op, error) {
	return ix.Replace(ctx, r, ids)
}

// Replace returns the operations that remove documents, as Delete does, and add
// others, as Append does, in one batch. No ID may be in both.
func (ix *Index) Replace(ctx context.Context, r storage.Reader, gone []string, docs ...Doc) (ops []storage.Op, err error) {
	err = ix.view(ctx, r, func(l *reading) error {
		ops, err = ix.replace(l, gone, docs)
		return err
	})
	return ops, err
}

// view brings the picture up to date and calls look with it, again if another
// writer has merged meanwhile what it reads.
func (ix *Index) view(ctx context.Context, r storage.Reader, look func(l *reading) error) error {
	var err error
	for range 8 {
		if err = ix.set.View(ctx, r); err == nil {
			l := ix.reading(ctx, r)
			err = cmp.Or(look(l), l.err)
			ix.set.RUnlock()
		}
		if !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	if key, ok := errors.AsType[*storage.KeyError](err); ok {
		return corrupt(key.Key, errShort)
	}
	return err
}

func (ix *Index) replace(l *reading, ids []string, docs []Doc) ([]storage.Op, error) {
	ctx, r := l.ctx, l.r
	gone := make(map[string]bool)
	var list []string
	if len(ids) > 0 {
		known := ix.picture.find(l, ids)
		for _, id := range ids {
			if _, ok := known[id]; ok && !gone[id] {
				gone[id] = true
				list = append(list, id)
			}
		}
	}
	touched := ix.picture.touched(l, list)
	fresh, err := ix.fresh(l, docs, gone)
	if err != nil || len(gone)+len(fresh) == 0 {
		return nil, err
	}
	ops, err := ix.texts(ctx, r, list, fresh)
	if err != nil {
		return nil, err
	}
	if len(gone) == 0 {
		return ix.grow(ctx, r, ops, newSegment(ix.analysis, fresh))
	}
	drop := func(id string) bool { return gone[id] }
	// The smallest segments affected are merged with the new one; if there are
	// many, all of them are.
	many := len(ix.set.Keys(0)) >= fanIn[0]-1
	var small []*segment
	var rest []string
	for _, key := range slices.Sorted(maps.Keys(ix.set.Parts)) {
		level := levels.Level(key)
		if !ix.set.Parts[key].has(touched) {
			if many && level == 0 {
				rest = append(rest, key)
			}
			continue
		}
		parts, err := readSegments(ctx, r, []string{key}, maxMerged)
		if err != nil {
			return nil, err
		}
		ops = ix.remove(ops, key)
		if level == 0 {
			small = append(small, parts[0])
			continue
		}
		ops = ix.put(r, ops, merge(parts, drop))
	}
	room := roomOf(r)
	more, err := readSegments(ctx, r, room.merged(ix, rest, len(ops)), min(maxMerged, room.bytes()))
	if err != nil {
		return nil, err
	}
	for _, key := range rest[:len(more)] {
		ops = ix.remove(ops, key)
	}
	small = append(small, more...)
	s := newSegment(ix.analysis, fresh)
	if len(small) > 0 {
		s = merge(append([]*segment{merge(small, drop)}, s), nil)
	}
	return ix.set.Mark(ix.put(r, ops, s)), nil
}

// Has reports whether the index has a document.
func (ix *Index) Has(ctx context.Context, r storage.Reader, id string) (bool, error) {
	var has bool
	err := ix.view(ctx, r, func(l *reading) error {
		_, has = ix.picture.find(l, []string{id})[id]
		return nil
	})
	return has, err
}

// IDs returns the IDs of all documents, in no order.
func (ix *Index) IDs(ctx context.Context, r storage.Reader) ([]string, error) {
	var list []string
	err := ix.view(ctx, r, func(l *reading) error {
		list = ix.picture.ids(l)
		return nil
	})
	return list, err
}

// maxMerged is how many bytes of segments are merged into one: half of a batch,
// which leaves room for the rest.
const maxMerged = storage.MaxBatchBytes / 2

// readSegments reads segments of at most limit bytes together, or the first.
func readSegments(ctx context.Context, r storage.Reader, keys []string, limit int) ([]*segment, error) {
	var list []*segment
	size := 0
	for _, key := range keys {
		value, err := r.Get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("read index: %w", err)
		}
		s, takes, err := readSegment(ctx, r, key, value)
		if err != nil {
			return nil, corrupt(key, err)
		}
		if size += takes; size > limit && len(list) > 0 {
			break
		}
		list = append(list, s)
	}
	return list, nil
}

func corrupt(key string, err error) error {
	if errors.Is(err, errShort) {
		return &storage.CorruptError{Key: key, Reason: "segment of an index is damaged", Repair: "run strata index rebuild"}
	}
	return err
}
