package soma

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

const tombstonePrefix = "_tombstones/"

// Tombstone is what is left of an entity that was forgotten: no text.
type Tombstone struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Digest string `json:"digest"` // of its last document
	Actor  string `json:"actor"`
	At     string `json:"at"`
	Reason string `json:"reason"`
	Cause  string `json:"cause,omitempty"` // the id of what it was derived from, if that was to be forgotten
}

// Forgotten is what Forget touched.
type Forgotten struct {
	Entities []Tombstone `json:"entities"`
	Unlinked []string    `json:"unlinked"` // type/id of those that cited it besides others: the link is gone, the text stays
	Records  int         `json:"records"`  // of history, index and links that were deleted
}

// Forget deletes an entity for good, with its history, what the index has of
// it, and whatever was derived from it alone: entities that cite no other
// evidence, and the canon entries made of those. Only tombstones are left. Where
// a link of another entity leads to it, the link goes from its fields; a mention in
// the text of another stays, for that is the other's text.
//
// Only a person may forget, and says why. The texts are gone from the files of
// the store after [storage.Compact].
//
// Each entity goes in batches that end with its document, those derived from it
// first, so that after a crash another call completes what was begun. What others
// make of it meanwhile goes too.
func (w *Writer) Forget(ctx context.Context, id, reason string) (Forgotten, error) {
	var out Forgotten
	if w.actor.Kind != "person" || w.actor.Name == "" {
		return out, fmt.Errorf("forget: %w", &PermissionError{Worker: w.actor.worker(), Reason: "only a person may forget"})
	}
	if reason == "" {
		return out, fmt.Errorf("forget: %w", fault("reason", "it is missing"))
	}
	ctx = storage.WithActor(ctx, w.actor.String())
	key, err := w.s.pastKey(ctx, id)
	if err == nil {
		err = w.forget(ctx, key, "", reason, map[string]bool{}, &out)
	}
	if err != nil {
		return out, fmt.Errorf("forget: %w", err)
	}
	return out, nil
}

// Forgettable returns type/id of all entities that q selects, quarantined ones
// too. A Team selects what is its own, and not what is of no team.
func (s *Store) Forgettable(ctx context.Context, q Query) (ids []string, err error) {
	own := func(e *Entity) bool { return q.Team == AllTeams || e.Team == q.Team }
	for e, err := range s.Query(ctx, q) {
		if err != nil {
			return nil, err
		}
		if own(e) {
			ids = append(ids, e.Type+"/"+e.ID)
		}
	}
	quarantined, err := s.Quarantined(ctx)
	if err != nil {
		return nil, err
	}
	for _, h := range quarantined {
		e := h.Entity
		if e == nil {
			continue // nothing tells whether it is meant
		}
		if e.Unratified = false; q.Text == "" && own(e) && q.admits(e) {
			ids = append(ids, e.Type+"/"+e.ID)
		}
	}
	return ids, nil
}

// ForgetEach forgets entities one after the other. One that went with another is
// no error.
func (w *Writer) ForgetEach(ctx context.Context, ids []string, reason string) (Forgotten, error) {
	var out Forgotten
	for _, id := range ids {
		f, err := w.Forget(ctx, id, reason)
		out.Entities = append(out.Entities, f.Entities...)
		out.Unlinked = append(out.Unlinked, f.Unlinked...)
		out.Records += f.Records
		if err != nil && !errors.Is(err, ErrNotFound) { // it went with another
			return out, err
		}
	}
	return out, nil
}

func (w *Writer) forget(ctx context.Context, key, cause, reason string, at map[string]bool, out *Forgotten) error {
	if at[key] {
		return nil
	}
	at[key] = true
	err := again(ctx, func() error { return w.forgetOnce(ctx, key, cause, reason, at, out) })
	if err != nil {
		delete(at, key)
	}
	return err
}

