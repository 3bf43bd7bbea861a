package recall

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stratamem/strata/bench/locomo"
	"github.com/stratamem/strata/storage/search"
)

// userWeight is how much more a user's words count in the excerpts with which
// the layer is compared.
const userWeight = 3

// plainRanker is plain BM25 over documents whose Source is the message they
// come from.
type plainRanker struct {
	searcher Searcher
	docs     map[string]turn
}

func newPlain(ctx context.Context, docs []turn) (*plainRanker, error) {
	s, err := Search("", plain()).Open(ctx, docs)
	if err != nil {
		return nil, err
	}
	p := &plainRanker{s, make(map[string]turn)}
	for _, d := range docs {
		p.docs[d.ID] = d
	}
	return p, nil
}

func (p *plainRanker) search(ctx context.Context, question string) ([]search.Hit, error) {
	s := p.searcher.(*ours)
	res, err := s.index.Search(ctx, s.scope, search.Query{Text: question, Limit: depth, Around: -1})
	if err != nil {
		return nil, err
	}
	for i := range res.Hits {
		if h := &res.Hits[i]; h.Type == excerptOfUser {
			h.Score *= userWeight
		}
	}
	slices.SortStableFunc(res.Hits, func(a, b search.Hit) int { return cmp.Compare(b.Score, a.Score) })
	return res.Hits, nil
}

// whole returns the messages and results of a conversation as they are.
func whole(c *locomo.Conversation) []turn {
	var list []turn
	for _, d := range c.Turns {
		if c.Acts[d.ID].Role == "call" {
			continue
		}
		d.Source = d.ID
		list = append(list, d)
	}
	return list
}

const excerptOfUser = "excerpt of a user's message"

// excerpts returns excerpts of 25 to 40 words of them, cut after a sentence or
// a line if possible.
func excerpts(c *locomo.Conversation) []turn {
	var list []turn
	for _, d := range whole(c) {
		for i, text := range split(d.Text) {
			part := d
			part.ID, part.Text = fmt.Sprintf("%s.%d", d.ID, i), text
			if d.Speaker == "user" {
				part.Type = excerptOfUser
			}
			list = append(list, part)
		}
	}
	return list
}

func split(text string) []string {
	const least, most = 25, 40
	var list []string
	var part []string
	end := func() {
		if len(part) > 0 {
			list = append(list, strings.Join(part, " "))
			part = nil
		}
	}
	for l := range strings.Lines(text) {
		for w := range strings.FieldsSeq(l) {
			part = append(part, w)
			if len(part) == most || len(part) >= least && strings.ContainsAny(w[len(w)-1:], ".!?:;") {
				end()
			}
		}
		if len(part) >= least {
			end()
		}
	}
	end()
	return list
}

// messages returns the messages from which documents come, each once.
func messages(hits []search.Hit) []string {
	var ids []string
	for i := range hits {
		if !slices.Contains(ids, hits[i].Source) {
			ids = append(ids, hits[i].Source)
		}
	}
	return ids
}

// kept returns the documents that a prompt shows.
func kept(hits []search.Hit, ids []string) []search.Hit {
	return slices.DeleteFunc(slices.Clone(hits), func(h search.Hit) bool { return !slices.Contains(ids, h.ID) })
}
