package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

// recallOptions are the flags of recall.
type recallOptions struct {
	db    string
	layer string
	limit int
	json  bool
}

// recalledHit is a hit and where it comes from.
type recalledHit struct {
	Index   string       `json:"index"`
	ID      string       `json:"id"`
	Scope   string       `json:"scope,omitempty"` // of a layer: the thread
	Session string       `json:"session,omitempty"`
	Speaker string       `json:"speaker,omitempty"`
	Time    string       `json:"time,omitempty"`
	Source  string       `json:"source,omitempty"`
	Text    string       `json:"text"`
	Score   float64      `json:"score"`
	Parts   search.Parts `json:"parts"`
}

func recallCommand(t *tool) *cobra.Command {
	var o recallOptions
	cmd := &cobra.Command{
		Use:   "recall QUERY",
		Short: "Show what recall finds for a question",
		Long: `Shows what recall finds for a question in the indexes of a store, best first,
with the parts of each score: words of the query in the passage, the session
around it, its neighbours, and so on. Scores of different scopes are compared
directly. If nothing is relevant, it says so.`,
		Example: "  strata recall 'When did Anna move?' --db agent.db\n  strata recall 'budget 2026' --db agent.db --layer semantic-recall --limit 3 --json",
		Args:    exactly(1, "a query (in quotes)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.limit <= 0 {
				return usagef("recall: --limit %d is not a positive number", o.limit)
			}
			return inspect(cmd.Context(), "recall", o.db, func(store storage.Adapter) error {
				return t.recall(cmd.Context(), store, args[0], &o)
			})
		},
	}
	dbFlag(cmd, &o.db, dbHelp+" (required)")
	f := cmd.Flags()
	f.StringVar(&o.layer, "layer", "", "only the indexes of this layer")
	f.IntVar(&o.limit, "limit", 5, "maximum number of passages")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (t *tool) recall(ctx context.Context, store storage.Adapter, query string, o *recallOptions) error {
	hits := []recalledHit{}
	note := "the store has no index"
	for name, err := range indexesOf(ctx, store, o.layer) {
		if err != nil {
			return err
		}
		res, err := searchIndex(ctx, storage.Scope(store, name), search.Query{Text: query, Limit: o.limit, Around: -1})
		if err != nil {
			return err
		}
		note = res.Note
		for _, h := range res.Hits {
			hit := recalledHit{
				Index: name, ID: h.ID, Scope: h.Scope, Session: h.Session, Speaker: h.Speaker, Source: h.Source, Text: h.Text, Score: h.Score, Parts: h.Parts,
			}
			if !h.Time.IsZero() {
				hit.Time = h.Time.UTC().Format("2006-01-02 15:04")
			}
			hits = append(hits, hit)
		}
	}
	slices.SortStableFunc(hits, func(a, b recalledHit) int { return cmp.Compare(b.Score, a.Score) })
	hits = hits[:min(len(hits), o.limit)]
	if o.json {
		return printJSON(t.out, hits)
	}
	if len(hits) == 0 {
		fmt.Fprintln(t.err, "strata: nothing is recalled:", note)
		return nil
	}
	for i := range hits {
		h := &hits[i]
		fmt.Fprintf(t.out, "%.2f  %s\n", h.Score, printable(strings.Join(slices.DeleteFunc([]string{h.Time, h.Speaker, cmp.Or(h.Scope, h.Session)}, func(s string) bool { return s == "" }), " · ")))
		fmt.Fprintf(t.out, "      %s\n", printable(strings.Join(strings.Fields(h.Text), " ")))
		fmt.Fprintf(t.out, "      %s\n", scoreText(&h.Parts))
	}
	return nil
}

// searchIndex searches an index, whatever its language.
func searchIndex(ctx context.Context, r storage.Reader, q search.Query) (search.Result, error) {
	ix, err := search.New(nil)
	if err != nil {
		return search.Result{}, err
	}
	res, err := ix.Search(ctx, r, q)
	if mismatch, ok := errors.AsType[*search.MismatchError](err); ok {
		if ix, err = search.New(&search.Options{Language: mismatch.Stored}); err == nil {
			res, err = ix.Search(ctx, r, q)
		}
	}
	return res, err
}

// scoreText names the parts of a score that are not zero.
func scoreText(p *search.Parts) string {
	var list []string
	for _, part := range []struct {
		name  string
		value float64
	}{
		{"words", p.Words}, {"session", p.Session}, {"neighbours", p.Neighbours}, {"speaker", p.Speaker},
		{"date", p.Date}, {"when", p.When}, {"answer", p.Answer}, {"far", p.Far}, {"similar", p.Similar},
	} {
		if part.value != 0 {
			list = append(list, fmt.Sprintf("%s %.2f", part.name, part.value))
		}
	}
	return strings.Join(list, " · ")
}