// forgetOnce is forget, unless somebody changes the entity meanwhile, and with it
// what there is to delete: then it is an ErrConflict.
func (w *Writer) forgetOnce(ctx context.Context, key, cause, reason string, at map[string]bool, out *Forgotten) error {
	s := w.s
	id, kind, err := idOf(key)
	if err != nil {
		return err
	}
	remove := storage.Remove(key)
	var last []storage.Op
	e, err := s.load(ctx, key)
	switch {
	case err == nil:
		// A search that is at work may find that the index lacks what is still there.
		text := storage.Remove(s.searchScope().Key(search.DocKey(textID(key, e.digest())))).IfAbsent()
		last, remove = append(last, text), remove.IfVersion(e.version)
	case errors.Is(err, ErrNotFound):
		remove = remove.IfAbsent()
	case !errors.Is(err, storage.ErrCorrupt):
		return err
	}
	texts, err := s.textsOf(ctx, key)
	if err != nil {
		return err
	}
	// Writing comes before what follows is read: where a reader may see a batch in
	// progress, e may have been of one whose other parts were not there yet.
	if err := s.change(ctx, func(b *batch) error { return b.claim(ctx, id, key) }); err != nil {
		return err
	}
	if err := s.strike(ctx, texts); err != nil {
		return err
	}
	doomed, err := w.forgetDerived(ctx, id, reason, at, out)
	if err != nil {
		return err
	}
	doomed = append(doomed, canonPrefix+key)
	dead := Tombstone{ID: id, Type: kind, Actor: w.actor.String(), At: formatTime(s.now()), Reason: reason, Cause: cause}
	for v, err := range s.versions(ctx, key, nil) {
		if err != nil && !errors.Is(err, storage.ErrCorrupt) {
			return err
		}
		if err == nil && v.Digest != "" {
			dead.Digest = v.Digest
		}
	}
	for _, prefix := range []string{historyPrefix, GovernancePrefix} {
		for k, err := range s.db.List(ctx, prefix+key+"/") {
			if err != nil {
				return err
			}
			doomed = append(doomed, k)
			s.decisions.Delete(k)
		}
	}
	if e != nil {
		dead.Digest = e.digest()
		doomed = slices.AppendSeq(doomed, maps.Keys(staleKeys(e.Entity)))
	}
	value, err := json.Marshal(&dead)
	if err != nil {
		return err
	}
	ops := []storage.Op{storage.Put(tombstonePrefix+storage.EscapeSegment(id), value)}
	for _, k := range doomed {
		ops = append(ops, storage.Remove(k))
	}
	if owner, _, err := s.db.Get(ctx, idPrefix+storage.EscapeSegment(id)); err == nil && string(owner) == key {
		last = append(last, storage.Remove(idPrefix+storage.EscapeSegment(id)))
	}
	last = append(last, remove)
	if all := append(slices.Clip(ops), last...); storage.LimitsOf(s.db).Fit(all) {
		ops, last = nil, all
	}
	for part := range storage.LimitsOf(s.db).Batches(ops) {
		if err := s.db.Apply(ctx, part...); err != nil {
			return err
		}
	}
	if err := s.db.Apply(ctx, last...); err != nil {
		return err
	}
	out.Entities = append(out.Entities, dead)
	out.Records += len(doomed) + len(texts)
	// A search that began before may have brought a text in after they were listed.
	// From here on none can: who does it needs the id.
	if texts, err = s.textsOf(ctx, key); err != nil {
		return err
	}
	return s.strike(ctx, texts)
}

func idOf(key string) (id, kind string, err error) {
	e, err := decode(key, []byte("{}"))
	if err != nil {
		return "", "", err
	}
	return e.ID, e.Type, nil
}

