package soma

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stratamem/strata/storage"
)

// GovernancePrefix begins the keys of decisions about canon. Decisions must
// travel with the documents: whoever opens a vault declares this prefix as
// files, so that git has both.
const GovernancePrefix = "_governance/"

// canonPrefix begins the keys of records from before there were decisions. Each
// holds the digest of a canon document with its body unfolded.
const canonPrefix = "_canon/"

// decision is the value of _governance/<type>/<id>/<decision>: what a person
// decided about a canon entry. It never changes. The last segment of the key is
// a digest of the value, so that two decisions made independently have two
// keys, the same decision made twice has one, and damage is detected.
type decision struct {
	V           int      `json:"v"`  // of this format
	Op          string   `json:"op"` // of a [Version]
	Reviewer    string   `json:"reviewer"`
	At          string   `json:"at"`
	Reason      string   `json:"reason,omitempty"`
	Type        string   `json:"type"`
	ID          string   `json:"id"`
	Holds       bool     `json:"holds"`            // whether the entry is in force from then on
	Digest      string   `json:"digest,omitempty"` // [Entity.Digest] of the document; "" if there was none
	By          string   `json:"superseded_by,omitempty"`
	Origin      string   `json:"origin,omitempty"` // the proposal it was made from
	Team        string   `json:"team,omitempty"`
	Enforcement string   `json:"enforcement,omitempty"`
	Condition   string   `json:"condition,omitempty"`
	Follows     []string `json:"follows,omitempty"` // the latest decisions about the entry that it was based on

	name  string // the last segment of its key
	value []byte // as it is stored
}

// judged returns a decision about an entity in its present form.
func judged(e *Entity) decision {
	return decision{
		V: 1, Type: e.Type, ID: e.ID, Holds: holds(e), Digest: e.Digest(), Origin: e.Text(FieldOrigin), Team: e.Team,
		Enforcement: e.Text("enforcement"), Condition: e.condition(),
	}
}

// encode returns the value of a decision and the last segment of its key.
func (d *decision) encode() (value []byte, name string, err error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(d); err != nil {
		return nil, "", err
	}
	name, err = decisionName(b.Bytes())
	return b.Bytes(), name, err
}

// decisionName hashes the canonical form, in which line endings, which git
// changes on some systems, do not count.
func decisionName(value []byte) (string, error) {
	canonical, err := storage.Canonical(value)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:16]), nil
}

// decodeDecision decodes the value of a key that names an entry and a decision.
func decodeDecision(key, name string, value []byte) (*decision, error) {
	sum, err := decisionName(value)
	if err != nil || sum != name {
		return nil, errors.New("it is not what was written under its name")
	}
	d := &decision{name: name}
	if err := json.Unmarshal(value, d); err != nil {
		return nil, errors.New("it is no decision")
	}
	if d.V != 1 {
		return nil, fmt.Errorf("it has format %d, which this program does not know", d.V)
	}
	if d.Type+"/"+storage.EscapeSegment(d.ID) != key {
		return nil, errors.New("it is about another entry")
	}
	return d, nil
}

// decision is decodeDecision with a cache. Everything it keeps is, or was, in
// the store as well.
func (s *Store) decision(record, key, name string, value []byte) (*decision, error) {
	if v, ok := s.decisions.Load(record); ok && bytes.Equal(v.(*decision).value, value) {
		return v.(*decision), nil
	}
	d, err := decodeDecision(key, name, value)
	if err != nil {
		return nil, err
	}
	d.value = value
	s.decisions.Store(record, d)
	return d, nil
}

// standing is everything that was decided about a canon entry.
type standing struct {
	key     string
	heads   []*decision // those that no other follows, by name
	damaged []string    // keys of unreadable records that no decision follows
	path    string      // of the first of those, where known
	old     bool        // whether there is a record from before decisions, which the next decision replaces
	rivals  []string    // type/id of other entries in force made from the same proposal
}

func (st *standing) kind() string {
	kind, _, _ := strings.Cut(st.key, "/")
	return kind
}

// retired reports whether the entry is beyond doubt no longer in force.
func (st *standing) retired() bool {
	return len(st.heads) > 0 && len(st.damaged) == 0 && !st.holds() && st.agrees()
}

// holds reports whether one of the latest decisions puts the entry in force.
func (st *standing) holds() bool {
	return slices.ContainsFunc(st.heads, func(d *decision) bool { return d.Holds })
}

// agrees reports whether the latest decisions are consistent.
func (st *standing) agrees() bool {
	for _, d := range st.heads {
		first := st.heads[0]
		if d.Holds != first.Holds || d.Holds && d.Digest != first.Digest || !d.Holds && d.By != first.By {
			return false
		}
	}
	return true
}

