package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/soma"
)

func knowledgeShowCommand(t *tool) *cobra.Command {
	var db, asOf string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show an entity of the knowledge store",
		Long: `Shows an entity, named by its id or by type/id: its fields, what it links to, what
links to it, and its text. --json prints its document.

--as-of shows it as it was at a time, according to the history in the store,
even if it was removed since.`,
		Example: "  strata knowledge show insight/retries --db vault:notes\n  strata knowledge show retries --db agent.db --as-of 48h --json",
		Args:    exactly(1, "an entity"),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := momentFlag("knowledge show: --as-of", asOf, time.Now())
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			return readKnowledge(ctx, "knowledge show", db, func(s *soma.Store) error {
				read := s.Read
				if !at.IsZero() {
					read = s.AsOf(at).Read
				}
				e, err := read(ctx, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(t.out, documentOf(e))
				}
				links, err := s.Links(ctx, e)
				if err != nil {
					return err
				}
				var from []*soma.Entity
				if at.IsZero() { // links are only known for the present
					for other, err := range s.FindLinked(ctx, entityName(e), soma.AllTeams) {
						if err != nil {
							return err
						}
						from = append(from, other)
					}
				}
				p := newScreen(t.out, t.env)
				p.document(e, links, from)
				return p.err
			})
		},
	}
	knowledgeFlag(cmd, &db)
	f := cmd.Flags()
	f.StringVar(&asOf, "as-of", "", "as it was then: 2026-01-31, 2026-01-31T08:00:00Z, or a time ago such as 90m")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// document prints an entity with its links and those that link to it.
func (s *screen) document(e *soma.Entity, links []soma.Link, from []*soma.Entity) {
	s.printf("%s  %s\n", s.paint(bold, escape(entityName(e), false)), escape(e.Name, false))
	if e.Unratified {
		s.printf("%s\n", s.paint(red, "quarantined: no review has ratified it as it is, and nobody is served it"))
	}
	s.printf("\n")
	row := func(name, text string) { s.printf("%s  %s\n", s.paint(faint, pad(escape(name, false), 16)), text) }
	m := documentOf(e)
	first := []string{"layer", "status", "source_worker", "team_id", "created", "updated", "decay_at", "tags"}
	for _, name := range first {
		if v, ok := m[name]; ok {
			row(name, listText(v))
		}
	}
	shown := append(first, "type", "id", "name", "body", "unratified", "related", "relations", soma.FieldEvidence, "evidence_digests", "contradicts", soma.FieldOrigin)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(shown, name) {
			row(name, fieldText(m[name]))
		}
	}
	for _, l := range links {
		text := "→ " + escape(l.To, false)
		if len(l.Properties) > 0 {
			text += "  " + fieldText(l.Properties)
		}
		row(l.Type, text)
	}
	for _, other := range from {
		row("linked from", "← "+escape(entityName(other), false))
	}
	if e.Body != "" {
		s.printf("\n")
		for line := range strings.SplitSeq(strings.TrimRight(e.Body, "\n"), "\n") {
			s.printf("%s\n", printable(line))
		}
	}
}

// listText formats a value; a list of texts is joined by commas.
func listText(v any) string {
	if list, ok := v.([]string); ok {
		return escape(strings.Join(list, ", "), false)
	}
	return fieldText(v)
}

func knowledgeHistoryCommand(t *tool) *cobra.Command {
	var db string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "history ID",
		Short: "Show who changed an entity, when, and what",
		Long: `Shows every version of an entity, oldest first: its number, the time (UTC), what
was done and by whom, which fields changed, and the reason given. It also works
for an entity that was removed. --json has the documents as they were.

Edits by hand have the actor "person:", and the time when they were first
noticed: 'strata knowledge sync' looks for them.`,
		Example: "  strata knowledge history insight/retries --db vault:notes\n  strata knowledge history retries --db agent.db --json",
		Args:    exactly(1, "an entity"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return readKnowledge(ctx, "knowledge history", db, func(s *soma.Store) error {
				return t.knowledgeHistory(ctx, s, args[0], asJSON)
			})
		},
	}
	knowledgeFlag(cmd, &db)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// version is an entry in a history with what it changed.
type version struct {
	soma.Version
	Fields   []string       `json:"fields,omitempty"` // of an update: those that differ from the previous version
	Document map[string]any `json:"document,omitempty"`
}

func (t *tool) knowledgeHistory(ctx context.Context, s *soma.Store, id string, asJSON bool) error {
	all := []version{}
	var last map[string]any
	for v, err := range s.History(ctx, id) {
		if err != nil {
			return err
		}
		at := version{Version: v}
		if v.Entity != nil {
			at.Document = documentOf(v.Entity)
			if last != nil {
				at.Fields = changedFields(last, at.Document)
			}
		}
		last = at.Document
		all = append(all, at)
	}
	if asJSON {
		return printJSON(t.out, all)
	}
	if len(all) == 0 {
		fmt.Fprintln(t.err, "strata: it has no history: 'strata knowledge sync' takes in what was written by hand")
	}
	p := newScreen(t.out, t.env)
	for i := range all {
		v := &all[i]
		text := fmt.Sprintf("%3d  %s  %s  by %s", v.N, v.At.UTC().Format(time.DateTime), pad(escape(v.Op, false), 9), escape(v.Actor, false))
		if len(v.Fields) > 0 {
			text += "  " + escape(strings.Join(v.Fields, ", "), false)
		}
		p.printf("%s\n", text)
		if v.Reason != "" {
			p.printf("     %s\n", p.paint(faint, escape(v.Reason, false)))
		}
	}
	return p.err
}

// changedFields returns the names of the fields that differ between two
// documents, except the time of the change.
func changedFields(before, after map[string]any) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(joinFields(before, after))) {
		x, err1 := json.Marshal(before[name])
		y, err2 := json.Marshal(after[name])
		if name != "updated" && (err1 != nil || err2 != nil || !bytes.Equal(x, y)) {
			names = append(names, name)
		}
	}
	return names
}

func joinFields(a, b map[string]any) map[string]any {
	m := maps.Clone(a)
	maps.Copy(m, b)
	return m
}
