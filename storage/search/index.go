package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/stratamem/strata/internal/levels"
	"github.com/stratamem/strata/storage"
)

// Options are what an index is made with. The zero value is the default.
type Options struct {
	// Language is that of stemming and stop words: "english" (the default),
	// "french", "hungarian", "norwegian", "russian", "spanish", "swedish", or
	// "none" for neither. Scripts without spaces, and Korean, are indexed by
	// pairs of neighbours in every language.
	Language string
	// Ranking says what relevance is made of.
	Ranking Ranking
	// Bundle keeps the texts of documents whose IDs are alike up to the last
	// hyphen in one record: passages of one whole, which take a third less than
	// apart. Of such documents one writer at a time may add or delete any. Who
	// deletes from an index opens it as those do who add to it; any reader finds
	// what is in bundles, and what was added before there were any.
	Bundle bool
}

// Index is a picture in memory of an index in a store. It may be used by
// several goroutines at once, all with the same scope of a store, and by any
// number of processes beside. Every method reads first what changed in the
// store, a record where nothing did; the first one reads the segments (about
// 10 bytes a document).
//
// What it keeps has a bound, 10 MB: 18 bytes of each document, and for the rest
// postings and ids that were wanted lately, 2 MB at least, so that from 460,000
// documents on it keeps 18 bytes more for each. Beside that stand the newest segments,
// 80 of at most 64 KB, and some 200 bytes for each session. What is not kept is read
// from the store, in records of some 8 KB: a word that was not asked for lately takes
// one from each of the large segments that have it, of which there are 15, and one for
// each 16,000 documents. Segments that were written before there was a bound are kept
// whole until appends have merged them.
//
// The methods that change an index return operations and do not make them: the
// caller does, alone or with others in one batch, by [storage.Scoped.Apply] or as writes
// of a layer. What they say is in the index when the batch is.
type Index struct {
	analysis *analysis
	ranking  Ranking
	bundled  bool

	set     levels.Set[*part]
	picture *picture  // under set
	scratch sync.Pool // of *scratch
}

// MismatchError says that an index was made with another language than it is
// opened with. Rebuild it, or open it as what it is.
type MismatchError struct {
	Stored, Wanted string // languages
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("read index: it is of language %q, not %q: open it as such or rebuild it", e.Stored, e.Wanted)
}

// New returns an index, of which nothing is read yet. nil opts are the
// defaults. An unknown language is an error.
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
		Name: "index",
		Load: ix.load,
		Drop: func(n *part) { ix.picture.drop(n) },
		Ready: func(ctx context.Context, r storage.Reader) (bool, error) {
			return true, ix.picture.settle(ctx, r)
		},
		Reset: func() { ix.picture = newPicture() },
	}
	return ix, nil
}

func (ix *Index) load(key string, value []byte) (*part, error) {
	s, err := decodeSegment(value)
	if err != nil {
		return nil, corrupt(key, err)
	}
	if s.language != ix.analysis.language {
		return nil, &MismatchError{Stored: s.language, Wanted: ix.analysis.language}
	}
	n := ix.picture.newPart(key, s, len(value))
	ix.picture.added = append(ix.picture.added, n)
	return n, nil
}

// fanIn is how many segments of a level are merged into one of the next.
var fanIn = [...]int{64, 16, 16}

// maxRemoved is how many records one change takes away at most, of those that are
// merged.
const maxRemoved = 300

// Len returns how many documents the index has.
func (ix *Index) Len(ctx context.Context, r storage.Reader) (int, error) {
	if err := ix.set.View(ctx, r); err != nil {
		return 0, err
	}
	defer ix.set.RUnlock()
	return ix.picture.live, nil
}

// Append returns the operations that add documents, with keys relative to the
// index: one for each document or bundle, and up to 70 more. A document that the index
// has is left out. At most 400 documents fit in a batch.
//
// Two appends that are made before the first of them is in the store both hold,
// whatever their order.
func (ix *Index) Append(ctx context.Context, r storage.Reader, docs ...Doc) ([]storage.Op, error) {
	if err := ix.set.View(ctx, r); err != nil {
		return nil, err
	}
	defer ix.set.RUnlock()
	fresh, err := ix.fresh(ix.looks(ctx, r), docs, nil)
	if err != nil || len(fresh) == 0 {
		return nil, err
	}
	ops, err := ix.texts(ctx, r, nil, fresh)
	if err != nil {
		return nil, err
	}
	return ix.grow(ctx, r, ops, newSegment(ix.analysis, fresh, ix.picture.appends()+1))
}

