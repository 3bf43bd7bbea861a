package soma

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stratamem/strata/internal/jsonvalue"
	"github.com/stratamem/strata/storage"
)

// Entity is what is known of one thing. Its document has the wire names of the
// fields: type, id, name, status, layer, source_worker, created, updated, tags,
// related, team_id, decay_at, body, and those of Fields.
type Entity struct {
	Type   string // [a-z][a-z0-9-]*; never changes
	ID     string // unique across all types; never changes
	Name   string
	Status string // of the type's list
	Layer  Layer
	// SourceWorker is who made the entity: the name of a worker, or "person".
	SourceWorker string
	Created      time.Time // never changes
	Updated      time.Time // grows with every change
	Tags         []string
	Related      []string // type/id of others
	Team         string   // only its team sees the entity; empty: all
	DecayAt      time.Time
	Body         string // Markdown; [[type/id]] links
	// Fields are all others by their wire names, as encoding/json decodes them,
	// with json.Number for numbers. A field of the struct whose value in the
	// document is of another kind, as a person may write it, is here too.
	Fields map[string]any

	// Unratified is set by reads for a canon document that no reviewer has
	// ratified as it is. It is no field of the document.
	Unratified bool
}

// Names of fields that are not of the struct.
const (
	FieldConfidence     = "confidence_score" // of emerging, in [0, 1]
	FieldEvidence       = "evidence_links"   // of emerging: a list of ids, wikilinks or [Evidence]
	FieldProposalStatus = "proposal_status"  // of emerging: pending, promoted, rejected
	FieldRatifiedBy     = "ratified_by"      // of canon
	FieldRatifiedAt     = "ratified_at"      // of canon
	FieldOrigin         = "origin_l3_id"     // of canon: the proposal
	FieldDecayedFrom    = "decayed_from"     // of archive: working or emerging
)

const (
	timeLayout = "2006-01-02T15:04:05.000Z"
	maxID      = 256 // bytes, escaped
)

// statuses of the types that are known; the first is the default. Other types
// have the one status active.
var statuses = map[string][]string{
	"agent":         {"active", "inactive", "deprecated", "proposed"},
	"archetype":     {"active", "inactive", "deprecated", "proposed"},
	"execution":     {"completed", "failed", "running", "pending"},
	"insight":       {"active", "superseded", "rejected"},
	"policy":        {"active", "draft", "deprecated", "enforcing"},
	"decision":      {"active", "superseded", "reversed", "flagged"},
	"assumption":    {"active", "validated", "invalidated"},
	"constraint":    {"active", "resolved", "deprecated"},
	"contradiction": {"active", "resolved"},
	"synthesis":     {"active", "superseded"},
}

// Statuses returns the statuses that an entity of a type may have, the default
// first.
func Statuses(kind string) []string {
	if list, ok := statuses[kind]; ok {
		return slices.Clone(list)
	}
	return []string{"active"}
}

// Types returns the types that mean something to this package, in order. Others are
// types of knowledge as well.
func Types() []string { return slices.Sorted(maps.Keys(statuses)) }

// FieldError says what is wrong with a field of an entity.
type FieldError struct{ Field, Reason string }

func (e *FieldError) Error() string { return "field " + e.Field + ": " + e.Reason }

func fault(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}

// Key returns the key of the entity in the store.
func (e *Entity) Key() string { return e.Type + "/" + storage.EscapeSegment(e.ID) }

// Clone returns a copy that shares nothing but the values in Fields.
func (e *Entity) Clone() *Entity {
	c := *e
	c.Tags, c.Related, c.Fields = slices.Clone(e.Tags), slices.Clone(e.Related), maps.Clone(e.Fields)
	return &c
}

// Text returns a field of Fields that is a string, or "".
func (e *Entity) Text(field string) string {
	s, _ := e.Fields[field].(string)
	return s
}

