package soma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/stratamem/strata/storage"
)

// Doubt is why a canon entry is not served.
type Doubt string

// The doubts.
const (
	Differs       Doubt = "differs"       // the document is not what was ratified
	Missing       Doubt = "missing"       // there is no document
	Unreadable    Doubt = "unreadable"    // the document, or the record of a decision, cannot be read
	Contradicting Doubt = "contradicting" // decisions contradict each other, as after a merge
	Unrecorded    Doubt = "unrecorded"    // nobody has decided about the document
)

// Withheld is a canon entry, or what may be one, that is not served until a
// person decides about it.
type Withheld struct {
	ID     string  // type/id; "" for a file that nothing tells the entry of
	Path   string  // the file, where it is known
	Doubt  Doubt   // why
	Reason string  // the same in words
	Repair string  // what to do or run
	Entity *Entity // the document as it is; nil: there is none that can be read

	decided *standing // nil if nothing was
}

// entry is a canon entry as it stands: in force or not, or withheld.
type entry struct {
	key  string
	e    *Entity // nil: there is no document that can be read
	held *Withheld
}

// entries returns the canon entries of a type, or of all types, by key, and what
// may be one, and cannot be read. Those with decisions come from the records of
// these, so that no damage of an index or of a document hides one. An error means
// that it could not look.
func (s *Store) entries(ctx context.Context, kind string) ([]entry, error) {
	return s.steady(ctx, kind, func(l ledger) ([]entry, error) {
		found, err := s.recorded(ctx, l)
		if err != nil {
			return nil, err
		}
		if err := s.unrecorded(ctx, kind, l, found); err != nil {
			return nil, err
		}
		strays, err := s.strays(ctx, kind, l, found)
		return append(sorted(found), strays...), err
	})
}

// sound yields the canon of a type, or of all types, that is not withheld, by
// key: what has no decision is not.
func (s *Store) sound(ctx context.Context, kind string) iter.Seq2[*candidate, error] {
	return func(yield func(*candidate, error) bool) {
		list, err := s.steady(ctx, kind, func(l ledger) ([]entry, error) {
			found, err := s.recorded(ctx, l)
			return sorted(found), err
		})
		if err != nil {
			yield(nil, err)
			return
		}
		for _, x := range list {
			if x.held == nil && !yield(&candidate{Entity: x.e}, nil) {
				return
			}
		}
	}
}

// steady looks at canon by what was decided. A decision and its document change
// together, but are read one after the other: where there is a doubt, and decisions
// were made meanwhile, it looks again.
func (s *Store) steady(ctx context.Context, kind string, look func(l ledger) ([]entry, error)) ([]entry, error) {
	l, err := s.ledger(ctx, kind)
	for {
		if err != nil {
			return nil, err
		}
		list, err := look(l)
		if err != nil || !slices.ContainsFunc(list, func(x entry) bool { return x.held != nil }) {
			return list, err
		}
		now, err := s.ledger(ctx, kind)
		if err != nil || l.equal(now) {
			return list, err
		}
		l = now
	}
}

func sorted(found map[string]*entry) []entry {
	var list []entry
	for _, key := range slices.Sorted(maps.Keys(found)) {
		list = append(list, *found[key])
	}
	return list
}

// equal reports whether two ledgers have the same decisions for the last ones.
func (l ledger) equal(other ledger) bool {
	return maps.EqualFunc(l, other, func(a, b *standing) bool {
		return slices.Equal(a.damaged, b.damaged) && slices.EqualFunc(a.heads, b.heads, func(x, y *decision) bool { return x.name == y.name })
	})
}

// recorded returns the entries that decisions are about, by key.
func (s *Store) recorded(ctx context.Context, l ledger) (map[string]*entry, error) {
	found := make(map[string]*entry)
	for key, st := range l {
		e, damage, err := s.document(ctx, key)
		if err != nil {
			return nil, err
		}
		if e == nil && damage == nil && st.retired() {
			continue // and gone
		}
		found[key] = st.examine(key, e, damage)
	}
	return found, nil
}