// knows reports whether one of the latest decisions was about this very
// document; st may be nil.
func (st *standing) knows(e *Entity) bool {
	sum := e.Digest()
	return st != nil && sum != "" && slices.ContainsFunc(st.heads, func(d *decision) bool { return d.Digest == sum })
}

// ledger holds what was decided about canon entries, by key.
type ledger map[string]*standing

// ledger reads the decisions about entries of one type or of all types.
// Unreadable records are part of the result; an error means that reading
// failed.
func (s *Store) ledger(ctx context.Context, kind string) (ledger, error) {
	l := make(ledger)
	followed := make(map[string]bool) // keys of decisions
	about := func(record string) (key, name string, ok bool) {
		parts := strings.SplitN(record[len(GovernancePrefix):], "/", 3)
		if len(parts) < 3 {
			return "", "", false // a foreign file
		}
		return parts[0] + "/" + parts[1], parts[2], true
	}
	at := func(key string) *standing {
		if l[key] == nil {
			l[key] = &standing{key: key}
		}
		return l[key]
	}
	if kind != "" {
		kind += "/"
	}
	for record, err := range s.db.List(ctx, GovernancePrefix+kind) {
		if err != nil {
			return nil, fmt.Errorf("read decisions: %w", err)
		}
		key, name, ok := about(record)
		if !ok {
			continue
		}
		value, _, err := s.db.Get(ctx, record)
		if errors.Is(err, ErrNotFound) {
			continue // deleted meanwhile
		}
		var d *decision
		if err == nil {
			d, err = s.decision(record, key, name, value)
		} else if !errors.Is(err, storage.ErrCorrupt) {
			return nil, fmt.Errorf("read decisions: %w", err)
		}
		st := at(key)
		if err != nil {
			if damage, ok := errors.AsType[*storage.CorruptError](err); ok {
				st.path = cmp.Or(st.path, damage.Path)
			}
			st.damaged = append(st.damaged, record)
			continue
		}
		st.heads = append(st.heads, d)
		for _, name := range d.Follows {
			followed[GovernancePrefix+key+"/"+name] = true
		}
	}
	for key, st := range l {
		st.heads = slices.DeleteFunc(st.heads, func(d *decision) bool { return followed[GovernancePrefix+key+"/"+d.name] })
		st.damaged = slices.DeleteFunc(st.damaged, func(record string) bool { return followed[record] })
	}
	for record, err := range s.db.List(ctx, canonPrefix+kind) {
		if err != nil {
			return nil, fmt.Errorf("read decisions: %w", err)
		}
		key := record[len(canonPrefix):]
		if l[key] != nil {
			continue
		}
		st := at(key)
		sum, _, err := s.db.Get(ctx, record)
		if err != nil && !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("read decisions: %w", err)
		}
		st.old = true
		d, err := s.ratified(ctx, key, string(sum))
		if err != nil {
			return nil, err
		}
		if d != nil {
			st.heads = []*decision{d}
		}
	}
	l.findRivals()
	return l, nil
}

// findRivals notes which entries in force were made from the same proposal.
func (l ledger) findRivals() {
	made := make(map[string][]*standing)
	for _, st := range l {
		origins := make(map[string]bool)
		for _, d := range st.heads {
			if d.Holds && d.Origin != "" {
				origins[bareID(d.Origin)] = true
			}
		}
		for origin := range origins {
			made[origin] = append(made[origin], st)
		}
	}
	for _, list := range made {
		for _, st := range list {
			for _, other := range list {
				if other != st && !slices.Contains(st.rivals, plainName(other.key)) {
					st.rivals = append(st.rivals, plainName(other.key))
				}
			}
			slices.Sort(st.rivals)
		}
	}
}

// ratified returns the decision that a record from before decisions stands for:
// a decision about the document with that digest, be it the current one or one
// in the history. It is nil if there is none. The result does not depend on who
// converts the record.
func (s *Store) ratified(ctx context.Context, key, sum string) (*decision, error) {
	made := func(e *Entity) (*decision, error) {
		e.Body = fold(e.Body)
		d := judged(e)
		d.Op, d.Reviewer, d.At = OpMigrate, e.Text(FieldRatifiedBy), e.Text(FieldRatifiedAt)
		var err error
		_, d.name, err = d.encode()
		return &d, err
	}
	document, _, err := s.db.Get(ctx, key)
	if err == nil && wasDigest(document, sum) {
		e, err := decode(key, document)
		if err == nil {
			return made(e)
		}
	}
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, storage.ErrCorrupt) {
		return nil, fmt.Errorf("read decisions: %w", err)
	}
	for v, err := range s.versions(ctx, key, &storage.ScanOptions{Reverse: true}) {
		if errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrFormat) || errors.Is(err, storage.ErrNewer) {
			break
		}
		if err != nil {
			return nil, err
		}
		if v.Digest == sum && v.Entity != nil {
			return made(v.Entity)
		}
	}
	return nil, nil
}

