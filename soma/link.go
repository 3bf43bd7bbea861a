package soma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/stratamem/strata/storage"
)

// Link leads from an entity to another.
type Link struct {
	From       string         `json:"from"`                 // id
	To         string         `json:"to"`                   // id
	Type       string         `json:"type"`                 // related, evidence, mentions, origin, supersedes or a type of [Writer.Relate]
	Properties map[string]any `json:"properties,omitempty"` // of a typed relation
}

// Evidence is an element of the field evidence_links: what a proposal cites. A
// person may write the id alone.
type Evidence struct {
	ID     string `json:"id"`
	Type   string `json:"type,omitempty"`
	Digest string `json:"digest,omitempty"` // of what it said when it was cited; the store sets it
}

// The types of links that are not of Relate.
const (
	LinkRelated    = "related"
	LinkEvidence   = "evidence"
	LinkMentions   = "mentions" // a wikilink
	LinkOrigin     = "origin"   // of canon, to its proposal
	LinkSupersedes = "supersedes"
)

const (
	fieldDigests    = "evidence_digests" // of what evidence_links cites, by id
	fieldRelations  = "relations"
	fieldSupersedes = "supersedes"
	linkPrefix      = "_links/"
	idPrefix        = "_ids/"
)

// evidenceOf reads the field evidence_links; false says that it is none. Its elements
// are wikilinks, so that Obsidian follows them, and their digests stand in the field
// evidence_digests by id. Ids and objects with an id are read as well: authors and
// older programs write them.
func evidenceOf(e *Entity) ([]Evidence, bool) {
	var list []any
	switch v := e.Fields[FieldEvidence].(type) {
	case []any:
		list = v
	case []string:
		for _, id := range v {
			list = append(list, id)
		}
	case []Evidence:
		return v, true
	default:
		return nil, false
	}
	digests, _ := e.Fields[fieldDigests].(map[string]any)
	out := make([]Evidence, len(list))
	for i, v := range list {
		switch v := v.(type) {
		case string:
			out[i].ID = unlinked(v)
		case map[string]any:
			id, _ := v["id"].(string)
			out[i].ID = unlinked(id)
			out[i].Type, _ = v["type"].(string)
			out[i].Digest, _ = v["digest"].(string)
		}
		out[i].ID = norm.NFC.String(out[i].ID)
		if kind, id, ok := strings.Cut(out[i].ID, "/"); ok && isType(kind) {
			out[i].ID, out[i].Type = id, cmp.Or(out[i].Type, kind)
		}
		if out[i].ID == "" {
			return nil, false
		}
		if out[i].Digest == "" {
			out[i].Digest, _ = digests[out[i].ID].(string)
		}
	}
	return out, true
}

// Evidence returns what the entity cites.
func (e *Entity) Evidence() []Evidence {
	list, _ := evidenceOf(e)
	return list
}

// bareID takes the type from type/id.
func bareID(ref string) string {
	if kind, id, ok := strings.Cut(ref, "/"); ok && isType(kind) {
		return id
	}
	return ref
}

// reference is a link as an entity has it.
type reference struct {
	Link
	target  string // as it is written
	mention bool   // a wikilink in the body
}

// Links returns the links of an entity to others, each pair of target and type
// once, with the ids as they are written. [Store.Links] finds what wikilinks
// in the body mean that are not [[type/id]].
func (e *Entity) Links() []Link {
	var list []Link
	for _, r := range e.references() {
		list = append(list, r.Link)
	}
	return list
}

// linksBy are the fields that have links.
var linksBy = []string{"related", fieldRelations, FieldEvidence, fieldContradicts, FieldOrigin, fieldSupersedes, "body"}

func (e *Entity) references() []reference {
	var list []reference
	had := make(map[[2]string]bool)
	add := func(target, kind string, properties map[string]any) {
		to := bareID(target)
		if kind == LinkMentions && to == target { // no type/id
			to = path.Base(target)
		}
		to = norm.NFC.String(to)
		if target == "" || to == "" || to == norm.NFC.String(e.ID) || had[[2]string{to, kind}] {
			return
		}
		had[[2]string{to, kind}] = true
		list = append(list, reference{Link{e.ID, to, kind, properties}, target, kind == LinkMentions})
	}
	for _, ref := range e.Related {
		add(unlinked(ref), LinkRelated, nil)
	}
	relations, _ := e.Fields[fieldRelations].([]any)
	for _, v := range relations {
		if r, ok := v.(map[string]any); ok {
			to, _ := r["to"].(string)
			kind, _ := r["type"].(string)
			properties, _ := r["properties"].(map[string]any)
			add(unlinked(to), kind, properties)
		}
	}
	for _, v := range e.Evidence() {
		add(v.ID, LinkEvidence, nil)
	}
	for _, ref := range e.refs(fieldContradicts) {
		add(ref, fieldContradicts, nil)
	}
	add(unlinked(e.Text(FieldOrigin)), LinkOrigin, nil)
	for _, ref := range e.refs(fieldSupersedes) {
		add(ref, LinkSupersedes, nil)
	}
	for _, target := range wikilinks(e.Body) {
		add(target, LinkMentions, nil)
	}
	return list
}

