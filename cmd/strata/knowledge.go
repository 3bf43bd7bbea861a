package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

// envActor names the person in whose name verbs change knowledge, if --as does
// not. $USER is not asked: it is the name of an account, often root or that of a
// build, and what it decided would be on nobody's record.
const envActor = "STRATA_AS"

// actorFlag adds the flag that says who changes something.
func actorFlag(cmd *cobra.Command, as *string) {
	cmd.Flags().StringVar(as, "as", "", "the person who does it: a name for the record (default $"+envActor+")")
}

// person returns who changes something, and wants a name.
func (t *tool) person(verb, as string) (soma.Actor, error) {
	name := strings.TrimSpace(cmp.Or(as, t.env(envActor)))
	switch {
	case name == "":
		return soma.Actor{}, usagef("%s: --as is missing: say who does it, by --as NAME or $%s", verb, envActor)
	case !utf8.ValidString(name) || escape(name, false) != name:
		return soma.Actor{}, usagef("%s: --as has characters that cannot be shown", verb)
	}
	return soma.Person(name), nil
}

// readKnowledge opens the store of entities that a flag names, and has f read
// it. It makes no store where there is none. f may be run twice, the first time
// without having printed: a store whose fields are not declared, or whose
// index does not have what people wrote by hand, is opened for writing.
func readKnowledge(ctx context.Context, verb, db string, f func(s *soma.Store) error) error {
	read := func(store storage.Adapter) error { return onKnowledge(ctx, store, f) }
	err := inspect(ctx, verb, db, read)
	if !errors.Is(err, storage.ErrReadOnly) {
		return err
	}
	return writeKnowledge(ctx, verb, db, func(s *soma.Store, _ storage.Adapter) error { return f(s) })
}

// writeKnowledge opens the store of entities that a flag names, and has f change
// it. It makes no store where there is none.
func writeKnowledge(ctx context.Context, verb, db string, f func(s *soma.Store, store storage.Adapter) error) error {
	if path := storePath(db); db != "" && path != "" {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w: name one that is there: 'strata vault new' makes one", verb, err)
		}
	}
	return makeKnowledge(ctx, verb, db, f)
}

// makeKnowledge is writeKnowledge that makes a store where there is none.
func makeKnowledge(ctx context.Context, verb, db string, f func(s *soma.Store, store storage.Adapter) error) (err error) {
	switch {
	case db == "":
		return usagef("%s: --db is missing: name the %s", verb, dbHelp)
	case storePath(db) == "":
		return usagef("%s: a mem: store is empty and forgets: name a store that lasts", verb)
	}
	store, err := openStore(ctx, db)
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := onKnowledge(ctx, store, func(s *soma.Store) error { return f(s, store) }); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}

