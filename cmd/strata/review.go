package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

// reviewOptions are the flags of review and its verbs.
type reviewOptions struct {
	db, as, reason string
	digest         string // of what was read
	json           bool
}

func reviewCommand(t *tool) *cobra.Command {
	var o reviewOptions
	cmd := &cobra.Command{
		Use:   "review",
		Short: "Decide what becomes canon",
		Long: `Proposals of agents and people wait in the emerging layer until a person promotes
them to canon, which agents obey, or rejects them. Every decision is in the history
with the reviewer, whom --as names, and the reason.

Without a verb, it shows a full-screen view on a terminal, with the proposals on
the left, and their text, evidence and what they contradict on the right;
elsewhere it prints the same as 'review list'. The store is open only while
something is read or decided, so that agents can continue.`,
		Example: `  strata review --db vault:notes --as anna
  strata review list --db agent.db
  strata review show insight/retries --db agent.db
  strata review promote insight/retries --db agent.db --as anna --reason 'measured twice' --digest 6d1c…`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("review: unknown verb %q: there are list, show, promote, reject, supersede, retire and ratify", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if p := newScreen(t.out, t.env); p.moves && t.interactive() {
				return t.reviewScreen(cmd.Context(), p, &o)
			}
			return t.reviewList(cmd.Context(), "review", &o)
		},
	}
	knowledgeFlag(cmd, &o.db)
	actorFlag(cmd, &o.as)
	cmd.AddCommand(reviewListCommand(t), reviewShowCommand(t))
	for i := range decisions {
		cmd.AddCommand(decisionCommand(t, &decisions[i]))
	}
	return cmd
}

// reviewItem is something for a reviewer to decide: a proposal, or canon that
// is withheld.
type reviewItem struct {
	entity    *soma.Entity // nil if the withheld entry has no readable document
	evidence  []soma.Cited
	conflicts []*soma.Entity // canon in force that it contradicts
	held      *soma.Withheld // nil: a proposal
	doubts    []string       // why its id or name may be mistaken for another
}