// Number returns a field of Fields that is a number, and false if it is none.
func (e *Entity) Number(field string) (float64, bool) {
	switch v := e.Fields[field].(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}

// Confidence returns the confidence of a proposal, and false if it says none that
// is a number from 0 to 1, as in a file that a person wrote.
func (e *Entity) Confidence() (float64, bool) {
	c, ok := e.Number(FieldConfidence)
	if !ok || !(c >= 0 && c <= 1) { // NaN is neither
		return 0, false
	}
	return c, true
}

// Time returns a field of Fields that is a time, or the zero time.
func (e *Entity) Time(field string) time.Time {
	t, _ := parseTime(e.Text(field))
	return t
}

var zeroTime time.Time

func (e *Entity) set(field string, value any) {
	if e.Fields == nil {
		e.Fields = make(map[string]any)
	}
	e.Fields[field] = value
}

// Slug makes an id of a name: lower case, each run of what is no letter or digit
// of any script a hyphen, none at the ends.
func Slug(name string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(name) {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			gap = b.Len() > 0
			continue
		}
		if gap {
			b.WriteByte('-')
			gap = false
		}
		b.WriteRune(r)
	}
	return b.String()
}

// shortSlug is the slug of a name, cut so that there is room for more in an id.
func shortSlug(name string) string {
	const most = 120 // bytes, escaped
	s := Slug(name)
	for len(storage.EscapeSegment(s)) > most {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-min(size, len(s))]
		if len(s) > 2*most {
			s = strings.ToValidUTF8(s[:2*most], "")
		}
	}
	return strings.TrimRight(s, "-")
}

func parseTime(text string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

func formatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// encode returns the document of an entity.
func (e *Entity) encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	b.WriteByte('{')
	var failed error
	put := func(name string, value any) {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		for _, v := range []any{name, value} {
			if err := enc.Encode(v); err != nil && failed == nil {
				failed = fault(name, "it has no JSON form: %v", err)
			}
			b.Truncate(b.Len() - 1) // the newline
			b.WriteByte(':')
		}
		b.Truncate(b.Len() - 1)
	}
	had := make(map[string]bool)
	known := func(name string, value any, there bool) {
		if !there {
			return
		}
		had[name] = true
		put(name, value)
	}
	known("type", e.Type, true)
	known("id", e.ID, true)
	known("name", e.Name, e.Name != "")
	known("status", e.Status, e.Status != "")
	known("layer", e.Layer, e.Layer != "")
	known("source_worker", e.SourceWorker, e.SourceWorker != "")
	known("created", formatTime(e.Created), !e.Created.IsZero())
	known("updated", formatTime(e.Updated), !e.Updated.IsZero())
	known("team_id", e.Team, e.Team != "")
	known("decay_at", formatTime(e.DecayAt), !e.DecayAt.IsZero())
	known("tags", e.Tags, len(e.Tags) > 0)
	known("related", e.Related, len(e.Related) > 0)
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		if name != "body" && !had[name] {
			put(name, e.Fields[name])
		}
	}
	if e.Body != "" {
		put("body", e.Body)
	} else if v, ok := e.Fields["body"]; ok {
		put("body", v)
	}
	b.WriteByte('}')
	return b.Bytes(), failed
}

// decode reads the document of a key. What a person wrote oddly is kept in
// Fields. With names it sets those fields alone, and the layer, of a document that
// is checked as a whole.
func decode(key string, document []byte, names ...string) (*Entity, error) {
	kind, segment, _ := strings.Cut(key, "/")
	id, err := storage.UnescapeSegment(segment)
	if err != nil {
		return nil, fmt.Errorf("decode entity: %w", err)
	}
	if rule := jsonvalue.Check(document); rule != "" {
		return nil, fmt.Errorf("decode entity: %s", rule)
	}
	e := &Entity{Type: kind, ID: id}
	e.fill(document, names...)
	return e, nil
}

// fill sets the fields that a valid document has, or those with names.
func (e *Entity) fill(document []byte, names ...string) {
	for name, value := range jsonvalue.Of(document).Members() {
		if len(names) > 0 && string(name) != "layer" && !slices.Contains(names, string(name)) {
			continue
		}
		if !e.assign(name, value) {
			e.set(string(name), value.Any())
		}
	}
}

