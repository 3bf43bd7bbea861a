package soma

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

// searched is the full-text index of a store. It is changed in the batch of
// every change of an entity. What people write by hand is noticed by watching,
// and before that by one look at all entities when the first search comes.
type searched struct {
	index *search.Index

	mu      sync.Mutex // held while the index is brought up to date
	looked  bool       // all entities have been looked at
	stop    context.CancelFunc
	stopped chan struct{}

	seen    sync.Mutex // guards what follows
	changed map[string]bool
	missed  bool // some changes went unseen
}

// ranking is by words alone: entities are no dialogue.
var ranking = search.Ranking{Session: -1, Previous: -1, Next: -1, Speaker: -1, When: -1, Answer: -1, Far: -1, Floor: -1}

const searchPrefix = "_search/"

func (s *Store) searchScope() storage.Scoped { return storage.Scope(s.db, searchPrefix) }

// textID is the ID of an entity's document in the index: another text has
// another one.
func textID(key, digest string) string { return textPrefix(key) + digest[:24] }

// textPrefix is what the IDs of all texts of an entity begin with.
func textPrefix(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:12])
}

// textOf returns what is found of an entity: the beginning of its text, as much as any
// store takes.
func (s *Store) textOf(e *Entity, digest string) search.Doc {
	most := min(1<<19, storage.LimitsOf(s.db).Value/4)
	text := e.Name + "\n" + e.Body
	if len(text) > most {
		text = text[:most]
	}
	return search.Doc{
		ID: textID(e.Key(), digest), Type: e.Type, Layer: string(e.Layer), Scope: e.Team, Source: e.Key(),
		Time: e.Created, Text: text,
	}
}

// rest is a namespace of which a batch has some operations already.
type rest struct {
	storage.Scoped
	limits storage.Limits
}

func beside(s storage.Scoped, ops []storage.Op) rest {
	l := s.Limits()
	l.Ops = max(l.Ops-len(ops), 1)
	for i := range ops {
		l.Batch -= len(ops[i].Key) + len(ops[i].Value)
	}
	l.Batch = max(l.Batch, 1)
	return rest{s, l}
}

func (r rest) Limits() storage.Limits { return r.limits }

// indexing returns the operations for what a batch does to the index, beside those
// that it has already. Two
// batches that rewrite the same part of it conflict, or one would bring back what
// the other has taken out; and two that bring the same text in, or who takes it
// out at that moment would know of one of them. What a text's record is the batch
// asks before it looks at the index, which then is at least as new: who brought the
// text in meanwhile is either seen there or in the way.
func (s *Store) indexing(ctx context.Context, with []storage.Op, gone []string, docs []search.Doc) ([]storage.Op, error) {
	scope := s.searchScope()
	versions := make(map[string]storage.Version, len(docs)) // usually the empty one: the text is absent
	for i := range docs {
		key := scope.Key(search.DocKey(docs[i].ID))
		_, version, err := s.db.Get(ctx, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("index entity: %w", err)
		}
		versions[key] = version
	}
	ops, err := s.searched.index.Replace(ctx, beside(scope, with), gone, docs...)
	if err != nil {
		return nil, fmt.Errorf("index entity: %w", err)
	}
	for i := range ops {
		op := &ops[i]
		_, text := search.DocID(op.Key)
		enters, leaves := text && !op.Delete, search.IsSegment(op.Key) && op.Delete
		op.Key = scope.Key(op.Key)
		version := versions[op.Key]
		switch {
		case !enters && !leaves:
			continue
		case leaves:
			_, version, err = s.db.Get(ctx, op.Key)
			if errors.Is(err, ErrNotFound) {
				return nil, &storage.ConflictError{Key: op.Key}
			}
			if err != nil {
				return nil, fmt.Errorf("index entity: %w", err)
			}
		}
		*op = op.IfVersion(version)
	}
	return ops, nil
}

// search yields the entities that full-text search finds for q, best first.
func (s *Store) search(ctx context.Context, q *Query) iter.Seq2[*candidate, error] {
	return func(yield func(*candidate, error) bool) {
		if err := s.look(ctx); err != nil {
			yield(nil, err)
			return
		}
		ask := search.Query{Text: q.Text, Around: -1, Floor: q.floor}
		if q.Type != "" {
			ask.Filter.Types = []string{q.Type}
		}
		if q.Layer != "" {
			ask.Filter.Layers = []string{string(q.Layer)}
		}
		if q.Team != AllTeams {
			ask.Filter.Scopes = []string{"", q.Team}
		}
		// What a filter of the query or a change meanwhile takes away makes room
		// for more: ask again for twice as many.
		done := make(map[string]bool)
		r := s.reader()
		for ask.Limit = 50; ; ask.Limit *= 2 {
			found, err := s.searched.index.Search(ctx, s.searchScope(), ask)
			if err != nil {
				yield(nil, fmt.Errorf("search entities: %w", err))
				return
			}
			for i := range found.Hits {
				h := &found.Hits[i]
				if done[h.ID] {
					continue
				}
				done[h.ID] = true
				e, err := r.load(ctx, h.Source)
				if errors.Is(err, ErrNotFound) || errors.Is(err, storage.ErrCorrupt) || err == nil && textID(h.Source, e.digest()) != h.ID {
					continue // changed by hand: its new text is found by itself, if it can be read
				}
				if err != nil {
					yield(nil, err)
					return
				}
				if !yield(&candidate{Entity: e.Entity}, nil) {
					return
				}
			}
			if len(found.Hits) < ask.Limit {
				return
			}
		}
	}
}