// readReviewItems returns what awaits review: the proposals, most confident
// first, and withheld canon. If the proposals cannot be read, it returns the
// rest along with the error.
func readReviewItems(ctx context.Context, s *soma.Store) ([]reviewItem, error) {
	held, err := s.Quarantined(ctx)
	if err != nil {
		return nil, err
	}
	alike, err := s.LookAlikes(ctx)
	if err != nil {
		return nil, err
	}
	pending, failed := s.Pending(ctx)
	var all []reviewItem
	for _, e := range pending {
		p, err := reviewItemOf(ctx, s, entityName(e), alike)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	for i := range held {
		var p reviewItem
		if e := held[i].Entity; e != nil {
			if p, err = reviewItemOf(ctx, s, entityName(e), alike); err != nil {
				return nil, err
			}
		}
		p.held = &held[i]
		all = append(all, p)
	}
	return all, failed
}

func readReviewItem(ctx context.Context, s *soma.Store, id string) (reviewItem, error) {
	alike, err := s.LookAlikes(ctx)
	if err != nil {
		return reviewItem{}, err
	}
	return reviewItemOf(ctx, s, id, alike)
}

// reviewItemOf reads one item. alike are all ids that look like others.
func reviewItemOf(ctx context.Context, s *soma.Store, id string, alike []soma.LookAlike) (reviewItem, error) {
	e, cited, err := s.Evidence(ctx, id)
	if err != nil {
		return reviewItem{}, err
	}
	conflicts, err := s.Conflicts(ctx, entityName(e))
	p := reviewItem{entity: e, evidence: cited, conflicts: conflicts}
	for _, l := range alike {
		if l.Key == e.Key() {
			p.doubts = append(p.doubts, l.Reason)
		}
	}
	if reason := soma.Doubtful(e.Name); reason != "" {
		p.doubts = append(p.doubts, "its name "+reason)
	}
	return p, err
}

// id names what is to be decided: type/id, or the file of what may be canon.
func (p *reviewItem) id() string {
	if p.entity != nil {
		return entityName(p.entity)
	}
	return cmp.Or(p.held.ID, p.held.Path)
}

func (p *reviewItem) name() string {
	if p.entity != nil {
		return p.entity.Name
	}
	return string(p.held.Doubt)
}

// citedText describes a piece of evidence.
func citedText(c *soma.Cited) string {
	if c.Entity == nil {
		return escape(c.ID, false) + " is gone"
	}
	text := entityName(c.Entity) + " (" + string(c.Entity.Layer)
	if c.Changed {
		text += ", changed since it was cited"
	}
	return escape(text+") "+c.Entity.Name, false)
}

func (p *reviewItem) confidence() string {
	if p.entity == nil {
		return "   -"
	}
	if c, ok := p.entity.Confidence(); ok {
		return fmt.Sprintf("%.2f", c)
	}
	return "   -"
}

// reviewItemJSON is a reviewItem as JSON.
type reviewItemJSON struct {
	Entity    map[string]any `json:"entity"` // null if the withheld entry has no readable document
	Digest    string         `json:"digest"` // of the entity, for promote and supersede
	Evidence  []citedJSON    `json:"evidence"`
	Conflicts []string       `json:"conflicts"` // type/id of canon
	Withheld  *withheldJSON  `json:"withheld,omitempty"`
	LookAlike []string       `json:"look_alike,omitempty"` // why the id or name may be mistaken for another
}

// withheldJSON says why canon is withheld, and what to do about it.
type withheldJSON struct {
	ID     string     `json:"id,omitempty"` // type/id
	Path   string     `json:"path,omitempty"`
	Doubt  soma.Doubt `json:"doubt"` // differs, missing, unreadable, contradicting, unrecorded
	Reason string     `json:"reason"`
	Repair string     `json:"repair"`
}

func heldJSON(h *soma.Withheld) *withheldJSON {
	if h == nil {
		return nil
	}
	return &withheldJSON{h.ID, h.Path, h.Doubt, h.Reason, h.Repair}
}

type citedJSON struct {
	ID      string         `json:"id"`
	Gone    bool           `json:"gone,omitempty"`
	Changed bool           `json:"changed,omitempty"` // since it was cited
	Entity  map[string]any `json:"entity,omitempty"`
}

func (p *reviewItem) json() reviewItemJSON {
	out := reviewItemJSON{Evidence: []citedJSON{}, Conflicts: []string{}, Withheld: heldJSON(p.held)}
	if p.entity != nil {
		out.Entity, out.Digest = documentOf(p.entity), p.entity.Digest()
	}
	for _, c := range p.evidence {
		j := citedJSON{ID: c.ID, Gone: c.Entity == nil, Changed: c.Changed}
		if c.Entity != nil {
			j.Entity = documentOf(c.Entity)
		}
		out.Evidence = append(out.Evidence, j)
	}
	out.LookAlike = p.doubts
	for _, c := range p.conflicts {
		out.Conflicts = append(out.Conflicts, entityName(c))
	}
	return out
}

func reviewListCommand(t *tool) *cobra.Command {
	var o reviewOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what awaits review",
		Long: `Lists the pending proposals, most confident first, each with its evidence and
the canon that it contradicts; and quarantined canon, which is not served to
agents until a person decides: entries written or changed without a review,
missing or unreadable ones, and those with contradictory decisions, for example
after a merge. Each says why, and what to do.`,
		Example: "  strata review list --db agent.db\n  strata review list --db vault:notes --json",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.reviewList(cmd.Context(), "review list", &o)
		},
	}
	knowledgeFlag(cmd, &o.db)
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (t *tool) reviewList(ctx context.Context, verb string, o *reviewOptions) error {
	return readKnowledge(ctx, verb, o.db, func(s *soma.Store) error {
		all, failed := readReviewItems(ctx, s)
		if failed != nil && len(all) == 0 {
			return failed
		}
		if o.json {
			out := map[string][]reviewItemJSON{"pending": {}, "quarantined": {}}
			for i := range all {
				kind := "pending"
				if all[i].held != nil {
					kind = "quarantined"
				}
				out[kind] = append(out[kind], all[i].json())
			}
			return cmp.Or(printJSON(t.out, out), failed)
		}
		if len(all) == 0 {
			fmt.Fprintln(t.err, "strata: nothing waits for a reviewer")
		}
		p := newScreen(t.out, t.env)
		for i := range all {
			switch {
			case all[i].held != nil && (i == 0 || all[i-1].held == nil):
				p.rule("quarantined", "canon in doubt: nobody is served it")
			case i == 0:
				p.rule("pending", "proposals, the most confident first")
			}
			p.drawReviewItem(&all[i])
		}
		return cmp.Or(p.err, failed)
	})
}

