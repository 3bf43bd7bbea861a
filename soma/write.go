package soma

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

// Writer changes a store in the name of an actor. Every change is one atomic
// batch with the entity, its history and all that is derived from it. Where
// others change the same at once, the change is tried again on what they left.
type Writer struct {
	s     *Store
	actor Actor
	left  *atomic.Int64 // creates in this run; nil: any number
}

// MaxCreates is how many entities a worker may create in one run.
const MaxCreates = 100

// As returns a writer in the name of an actor. A worker's writer is one run of
// it: it stops with [ErrCreateLimit] after [MaxCreates] creates.
func (s *Store) As(actor Actor) *Writer {
	w := &Writer{s: s, actor: actor}
	if actor.Kind == "worker" {
		w = w.Limit(MaxCreates)
	}
	return w
}

// Limit returns a writer, in the name of the same actor, that may create n
// entities; a negative n, for a backfill, lifts the limit.
func (w *Writer) Limit(n int) *Writer {
	c := *w
	c.left = nil
	if n >= 0 {
		c.left = new(atomic.Int64)
		c.left.Store(int64(n))
	}
	return &c
}

// Create stores a new entity and returns it as it is stored. The writer fills
// SourceWorker, Created and Updated, the default of Status, and pending for
// proposal_status; an id that is missing is the slug of the name, cut at 120
// bytes, with a number if others have that.
//
// The same entity again, equal but for its times and the digests of what it
// cites, is no error and changes nothing. Another one with the id is [ErrExists],
// also where its team is one that the actor does not see: ids are of all.
func (w *Writer) Create(ctx context.Context, e *Entity) (*Entity, error) {
	c := e.Clone()
	c.SourceWorker = w.actor.worker()
	if c.Status == "" {
		c.Status = Statuses(c.Type)[0]
	}
	// What is judged is what will be read, whatever the fields are called here.
	c, err := c.reread()
	if err != nil {
		return nil, fmt.Errorf("create entity: %w", err)
	}
	if err := cmp.Or(w.actor.permit(c.Layer, c.Team), w.actor.reserve(c)); err != nil {
		return nil, fmt.Errorf("create entity: %w", err)
	}
	if c.Layer == Emerging {
		c.set(FieldProposalStatus, Pending)
	}
	if err := cmp.Or(w.cite(ctx, c, nil), w.contradict(ctx, c)); err != nil {
		return nil, fmt.Errorf("create entity: %w", err)
	}
	derived := c.ID == ""
	if derived {
		c.ID = shortSlug(c.Name)
	}
	c.ID = norm.NFC.String(c.ID)
	base := c.ID
	for n := 2; ; n++ {
		if err := c.validate(); err != nil {
			return nil, fmt.Errorf("create entity: %w", err)
		}
		made, err := w.create(ctx, c)
		if !derived || !errors.Is(err, ErrExists) {
			return made, err
		}
		c.ID = fmt.Sprintf("%s-%d", base, n)
	}
}

// create stores a valid entity under its id, or returns the equal one that has it.
func (w *Writer) create(ctx context.Context, c *Entity) (made *Entity, err error) {
	fresh := false
	err = w.s.change(ctx, func(b *batch) error {
		fresh = false
		key, err := w.s.keyOf(ctx, c.ID)
		if err == nil {
			there, err := w.s.load(ctx, key)
			if err == nil && key == c.Key() && same(there.Entity, c) {
				made = there.Entity
				return nil
			}
			if err == nil {
				err = fmt.Errorf("create entity %q: %w", c.ID, ErrExists)
			}
			return err
		}
		if !errors.Is(err, ErrNotFound) {
			return err
		}
		if w.left != nil && w.left.Load() <= 0 {
			return ErrCreateLimit
		}
		made = c.Clone()
		made.Created, made.Updated = time.Time{}, time.Time{}
		fresh = true
		return b.put(ctx, nil, made, OpCreate, w.actor, "")
	})
	if err != nil {
		return nil, err
	}
	if fresh && w.left != nil {
		w.left.Add(-1)
	}
	return made, nil
}

// Update changes fields of an entity, by wire name; a nil value takes the field
// away. Type, id, created and layer do not change, canon and proposals that were
// decided not at all, and the fields that are [Reserved] only by what they are
// reserved for.
func (w *Writer) Update(ctx context.Context, id string, fields map[string]any) (updated *Entity, err error) {
	patch, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("update entity: a field has no JSON form: %w", err)
	}
	err = w.modify(ctx, id, OpUpdate, "", func(e *stored) (*Entity, error) {
		if layer, ok := fields["layer"]; ok && fmt.Sprint(layer) != string(e.Layer) {
			return nil, &PermissionError{Worker: w.actor.worker(), Layer: e.Layer, Reason: "an update does not move an entity to another layer"}
		}
		next, err := merge(e.Entity, patch)
		if err == nil {
			err = cmp.Or(w.actor.keep(e.Entity, next), w.actor.moves(e.Entity, next))
		}
		_, cites := fields[FieldEvidence]
		_, stamps := fields[fieldDigests]
		if (cites || stamps) && err == nil {
			err = w.cite(ctx, next, e.Entity)
		}
		if _, ok := fields[fieldContradicts]; ok && err == nil {
			err = w.contradict(ctx, next)
		}
		if err != nil {
			return nil, err
		}
		updated = next
		return next, next.validate()
	})
	if err != nil {
		return nil, fmt.Errorf("update entity: %w", err)
	}
	return updated, nil
}