// wasDigest reports whether sum, from a record older than decisions, is the
// digest of a document as it is, or with or without the newline at the end of
// its body, which used to be part of the body of a file.
func wasDigest(document []byte, sum string) bool {
	is := func(document []byte) bool {
		was, err := digest(document)
		return err == nil && was == sum
	}
	if is(document) {
		return true
	}
	var all map[string]json.RawMessage
	var body string
	if json.Unmarshal(document, &all) != nil || json.Unmarshal(all["body"], &body) != nil {
		return false
	}
	for _, text := range []string{body + "\n", strings.TrimSuffix(body, "\n")} {
		value, err := json.Marshal(text)
		if err != nil {
			return false
		}
		all["body"] = value
		if other, err := json.Marshal(all); err == nil && is(other) {
			return true
		}
	}
	return false
}

// plainName returns a key as people write it: type/id.
func plainName(key string) string {
	id, kind, err := idOf(key)
	if err != nil {
		return key
	}
	return kind + "/" + id
}

// last returns one of the latest decisions, preferring one that puts the entry
// in force. None may be readable.
func (st *standing) last() decision {
	d := decision{V: 1}
	d.ID, d.Type, _ = idOf(st.key)
	for _, head := range st.heads {
		if d.Digest == "" || head.Holds {
			d = *head
		}
	}
	return d
}

// decide plans the record of a decision about the entry of a key. The decision
// follows all latest ones, unreadable ones included, and replaces a record from
// before decisions.
func (b *batch) decide(ctx context.Context, reviewer Actor, key string, d decision, op, reason string) error {
	l, err := b.s.ledger(ctx, d.Type)
	if err != nil {
		return err
	}
	for other, st := range l {
		if d.Holds && d.Origin != "" && other != key && slices.ContainsFunc(st.heads, func(h *decision) bool { return h.Holds && bareID(h.Origin) == bareID(d.Origin) }) {
			return &GovernanceError{d.ID, fmt.Sprintf("the same proposal became %s, which holds: retire that first", plainName(other))}
		}
	}
	d.Op, d.Reviewer, d.At, d.Reason, d.Follows = op, reviewer.Name, formatTime(b.s.now()), reason, nil
	if st := l[key]; st != nil {
		if err := b.convert(st); err != nil {
			return err
		}
		for _, head := range st.heads {
			d.Follows = append(d.Follows, head.name)
		}
		for _, record := range st.damaged {
			d.Follows = append(d.Follows, record[len(GovernancePrefix+key+"/"):])
		}
	}
	return b.add(key, &d)
}

// add plans the record of a decision. It goes before the documents: where
// readers can see a batch in progress, whoever has read one of its documents
// then also reads the decision about it, and whoever has not plans on a version
// that is gone.
func (b *batch) add(key string, d *decision) error {
	value, name, err := d.encode()
	if err == nil {
		b.ops = slices.Insert(b.ops, 0, storage.Put(GovernancePrefix+key+"/"+name, value).IfAbsent())
	}
	return err
}

// convert plans to replace a record from before decisions by decisions.
func (b *batch) convert(st *standing) error {
	if !st.old {
		return nil
	}
	for _, d := range st.heads {
		if err := b.add(st.key, d); err != nil {
			return err
		}
	}
	b.ops = append(b.ops, storage.Remove(canonPrefix+st.key))
	return nil
}

// convertAll turns all records from before decisions into decisions, each in a
// batch of its own, and returns how many. If what such a record ratified no
// longer exists anywhere, the record stays, because it still says that somebody
// decided.
func (s *Store) convertAll(ctx context.Context) (n int, lost []string, err error) {
	l, err := s.ledger(ctx, "")
	if err != nil {
		return 0, nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(l)) {
		if !l[key].old {
			continue
		}
		made := false
		err := s.change(ctx, func(b *batch) error {
			now, err := s.ledger(ctx, l[key].kind())
			if err != nil {
				return err
			}
			st := now[key]
			if made = st != nil && st.old && len(st.heads) > 0; !made {
				return nil
			}
			return b.convert(st)
		})
		switch {
		case err != nil:
			return n, lost, err
		case made:
			n++
		default:
			lost = append(lost, plainName(key))
		}
	}
	return n, lost, nil
}
