package soma

import (
	"context"
	"errors"
)

// Cited is a piece of evidence with what is there of it.
type Cited struct {
	Evidence
	Entity  *Entity // nil: there is none, the link dangles
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
		switch there, err := s.Read(ctx, v.ID); {
		case err == nil:
			c.Entity, c.Changed = there, v.Digest != "" && v.Digest != bodyDigest(there)
		case !errors.Is(err, ErrNotFound):
			return nil, nil, err
		}
		list = append(list, c)
	}
	return e, list, nil
}

// cite notes the digests of what an entity cites, of what the actor sees.
func (w *Writer) cite(ctx context.Context, e *Entity) error {
	list, ok := evidenceOf(e)
	if !ok {
		return nil // validate says so
	}
	out := make([]any, len(list))
	for i, v := range list {
		if v.Digest == "" {
			there, err := w.lookup(ctx, v.ID)
			if err == nil {
				v.Digest = bodyDigest(there.Entity)
			} else if !errors.Is(err, ErrNotFound) {
				return err
			}
		}
		element := map[string]any{"id": v.ID}
		if v.Type != "" {
			element["type"] = v.Type
		}
		if v.Digest != "" {
			element["digest"] = v.Digest
		}
		out[i] = element
	}
	e.set(FieldEvidence, out)
	return nil
}

// bodyDigest is the digest of what an entity says, which a move to the archive
// does not change.
func bodyDigest(e *Entity) string {
	c := &Entity{Type: e.Type, ID: e.ID, Name: e.Name, Body: e.Body}
	document, err := c.encode()
	if err != nil { // texts always have a form
		panic(err)
	}
	sum, err := digest(document)
	if err != nil {
		panic(err)
	}
	return sum
}
