package soma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stratamem/strata/internal/jsonvalue"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

// Errors to branch on, beside those of package storage.
var (
	// ErrNotFound says that there is no such entity; it is that of storage.
	ErrNotFound = storage.ErrNotFound
	// ErrExists says that another entity has the id.
	ErrExists = errors.New("another entity has the id")
	// ErrCreateLimit says that a worker has created as many entities as it may in
	// one run: the rest waits for the next.
	ErrCreateLimit = errors.New("the worker has created as many entities as it may in one run")
)

// Options of [Open]; zero fields are the defaults.
type Options struct {
	Now          func() time.Time // the clock; default time.Now
	WorkingLife  time.Duration    // until a working entity decays; default 14 days
	EmergingLife time.Duration    // until an emerging one does; default 90 days
	// Language is that of full-text search, see [search.Options].
	Language string
}

// Store reads the entities of an adapter.
type Store struct {
	db       storage.Adapter
	opts     Options
	searched searched
	bare     bool // the fields are not declared, and cannot be
	// decisions are those that were read, by the keys of their records: reading them
	// anew takes most of the time of reading canon. See BenchmarkCanon.
	decisions sync.Map
}

// Open returns the store of entities in an adapter, which stays the caller's
// to close, after [Store.Close]. The adapter must have batches and versions. It
// declares the fields type, layer, status, tags and team_id for queries; where
// that cannot be written, queries read all documents.
func Open(ctx context.Context, db storage.Adapter, opts *Options) (*Store, error) {
	s := &Store{db: db}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	s.opts.WorkingLife = cmp.Or(s.opts.WorkingLife, 14*24*time.Hour)
	s.opts.EmergingLife = cmp.Or(s.opts.EmergingLife, 90*24*time.Hour)
	ix, err := search.New(&search.Options{Language: s.opts.Language, Ranking: ranking})
	if err != nil {
		return nil, fmt.Errorf("open knowledge store: %w", err)
	}
	s.searched.index = ix
	err = storage.EnsureIndex(ctx, db, "type", "layer", "status", "tags", "team_id")
	if s.bare = errors.Is(err, storage.ErrReadOnly); err != nil && !s.bare {
		return nil, fmt.Errorf("open knowledge store: %w", err)
	}
	return s, nil
}

// Close ends what the store has begun. It leaves the adapter open.
func (s *Store) Close() error { return s.searched.close() }

func (s *Store) now() time.Time { return s.opts.Now().UTC().Truncate(time.Millisecond) }

func notFound(id string) error {
	return &storage.KeyError{Op: "read entity", Key: id, Err: ErrNotFound}
}

// visible reports whether a team may see the entity. One whose team cannot be
// read is of a team that nobody is of.
func (e *Entity) visible(team string) bool {
	_, odd := e.Fields["team_id"]
	return !odd && (e.Team == "" || e.Team == team)
}

// stored is an entity as it is in the store.
type stored struct {
	*Entity
	document []byte
	version  storage.Version
}

// digest is that of the document, which costs more than to read it: the index and the
// history ask for it, and a reader does not.
func (e *stored) digest() string { return hexSum(jsonvalue.Canonical(e.document)) }

// store returns an entity as it is to be in the store.
func (e *Entity) store() (*stored, error) {
	document, err := e.encode()
	if err != nil {
		return nil, err
	}
	if rule := jsonvalue.Check(document); rule != "" {
		return nil, fmt.Errorf("encode entity: %s", rule)
	}
	return &stored{Entity: e, document: document}, nil
}

// Read returns an entity by its id, or by type/id. It is for those who look
// after the store: it shows all teams, and what is not ratified with a mark.
func (s *Store) Read(ctx context.Context, id string) (*Entity, error) {
	e, err := s.lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	return e.Entity, nil
}