// refs returns a field that is a list of ids, or one id.
func (e *Entity) refs(field string) []string {
	if ref := e.Text(field); ref != "" {
		return []string{unlinked(ref)}
	}
	var list []string
	values, _ := e.Fields[field].([]any)
	for _, v := range values {
		if ref, ok := v.(string); ok {
			list = append(list, unlinked(ref))
		}
	}
	return list
}

// linkKey is the key of the record of a link. Names are compared in any case, so it
// has them folded; older programs wrote them as they are.
func linkKey(to, from string) string {
	return linkPrefix + storage.EscapeSegment(foldName(to)) + "/" + storage.EscapeSegment(from)
}

func olderLinkKey(to, from string) string {
	return linkPrefix + storage.EscapeSegment(to) + "/" + storage.EscapeSegment(from)
}

// linkKeys are the keys of the records of an entity's links, and whether older
// programs knew the link; nil has none.
func linkKeys(e *Entity) map[string]bool {
	set := make(map[string]bool)
	if e == nil {
		return set
	}
	for _, r := range e.references() {
		if len(storage.EscapeSegment(r.To)) > maxID {
			continue
		}
		kind, _, ok := strings.Cut(r.target, "/")
		key := linkKey(r.To, e.ID)
		set[key] = set[key] || !r.mention || ok && isType(kind)
	}
	return set
}

// staleKeys are the keys of the records that there may be of an entity's links.
func staleKeys(e *Entity) map[string]bool {
	set := linkKeys(e)
	if e != nil {
		for to := range targets(e) {
			set[olderLinkKey(to, e.ID)] = true
		}
	}
	return set
}

// targets are the ids that an entity links to, as they are written.
func targets(e *Entity) map[string]bool {
	set := make(map[string]bool)
	for _, l := range e.Links() {
		if len(storage.EscapeSegment(l.To)) <= maxID {
			set[l.To] = true
		}
	}
	return set
}

// relink returns the operations that make the link records of an entity those of
// another version of it.
func relink(before, after *Entity) []storage.Op {
	had, has := linkKeys(before), linkKeys(after)
	var ops []storage.Op
	for _, key := range slices.Sorted(maps.Keys(has)) {
		// What an older program did not take for a link has no record, though it was
		// there before.
		if _, ok := had[key]; !ok || !has[key] {
			ops = append(ops, storage.Put(key, nil))
		}
	}
	keep := staleKeys(after)
	for _, key := range slices.Sorted(maps.Keys(staleKeys(before))) {
		if _, ok := keep[key]; !ok {
			ops = append(ops, storage.Remove(key))
		}
	}
	return ops
}

// relinkMissing plans the records of links that an older program did not take for
// such.
func (b *batch) relinkMissing(ctx context.Context, e *Entity) error {
	for key, known := range linkKeys(e) {
		if known {
			continue
		}
		if _, _, err := b.s.db.Get(ctx, key); errors.Is(err, ErrNotFound) {
			b.ops = append(b.ops, storage.Put(key, nil))
		} else if err != nil {
			return err
		}
	}
	return nil
}

