package soma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/stratamem/strata/storage"
)

// The states of a review, in the field proposal_status.
const (
	Pending  = "pending"
	Promoted = "promoted"
	Rejected = "rejected"
)

const (
	fieldReviewedBy   = "reviewed_by"
	fieldReviewedAt   = "reviewed_at"
	fieldReviewReason = "review_reason"
	fieldContradicts  = "contradicts"
)

// GovernanceError says why a review is refused.
type GovernanceError struct {
	ID     string
	Reason string
}

func (e *GovernanceError) Error() string { return fmt.Sprintf("review %q: %s", e.ID, e.Reason) }

// ChangedError says that an entity is no longer what its reviewer has read, so
// that nothing was decided: it is to be read again.
type ChangedError struct{ ID string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("review %q: it changed since it was read: read it again", e.ID)
}

// proposalStatus returns the state of an emerging entity's review. Older vaults
// have it in the status.
func (e *Entity) proposalStatus() string {
	if s := e.Text(FieldProposalStatus); s != "" {
		return s
	}
	if slices.Contains([]string{Pending, Promoted, Rejected}, e.Status) {
		return e.Status
	}
	return Pending
}

// Pending returns the proposals that wait for a person, the most confident
// first, of equals the oldest; last what has no confidence from 0 to 1. It reads the emerging layer alone.
func (s *Store) Pending(ctx context.Context) ([]*Entity, error) {
	var waiting []*candidate
	for c, err := range s.find(ctx, map[string]string{"layer": string(Emerging)}, "", waitsBy...) {
		if err != nil {
			return nil, err
		}
		if c.proposalStatus() == Pending {
			waiting = append(waiting, c)
		}
	}
	sortByConfidence(waiting)
	var list []*Entity
	for _, c := range waiting {
		list = append(list, c.whole())
	}
	return list, nil
}

// waitsBy are the fields that say whether a proposal waits for a person, and how long
// it is to wait.
var waitsBy = []string{"status", FieldProposalStatus, FieldConfidence, "created"}

