package soma

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/stratamem/strata/storage"
)

// Version is an entry of an entity's history: who made what of it, and when.
type Version struct {
	N      int       `json:"n"` // from 1
	Op     string    `json:"op"`
	Actor  string    `json:"actor"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
	Digest string    `json:"digest,omitempty"` // of the document; empty if it was removed
	Entity *Entity   `json:"-"`                // as it was then; nil if it was removed
}

// says reports whether an entity was then what it is, but for what editors
// change unasked.
func (v *Version) says(e *Entity) bool { return v.Entity != nil && v.Entity.Digest() == e.Digest() }

// The operations of a Version.
const (
	OpCreate    = "create"
	OpUpdate    = "update"
	OpRemove    = "remove"
	OpRelate    = "relate"
	OpEdit      = "edit" // by hand, past the store; At is when it was seen
	OpPromote   = "promote"
	OpReject    = "reject"
	OpSupersede = "supersede"
	OpRetire    = "retire"
	OpRatify    = "ratify"
	OpDecay     = "decay"
	OpExtend    = "extend"
	OpMigrate   = "migrate"
)

// byHand is the actor of an edit.
const byHand = "person:"

const historyPrefix = "_history/"

// versionRecord is the value of _history/<key>/<n>, n with twelve digits.
type versionRecord struct {
	V        int             `json:"v"` // of this format
	Op       string          `json:"op"`
	Actor    string          `json:"actor"`
	At       string          `json:"at"`
	Reason   string          `json:"reason,omitempty"`
	Digest   string          `json:"digest,omitempty"`
	Document json.RawMessage `json:"document,omitempty"`
}

func versionKey(key string, n int) string {
	return fmt.Sprintf("%s%s/%012d", historyPrefix, key, n)
}

// lastVersion returns the newest version of a key, with N 0 if there is none.
func (s *Store) lastVersion(ctx context.Context, key string) (Version, error) {
	for v, err := range s.versions(ctx, key, &storage.ScanOptions{Reverse: true, Limit: 1}) {
		return v, err
	}
	return Version{}, nil
}

func (s *Store) versions(ctx context.Context, key string, opts *storage.ScanOptions) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		prefix := historyPrefix + key + "/"
		for e, err := range storage.Scan(ctx, s.db, prefix, opts) {
			if err != nil {
				yield(Version{}, fmt.Errorf("read history: %w", err))
				return
			}
			v, err := decodeVersion(key, e.Key[len(prefix):], e.Value)
			if err != nil {
				err = &storage.CorruptError{Key: e.Key, Reason: err.Error(), Repair: "delete the record: the other versions stay"}
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

func decodeVersion(key, n string, value []byte) (Version, error) {
	var r versionRecord
	if err := json.Unmarshal(value, &r); err != nil {
		return Version{}, err
	}
	if r.V != 1 {
		return Version{}, &storage.FormatError{Reason: fmt.Sprintf("history has format %d", r.V), Newer: r.V > 1}
	}
	at, ok := parseTime(r.At)
	number, err := strconv.Atoi(n)
	if !ok || err != nil {
		return Version{}, errors.New("history has no time or number")
	}
	v := Version{N: number, Op: r.Op, Actor: r.Actor, At: at, Reason: r.Reason, Digest: r.Digest}
	if r.Document != nil {
		if v.Entity, err = decode(key, r.Document); err != nil {
			return Version{}, err
		}
	}
	return v, nil
}

// History yields the versions of an entity by its id or type/id, oldest first,
// also of one that was removed. An edit by hand is there once [Writer.Sync] or a
// change of the entity has seen it.
func (s *Store) History(ctx context.Context, id string) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		key, err := s.pastKey(ctx, id)
		if err != nil {
			yield(Version{}, err)
			return
		}
		for v, err := range s.versions(ctx, key, nil) {
			if !yield(v, err) {
				return
			}
		}
	}
}

// pastKey is keyOf that also knows what was removed.
func (s *Store) pastKey(ctx context.Context, id string) (string, error) {
	key, err := s.keyOf(ctx, id)
	if !errors.Is(err, ErrNotFound) {
		return key, err
	}
	for _, bare := range spellings(bareID(id)) {
		if value, _, err := s.db.Get(ctx, idPrefix+storage.EscapeSegment(bare)); err == nil {
			return string(value), nil
		}
	}
	return "", notFound(id)
}

// View is the store as it was at a time.
type View struct {
	s  *Store
	at time.Time
}

// AsOf returns the store as it was at a time, read from the history. What was
// forgotten is not in it.
func (s *Store) AsOf(at time.Time) *View { return &View{s, at} }

// Read returns the entity as it was, or an error that is [ErrNotFound].
func (v *View) Read(ctx context.Context, id string) (*Entity, error) {
	key, err := v.s.pastKey(ctx, id)
	if err != nil {
		return nil, err
	}
	e, err := v.read(ctx, key)
	if err == nil && e == nil {
		err = notFound(id)
	}
	return e, err
}

// read returns nil if there was nothing. Canon that was not ratified then is
// marked.
func (v *View) read(ctx context.Context, key string) (*Entity, error) {
	var found *Entity
	for version, err := range v.s.versions(ctx, key, &storage.ScanOptions{Reverse: true}) {
		if err != nil {
			return nil, err
		}
		if found == nil {
			if version.At.After(v.at) {
				continue
			}
			if found = version.Entity; found == nil || found.Layer != Canon {
				return found, nil
			}
		}
		// Canon is ratified by the last decision or creation, unless an edit by
		// hand came after it.
		switch version.Op {
		case OpEdit:
			found.Unratified = true
			return found, nil
		case OpCreate, OpSupersede, OpRetire, OpRatify:
			return found, nil
		}
	}
	return found, nil
}

// Query yields the entities as they were that q selects, by key. It reads the
// whole history; q.Text must be empty.
func (v *View) Query(ctx context.Context, q Query) iter.Seq2[*Entity, error] {
	return wholes(q.page(func(yield func(*candidate, error) bool) {
		if q.Text != "" {
			yield(nil, errors.New("query the past: there is no full-text search of it"))
			return
		}
		for key, err := range v.s.pastKeys(ctx, q.Type) {
			var e *Entity
			if err == nil {
				e, err = v.read(ctx, key)
			}
			if e == nil && err == nil {
				continue
			}
			if !yield(&candidate{Entity: e}, err) {
				return
			}
		}
	}))
}

// pastKeys yields the keys that have a history, skipping from one to the next.
func (s *Store) pastKeys(ctx context.Context, kind string) iter.Seq2[string, error] {
	prefix := historyPrefix
	if kind != "" {
		prefix += kind + "/"
	}
	entity := func(key string) (string, bool) {
		const number = len("/000000000001")
		return key[:max(len(key)-number, 0)], len(key) > len(historyPrefix)+number
	}
	return func(yield func(string, error) bool) {
		for group, err := range storage.Groups(ctx, s.db, prefix, entity) {
			if err != nil {
				yield("", fmt.Errorf("read history: %w", err))
				return
			}
			if !yield(group[len(historyPrefix):], nil) {
				return
			}
		}
	}
}