// unrecorded adds the documents that are canon, or that cannot be read, and that
// no decision is about.
func (s *Store) unrecorded(ctx context.Context, kind string, l ledger, found map[string]*entry) error {
	for key, err := range s.canonKeys(ctx, kind) {
		if err != nil {
			return err
		}
		if l[key] != nil {
			continue
		}
		e, damage, err := s.document(ctx, key, "layer")
		if err == nil && e != nil && e.Layer == Canon {
			e, damage, err = s.document(ctx, key)
		}
		if err != nil {
			return err
		}
		if damage != nil || e != nil && e.Layer == Canon {
			found[key] = l[key].examine(key, e, damage)
		}
	}
	return nil
}

// strays returns what stands in the place of documents, or of the records of
// decisions, and is in no list of keys, where it is not found already.
func (s *Store) strays(ctx context.Context, kind string, l ledger, found map[string]*entry) ([]entry, error) {
	if kind != "" {
		kind += "/"
	}
	prefixes := []string{kind} // "" is everything
	if kind != "" {
		prefixes = append(prefixes, GovernancePrefix+kind)
	}
	var list []entry
	for _, prefix := range prefixes {
		for f, err := range storage.Unreadable(ctx, s.db, prefix) {
			if err != nil {
				return nil, fmt.Errorf("read canon: %w", err)
			}
			if strings.HasPrefix(f.Key, GovernancePrefix) {
				continue // a record of a decision, which is damage of the entry that it is about
			}
			x := l[f.Key].examine(f.Key, nil, &storage.CorruptError{Key: f.Key, Path: f.Path, Reason: f.Reason, Repair: f.Repair})
			if f.Key != "" && (found[f.Key] == nil || found[f.Key].e == nil) {
				found[f.Key] = x
			} else {
				list = append(list, *x)
			}
		}
	}
	return list, nil
}

// document returns the entity of a key with its body folded, or with the fields alone
// that have names, or the damage of its document, or neither if there is none.
func (s *Store) document(ctx context.Context, key string, names ...string) (*Entity, *storage.CorruptError, error) {
	document, _, err := s.db.Get(ctx, key)
	if err == nil {
		var e *Entity
		if e, err = decode(key, document, names...); err == nil {
			e.Body = fold(e.Body)
			return e, nil, nil
		}
		return nil, &storage.CorruptError{Key: key, Reason: err.Error()}, nil
	}
	if damage, ok := errors.AsType[*storage.CorruptError](err); ok {
		return nil, damage, nil
	}
	if errors.Is(err, ErrNotFound) || errors.Is(err, storage.ErrInvalid) {
		return nil, nil, nil
	}
	if errors.Is(err, storage.ErrCorrupt) {
		return nil, &storage.CorruptError{Key: key, Reason: "the value is damaged"}, nil
	}
	return nil, nil, fmt.Errorf("read canon: %w", err)
}

// canonKeys yields the keys of the documents that are canon, or cannot be read.
// Of one type it looks at each document, so that no index can hide one.
func (s *Store) canonKeys(ctx context.Context, kind string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if kind == "" {
			err := s.foundKeys(ctx, yield)
			if !errors.Is(err, storage.ErrCorrupt) {
				return
			}
			// A damaged document has ended it: the others are found one by one.
		}
		prefix := kind
		if kind != "" {
			prefix += "/"
		}
		for key, err := range s.db.List(ctx, prefix) {
			if err != nil {
				yield("", fmt.Errorf("read canon: %w", err))
				return
			}
			if storage.IsDocument(key) && !yield(key, nil) {
				return
			}
		}
	}
}

// foundKeys yields what the index has of canon. It returns the damage that has
// ended it, which it does not yield.
func (s *Store) foundKeys(ctx context.Context, yield func(string, error) bool) error {
	for found, err := range s.documents(ctx, storage.Query{Equal: map[string]string{"layer": string(Canon)}}) {
		if errors.Is(err, storage.ErrCorrupt) {
			return err
		}
		if err != nil {
			yield("", fmt.Errorf("read canon: %w", err))
			return nil
		}
		if !yield(found.Key, nil) {
			return nil
		}
	}
	return nil
}