// sortByConfidence puts the most confident of proposals first, of equals the oldest.
func sortByConfidence(list []*candidate) {
	confidence := make(map[*candidate]float64, len(list))
	for _, c := range list {
		n, ok := c.Confidence()
		if !ok {
			n = -1 // what says none that is one comes last
		}
		confidence[c] = n
	}
	slices.SortStableFunc(list, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(confidence[b], confidence[a]), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
}

// isReviewer refuses who may not decide about an entity.
func (w *Writer) isReviewer(id string) error {
	if w.actor.Kind != "person" || strings.TrimSpace(w.actor.Name) == "" {
		return &GovernanceError{id, "it wants a person with a name for a reviewer"}
	}
	return nil
}

// subject loads the entity that a decision is about.
func (w *Writer) subject(ctx context.Context, id string) (*stored, error) {
	key, err := w.s.keyOf(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return nil, &GovernanceError{id, "there is no such entity"}
	}
	if err != nil {
		return nil, err
	}
	return w.s.load(ctx, key)
}

// review changes a proposal that waits, in the name of a reviewer.
func (w *Writer) review(ctx context.Context, id string, f func(b *batch, e *stored) error) error {
	if err := w.isReviewer(id); err != nil {
		return err
	}
	return w.s.change(ctx, func(b *batch) error {
		e, err := w.subject(ctx, id)
		if err == nil {
			err = waits(id, e)
		}
		if err != nil {
			return err
		}
		return f(b, e)
	})
}

// asRead refuses to decide about what the reviewer has not read as it is.
func asRead(e *stored, digest string) error {
	switch digest {
	case "":
		return &GovernanceError{e.ID, "it wants the digest of what was reviewed"}
	case e.Digest():
		return nil
	}
	return &ChangedError{e.ID}
}

// waits refuses what is no proposal, or was decided.
func waits(id string, e *stored) error {
	switch {
	case e.Layer != Emerging:
		return &GovernanceError{id, fmt.Sprintf("it is in layer %s, not emerging", e.Layer)}
	case e.proposalStatus() != Pending:
		return &GovernanceError{id, "it is no longer pending: it was " + e.proposalStatus()}
	}
	return nil
}

// decided returns a proposal with the decision of a reviewer.
func (w *Writer) decided(e *Entity, status, reason string) *Entity {
	next := e.Clone()
	if slices.Contains([]string{Pending, Promoted, Rejected}, e.Status) && !slices.Contains(Statuses(e.Type), e.Status) {
		next.Status = Statuses(e.Type)[0] // an older vault
	}
	next.set(FieldProposalStatus, status)
	next.set(fieldReviewedBy, w.actor.Name)
	next.set(fieldReviewedAt, formatTime(w.s.now()))
	if reason != "" {
		next.set(fieldReviewReason, reason)
	}
	return next
}

// Promote makes a new canon entry of a proposal, with the id canon-<slug of its
// name>, and marks the proposal. A policy becomes enforcing. However many try at
// once, there is one canon entry. The writer's actor is the reviewer.
//
// digest is the [Entity.Digest] of the proposal as the reviewer has read it. If it
// is another one now, nothing is promoted, and the error is a [*ChangedError]. It
// covers the whole document of the proposal, with the digests that it has of its
// evidence, and not the evidence as it is: [Store.Evidence] says what of that
// changed since it was cited, before the decision and after it.
func (w *Writer) Promote(ctx context.Context, id, digest, reason string) (canon *Entity, err error) {
	err = w.review(ctx, id, func(b *batch, e *stored) error {
		if err := asRead(e, digest); err != nil {
			return err
		}
		if canon, err = w.canonOf(ctx, e); err != nil {
			return err
		}
		return w.promote(ctx, b, e, canon, reason)
	})
	if err != nil {
		return nil, fmt.Errorf("promote: %w", err)
	}
	return canon, nil
}

// canonOf returns the canon entry that a proposal becomes.
func (w *Writer) canonOf(ctx context.Context, e *stored) (*Entity, error) {
	canon := e.Clone()
	var err error
	if canon.ID, err = w.s.freeID(ctx, e.Type, cmp.Or(shortSlug(e.Name), shortSlug(e.ID), "entry")); err != nil {
		return nil, err
	}
	canon.Layer, canon.DecayAt, canon.SourceWorker, canon.Body = Canon, zeroTime, governance.Name, fold(e.Body)
	canon.Status = Statuses(e.Type)[0]
	if e.Type == "policy" {
		canon.Status = "enforcing"
	}
	maps.DeleteFunc(canon.Fields, func(field string, _ any) bool { return Reserved(field) != "" })
	canon.set(FieldRatifiedBy, w.actor.Name)
	canon.set(FieldRatifiedAt, formatTime(w.s.now()))
	canon.set(FieldOrigin, e.ID)
	return canon, w.cite(ctx, canon, e.Entity) // what a file cites has no digests yet
}

// promote plans that a proposal becomes a canon entry.
func (w *Writer) promote(ctx context.Context, b *batch, e *stored, canon *Entity, reason string) error {
	if err := cmp.Or(canon.validate(), unmarked(canon)); err != nil {
		return err
	}
	if err := b.put(ctx, e, w.decided(e.Entity, Promoted, reason), OpPromote, w.actor, reason); err != nil {
		return err
	}
	if err := b.put(ctx, nil, canon, OpCreate, w.actor, reason); err != nil {
		return err
	}
	return b.decide(ctx, w.actor, canon.Key(), judged(canon), OpPromote, reason)
}

// freeID returns an id for canon of a type that is not taken, and that no decision
// is about: canon-<slug>, with a number if others have that.
func (s *Store) freeID(ctx context.Context, kind, slug string) (string, error) {
	slug = norm.NFC.String(slug)
	id := canonMark + slug
	for n := 2; ; n++ {
		_, err := s.keyOf(ctx, id)
		if errors.Is(err, ErrNotFound) {
			known, err := s.isDecided(ctx, kind+"/"+storage.EscapeSegment(id))
			if err != nil || !known {
				return id, err
			}
		} else if err != nil && !errors.Is(err, storage.ErrCorrupt) {
			return "", err
		}
		id = fmt.Sprintf("%s%s-%d", canonMark, slug, n)
	}
}

// isDecided reports whether there are decisions about the entry of a key.
func (s *Store) isDecided(ctx context.Context, key string) (bool, error) {
	for _, err := range s.db.List(ctx, GovernancePrefix+key+"/") {
		return true, err
	}
	_, _, err := s.db.Get(ctx, canonPrefix+key)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return true, err
}

// Reject marks a proposal as rejected: it stays where it is and does not decay.
func (w *Writer) Reject(ctx context.Context, id, reason string) error {
	if strings.TrimSpace(reason) == "" {
		return fmt.Errorf("reject: %w", &GovernanceError{id, "it wants a reason"})
	}
	err := w.review(ctx, id, func(b *batch, e *stored) error {
		return b.put(ctx, e, w.decided(e.Entity, Rejected, reason), OpReject, w.actor, reason)
	})
	if err != nil {
		return fmt.Errorf("reject: %w", err)
	}
	return nil
}

// govern plans decisions about canon, in the name of a reviewer; id is of the
// entity that they are about first.
func (w *Writer) govern(ctx context.Context, id, reason string, f func(b *batch) error) error {
	if err := w.isReviewer(id); err != nil {
		return err
	}
	if strings.TrimSpace(reason) == "" {
		return &GovernanceError{id, "it wants a reason"}
	}
	return w.s.change(ctx, f)
}

// subjectOfCanon returns how a canon entry stands that a decision is about, and
// its document; nil if there is none that can be read.
func (w *Writer) subjectOfCanon(ctx context.Context, id string) (*entry, *stored, error) {
	l, err := w.s.ledger(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	key, err := w.s.keyOf(ctx, id)
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, storage.ErrCorrupt) {
		return nil, nil, err
	}
	for decided := range l {
		if name := plainName(decided); key == "" && (name == id || bareID(name) == id) {
			key = decided
		}
	}
	if key == "" {
		return nil, nil, &GovernanceError{id, "there is no such entity"}
	}
	st := l[key]
	e, err := w.s.load(ctx, key)
	damage, damaged := errors.AsType[*storage.CorruptError](err)
	switch {
	case err == nil && e.Layer != Canon && st == nil:
		return nil, nil, &GovernanceError{id, fmt.Sprintf("it is in layer %s, not canon", e.Layer)}
	case err == nil:
		return st.examine(key, e.Entity, nil), e, nil
	case st == nil && damaged:
		return nil, nil, &GovernanceError{id, "its document cannot be read, and no decision is about it: mend it first"}
	case damaged, errors.Is(err, ErrNotFound):
		return st.examine(key, nil, damage), nil, nil
	}
	return nil, nil, err
}

// holding returns a canon entry that holds.
func (w *Writer) holding(ctx context.Context, id string) (*stored, error) {
	x, e, err := w.subjectOfCanon(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case x.held != nil:
		return nil, x.held.refuse(id)
	case !holds(e.Entity):
		return nil, &GovernanceError{id, "it no longer holds"}
	}
	return e, nil
}

// refuse says that nothing is decided about what is withheld but to ratify it,
// or to retire it.
func (h *Withheld) refuse(id string) error {
	return &GovernanceError{id, "it is withheld: " + h.Reason + ": " + h.Repair}
}

// decree plans a new state of a canon entry, and the record of that decision.
func (w *Writer) decree(ctx context.Context, b *batch, old *stored, e *Entity, op, reason, by string) error {
	e.Unratified = false
	if err := b.put(ctx, old, e, op, w.actor, reason); err != nil {
		return err
	}
	d := judged(e)
	d.By = by
	return b.decide(ctx, w.actor, e.Key(), d, op, reason)
}

// retiredStatus is that of canon that no longer holds, by type.
func retiredStatus(kind string) string {
	for _, status := range []string{"superseded", "deprecated", "resolved", "invalidated"} {
		if slices.Contains(Statuses(kind), status) {
			return status
		}
	}
	return ""
}

// Supersede says that an entry holds in the place of a canon entry, which is
// kept and no longer served, and returns it. A proposal that waits is promoted
// by that, in the same batch. digest is that of the entry newID as the reviewer has
// read it, as for [Writer.Promote].
func (w *Writer) Supersede(ctx context.Context, oldID, newID, digest, reason string) (canon *Entity, err error) {
	err = w.govern(ctx, oldID, reason, func(b *batch) error {
		old, err := w.holding(ctx, oldID)
		if err != nil {
			return err
		}
		next, err := w.subject(ctx, newID)
		if err != nil {
			return err
		}
		if next.ID == old.ID {
			return &GovernanceError{oldID, "it cannot supersede itself"}
		}
		proposed := next.Layer == Emerging
		if proposed {
			if err = cmp.Or(waits(newID, next), asRead(next, digest)); err == nil {
				canon, err = w.canonOf(ctx, next)
			}
		} else if next, err = w.holding(ctx, newID); err == nil {
			canon, err = next.Clone(), asRead(next, digest)
		}
		if err != nil {
			return err
		}
		canon.supersede(old.ID)
		if err := w.decree(ctx, b, old, w.retired(old.Entity), OpSupersede, reason, canon.ID); err != nil {
			return err
		}
		if proposed {
			return w.promote(ctx, b, next, canon, reason)
		}
		return w.decree(ctx, b, next, canon, OpSupersede, reason, "")
	})
	if err != nil {
		return nil, fmt.Errorf("supersede: %w", err)
	}
	return canon, nil
}

// supersede notes in an entity that it is in the place of another.
func (e *Entity) supersede(id string) {
	all := []any{}
	for _, ref := range append(e.refs(fieldSupersedes), id) {
		all = append(all, ref)
	}
	e.set(fieldSupersedes, all)
}

// Retire says that a canon entry no longer holds. It is a decision where others
// contradict each other, and about an entry whose document is gone or cannot be
// read: then the document stays as it is.
func (w *Writer) Retire(ctx context.Context, id, reason string) error {
	err := w.govern(ctx, id, reason, func(b *batch) error {
		x, e, err := w.subjectOfCanon(ctx, id)
		switch {
		case err != nil:
			return err
		case e == nil && x.held.decided.retired():
			return &GovernanceError{id, "it no longer holds"}
		case e == nil:
			d := x.held.decided.last()
			d.Holds, d.Digest, d.By = false, "", ""
			b.actor = w.actor.String()
			return b.decide(ctx, w.actor, x.key, d, OpRetire, reason)
		case x.held != nil && !x.held.decided.knows(e.Entity):
			return x.held.refuse(id)
		case x.held == nil && !holds(e.Entity):
			return &GovernanceError{id, "it no longer holds"}
		}
		return w.decree(ctx, b, e, w.retired(e.Entity), OpRetire, reason, "")
	})
	if err != nil {
		return fmt.Errorf("retire: %w", err)
	}
	return nil
}

const fieldRetiredAt = "retired_at"

// retired returns an entity that no longer holds.
func (w *Writer) retired(e *Entity) *Entity {
	e = e.Clone()
	if status := retiredStatus(e.Type); status != "" {
		e.Status = status
	}
	e.set(fieldRetiredAt, formatTime(w.s.now()))
	return e
}

// holds reports whether a canon entity is in force.
func holds(e *Entity) bool { return e.Layer == Canon && e.Text(fieldRetiredAt) == "" }

// unmarked refuses a text that nobody has brought together after a merge.
func unmarked(e *Entity) error {
	if e.conflicted() {
		return &GovernanceError{e.ID, "it has the marks of a merge conflict: edit the document first"}
	}
	return nil
}

// Ratify takes a canon document that is withheld as it is, in the name of the
// reviewer. It refuses a text with the marks of a merge conflict.
func (w *Writer) Ratify(ctx context.Context, id, reason string) error {
	err := w.govern(ctx, id, reason, func(b *batch) error {
		x, old, err := w.subjectOfCanon(ctx, id)
		switch {
		case err != nil:
			return err
		case x.held == nil:
			return &GovernanceError{id, "it is not quarantined"}
		case old == nil:
			return x.held.refuse(id)
		case old.Layer != Canon:
			return &GovernanceError{id, fmt.Sprintf("its document is in layer %s, not canon: mend it first", old.Layer)}
		}
		if err := unmarked(old.Entity); err != nil {
			return err
		}
		e := old.Clone()
		e.set(FieldRatifiedBy, w.actor.Name)
		e.set(FieldRatifiedAt, formatTime(w.s.now()))
		if e.Text(FieldOrigin) == "" {
			e.set(FieldOrigin, e.ID)
		}
		if e.SourceWorker == "" {
			e.SourceWorker = governance.Name
		}
		if err := e.validate(); err != nil {
			return err
		}
		return w.decree(ctx, b, old, e, OpRatify, reason, "")
	})
	if err != nil {
		return fmt.Errorf("ratify: %w", err)
	}
	return nil
}

// Conflicts returns the canon entries in force that contradict a proposal: those
// that it, or an open contradiction that links to both, names, and those that
// say they contradict it.
func (s *Store) Conflicts(ctx context.Context, id string) ([]*Entity, error) {
	e, err := s.Read(ctx, id)
	if err != nil {
		return nil, err
	}
	found := make(map[string]bool)
	for _, ref := range contradicted(e) {
		found[ref] = true
	}
	for other, err := range s.linking(ctx, e.ID) {
		if err != nil {
			return nil, err
		}
		if slices.Contains(contradicted(other), e.ID) {
			found[other.ID] = true
		}
		if other.Type == "contradiction" && other.Status == "active" {
			for to := range targets(other) {
				found[to] = true
			}
		}
	}
	delete(found, e.ID)
	var list []*Entity
	for to := range found {
		c, err := s.Read(ctx, to)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if holds(c) && !c.Unratified {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b *Entity) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// contradicted returns the ids that an entity says it contradicts: in the field
// contradicts, or by relations of that type.
func contradicted(e *Entity) []string {
	var list []string
	for _, l := range e.Links() {
		if l.Type == fieldContradicts {
			list = append(list, l.To)
		}
	}
	return list
}