// reread returns an entity as it will be read once it is stored.
func (e *Entity) reread() (*Entity, error) {
	document, err := e.encode()
	if err != nil {
		return nil, err
	}
	c := &Entity{Type: e.Type, ID: e.ID}
	c.fill(document)
	return c, nil
}

// assign sets the field of the struct that has a name, and is false if there is
// none or the value is of another kind.
func (e *Entity) assign(name []byte, value jsonvalue.Value) (ok bool) {
	switch string(name) {
	case "type", "id":
		return true // the key says them
	case "name":
		return text(value, &e.Name)
	case "status":
		return text(value, &e.Status)
	case "layer":
		return text(value, (*string)(&e.Layer))
	case "source_worker":
		return text(value, &e.SourceWorker)
	case "team_id":
		return text(value, &e.Team)
	case "body":
		return text(value, &e.Body)
	case "created":
		return moment(value, &e.Created)
	case "updated":
		return moment(value, &e.Updated)
	case "decay_at":
		return moment(value, &e.DecayAt)
	case "tags":
		return texts(value, &e.Tags)
	case "related":
		return texts(value, &e.Related)
	}
	return false
}

func text(value jsonvalue.Value, to *string) bool {
	s, ok := value.Text()
	if ok {
		*to = s
	}
	return ok
}

func moment(value jsonvalue.Value, to *time.Time) bool {
	s, _ := value.Text()
	t, ok := parseTime(s)
	if ok {
		*to = t
	}
	return ok
}

func texts(value jsonvalue.Value, to *[]string) bool {
	if !value.IsList() {
		return false
	}
	list := []string{}
	for v := range value.Elements() {
		s, ok := v.Text()
		if !ok {
			return false
		}
		list = append(list, s)
	}
	*to = list
	return true
}

// digest of a document: hex SHA-256 of its canonical form.
func digest(document []byte) (string, error) {
	canonical, err := storage.Canonical(document)
	if err != nil {
		return "", err
	}
	return hexSum(canonical), nil
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Digest names what the entity says, as a reviewer reads it: hex SHA-256 of
// storage.Canonical of its document, with the body folded: CRLF is LF, and the
// blanks at the ends of lines and the newlines at the end do not count, because
// editors change them. All else does, strings in fields to the byte, so that what
// was read and what is decided can be compared. It is "" for an entity with a
// field that has no JSON form, which no entity of a store has.
func (e *Entity) Digest() string {
	c := *e
	c.Body = fold(e.Body)
	document, err := c.encode()
	if err != nil {
		return ""
	}
	sum, err := digest(document)
	if err != nil {
		return ""
	}
	return sum
}

// fold returns a text without what editors change unasked.
func fold(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(strings.TrimRight(line, " \t\r"))
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), "\n")
}

// same reports whether two entities are equal but for what the store stamps:
// their times, the digests of what they cite, and the form of links.
func same(a, b *Entity) bool {
	x, err1 := unstamped(a)
	y, err2 := unstamped(b)
	return err1 == nil && err2 == nil && x == y
}

func unstamped(e *Entity) (string, error) {
	c := e.Clone()
	c.Created, c.Updated, c.DecayAt = time.Time{}, time.Time{}, time.Time{}
	delete(c.Fields, FieldRatifiedAt)
	if list, ok := evidenceOf(c); ok {
		bare := make([]any, len(list))
		for i, v := range list {
			bare[i] = v.ID
		}
		c.set(FieldEvidence, bare)
		delete(c.Fields, fieldDigests)
	}
	if refs := c.refs(fieldContradicts); len(refs) > 0 {
		for i := range refs {
			refs[i] = bareID(refs[i])
		}
		c.set(fieldContradicts, refs)
	}
	document, err := c.encode()
	if err != nil {
		return "", err
	}
	return digest(document)
}
