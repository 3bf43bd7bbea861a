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

// GovernancePrefix is that of the records of decisions about canon. They are to
// travel with the documents: who opens a vault says that they are files, so that
// git has both.
const GovernancePrefix = "_governance/"

// canonPrefix is that of records from before decisions: the digest of a canon
// document, as it was with its body unfolded.
const canonPrefix = "_canon/"

// decision is the value of _governance/<type>/<id>/<decision>: what a person has
// decided about a canon entry. It never changes. The last segment of the key is
// a digest of the value, so that two decisions made apart have two keys, one
// made twice has one, and damage shows.
type decision struct {
	V           int      `json:"v"`  // of this format
	Op          string   `json:"op"` // of a [Version]
	Reviewer    string   `json:"reviewer"`
	At          string   `json:"at"`
	Reason      string   `json:"reason,omitempty"`
	Type        string   `json:"type"`
	ID          string   `json:"id"`
	Holds       bool     `json:"holds"`            // from then on
	Digest      string   `json:"digest,omitempty"` // [Entity.Digest] of the document; "" if there was none
	By          string   `json:"superseded_by,omitempty"`
	Origin      string   `json:"origin,omitempty"` // the proposal
	Team        string   `json:"team,omitempty"`
	Enforcement string   `json:"enforcement,omitempty"`
	Condition   string   `json:"condition,omitempty"`
	Follows     []string `json:"follows,omitempty"` // the decisions about the entry that it knew as the last ones

	name  string // the last segment of its key
	value []byte // as it is stored
}

// judged returns a decision about an entity as it is.
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

// decisionName is made of the canonical form, in which the ends of lines that
// git changes on some systems do not count.
func decisionName(value []byte) (string, error) {
	canonical, err := storage.Canonical(value)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:16]), nil
}

// decodeDecision reads what is under a key that names an entry and a decision.
func decodeDecision(key, name string, value []byte) (*decision, error) {
	sum, err := decisionName(value)
	if err != nil || sum != name {
		return nil, errors.New("it is not what was written under its name")
	}
	d := &decision{name: name}
	if err := json.Unmarshal(value, d); err != nil {
		return nil, errors.New("it is not a decision")
	}
	if d.V != 1 {
		return nil, fmt.Errorf("it has format %d, which this program does not know", d.V)
	}
	if d.Type+"/"+storage.EscapeSegment(d.ID) != key {
		return nil, errors.New("it is about another entry")
	}
	return d, nil
}

// decision is decodeDecision, but for a value that was read before. All that is
// kept is in the store as well, or was.
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

// standing is what was decided about a canon entry.
type standing struct {
	key     string
	heads   []*decision // those that no other follows, by name
	damaged []string    // keys of records that no decision follows and that cannot be read
	path    string      // of the first of those, where one is known
	old     bool        // there is a record from before decisions, which the next decision replaces
	rivals  []string    // type/id of others in force that were made of the same proposal
}

func (st *standing) kind() string {
	kind, _, _ := strings.Cut(st.key, "/")
	return kind
}

// retired reports whether it is beyond doubt that the entry no longer holds.
func (st *standing) retired() bool {
	return len(st.heads) > 0 && len(st.damaged) == 0 && !st.holds() && st.agrees()
}

// holds reports whether the entry is in force by one of the last decisions.
func (st *standing) holds() bool {
	return slices.ContainsFunc(st.heads, func(d *decision) bool { return d.Holds })
}

// agrees reports whether the last decisions do not contradict each other.
func (st *standing) agrees() bool {
	for _, d := range st.heads {
		first := st.heads[0]
		if d.Holds != first.Holds || d.Holds && d.Digest != first.Digest || !d.Holds && d.By != first.By {
			return false
		}
	}
	return true
}

// knows reports whether a document is what one of the last decisions was about;
// st may be nil.
func (st *standing) knows(e *Entity) bool {
	sum := e.Digest()
	return st != nil && sum != "" && slices.ContainsFunc(st.heads, func(d *decision) bool { return d.Digest == sum })
}

// ledger is what was decided about canon entries, by their keys.
type ledger map[string]*standing

// ledger reads the decisions about the entries of a type, or of all types. What
// cannot be read is part of it; an error means that it could not look.
func (s *Store) ledger(ctx context.Context, kind string) (ledger, error) {
	l := make(ledger)
	followed := make(map[string]bool) // keys of decisions
	about := func(record string) (key, name string, ok bool) {
		parts := strings.SplitN(record[len(GovernancePrefix):], "/", 3)
		if len(parts) < 3 {
			return "", "", false // a file of somebody else's
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

// findRivals notes which entries in force were made of one proposal.
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
// that about the document with its digest, as it is or as the history has it. It
// is nil if neither has that. Whoever converts it makes the same of it.
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

// wasDigest reports whether a document is what a record from before decisions
// has the digest of: as it is, or with or without the newline at the end of its
// body, which files had in their body then.
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

// plainName is a key as people write it: type/id.
func plainName(key string) string {
	id, kind, err := idOf(key)
	if err != nil {
		return key
	}
	return kind + "/" + id
}

// last returns one of the last decisions, one that says that the entry holds if
// there is one. There may be none that can be read.
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

// decide plans the record of a decision about the entry of a key. It follows all
// that were the last ones, also those that cannot be read, and takes the place of a
// record from before decisions.
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

// add plans the record of a decision. It goes before the documents: where readers may
// see a batch in progress, who has read a document of it then reads what was decided
// about that, and who has not plans on a version that is gone.
func (b *batch) add(key string, d *decision) error {
	value, name, err := d.encode()
	if err == nil {
		b.ops = slices.Insert(b.ops, 0, storage.Put(GovernancePrefix+key+"/"+name, value).IfAbsent())
	}
	return err
}

// convert plans that decisions take the place of a record from before them.
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

// convertAll makes decisions of all records from before them, each in a batch of
// its own, and returns how many. What such a record ratified may be nowhere any
// more: then it stays, for it says that somebody has decided.
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
