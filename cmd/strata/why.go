package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/soma"
)

func whyCommand(t *tool) *cobra.Command {
	var db string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "why ID",
		Short: "Show where an entity comes from: its evidence, down to who wrote it",
		Long: `Shows where an entity comes from, as a tree: what it was made from and what it
cites, what that cites, and so on, each with who made it, when, who decided
about it, and the run it belongs to. Evidence that is gone, or changed since it
was cited, is marked. What is cited more than once is shown once.`,
		Example: "  strata why canon-retry-with-jitter --db agent.db\n  strata why insight/retries --db vault:notes --json",
		Args:    exactly(1, "an entity"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return readKnowledge(ctx, "why", db, func(s *soma.Store) error {
				r, err := s.Why(ctx, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(t.out, causeOf(r))
				}
				p := newScreen(t.out, t.env)
				p.reason(r, 0)
				return p.err
			})
		},
	}
	knowledgeFlag(cmd, &db)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// eventFields are the fields in which an entity names the event that it comes
// from.
var eventFields = []string{"agent_id", "trace_id", "span_id", "graph_id", "node_id", "session_id"}

// reason prints where an entity comes from, and below it what it was made from.
func (s *screen) reason(r *soma.Reason, depth int) {
	lead := strings.Repeat("    ", depth)
	link := ""
	if r.Link != "" {
		link = s.paint(faint, escape(r.Link, false)) + " "
	}
	if r.Entity == nil {
		s.printf("%s%s%s  %s\n", lead, link, escape(r.ID, false), s.paint(red, "is gone"))
		return
	}
	e := r.Entity
	marks := []string{string(e.Layer), e.Status}
	if r.Changed {
		marks = append(marks, "changed since it was cited")
	}
	if e.Unratified {
		marks = append(marks, "quarantined")
	}
	s.printf("%s%s%s  %s  %s\n", lead, link, s.paint(bold, escape(entityName(e), false)), preview(e.Name, 72),
		s.paint(faint, "("+escape(strings.Join(marks, ", "), false)+")"))
	if r.Made.N == 0 {
		s.printf("%s  no history: written by hand\n", lead)
	} else {
		s.printf("%s  %s\n", lead, versionText(&r.Made))
	}
	if r.Decided != nil && r.Decided.N != r.Made.N {
		s.printf("%s  %s\n", lead, versionText(r.Decided))
	}
	var event []string
	for _, name := range eventFields {
		if v, ok := e.Fields[name]; ok {
			event = append(event, strings.TrimSuffix(name, "_id")+" "+fieldText(v))
		}
	}
	if len(event) > 0 {
		s.printf("%s  of %s\n", lead, preview(strings.Join(event, ", "), 200))
	}
	for i := range r.From {
		s.reason(&r.From[i], depth+1)
	}
}

// versionText says what was done, by whom, when and why.
func versionText(v *soma.Version) string {
	text := v.Op + " by " + v.Actor + ", " + v.At.UTC().Format(time.DateTime)
	if v.Reason != "" {
		text += ": " + v.Reason
	}
	return escape(text, false)
}

// cause is a [soma.Reason] as JSON.
type cause struct {
	ID      string        `json:"id"`
	Link    string        `json:"link,omitempty"`
	Type    string        `json:"type,omitempty"`
	Name    string        `json:"name,omitempty"`
	Layer   soma.Layer    `json:"layer,omitempty"`
	Status  string        `json:"status,omitempty"`
	Gone    bool          `json:"gone,omitempty"`
	Changed bool          `json:"changed,omitempty"` // since it was cited
	Made    *soma.Version `json:"made,omitempty"`
	Decided *soma.Version `json:"decided,omitempty"`
	From    []cause       `json:"from,omitempty"`
}

func causeOf(r *soma.Reason) cause {
	c := cause{ID: r.ID, Link: r.Link, Gone: r.Entity == nil, Changed: r.Changed, Decided: r.Decided}
	if e := r.Entity; e != nil {
		c.Type, c.Name, c.Layer, c.Status = e.Type, e.Name, e.Layer, e.Status
	}
	if r.Made.N > 0 {
		c.Made = &r.Made
	}
	for i := range r.From {
		c.From = append(c.From, causeOf(&r.From[i]))
	}
	return c
}