// look brings the index up to date with what was changed by hand. The first
// time it looks at all entities.
func (s *Store) look(ctx context.Context) error {
	x := &s.searched
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stop == nil {
		if err := s.watch(); err != nil && !errors.Is(err, storage.ErrUnsupported) {
			return err
		}
	}
	x.seen.Lock()
	all := !x.looked || x.missed
	keys := slices.Sorted(maps.Keys(x.changed))
	x.changed, x.missed = nil, false
	x.seen.Unlock()
	var err error
	if all {
		err = s.lookAtAll(ctx)
	} else {
		err = s.lookAt(ctx, keys)
	}
	x.looked = err == nil
	return err
}

// watch begins to note which entities change.
func (s *Store) watch() error {
	x := &s.searched
	ctx, stop := context.WithCancel(context.Background())
	events, err := storage.Watch(ctx, s.db, "")
	if err != nil {
		stop()
		return err
	}
	x.stop, x.stopped = stop, make(chan struct{})
	go func() {
		defer close(x.stopped)
		for event, err := range events {
			x.seen.Lock()
			switch {
			case err != nil || event.Kind == storage.EventOverflow:
				x.missed = true
			case storage.IsDocument(event.Key):
				if x.changed == nil {
					x.changed = make(map[string]bool)
				}
				x.changed[event.Key] = true
			}
			x.seen.Unlock()
		}
	}()
	return nil
}

func (x *searched) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stop != nil {
		x.stop()
		<-x.stopped
		x.stop = nil
		x.looked = false
	}
	return nil
}

// lookAtAll compares the index with all entities.
func (s *Store) lookAtAll(ctx context.Context) error {
	ids, err := s.searched.index.IDs(ctx, s.searchScope())
	if err != nil {
		return fmt.Errorf("index entities: %w", err)
	}
	has := make(map[string]bool, len(ids))
	for _, id := range ids {
		has[id] = true
	}
	var lacks []string
	for entry, err := range storage.Scan(ctx, s.db, "", &storage.ScanOptions{After: "`"}) { // before all types, behind all records
		if err != nil {
			return fmt.Errorf("index entities: %w", err)
		}
		sum, err := digest(entry.Value)
		if err != nil {
			continue // cannot be read, so not be found
		}
		id := textID(entry.Key, sum)
		if !has[id] {
			lacks = append(lacks, entry.Key)
		}
		delete(has, id)
	}
	if err := s.enter(ctx, lacks); err != nil {
		return err
	}
	return s.strike(ctx, slices.Sorted(maps.Keys(has)))
}

// lookAt compares the index with entities that changed. Their old texts stay in
// it until the next look at all: nothing shows them.
func (s *Store) lookAt(ctx context.Context, keys []string) error {
	var lacks []string
	for _, key := range keys {
		e, err := s.load(ctx, key)
		if errors.Is(err, ErrNotFound) || errors.Is(err, storage.ErrCorrupt) {
			continue
		}
		if err != nil {
			return err
		}
		if has, err := s.searched.index.Has(ctx, s.searchScope(), textID(key, e.digest())); err != nil {
			return fmt.Errorf("index entities: %w", err)
		} else if !has {
			lacks = append(lacks, key)
		}
	}
	return s.enter(ctx, lacks)
}

// enter takes entities into the index that it lacks.
func (s *Store) enter(ctx context.Context, keys []string) error {
	return s.inParts(ctx, keys, func(b *batch, part []string) error {
		for _, key := range part {
			if err := b.enter(ctx, key); err != nil {
				return err
			}
		}
		return nil
	})
}

// inParts makes a change of each part of a list that the store takes as one.
func (s *Store) inParts(ctx context.Context, list []string, f func(b *batch, part []string) error) error {
	const most = 100
	for part := range slices.Chunk(list, most) {
		err := s.change(ctx, func(b *batch) error { return f(b, part) })
		if n := len(part) / 2; n > 0 && errors.Is(err, storage.ErrInvalid) { // it is too much at once
			if err = s.inParts(ctx, part[:n], f); err == nil {
				err = s.inParts(ctx, part[n:], f)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// enter plans that the index has an entity. Who forgets it takes its id away, so
// that what was forgotten since it was read is not brought back.
func (b *batch) enter(ctx context.Context, key string) error {
	id, _, err := idOf(key)
	if err != nil {
		return nil // cannot be read, so not be found
	}
	n := len(b.ops)
	if err := b.claim(ctx, id, key); err != nil {
		return err
	}
	e, err := b.s.load(ctx, key)
	if err == nil {
		b.docs = append(b.docs, b.s.textOf(e.Entity, e.digest()))
		return nil
	}
	b.ops = b.ops[:n]
	if errors.Is(err, ErrNotFound) || errors.Is(err, storage.ErrCorrupt) {
		return nil
	}
	return err
}

// strike takes texts out of the index.
func (s *Store) strike(ctx context.Context, ids []string) error {
	return s.inParts(ctx, ids, func(b *batch, part []string) error {
		b.gone = part
		return nil
	})
}

// textsOf returns the ids of all texts that the index has of an entity, those
// of an edit that no history has among them.
func (s *Store) textsOf(ctx context.Context, key string) (ids []string, err error) {
	for k, err := range s.searchScope().List(ctx, search.DocKey(textPrefix(key))) {
		if err != nil {
			return nil, fmt.Errorf("read index: %w", err)
		}
		if id, ok := search.DocID(k); ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Rebuild makes the full-text index anew from all entities.
func (s *Store) Rebuild(ctx context.Context) error {
	s.searched.mu.Lock()
	defer s.searched.mu.Unlock()
	for key, err := range s.db.List(ctx, searchPrefix) {
		if err == nil {
			err = storage.Delete(ctx, s.db, key)
		}
		if err != nil {
			return fmt.Errorf("rebuild index: %w", err)
		}
	}
	return s.lookAtAll(ctx)
}
