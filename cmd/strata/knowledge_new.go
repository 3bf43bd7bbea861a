package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

// newOptions are the flags of knowledge new.
type newOptions struct {
	db, as              string
	id, layer, status   string
	team, body          string
	confidence          float64
	evidence            []string
	tags, related, sets []string
	json                bool
}

func knowledgeNewCommand(t *tool) *cobra.Command {
	var o newOptions
	cmd := &cobra.Command{
		Use:   "new TYPE NAME",
		Short: "Create an entity in the knowledge store",
		Long: `Creates an entity, such as an insight, a decision, a policy or an assumption,
and prints its type and id. A store is created if there is none. Without --id
the id is made from the name. Creating the same entity again changes nothing.

The layer is archive (what happened; the default), working (what a team is
working on: requires --team) or emerging (a proposal: requires --confidence and
--evidence). Nobody writes to canon: entities get there by 'strata review
promote'.

The value of a --field is JSON if it is valid JSON, and text otherwise: n=3 is a
number, n='"3"' a text, and so is n=three.`,
		Example: `  strata knowledge new execution 'Deploy 41 timed out' --db vault:notes --as anna
  strata knowledge new insight 'Deploys fail on Fridays' --db vault:notes --as anna \
      --layer emerging --confidence 0.8 --evidence deploy-41-timed-out --tag deploy
  strata knowledge new decision 'Move to Postgres' --db agent.db --as anna --body - < decision.md`,
		Args: exactly(2, "a type and a name (in quotes)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			actor, err := t.person("knowledge new", o.as)
			if err != nil {
				return err
			}
			e, err := o.entity(cmd, t.in, args[0], args[1])
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			return makeKnowledge(ctx, "knowledge new", o.db, func(s *soma.Store, _ storage.Adapter) error {
				return t.knowledgeNew(ctx, s, actor, e, o.json)
			})
		},
	}
	knowledgeFlag(cmd, &o.db)
	actorFlag(cmd, &o.as)
	f := cmd.Flags()
	f.StringVar(&o.id, "id", "", "its id (default made from the name)")
	f.StringVar(&o.layer, "layer", string(soma.Archive), "archive, working or emerging")
	f.StringVar(&o.status, "status", "", "its status (default the type's first)")
	f.StringVar(&o.team, "team", "", "the only team that sees it (default all)")
	f.StringVar(&o.body, "body", "", "its text, Markdown with [[type/id]] links; - reads standard input")
	f.Float64Var(&o.confidence, "confidence", 0, "confidence of a proposal, from 0 to 1")
	f.StringArrayVar(&o.evidence, "evidence", nil, "evidence of a proposal: the id of what it rests on (may be repeated)")
	f.StringArrayVar(&o.tags, "tag", nil, "a tag (may be repeated)")
	f.StringArrayVar(&o.related, "related", nil, "type/id of a related entity (may be repeated)")
	f.StringArrayVar(&o.sets, "field", nil, "another field, as name=value (may be repeated)")
	f.BoolVar(&o.json, "json", false, "print the entity as JSON")
	return cmd
}

// entity returns the entity that the flags describe.
func (o *newOptions) entity(cmd *cobra.Command, in io.Reader, kind, name string) (*soma.Entity, error) {
	layer, err := knownLayer("knowledge new", o.layer)
	if err != nil {
		return nil, err
	}
	fields, err := parseFields("knowledge new", "--field", o.sets)
	if err != nil {
		return nil, err
	}
	switch proposal := cmd.Flags().Changed("confidence") || len(o.evidence) > 0; {
	case layer == soma.Canon:
		return nil, usagef("knowledge new: canon is not written: propose it in emerging, and have 'strata review promote' make it canon")
	case layer == soma.Working && o.team == "":
		return nil, usagef("knowledge new: --team is missing: the working layer is a team's")
	case layer == soma.Emerging && (!cmd.Flags().Changed("confidence") || len(o.evidence) == 0):
		return nil, usagef("knowledge new: a proposal wants --confidence, from 0 to 1, and --evidence, which may be repeated")
	case layer != soma.Emerging && proposal:
		return nil, usagef("knowledge new: --confidence and --evidence are of --layer emerging")
	}
	if o.body == "-" {
		text, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("knowledge new: read standard input: %w", err)
		}
		o.body = string(text)
	}
	if !utf8.ValidString(name) || !utf8.ValidString(o.body) {
		return nil, usagef("knowledge new: the text is not UTF-8")
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

// ownFlags are the document fields that cannot be set as fields, with what sets
// them; [soma.Reserved] has others.
var ownFlags = map[string]string{
	"type": "the first argument", "name": "the second argument", "id": "--id", "status": "--status", "layer": "--layer",
	"team_id": "--team", "body": "--body", "tags": "--tag", "related": "--related",
	soma.FieldConfidence: "--confidence", soma.FieldEvidence: "--evidence",
}

// parseFields parses name=value.
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

func (t *tool) knowledgeNew(ctx context.Context, s *soma.Store, actor soma.Actor, e *soma.Entity, asJSON bool) error {
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