func onKnowledge(ctx context.Context, store storage.Adapter, f func(s *soma.Store) error) (err error) {
	s, err := soma.Open(ctx, store, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return hint(f(s))
}

// hint adds to an error about an entity what can be done about it.
func hint(err error) error {
	if _, ok := errors.AsType[*soma.GovernanceError](err); ok {
		return fmt.Errorf("%w: 'strata review list' shows what waits, 'strata vault history ID' who has decided", err)
	}
	if errors.Is(err, soma.ErrNotFound) {
		return fmt.Errorf("%w: 'strata vault list' shows what there is", err)
	}
	if errors.Is(err, soma.ErrExists) {
		return fmt.Errorf("%w: give another by --id", err)
	}
	return err
}

// momentFlag reads the value of a flag that is a day, a time or how long ago it
// was.
func momentFlag(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usagef("%s %q is no time: use 2026-01-31, 2026-01-31T08:00:00Z or 90m", flag, text)
}

// knownLayer wants one of the layers, or none.
func knownLayer(verb, layer string) (soma.Layer, error) {
	if layer != "" && !slices.Contains(soma.Layers, soma.Layer(layer)) {
		return "", usagef("%s: there is no layer %q: there are archive, working, emerging and canon", verb, layer)
	}
	return soma.Layer(layer), nil
}

// entityName is how verbs name an entity, and take its name.
func entityName(e *soma.Entity) string { return e.Type + "/" + e.ID }

// documentOf returns an entity by the names of its document. One that is
// quarantined has the member unratified as well.
func documentOf(e *soma.Entity) map[string]any {
	m := make(map[string]any, len(e.Fields)+12)
	maps.Copy(m, e.Fields)
	m["type"], m["id"] = e.Type, e.ID
	for name, text := range map[string]string{
		"name": e.Name, "status": e.Status, "layer": string(e.Layer), "source_worker": e.SourceWorker,
		"team_id": e.Team, "body": e.Body,
	} {
		if text != "" {
			m[name] = text
		}
	}
	for name, at := range map[string]time.Time{"created": e.Created, "updated": e.Updated, "decay_at": e.DecayAt} {
		if !at.IsZero() {
			m[name] = at.UTC().Format("2006-01-02T15:04:05.000Z")
		}
	}
	for name, list := range map[string][]string{"tags": e.Tags, "related": e.Related} {
		if len(list) > 0 {
			m[name] = list
		}
	}
	if e.Unratified {
		m["unratified"] = true
	}
	return m
}

// fieldText is a value of a document for people, on one line.
func fieldText(v any) string {
	if s, ok := v.(string); ok {
		return escape(s, false)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return escape(fmt.Sprint(v), false)
	}
	return escape(strings.TrimSuffix(b.String(), "\n"), false)
}

// newOptions are the flags of vault new.
type newOptions struct {
	db, as              string
	id, layer, status   string
	team, body          string
	confidence          float64
	evidence            []string
	tags, related, sets []string
	json                bool
}

func vaultNewCommand(t *tool) *cobra.Command {
	var o newOptions
	cmd := &cobra.Command{
		Use:   "new TYPE NAME",
		Short: "Write down an entity of the knowledge store",
		Long: `Writes down an entity: an insight, a decision, a policy, an assumption or whatever
else, and prints its type and id. A store is made where there is none. Without
--id the id is made of the name. The same entity again is not written twice.

The layer is archive (what happened; the default), working (what a team is at:
wants --team) or emerging (a proposal: wants --confidence and --evidence). Nobody
writes to canon: what is there was promoted, by 'strata review promote'.

The value of a --field is JSON if it can be read as such, else text: n=3 is a
number, n='"3"' a text, and so is n=three.`,
		Example: `  strata vault new execution 'Deploy 41 timed out' --db vault:notes --as anna
  strata vault new insight 'Deploys fail on Fridays' --db vault:notes --as anna \
      --layer emerging --confidence 0.8 --evidence deploy-41-timed-out --tag deploy
  strata vault new decision 'Move to Postgres' --db agent.db --as anna --body - < decision.md`,
		Args: exactly(2, "a type and a name (in quotes)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			actor, err := t.person("vault new", o.as)
			if err != nil {
				return err
			}
			e, err := o.entity(cmd, t.in, args[0], args[1])
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			return makeKnowledge(ctx, "vault new", o.db, func(s *soma.Store, _ storage.Adapter) error {
				return t.vaultNew(ctx, s, actor, e, o.json)
			})
		},
	}
	dbFlag(cmd, &o.db, dbHelp+" (required)")
	actorFlag(cmd, &o.as)
	f := cmd.Flags()
	f.StringVar(&o.id, "id", "", "its id (default made of the name)")
	f.StringVar(&o.layer, "layer", string(soma.Archive), "archive, working or emerging")
	f.StringVar(&o.status, "status", "", "its status (default the type's first)")
	f.StringVar(&o.team, "team", "", "the team that alone sees it (default all)")
	f.StringVar(&o.body, "body", "", "its text, Markdown with [[type/id]] links; - reads standard input")
	f.Float64Var(&o.confidence, "confidence", 0, "of a proposal: from 0 to 1")
	f.StringArrayVar(&o.evidence, "evidence", nil, "of a proposal: the id of what it rests on (may be repeated)")
	f.StringArrayVar(&o.tags, "tag", nil, "a tag (may be repeated)")
	f.StringArrayVar(&o.related, "related", nil, "type/id of a related entity (may be repeated)")
	f.StringArrayVar(&o.sets, "field", nil, "another field, as name=value (may be repeated)")
	f.BoolVar(&o.json, "json", false, "print the entity as JSON")
	return cmd
}

// entity returns what the flags describe.
func (o *newOptions) entity(cmd *cobra.Command, in io.Reader, kind, name string) (*soma.Entity, error) {
	layer, err := knownLayer("vault new", o.layer)
	if err != nil {
		return nil, err
	}
	fields, err := parseFields("vault new", "--field", o.sets)
	if err != nil {
		return nil, err
	}
	switch proposal := cmd.Flags().Changed("confidence") || len(o.evidence) > 0; {
	case layer == soma.Canon:
		return nil, usagef("vault new: canon is not written: propose it in emerging, and have 'strata review promote' make it canon")
	case layer == soma.Working && o.team == "":
		return nil, usagef("vault new: --team is missing: the working layer is a team's")
	case layer == soma.Emerging && (!cmd.Flags().Changed("confidence") || len(o.evidence) == 0):
		return nil, usagef("vault new: a proposal wants --confidence, from 0 to 1, and --evidence, which may be repeated")
	case layer != soma.Emerging && proposal:
		return nil, usagef("vault new: --confidence and --evidence are of --layer emerging")
	}
	if o.body == "-" {
		text, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("vault new: read standard input: %w", err)
		}
		o.body = string(text)
	}
	if !utf8.ValidString(name) || !utf8.ValidString(o.body) {
		return nil, usagef("vault new: the text is not UTF-8")
	}
	if layer == soma.Emerging {
		links := make([]any, len(o.evidence))
		for i, id := range o.evidence {
			links[i] = id
		}
		fields[soma.FieldConfidence], fields[soma.FieldEvidence] = o.confidence, links
	}
	return &soma.Entity{
		Type: kind, ID: o.id, Name: name, Status: o.status, Layer: layer, Team: o.team, Body: o.body,
		Tags: o.tags, Related: o.related, Fields: fields,
	}, nil
}

