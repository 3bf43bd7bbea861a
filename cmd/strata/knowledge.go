package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

func knowledgeCommand(t *tool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "knowledge",
		Short: "Keep knowledge: entities in four layers, in a store of any engine",
		Long: `Keeps knowledge: entities in four layers, archive, working, emerging and canon,
in a store of any engine. If --db does not name one, it is the vault of the
project, the directory` + soma.DefaultVault + `.

What people decide about it has verbs of its own: review, why, policy, decay, migrate
and forget.

` + dbRule,
		Example: "  strata knowledge list\n  strata knowledge show insight/retries --db vault:notes\n  strata knowledge search retries --db agent.db",
	}
	addVerbs(cmd, knowledgeNewCommand(t), knowledgeShowCommand(t), knowledgeListCommand(t), knowledgeSearchCommand(t),
		knowledgeLinkCommand(t), knowledgeLinksCommand(t), knowledgeHistoryCommand(t), knowledgeSyncCommand(t))
	return cmd
}

// knowledgeFlag adds the flag that names the store of entities; the default is
// a project's vault.
func knowledgeFlag(cmd *cobra.Command, db *string) {
	cmd.Flags().StringVar(db, "db", "vault:"+soma.DefaultVault, dbHelp)
}

// envActor names the person on whose behalf verbs change knowledge, unless --as
// does. $USER is not used: it names an account, often root or that of a build,
// so its decisions would be attributed to nobody.
const envActor = "STRATA_AS"

// actorFlag adds the flag that says who makes a change.
func actorFlag(cmd *cobra.Command, as *string) {
	cmd.Flags().StringVar(as, "as", "", "the person who does it: a name for the record (default $"+envActor+")")
}

// person returns who makes a change; a name is required.
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

// readKnowledge opens the store of entities that a flag names and calls f to
// read it. It does not create a store. f may be called twice, the first time
// without having printed: a store whose fields are not declared, or whose index
// lacks edits made by hand, is opened for writing.
func readKnowledge(ctx context.Context, verb, db string, f func(s *soma.Store) error) error {
	if err := wantsStore(verb, db); err != nil {
		return err
	}
	read := func(store storage.Adapter) error { return onKnowledge(ctx, store, f) }
	err := inspect(ctx, verb, db, read)
	if !errors.Is(err, storage.ErrReadOnly) {
		return err
	}
	return writeKnowledge(ctx, verb, db, func(s *soma.Store, _ storage.Adapter) error { return f(s) })
}

// writeKnowledge opens the store of entities that a flag names and calls f to
// change it. It does not create a store.
func writeKnowledge(ctx context.Context, verb, db string, f func(s *soma.Store, store storage.Adapter) error) error {
	if err := wantsStore(verb, db); err != nil {
		return err
	}
	return makeKnowledge(ctx, verb, db, f)
}

// wantsStore returns an error that says where there is no store of entities.
func wantsStore(verb, db string) error {
	if path := storePath(db); db != "" && path != "" {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w: name one that is there by --db: 'strata knowledge new' makes one", verb, err)
		}
	}
	return nil
}

// makeKnowledge is writeKnowledge, except that it creates a store if there is
// none.
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
	return adviseOnEntity(f(s))
}

// adviseOnEntity adds to an error about an entity what can be done about it.
func adviseOnEntity(err error) error {
	if _, ok := errors.AsType[*soma.GovernanceError](err); ok {
		return fmt.Errorf("%w: 'strata review list' shows what waits, 'strata knowledge history ID' who has decided", err)
	}
	if errors.Is(err, soma.ErrNotFound) {
		return fmt.Errorf("%w: 'strata knowledge list' shows what there is", err)
	}
	if errors.Is(err, soma.ErrExists) {
		return fmt.Errorf("%w: give another by --id", err)
	}
	return err
}

// momentFlag parses a flag that is a day, a time, or a duration before now.
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

// knownLayer accepts one of the layers, or none.
func knownLayer(verb, layer string) (soma.Layer, error) {
	if layer != "" && !slices.Contains(soma.Layers, soma.Layer(layer)) {
		return "", usagef("%s: there is no layer %q: there are archive, working, emerging and canon", verb, layer)
	}
	return soma.Layer(layer), nil
}

// entityName is the form in which verbs print and accept the name of an entity.
func entityName(e *soma.Entity) string { return e.Type + "/" + e.ID }

// documentOf returns an entity under the names of its document. A quarantined
// one also has the member unratified.
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

// fieldText formats a value of a document for people, on one line.
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