// lookup reads the entity with an id, or with type/id, with its version.
func (s *Store) lookup(ctx context.Context, id string) (*stored, error) {
	key, err := s.keyOf(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.load(ctx, key)
}

// keyOf returns the key of the entity with an id, or with type/id, in any of its
// spellings.
func (s *Store) keyOf(ctx context.Context, id string) (key string, err error) {
	for _, spelled := range spellings(id) {
		if key, err = s.keyAs(ctx, spelled); !errors.Is(err, ErrNotFound) {
			return key, err
		}
	}
	return "", notFound(id)
}

func (s *Store) keyAs(ctx context.Context, id string) (string, error) {
	if kind, rest, ok := strings.Cut(id, "/"); ok && isType(kind) {
		key := kind + "/" + storage.EscapeSegment(rest)
		if _, _, err := s.db.Get(ctx, key); err == nil || !errors.Is(err, ErrNotFound) && !errors.Is(err, storage.ErrInvalid) {
			return key, err
		}
	}
	if id == "" || len(storage.EscapeSegment(id)) > maxID {
		return "", notFound(id)
	}
	if key, _, err := s.db.Get(ctx, idPrefix+storage.EscapeSegment(id)); err == nil {
		if _, _, err := s.db.Get(ctx, string(key)); err == nil || !errors.Is(err, ErrNotFound) {
			return string(key), err
		}
	} else if !errors.Is(err, ErrNotFound) {
		return "", fmt.Errorf("read entity: %w", err)
	}
	// A file that a person has put there is in no record yet.
	for kind := range statuses {
		key := kind + "/" + storage.EscapeSegment(id)
		if _, _, err := s.db.Get(ctx, key); err == nil || !errors.Is(err, ErrNotFound) {
			return key, err
		}
	}
	return "", notFound(id)
}

// load reads the entity of a key with its version.
func (s *Store) load(ctx context.Context, key string) (*stored, error) {
	return s.reader().load(ctx, key)
}

// reader reads entities one after the other. What was decided about canon it
// reads once for each type, when it meets the first of it.
type reader struct {
	s       *Store
	decided map[string]ledger
}

func (s *Store) reader() *reader { return &reader{s, make(map[string]ledger)} }

// load reads the entity of a key with its version. The body of canon is folded.
func (r *reader) load(ctx context.Context, key string) (*stored, error) {
	var last storage.Version
	for {
		document, version, err := r.s.db.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		e, err := r.decode(ctx, key, document)
		if err != nil {
			return nil, err
		}
		if e.Unratified && version != last { // or a decision was made since the others were read
			last = version
			delete(r.decided, e.Type)
			continue
		}
		return &stored{e, document, version}, nil
	}
}

// decode decodes a document and says whether it is ratified, if it is canon.
func (r *reader) decode(ctx context.Context, key string, document []byte) (*Entity, error) {
	e, err := decode(key, document)
	if err != nil {
		return nil, corrupt(key, err)
	}
	if e.Layer != Canon {
		return e, nil
	}
	l, ok := r.decided[e.Type]
	if !ok {
		if l, err = r.s.ledger(ctx, e.Type); err != nil {
			return nil, err
		}
		r.decided[e.Type] = l
	}
	e.Body = fold(e.Body)
	l[key].examine(key, e, nil) // which marks it
	return e, nil
}

func corrupt(key string, err error) error {
	return &storage.CorruptError{Key: key, Reason: err.Error(), Repair: "mend the document by hand"}
}

// Query selects entities; all conditions must hold. Times are half-open
// intervals, zero is open.
type Query struct {
	Type, Status           string
	Layer                  Layer
	Tag                    string
	Team                   string // only entities of this team and those of none; "*": of all teams
	Text                   string // only those that full-text search finds, best first
	CreatedFrom, CreatedTo time.Time
	UpdatedFrom, UpdatedTo time.Time
	Offset, Limit          int // Limit 0: no limit

	floor float64 // of Text, see search.Query
}

// AllTeams as the Team of a query is for those who look after the store.
const AllTeams = "*"

// Query yields the entities that q selects, by key, or by relevance if q has a
// Text. It reads those documents only that match in type, layer, status and tag.
// Canon that [Store.Quarantined] lists is left out; where the layer is canon, a
// document that cannot be read is no error for that reason. Without a Team, entities of teams are left out.
// With a Text, the index takes in first what was edited by hand, which a store
// that is read-only refuses.
func (s *Store) Query(ctx context.Context, q Query) iter.Seq2[*Entity, error] {
	return wholes(q.page(s.candidates(ctx, &q)))
}

// page yields those of a sequence that the query admits, from its offset to its
// limit, and ends with the first error.
func (q *Query) page(all iter.Seq2[*candidate, error]) iter.Seq2[*candidate, error] {
	return func(yield func(*candidate, error) bool) {
		skip, n := q.Offset, 0
		for e, err := range all {
			switch {
			case err != nil:
				yield(nil, err)
				return
			case !q.admits(e.Entity):
				continue
			case skip > 0:
				skip--
				continue
			}
			if n++; !yield(e, nil) || n == q.Limit {
				return
			}
		}
	}
}

// candidates yields what q may select, with the fields that it decides by, and those
// that have names.
func (s *Store) candidates(ctx context.Context, q *Query, names ...string) iter.Seq2[*candidate, error] {
	if q.Text != "" {
		return s.search(ctx, q)
	}
	if q.Layer == Canon {
		return s.sound(ctx, q.Type)
	}
	equal := make(map[string]string)
	for field, value := range map[string]string{"status": q.Status, "layer": string(q.Layer), "tags": q.Tag} {
		if value != "" {
			equal[field] = value
		}
	}
	return s.find(ctx, equal, q.Type, append(q.fields(), names...)...)
}

// fields are those that q decides by.
func (q *Query) fields() []string {
	names := []string{"team_id"}
	if q.Status != "" {
		names = append(names, "status")
	}
	if q.Tag != "" {
		names = append(names, "tags")
	}
	if !q.CreatedFrom.IsZero() || !q.CreatedTo.IsZero() {
		names = append(names, "created")
	}
	if !q.UpdatedFrom.IsZero() || !q.UpdatedTo.IsZero() {
		names = append(names, "updated")
	}
	return names
}

func (q *Query) admits(e *Entity) bool {
	in := func(t, from, to time.Time) bool {
		return (from.IsZero() || !t.Before(from)) && (to.IsZero() || t.Before(to))
	}
	return !e.Unratified && (q.Team == AllTeams || e.visible(q.Team)) &&
		(q.Type == "" || e.Type == q.Type) && (q.Status == "" || e.Status == q.Status) &&
		(q.Layer == "" || e.Layer == q.Layer) && (q.Tag == "" || slices.Contains(e.Tags, q.Tag)) &&
		in(e.Created, q.CreatedFrom, q.CreatedTo) && in(e.Updated, q.UpdatedFrom, q.UpdatedTo)
}

// Count returns how many entities there are, unratified ones included. It is
// what workers compare with what they saw last.
func (s *Store) Count(ctx context.Context) (int64, error) {
	if st, err := storage.StatsOf(ctx, s.db); err == nil {
		return st.Documents, nil
	} else if !errors.Is(err, storage.ErrUnsupported) {
		return 0, fmt.Errorf("count entities: %w", err)
	}
	n := int64(0)
	for key, err := range s.db.List(ctx, "") {
		if err != nil {
			return 0, fmt.Errorf("count entities: %w", err)
		}
		if storage.IsDocument(key) {
			n++
		}
	}
	return n, nil
}