// drawReviewItem prints the question to a reviewer on a few lines.
func (s *screen) drawReviewItem(p *reviewItem) {
	s.printf("%s  %s  %s\n", s.paint(yellow, p.confidence()), s.paint(bold, escape(p.id(), false)), escape(p.name(), false))
	if h := p.held; h != nil {
		s.printf("      %s  %s\n", pad(string(h.Doubt), 13), printable(h.Reason))
		if h.Path != "" && h.ID != "" {
			s.printf("      file           %s\n", printable(h.Path))
		}
		s.printf("      to do          %s\n", printable(h.Repair))
	}
	for _, reason := range p.doubts {
		s.printf("      %s  %s\n", s.paint(red, "look-alike "), printable(reason))
	}
	for i := range p.evidence {
		s.printf("      evidence     %s\n", citedText(&p.evidence[i]))
	}
	for _, c := range p.conflicts {
		s.printf("      contradicts  %s %s\n", escape(entityName(c), false), s.paint(faint, escape(c.Name, false)))
	}
}

func reviewShowCommand(t *tool) *cobra.Command {
	var o reviewOptions
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a proposal with its evidence",
		Long: `Shows a proposal, or another entity, with everything it cites, marking what is
gone or changed since it was cited, and the canon that it contradicts. The last
line is the digest of the proposal as shown, which promote and supersede
require, so that nobody promotes what has changed since.`,
		Example: "  strata review show insight/retries --db agent.db",
		Args:    exactly(1, "an entity"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return readKnowledge(ctx, "review show", o.db, func(s *soma.Store) error {
				p, err := readReviewItem(ctx, s, args[0])
				if err != nil {
					return err
				}
				if o.json {
					return printJSON(t.out, p.json())
				}
				out := newScreen(t.out, t.env)
				out.drawReviewItems(&p)
				out.printf("\n%s  %s\n", out.paint(faint, pad("digest", 16)), p.entity.Digest())
				return out.err
			})
		},
	}
	knowledgeFlag(cmd, &o.db)
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// drawReviewItems prints everything that awaits review.
func (s *screen) drawReviewItems(p *reviewItem) {
	s.document(p.entity, p.entity.Links(), nil)
	for _, reason := range p.doubts {
		s.printf("%s  %s\n", s.paint(red, pad("look-alike", 16)), printable(reason))
	}
	for i := range p.evidence {
		s.printf("\n")
		s.rule("evidence", "")
		s.printf("%s\n", citedText(&p.evidence[i]))
		if e := p.evidence[i].Entity; e != nil && e.Body != "" {
			s.printf("\n%s\n", printable(strings.TrimRight(e.Body, "\n")))
		}
	}
	for _, c := range p.conflicts {
		s.printf("\n")
		s.rule("contradicts", "")
		s.document(c, c.Links(), nil)
	}
}

