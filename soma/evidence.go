package soma

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stratamem/strata/storage"
)

// Cited is a piece of evidence with what is there of it.
type Cited struct {
	Evidence
	Entity  *Entity // nil: there is none, the link dangles, or none that can be read
	Changed bool    // since it was cited
}

// Evidence returns an entity with what it cites, of any layer.
func (s *Store) Evidence(ctx context.Context, id string) (*Entity, []Cited, error) {
	e, err := s.Read(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	var list []Cited
	for _, v := range e.Evidence() {
		c := Cited{Evidence: v}
		there, err := s.Read(ctx, v.ID)
		if err == nil {
			c.Entity = there
			c.Changed, err = s.changedSince(ctx, e, v, there)
		}
		if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, storage.ErrCorrupt) {
			return nil, nil, err
		}
		list = append(list, c)
	}
	return e, list, nil
}

// cite notes the digests of what an entity cites, as it is now and as the actor
// sees it, in the place of those that the author brought. What an earlier version
// of the entity cites keeps its digest, so that what has changed since shows.
func (w *Writer) cite(ctx context.Context, e, before *Entity) error {
	list, ok := evidenceOf(e)
	if !ok {
		return nil // validate says so, where it is wanted
	}
	had := make(map[string]string)
	if before != nil {
		for _, v := range before.Evidence() {
			sum, err := w.s.cited(ctx, before, v)
			if err != nil {
				return err
			}
			had[v.ID] = sum
		}
	}
	out, digests := make([]any, len(list)), make(map[string]any)
	for i, v := range list {
		there, err := w.lookup(ctx, v.ID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if err == nil {
			v.Type = cmp.Or(v.Type, there.Type)
		}
		if v.Digest = had[v.ID]; v.Digest == "" && err == nil {
			v.Digest = there.citation()
		}
		if v.Digest != "" {
			digests[v.ID] = v.Digest
		}
		if out[i] = v.ref(); err == nil && v.Type != there.Type || out[i] == "" {
			out[i] = map[string]any{"id": v.ID, "type": v.Type}
		}
	}
	e.set(FieldEvidence, out)
	delete(e.Fields, fieldDigests)
	if len(digests) > 0 {
		e.set(fieldDigests, digests)
	}
	return nil
}

// ref is the wikilink to a piece of evidence, "" if there can be none.
func (v Evidence) ref() string {
	if isType(v.Type) {
		return wikilinkTo(v.Type + "/" + v.ID)
	}
	return wikilinkTo(v.ID)
}

// contradict makes wikilinks of what an entity says it contradicts. What cannot be
// one stays as it is.
func (w *Writer) contradict(ctx context.Context, e *Entity) error {
	switch v := e.Fields[fieldContradicts].(type) {
	case string:
		ref, err := w.ref(ctx, v)
		e.set(fieldContradicts, ref)
		return err
	case []any:
		list := slices.Clone(v)
		for i := range list {
			if text, ok := list[i].(string); ok {
				var err error
				if list[i], err = w.ref(ctx, text); err != nil {
					return err
				}
			}
		}
		e.set(fieldContradicts, list)
	}
	return nil
}

// ref is the wikilink to what a field refers to.
func (w *Writer) ref(ctx context.Context, text string) (string, error) {
	id := unlinked(text)
	there, err := w.lookup(ctx, id)
	switch {
	case err == nil:
		id = there.Type + "/" + there.ID
	case !errors.Is(err, ErrNotFound):
		return "", err
	}
	return cmp.Or(wikilinkTo(id), text), nil
}

// citationForm begins the digest of what is cited. Digests without it are of the
// name and the body alone, and older.
const citationForm = "v2:"

// citation is the digest of all that an entity says to who relies on it: its
// fields, links and body. A move to the archive, the timer of decay and the marks
// of a promotion do not change it; a rejection does, and a retirement.
func (e *Entity) citation() string {
	c := e.Clone()
	c.Layer, c.SourceWorker = "", ""
	c.Created, c.Updated, c.DecayAt = time.Time{}, time.Time{}, time.Time{}
	maps.DeleteFunc(c.Fields, func(field string, value any) bool {
		against := field == fieldRetiredAt || field == FieldProposalStatus && value == Rejected
		return Reserved(field) != "" && !against
	})
	return citationForm + c.Digest()
}

// changedSince reports whether evidence is no longer what it was when it was
// cited.
func (s *Store) changedSince(ctx context.Context, citing *Entity, v Evidence, there *Entity) (bool, error) {
	sum, err := s.cited(ctx, citing, v)
	switch {
	case err != nil || sum == "":
		return false, err
	case strings.HasPrefix(sum, citationForm):
		return sum != there.citation(), nil
	}
	return !olderCitation(there, sum), nil
}

// cited returns the digest of what was cited. In the place of an older one, which
// is blind to all but the name and the body, it is that of what the history has:
// the version when what cites it was made, for older digests were made then alone,
// or the first one. Where the history has none with the older digest, that stays.
func (s *Store) cited(ctx context.Context, citing *Entity, v Evidence) (string, error) {
	if v.Digest == "" || strings.HasPrefix(v.Digest, citationForm) {
		return v.Digest, nil
	}
	key, err := s.pastKey(ctx, v.ID)
	if errors.Is(err, ErrNotFound) {
		return v.Digest, nil
	}
	if err != nil {
		return "", err
	}
	var was *Entity
	for version, err := range s.versions(ctx, key, &storage.ScanOptions{Reverse: true}) {
		if err != nil {
			return "", err
		}
		if version.Entity != nil {
			was = version.Entity
		}
		if !version.At.After(citing.Created) {
			break
		}
	}
	if was == nil || !olderCitation(was, v.Digest) {
		return v.Digest, nil
	}
	return was.citation(), nil
}

// olderCitation reports whether an older digest is that of an entity's name and
// body. A newline at the end of the body is the file's today, and was the
// body's.
func olderCitation(e *Entity, sum string) bool {
	body := strings.TrimSuffix(e.Body, "\n")
	for _, body := range []string{e.Body, body, body + "\n"} {
		c := &Entity{Type: e.Type, ID: e.ID, Name: e.Name, Body: body}
		document, err := c.encode()
		if err != nil {
			return false
		}
		if got, err := digest(document); err == nil && got == sum {
			return true
		}
	}
	return false
}