// FindLinked yields the entities that link to an id, whether that is there or
// not, that team may see; [AllTeams] sees all.
func (s *Store) FindLinked(ctx context.Context, id, team string) iter.Seq2[*Entity, error] {
	return func(yield func(*Entity, error) bool) {
		for e, err := range s.linking(ctx, id) {
			if err == nil && (team != AllTeams && !e.visible(team) || e.Unratified) {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// linking yields the entities that link to an id, or type/id, and can be read. After
// an error it ends.
func (s *Store) linking(ctx context.Context, id string) iter.Seq2[*Entity, error] {
	return func(yield func(*Entity, error) bool) {
		n := &linker{s: s}
		to := bareID(id)
		if key, err := s.keyOf(ctx, id); err == nil {
			if to, err = s.nameOf(ctx, key); err != nil {
				yield(nil, err)
				return
			}
		} else if !errors.Is(err, ErrNotFound) {
			yield(nil, err)
			return
		}
		for from, err := range s.linkedFrom(ctx, bareID(to)) {
			var e *Entity
			if err == nil {
				e, err = s.Read(ctx, from)
			}
			if err == nil {
				var does bool
				if does, err = n.leads(ctx, e, to); err == nil && !does {
					continue
				}
			}
			if errors.Is(err, ErrNotFound) || errors.Is(err, storage.ErrCorrupt) { // Quarantined lists the latter
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// linkedFrom yields the ids of those that link to an id, as the records say.
func (s *Store) linkedFrom(ctx context.Context, to string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		had := make(map[string]bool)
		for _, name := range slices.Compact([]string{foldName(to), to}) {
			prefix := linkPrefix + storage.EscapeSegment(name) + "/"
			for key, err := range s.db.List(ctx, prefix) {
				if err != nil {
					yield("", fmt.Errorf("read links: %w", err))
					return
				}
				from, err := storage.UnescapeSegment(key[len(prefix):])
				if err != nil || had[from] {
					continue
				}
				had[from] = true
				if !yield(from, nil) {
					return
				}
			}
		}
	}
}

// Neighbor is an entity that a walk along links has reached.
type Neighbor struct {
	Entity *Entity
	Depth  int    // 1 for a link of the first
	Via    []Link // from the first to it, each in its own direction
}

// Neighbors walks the links from an entity in both directions, nearest first, to
// a depth, by way of what team may see; [AllTeams] sees all. types are those of
// links to follow; none means all. It stops after 10,000 entities.
func (s *Store) Neighbors(ctx context.Context, id, team string, depth int, types ...string) ([]Neighbor, error) {
	first, err := s.Read(ctx, id)
	if err != nil {
		return nil, err
	}
	if team != AllTeams && !first.visible(team) {
		return nil, notFound(id)
	}
	const most = 10_000
	self, err := s.nameOf(ctx, first.Key())
	if err != nil {
		return nil, err
	}
	n := &linker{s: s}
	had := map[string]bool{self: true}
	var out []Neighbor
	wave := []Neighbor{{Entity: first}}
	for d := 1; d <= depth && len(wave) > 0; d++ {
		var next []Neighbor
		for _, at := range wave {
			self, err := s.nameOf(ctx, at.Entity.Key())
			if err != nil {
				return nil, err
			}
			links, err := n.around(ctx, at.Entity, self)
			if err != nil {
				return nil, err
			}
			for _, l := range links {
				other := l.To
				if other == self {
					other = l.From
				}
				if had[other] || len(types) > 0 && !slices.Contains(types, l.Type) {
					continue
				}
				e, err := s.Read(ctx, other)
				if errors.Is(err, ErrNotFound) {
					continue
				}
				if err != nil {
					return nil, err
				}
				if team != AllTeams && !e.visible(team) || e.Unratified {
					continue
				}
				had[other] = true
				next = append(next, Neighbor{e, d, append(slices.Clip(at.Via), l)})
				if len(out)+len(next) == most {
					return append(out, next...), nil
				}
			}
		}
		out = append(out, next...)
		wave = next
	}
	return out, nil
}

// around returns the links of an entity and those to it. self is its name.
func (n *linker) around(ctx context.Context, e *Entity, self string) ([]Link, error) {
	links, err := n.links(ctx, e)
	if err != nil {
		return nil, err
	}
	for other, err := range n.s.linking(ctx, self) {
		if err != nil {
			return nil, err
		}
		list, err := n.links(ctx, other)
		if err != nil {
			return nil, err
		}
		for _, l := range list {
			if l.To == self {
				links = append(links, l)
			}
		}
	}
	return links, nil
}

// Dangling is a link to what is not there.
type Dangling struct {
	Entity  string `json:"entity"` // type/id
	Layer   Layer  `json:"layer"`
	Missing string `json:"missing"` // id
	Type    string `json:"type"`    // of the link
}

// CheckDanglingReferences lists the links of emerging and canon entities that
// lead nowhere.
func (s *Store) CheckDanglingReferences(ctx context.Context) ([]Dangling, error) {
	var out []Dangling
	n := &linker{s: s}
	for _, layer := range []Layer{Emerging, Canon} {
		for e, err := range s.find(ctx, map[string]string{"layer": string(layer)}, "", linksBy...) {
			if err != nil {
				return nil, err
			}
			list, err := n.dangling(ctx, e.Entity)
			if err != nil {
				return nil, err
			}
			out = append(out, list...)
		}
	}
	return out, nil
}

func (n *linker) dangling(ctx context.Context, e *Entity) ([]Dangling, error) {
	var out []Dangling
	for _, r := range e.references() {
		switch _, err := n.resolve(ctx, e, &r); {
		case errors.Is(err, ErrNotFound):
			out = append(out, Dangling{e.Type + "/" + e.ID, e.Layer, r.To, r.Type})
		case err != nil:
			return nil, err
		}
	}
	return out, nil
}