// looks returns a reading of the picture. Under the set's lock.
func (ix *Index) looks(ctx context.Context, r storage.Reader) *look {
	return &look{ctx: ctx, r: r, p: ix.picture, flags: ix.picture.columns.flags, texts: shelf{r: r, bundled: ix.bundled}}
}

// fresh returns those of docs that the index has not. None may be among those that
// go.
func (ix *Index) fresh(l *look, docs []Doc, gone map[string]bool) (fresh []Doc, err error) {
	had := make(map[string]bool)
	for i := range docs {
		d := &docs[i]
		if err := d.validate(); err != nil {
			return nil, err
		}
		if gone[d.ID] {
			return nil, errors.New("replace: a document is to go and to come: another text has another ID")
		}
		if had[d.ID] {
			continue
		}
		had[d.ID] = true
		switch stored, err := l.texts.read(l.ctx, d.ID); {
		case errors.Is(err, storage.ErrNotFound):
		case err != nil:
			return nil, err
		case bytes.Equal(stored.encode(), d.encode()):
			continue
		default:
			return nil, errors.New("append: the index has another document of that id: delete it first")
		}
		fresh = append(fresh, *d)
	}
	if len(ix.picture.columns.lengths)+len(fresh) > maxDocs {
		return nil, fmt.Errorf("append: the index is full: it has %d documents", ix.picture.live)
	}
	return fresh, nil
}

// grow adds to ops those that add a segment, and merge others where there are
// many.
func (ix *Index) grow(ctx context.Context, r storage.Reader, ops []storage.Op, s *segment) ([]storage.Op, error) {
	level := s.level()
	for ; level < len(fanIn); level++ {
		keys := ix.picture.keys(level)
		if len(keys) < fanIn[level]-1 {
			break
		}
		parts, err := readSegments(ctx, r, keys, maxMerged)
		if errors.Is(err, storage.ErrNotFound) {
			break // another writer merges them at this moment
		}
		if err != nil {
			return nil, err
		}
		for _, n := range keys[:len(parts)] {
			ops = n.remove(ops)
		}
		if s, err = merge(append(parts, s), nil); err != nil {
			return nil, corrupt(keys[0].key, err)
		}
	}
	return ix.set.Mark(ix.put(ops, s, level)), nil
}

// Delete returns the operations that take documents out, text and postings, in
// one batch: the segments that hold them are written anew, each at most 1,024
// appends. IDs that the index has not are left out.
func (ix *Index) Delete(ctx context.Context, r storage.Reader, ids ...string) ([]storage.Op, error) {
	return ix.Replace(ctx, r, ids)
}

// Replace returns the operations that take documents out, as Delete does, and
// add others, as Append does, in one batch. No ID may be in both.
func (ix *Index) Replace(ctx context.Context, r storage.Reader, gone []string, docs ...Doc) (ops []storage.Op, err error) {
	for range 8 {
		ops, err = ix.replace(ctx, r, gone, docs)
		if !errors.Is(err, storage.ErrNotFound) { // another writer merged
			break
		}
	}
	return ops, err
}