// merge lays fields over those of an entity.
func merge(e *Entity, patch []byte) (*Entity, error) {
	all, err := e.members()
	if err != nil {
		return nil, err
	}
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(patch, &changes); err != nil {
		return nil, err
	}
	for _, field := range []string{"type", "id", "created", "updated"} {
		if value, ok := changes[field]; ok && string(value) != string(all[field]) {
			return nil, fault(field, "it never changes by an update")
		}
	}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	document, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	return decode(e.Key(), document)
}

// Remove deletes an entity. Its history stays; see [Writer.Forget] for what
// deletes the text as well. Canon is retired, not removed.
func (w *Writer) Remove(ctx context.Context, id, reason string) error {
	err := w.modify(ctx, id, OpRemove, reason, func(*stored) (*Entity, error) { return nil, nil })
	if err != nil {
		return fmt.Errorf("remove entity: %w", err)
	}
	return nil
}

// Relate adds a typed relation from an entity to another, with properties, or
// replaces the properties of the one that is there. A relation of type contradicts
// without properties goes to the field of that name, as a wikilink.
func (w *Writer) Relate(ctx context.Context, from, to, kind string, properties map[string]any) error {
	if slices.Contains([]string{"", LinkRelated, LinkEvidence, LinkMentions, LinkOrigin, LinkSupersedes}, kind) {
		return fmt.Errorf("relate entities: %w", fault("type", "%q is no type of a relation of your own", kind))
	}
	target, err := w.lookup(ctx, to)
	if err != nil {
		return fmt.Errorf("relate entities: %w", err)
	}
	key := target.Key()
	err = w.modify(ctx, from, OpRelate, "", func(e *stored) (*Entity, error) {
		next := e.Clone()
		relation := map[string]any{"to": key, "type": kind}
		if len(properties) > 0 {
			relation["properties"] = properties
		}
		old, _ := e.Fields[fieldRelations].([]any)
		list := slices.DeleteFunc(slices.Clone(old), func(v any) bool {
			r, _ := v.(map[string]any)
			to, _ := r["to"].(string)
			return r["type"] == kind && bareID(to) == bareID(key)
		})
		if kind == fieldContradicts && len(properties) == 0 {
			if len(list) < len(old) {
				next.set(fieldRelations, list)
			}
			refs := next.refs(fieldContradicts)
			if !slices.ContainsFunc(refs, func(ref string) bool { return bareID(ref) == bareID(key) }) {
				refs = append(refs, key)
			}
			values := make([]any, len(refs))
			for i, ref := range refs {
				values[i] = ref
			}
			next.set(fieldContradicts, values)
			return next, w.contradict(ctx, next)
		}
		next.set(fieldRelations, append(list, relation))
		return next, nil
	})
	if err != nil {
		return fmt.Errorf("relate entities: %w", err)
	}
	return nil
}

// modify is the door to what is there: each change of an entity that is no
// decision of a review goes through it. f returns what the entity is to be: nil
// for nothing, and itself for no change.
func (w *Writer) modify(ctx context.Context, id, op, reason string, f func(*stored) (*Entity, error)) error {
	return w.s.change(ctx, func(b *batch) error {
		e, err := w.lookup(ctx, id)
		if err != nil {
			return err
		}
		if err := w.actor.may(op, e.Entity); err != nil {
			return err
		}
		next, err := f(e)
		if err != nil || next == e.Entity {
			return err
		}
		return b.put(ctx, e, next, op, w.actor, reason)
	})
}

// lookup reads an entity for a change: to an agent, what another team has is not
// there.
func (w *Writer) lookup(ctx context.Context, id string) (*stored, error) {
	e, err := w.s.lookup(ctx, id)
	if err == nil && w.actor.Kind == "agent" && !e.visible(w.actor.Team) {
		return nil, notFound(id)
	}
	return e, err
}

// batch is what one change does to the store.
type batch struct {
	s     *Store
	actor string // of what it changes
	ops   []storage.Op
	gone  []string     // documents of the search index
	docs  []search.Doc // new ones
}