// decision is a verb by which a reviewer decides.
type decision struct {
	verb, use, short, long, example string
	args                            int
	what                            string
	free                            bool // whether no reason is required
	reads                           int  // number of the argument that the reviewer must have read, from 1; 0: none
	// do makes the decision, and returns a message and the entities that changed.
	do func(ctx context.Context, w *soma.Writer, args []string, o *reviewOptions) (said string, ids []string, err error)
}

// readFirst makes sure that a decision is about what the reviewer has read.
const readFirst = `What becomes canon is what the reviewer has read: --digest is the last line of
'strata review show', and where the entity has changed since, nothing is decided.
Without it the entity is shown, and the question asked on the terminal; where there
is no terminal, --digest is required.`

var decisions = []decision{{
	verb: "promote", use: "promote ID", args: 1, what: "a proposal", free: true, reads: 1,
	short: "Make a proposal canon",
	long: `Makes a new canon entity of a proposal that waits, and marks the proposal as
promoted. A policy begins to be enforced. However many promote it at once, there is
one canon entity.

` + readFirst,
	example: "  strata review promote insight/retries --db agent.db --as anna --reason 'measured twice' --digest 6d1c…",
	do: func(ctx context.Context, w *soma.Writer, args []string, o *reviewOptions) (string, []string, error) {
		canon, err := w.Promote(ctx, args[0], o.digest, o.reason)
		if err != nil {
			return "", nil, err
		}
		return fmt.Sprintf("promoted %s: %s holds", args[0], entityName(canon)), []string{entityName(canon), args[0]}, nil
	},
}, {
	verb: "reject", use: "reject ID", args: 1, what: "a proposal",
	short: "Turn a proposal down",
	long: `Marks a proposal that waits as rejected, with who, when and why. It stays where it
is and does not decay, so that it is not proposed again.`,
	example: "  strata review reject insight/retries --db agent.db --as anna --reason 'one run is no evidence'",
	do: func(ctx context.Context, w *soma.Writer, args []string, o *reviewOptions) (string, []string, error) {
		return "rejected " + args[0], args, w.Reject(ctx, args[0], o.reason)
	},
}, {
	verb: "supersede", use: "supersede OLD NEW", args: 2, what: "the canon entity that no longer holds, and the one in its place", reads: 2,
	short: "Say that one entity holds in the place of a canon entity",
	long: `Says that one entity holds in the place of a canon entity. The old one is kept, and
served no longer. The new one is canon, or a proposal that waits: that is promoted
by it, at once.

` + readFirst,
	example: "  strata review supersede canon-retries canon-retries-with-jitter --db agent.db --as anna --reason 'more precise' --digest 6d1c…",
	do: func(ctx context.Context, w *soma.Writer, args []string, o *reviewOptions) (string, []string, error) {
		canon, err := w.Supersede(ctx, args[0], args[1], o.digest, o.reason)
		if err != nil {
			return "", nil, err
		}
		return fmt.Sprintf("superseded %s: %s holds in its place", args[0], entityName(canon)), []string{args[0], entityName(canon)}, nil
	},
}, {
	verb: "retire", use: "retire ID", args: 1, what: "a canon entity",
	short: "Say that a canon entity no longer holds",
	long: `Says that a canon entity no longer holds. It is kept, and served no longer. One
whose document is gone or cannot be read, or about which decisions contradict each
other, is retired too.`,
	example: "  strata review retire canon-retries --db agent.db --as anna --reason 'the service is gone'",
	do: func(ctx context.Context, w *soma.Writer, args []string, o *reviewOptions) (string, []string, error) {
		return "retired " + args[0], args, w.Retire(ctx, args[0], o.reason)
	},
}, {
	verb: "ratify", use: "ratify ID", args: 1, what: "a quarantined canon entity",
	short: "Take a quarantined canon entity as it is",
	long: `Takes a canon entity that is quarantined, because somebody wrote or changed it past
a review, or because decisions contradict each other, as it is now, in the name of
the reviewer. Who does not agree mends the document by hand, retires or forgets
it. A text with the marks of a merge conflict is refused: edit it first.`,
	example: "  strata review ratify insight/canon-retries --db vault:notes --as anna --reason 'a typo was mended'",
	do: func(ctx context.Context, w *soma.Writer, args []string, o *reviewOptions) (string, []string, error) {
		return "ratified " + args[0], args, w.Ratify(ctx, args[0], o.reason)
	},
}}