// examine says how an entry stands. The receiver is nil if nothing was decided.
func (st *standing) examine(key string, e *Entity, damage *storage.CorruptError) *entry {
	out := &entry{key: key, e: e}
	h := &Withheld{Entity: e, decided: st}
	if key != "" {
		h.ID = plainName(key)
	}
	var verbs []string // that decide about it
	if e != nil {
		verbs = append(verbs, "'strata review ratify "+h.ID+"'")
	}
	if e == nil || st.knows(e) {
		verbs = append(verbs, "'strata review retire "+h.ID+"'")
	}
	decide := strings.Join(verbs, " or ")
	ratify := fmt.Sprintf("'strata review ratify %s' takes it as it is", h.ID)
	past := fmt.Sprintf("'strata knowledge history %s --json' has the text that was ratified", h.ID)
	switch {
	case st != nil && len(st.damaged) > 0:
		h.Doubt, h.Path = Unreadable, st.path
		h.Reason = "the record " + st.damaged[0] + " of a decision about it cannot be read"
		h.Repair = "bring the record back, as by git restore, or decide again: " + decide
	case st != nil && !st.agrees():
		h.Doubt, h.Reason = Contradicting, "decisions about it contradict each other: "+st.said()
		h.Repair = "decide: " + decide
		if damage != nil {
			h.Path = damage.Path
			h.Reason += "; and its document cannot be read: " + damage.Reason
			h.Repair = fmt.Sprintf("mend the document and decide by 'strata review ratify %s', or %s", h.ID, decide)
		}
	case st != nil && len(st.rivals) > 0:
		h.Doubt, h.Reason = Contradicting, "the same proposal became "+strings.Join(st.rivals, " and ")+" as well"
		h.Repair = fmt.Sprintf("decide which of them holds, and retire the others: 'strata review retire %s'", h.ID)
	case damage != nil:
		h.Doubt, h.Path, h.Reason, h.Repair = Unreadable, damage.Path, damage.Reason, cmp.Or(damage.Repair, "mend the document")
		if st != nil && !st.retired() {
			h.Repair += ", or 'strata review retire " + h.ID + "'"
		}
	case e == nil:
		h.Doubt, h.Reason = Missing, "its document is gone"
		h.Repair = "bring it back, as by git restore, or " + decide + ": " + past
	case st == nil:
		h.Doubt, h.Reason, h.Repair = Unrecorded, "no decision about it is on record", ratify+"; who does not agree mends or deletes it"
	case !st.knows(e):
		h.Doubt, h.Reason, h.Repair = Differs, "its document is not what was ratified", ratify+"; "+past
		if !st.holds() && holds(e) {
			h.Reason = "a review has decided that it no longer holds, and its document says that it does"
		}
		if e.conflicted() {
			h.Reason += ": it has the marks of a merge conflict"
			h.Repair = "edit the document; " + past
		}
	default:
		return out
	}
	if e != nil {
		e.Unratified = true
	}
	out.held = h
	return out
}

// said names the last decisions about an entry.
func (st *standing) said() string {
	var list []string
	for _, d := range st.heads {
		text := d.Op + " by " + d.Reviewer + " at " + d.At
		if d.By != "" {
			text += " in favour of " + d.By
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// conflicted reports whether the entity has the marks that git leaves where two
// edits conflict.
func (e *Entity) conflicted() bool {
	document, err := e.encode()
	if err != nil {
		return false
	}
	for _, text := range []string{"<<<<<<< ", ">>>>>>> "} {
		if strings.Contains(string(document), `"`+text) || strings.Contains(string(document), `\n`+text) {
			return true
		}
	}
	return false
}

// Quarantined returns what of canon is not served, by id: what no person has
// ratified as it is, what is missing or cannot be read, and what decisions
// contradict each other about. Files that cannot be read at all, and so may be
// canon, are among it. A reviewer who agrees with the text calls [Writer.Ratify],
// one who does not [Writer.Retire], or removes or mends the file.
func (s *Store) Quarantined(ctx context.Context) ([]Withheld, error) {
	all, err := s.entries(ctx, "")
	if err != nil {
		return nil, err
	}
	var list []Withheld
	for _, e := range all {
		if e.held != nil {
			list = append(list, *e.held)
		}
	}
	return list, nil
}