func (ix *Index) replace(ctx context.Context, r storage.Reader, ids []string, docs []Doc) ([]storage.Op, error) {
	if err := ix.set.View(ctx, r); err != nil {
		return nil, err
	}
	defer ix.set.RUnlock()
	gone := make(map[string]bool)
	touched := make(map[*part]bool)
	var list []string
	l := ix.looks(ctx, r)
	for _, id := range ids {
		if gone[id] {
			continue
		}
		d, err := l.texts.read(ctx, id)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		in := l.find(&d)
		if l.err != nil {
			return nil, l.err
		}
		for _, n := range in {
			gone[id], touched[ix.picture.of(n)] = true, true
		}
		if gone[id] {
			list = append(list, id)
		}
	}
	fresh, err := ix.fresh(l, docs, gone)
	if err != nil || len(gone)+len(fresh) == 0 {
		return nil, err
	}
	ops, err := ix.texts(ctx, r, list, fresh)
	if err != nil {
		return nil, err
	}
	number := ix.picture.appends() + 1
	if len(gone) == 0 {
		return ix.grow(ctx, r, ops, newSegment(ix.analysis, fresh, number))
	}
	drop := func(id string) bool { return gone[id] }
	// The smallest segments that are touched become one with what is new; all of
	// them do where there are many.
	small := ix.picture.keys(0)
	if len(small) < fanIn[0]-1 {
		small = slices.DeleteFunc(small, func(n *part) bool { return !touched[n] })
	}
	for level := 1; level < levels.Levels; level++ {
		for _, n := range ix.picture.keys(level) {
			if !touched[n] {
				continue
			}
			parts, err := readSegments(ctx, r, []*part{n}, maxMerged)
			if err != nil {
				return nil, err
			}
			s, err := merge(parts, drop)
			if err != nil {
				return nil, corrupt(n.key, err)
			}
			ops = ix.put(n.remove(ops), s, level)
		}
	}
	// First those that are touched: of the others what fits.
	slices.SortStableFunc(small, func(a, b *part) int { return btoi(touched[b]) - btoi(touched[a]) })
	parts, err := readSegments(ctx, r, small, maxMerged)
	if err != nil {
		return nil, err
	}
	if len(parts) < len(small) && touched[small[len(parts)]] {
		return nil, errors.New("replace: the documents that go are in too many segments: delete fewer at once")
	}
	for _, n := range small[:len(parts)] {
		ops = n.remove(ops)
	}
	s := newSegment(ix.analysis, fresh, number)
	if len(parts) > 0 {
		if s, err = mergeWithout(parts, drop, s); err != nil {
			return nil, corrupt(small[0].key, err)
		}
	}
	return ix.set.Mark(ix.put(ops, s, min(s.level(), 1))), nil
}

// mergeWithout merges segments without what drop tells, and then one more.
func mergeWithout(list []*segment, drop func(id string) bool, last *segment) (*segment, error) {
	s, err := merge(list, drop)
	if err != nil {
		return nil, err
	}
	return merge([]*segment{s, last}, nil)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Has tells whether the index has a document.
func (ix *Index) Has(ctx context.Context, r storage.Reader, id string) (bool, error) {
	if err := ix.set.View(ctx, r); err != nil {
		return false, err
	}
	defer ix.set.RUnlock()
	l := ix.looks(ctx, r)
	d, err := l.texts.read(ctx, id)
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	in := l.find(&d)
	return len(in) > 0, l.err
}

// IDs returns the IDs of all documents, in no order.
func (ix *Index) IDs(ctx context.Context, r storage.Reader) ([]string, error) {
	if err := ix.set.View(ctx, r); err != nil {
		return nil, err
	}
	defer ix.set.RUnlock()
	var list []string
	l := ix.looks(ctx, r)
	for _, n := range ix.picture.parts {
		for i := range uint32(n.docs) {
			if ix.picture.columns.flags[n.base+i]&flagGone == 0 {
				list = append(list, l.id(n.base+i))
			}
		}
		if l.err != nil {
			return nil, l.err
		}
	}
	return list, nil
}

// maxMerged is how many bytes of segments become one: half of what a batch
// holds, beside what else is in it.
const maxMerged = storage.MaxBatchBytes / 2

// readSegments reads segments of at most limit bytes, and maxRemoved records,
// together, or the first.
func readSegments(ctx context.Context, r storage.Reader, parts []*part, limit int) ([]*segment, error) {
	var list []*segment
	size, records := 0, 0
	for _, n := range parts {
		size += n.size
		records += 1 + n.blocks()
		if (size > limit || records > maxRemoved) && len(list) > 0 {
			break
		}
		value, err := r.Get(ctx, n.key)
		if err != nil {
			return nil, fmt.Errorf("read index: %w", err)
		}
		s, err := readSegment(ctx, r, n.key, value)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// blocks returns how many records the part has beside its first.
func (n *part) blocks() int {
	if !n.large() {
		return 0
	}
	return len(n.ids) + len(n.terms)
}

// remove adds to ops those that remove a part's records.
func (n *part) remove(ops []storage.Op) []storage.Op {
	ops = append(ops, storage.Remove(n.key))
	if n.blocks() == 0 {
		return ops
	}
	for i := range n.ids {
		ops = append(ops, storage.Remove(blockKey(n.key, "i", i)))
	}
	for i := range n.terms {
		ops = append(ops, storage.Remove(blockKey(n.key, "t", i)))
	}
	return ops
}

func corrupt(key string, err error) error {
	if errors.Is(err, errShort) {
		return &storage.CorruptError{Key: key, Reason: "segment of an index is damaged", Repair: "run strata index rebuild"}
	}
	return err
}