// ownFlags are the fields of a document that are no fields to be set, with what
// sets them; there are also those that [soma.Reserved] has.
var ownFlags = map[string]string{
	"type": "the first argument", "name": "the second argument", "id": "--id", "status": "--status", "layer": "--layer",
	"team_id": "--team", "body": "--body", "tags": "--tag", "related": "--related",
	soma.FieldConfidence: "--confidence", soma.FieldEvidence: "--evidence",
}

// parseFields reads name=value.
func parseFields(verb, flag string, sets []string) (map[string]any, error) {
	fields := make(map[string]any, len(sets))
	for _, set := range sets {
		name, text, ok := strings.Cut(set, "=")
		if !ok || name == "" || !utf8.ValidString(set) {
			return nil, usagef("%s: %s %q is not name=value", verb, flag, set)
		}
		if by := cmp.Or(ownFlags[name], soma.Reserved(name)); by != "" && flag == "--field" {
			return nil, usagef("%s: %s is set by %s", verb, name, by)
		}
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var value any
		if d.Decode(&value) != nil || d.More() || value == nil {
			value = text
		}
		fields[name] = value
	}
	return fields, nil
}

func (t *tool) vaultNew(ctx context.Context, s *soma.Store, actor soma.Actor, e *soma.Entity, asJSON bool) error {
	switch e.Layer {
	case soma.Working:
		e.DecayAt = s.ComputeL2DecayAt(time.Now())
	case soma.Emerging:
		e.DecayAt = s.ComputeL3DecayAt(time.Now())
	}
	made, err := s.As(actor).Create(ctx, e)
	if err != nil {
		return err
	}
	_, cited, err := s.Evidence(ctx, entityName(made))
	if err != nil {
		return err
	}
	for _, c := range cited {
		if c.Entity == nil {
			fmt.Fprintf(t.err, "strata: the evidence %s is not there\n", escape(c.ID, false))
		}
	}
	if asJSON {
		return printJSON(t.out, documentOf(made))
	}
	_, err = fmt.Fprintln(t.out, escape(entityName(made), false))
	return err
}

func vaultLinkCommand(t *tool) *cobra.Command {
	var db, as, kind string
	var sets []string
	cmd := &cobra.Command{
		Use:   "link FROM TO",
		Short: "Say how an entity relates to another",
		Long: `Adds a typed relation from an entity to another, or replaces the properties of the
one that is there. The type is a word of your own, such as blocks or contradicts:
'strata review' shows what canon a proposal contradicts.

Both are named by id, or by type/id. Canon is not edited: a relation goes from
the other one to it.`,
		Example: "  strata vault link insight/no-friday-deploys insight/deploy-daily --type contradicts --db vault:notes --as anna",
		Args:    exactly(2, "two entities"),
		RunE: func(cmd *cobra.Command, args []string) error {
			actor, err := t.person("vault link", as)
			if err != nil {
				return err
			}
			if kind == "" {
				return usagef("vault link: --type is missing: a word that says how they relate")
			}
			properties, err := parseFields("vault link", "--property", sets)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			return writeKnowledge(ctx, "vault link", db, func(s *soma.Store, _ storage.Adapter) error {
				return s.As(actor).Relate(ctx, args[0], args[1], kind, properties)
			})
		},
	}
	dbFlag(cmd, &db, dbHelp+" (required)")
	actorFlag(cmd, &as)
	f := cmd.Flags()
	f.StringVar(&kind, "type", "", "how they relate (required)")
	f.StringArrayVar(&sets, "property", nil, "a property of the relation, as name=value (may be repeated)")
	return cmd
}