// change makes the batch that f plans, and plans anew while others are faster.
// f must have no effect but the batch.
func (s *Store) change(ctx context.Context, f func(*batch) error) error {
	return again(ctx, func() error {
		b := &batch{s: s}
		if err := f(b); err != nil {
			return err
		}
		ops, err := s.indexing(ctx, b.ops, b.gone, b.docs)
		if err != nil {
			return err
		}
		ops = append(b.ops, ops...)
		if err := storage.LimitsOf(s.db).ValidateOps(ops); err != nil {
			return fmt.Errorf("change is more than the store takes: give the entity a shorter text, a shorter id or fewer links: %w", err)
		}
		return s.db.Apply(storage.WithActor(ctx, b.actor), ops...)
	})
}

// again tries f again while others are faster.
func again(ctx context.Context, f func() error) error {
	const tries = 100
	for n := 1; ; n++ {
		err := f()
		if !errors.Is(err, storage.ErrConflict) || n == tries || ctx.Err() != nil {
			return err
		}
	}
}

// put plans that an entity becomes another; nil stands for none. It sets the
// times of the new one.
func (b *batch) put(ctx context.Context, old *stored, e *Entity, op string, actor Actor, reason string) error {
	now := b.s.now()
	named := e
	if old != nil {
		named = old.Entity
	}
	key := named.Key()
	last, err := b.s.lastVersion(ctx, key)
	if err != nil {
		return err
	}
	n := last.N
	if old != nil && old.digest() != last.Digest { // somebody changed it by hand
		if !last.says(old.Entity) {
			n++
			if err := b.record(key, n, &versionRecord{Op: OpEdit, Actor: byHand, At: formatTime(now)}, old); err != nil {
				return err
			}
		}
		b.gone = append(b.gone, textID(key, old.digest()))
	}
	if last.Digest != "" {
		b.gone = append(b.gone, textID(key, last.Digest))
	}
	if old == nil {
		e.Created = now
		if err := b.claim(ctx, e.ID, key); err != nil {
			return err
		}
	} else {
		now = later(now, old.Updated.Add(time.Millisecond))
	}
	if last.N > 0 {
		now = later(now, last.At.Add(time.Millisecond))
	}
	b.actor = actor.String()
	v := &versionRecord{Op: op, Actor: b.actor, At: formatTime(now), Reason: reason}
	var made *stored
	if e == nil {
		b.ops = append(b.ops, storage.Remove(key).IfVersion(old.version))
	} else {
		if op != OpMigrate { // which changes nothing but what it is for
			e.Updated = now
		}
		if made, err = e.store(); err != nil {
			return err
		}
		put := storage.Put(key, made.document).IfAbsent()
		if old != nil {
			put = storage.Put(key, made.document).IfVersion(old.version)
		}
		b.ops = append(b.ops, put)
	}
	b.ops = append(b.ops, relink(last.Entity, e)...)
	return b.record(key, n+1, v, made)
}

// record plans an entry of the history, and what the index has of the entity
// from then on; e is nil if it is gone.
func (b *batch) record(key string, n int, v *versionRecord, e *stored) error {
	v.V = 1
	b.docs = slices.DeleteFunc(b.docs, func(d search.Doc) bool { return d.Source == key })
	if e != nil {
		v.Digest, v.Document = e.digest(), e.document
		b.docs = append(b.docs, b.s.textOf(e.Entity, v.Digest))
	}
	value, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b.ops = append(b.ops, storage.Put(versionKey(key, n), value).IfAbsent())
	return nil
}

// seen plans that the history, the links and the index have a document as
// somebody left it; nil stands for none.
func (b *batch) seen(ctx context.Context, key string, e *stored, last Version) error {
	now := b.s.now()
	if last.N > 0 {
		now = later(now, last.At.Add(time.Millisecond))
	}
	if last.Digest != "" {
		b.gone = append(b.gone, textID(key, last.Digest))
	}
	v := &versionRecord{Op: OpRemove, Actor: byHand, At: formatTime(now)}
	if e == nil {
		b.ops = append(b.ops, relink(last.Entity, nil)...)
		return b.record(key, last.N+1, v, nil)
	}
	v.Op = OpEdit
	if err := b.claim(ctx, e.ID, key); err != nil {
		return err
	}
	b.ops = append(b.ops, relink(last.Entity, e.Entity)...)
	return b.record(key, last.N+1, v, e)
}

// claim takes an id for a key, if none has it or what had it is gone.
func (b *batch) claim(ctx context.Context, id, key string) error {
	record := idPrefix + storage.EscapeSegment(id)
	value, version, err := b.s.db.Get(ctx, record)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if string(value) != key {
		if _, _, err := b.s.db.Get(ctx, string(value)); err == nil {
			return nil // two documents have the id: the first one keeps it
		}
	}
	b.ops = append(b.ops, storage.Put(record, []byte(key)).IfVersion(version))
	return nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