// refusal is the error of a decision without the verb, which the tool prints
// itself.
func refusal(err error) error {
	if refused, ok := errors.AsType[*soma.GovernanceError](err); ok {
		return refused
	}
	if changed, ok := errors.AsType[*soma.ChangedError](err); ok {
		return changed
	}
	return err
}

// readProposal lets the reviewer read an entity, and asks whether to continue.
// It returns the digest of what was shown.
func (t *tool) readProposal(ctx context.Context, verb, id string, o *reviewOptions) (digest string, err error) {
	if !t.interactive() {
		return "", usagef("%s: --digest is missing, and there is nobody to ask: 'strata review show %s' prints it", verb, escape(id, false))
	}
	var p reviewItem
	err = readKnowledge(ctx, verb, o.db, func(s *soma.Store) (err error) {
		p, err = readReviewItem(ctx, s, id)
		return err
	})
	if err != nil {
		return "", err
	}
	out := newScreen(t.err, t.env)
	out.drawReviewItems(&p)
	out.printf("\n")
	if out.err != nil {
		return "", out.err
	}
	if ok, err := confirm(t.in, t.err, "Is this to hold, as it is shown?"); err != nil || !ok {
		return "", errors.Join(err, fmt.Errorf("%s: nothing was decided", verb))
	}
	return p.entity.Digest(), nil
}

func decisionCommand(t *tool, d *decision) *cobra.Command {
	var o reviewOptions
	verb := "review " + d.verb
	cmd := &cobra.Command{
		Use: d.use, Short: d.short, Long: d.long, Example: d.example,
		Args: exactly(d.args, d.what),
		RunE: func(cmd *cobra.Command, args []string) error {
			actor, err := t.person(verb, o.as)
			if err != nil {
				return err
			}
			if !d.free && strings.TrimSpace(o.reason) == "" {
				return usagef("%s: --reason is missing: it goes into the history", verb)
			}
			ctx := cmd.Context()
			if d.reads > 0 && o.digest == "" {
				if o.digest, err = t.readProposal(ctx, verb, args[d.reads-1], &o); err != nil {
					return err
				}
			}
			return writeKnowledge(ctx, verb, o.db, func(s *soma.Store, _ storage.Adapter) error {
				said, ids, err := d.do(ctx, s.As(actor), args, &o)
				if err != nil {
					return refusal(err)
				}
				if !o.json {
					_, err := fmt.Fprintln(t.out, escape(said, false))
					return err
				}
				changed := []map[string]any{}
				for _, id := range ids {
					e, err := s.Read(ctx, id)
					if errors.Is(err, soma.ErrNotFound) || errors.Is(err, storage.ErrCorrupt) {
						continue // it was retired without a document
					}
					if err != nil {
						return err
					}
					changed = append(changed, documentOf(e))
				}
				return printJSON(t.out, map[string]any{"decision": d.verb, "entities": changed})
			})
		},
	}
	knowledgeFlag(cmd, &o.db)
	cmd.Flags().StringVar(&o.as, "as", "", "the reviewer: a name for the record (default $"+envActor+")")
	reason := "why, for the history"
	if !d.free {
		reason += " (required)"
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", reason)
	if d.reads > 0 {
		cmd.Flags().StringVar(&o.digest, "digest", "", "the digest of what was read: the last line of 'strata review show'")
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print what changed as JSON")
	return cmd
}