// forgetDerived forgets what was derived from an id alone, and takes the links
// to it out of the rest. It returns the keys of the records of all these links:
// who links to the id later has one that leads nowhere.
func (w *Writer) forgetDerived(ctx context.Context, id, reason string, at map[string]bool, out *Forgotten) (links []string, err error) {
	s := w.s
	var from []string
	for other, err := range s.linkedFrom(ctx, id) {
		if err != nil {
			return nil, err
		}
		from = append(from, other)
		links = append(links, linkKey(id, other))
		if older := olderLinkKey(id, other); older != linkKey(id, other) {
			links = append(links, older)
		}
	}
	for _, other := range from {
		key, err := s.keyOf(ctx, other)
		if err == nil {
			err = w.forgetLink(ctx, key, id, reason, at, out)
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}
	return links, nil
}

// forgetLink forgets an entity that was derived from an id alone, or takes the
// link to that out of it.
func (w *Writer) forgetLink(ctx context.Context, key, id, reason string, at map[string]bool, out *Forgotten) error {
	s := w.s
	e, err := s.load(ctx, key)
	if err != nil {
		return err
	}
	if derived(e.Entity, id, at) {
		return w.forget(ctx, key, id, reason, at, out)
	}
	changed := false
	err = s.change(ctx, func(b *batch) error {
		e, err := s.load(ctx, key)
		if err != nil {
			return err
		}
		next := without(e.Entity, id)
		if changed = !same(e.Entity, next); !changed {
			return nil
		}
		if err := b.put(ctx, e, next, OpUpdate, w.actor, "a link leads to what was forgotten"); err != nil {
			return err
		}
		if e.Layer == Canon && !e.Unratified {
			return b.decide(ctx, w.actor, key, judged(next), OpUpdate, "a link leads to what was forgotten")
		}
		return nil
	})
	if err == nil && changed {
		out.Unlinked = append(out.Unlinked, e.Type+"/"+e.ID)
	}
	return err
}

// derived reports whether an entity comes from an id alone, or from ids that
// are being forgotten.
func derived(e *Entity, id string, at map[string]bool) bool {
	if e.Text(FieldOrigin) == id {
		return true
	}
	cites := false
	for _, v := range e.Evidence() {
		if v.ID == id {
			cites = true
		} else if !forgetting(v.ID, at) {
			return false
		}
	}
	return cites
}

func forgetting(id string, at map[string]bool) bool {
	for key := range at {
		if other, _, err := idOf(key); err == nil && other == id {
			return true
		}
	}
	return false
}

// without returns an entity without the links to an id in its fields.
func without(e *Entity, id string) *Entity {
	next := e.Clone()
	next.Related = slices.DeleteFunc(next.Related, func(ref string) bool { return bareID(unlinked(ref)) == id })
	drop := func(field string, ref func(v any) string) {
		list, ok := e.Fields[field].([]any)
		if !ok {
			return
		}
		left := slices.DeleteFunc(slices.Clone(list), func(v any) bool { return bareID(unlinked(ref(v))) == id })
		next.set(field, left)
	}
	plain := func(v any) string { ref, _ := v.(string); return ref }
	member := func(name string) func(any) string {
		return func(v any) string {
			if m, ok := v.(map[string]any); ok {
				ref, _ := m[name].(string)
				return ref
			}
			return plain(v)
		}
	}
	drop(FieldEvidence, member("id"))
	if digests, ok := e.Fields[fieldDigests].(map[string]any); ok {
		digests = maps.Clone(digests)
		delete(digests, id)
		next.set(fieldDigests, digests)
	}
	drop(fieldRelations, member("to"))
	drop(fieldContradicts, plain)
	drop(fieldSupersedes, plain)
	for _, field := range []string{fieldSupersedes, fieldContradicts} {
		if text := next.Text(field); text != "" && bareID(unlinked(text)) == id {
			delete(next.Fields, field)
		}
	}
	return next
}

// Tombstones returns what was forgotten.
func (s *Store) Tombstones(ctx context.Context) ([]Tombstone, error) {
	var list []Tombstone
	for e, err := range storage.Scan(ctx, s.db, tombstonePrefix, nil) {
		if err != nil {
			return nil, fmt.Errorf("read tombstones: %w", err)
		}
		var t Tombstone
		if err := json.Unmarshal(e.Value, &t); err != nil {
			return nil, &storage.CorruptError{Key: e.Key, Reason: err.Error(), Repair: "delete the record"}
		}
		list = append(list, t)
	}
	return list, nil
}
