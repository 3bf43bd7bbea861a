package layers

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/storage"
)

// An index ranks texts by BM25, from records that are only ever added to:
//
//	t/<term>/<id> → "<count> <length>"   how often the term is in a text, and
//	                                     how many words the text has
//
// Ids begin with the time, so that a term's newest postings are read first.
// How many texts there are, and their length, is in the layer's state.
//
// What is read for a query is the postings of its terms and nothing else.

// corpus is the part of a layer's state that ranking needs.
type corpus struct {
	Docs   int   `json:"docs,omitempty"`   // texts
	Length int64 `json:"length,omitempty"` // words of all
}

const (
	bm25K1 = 1.2
	bm25B  = 0.75

	maxQueryTerms = 32
	maxPostings   = 2000 // read of one term, the newest; a term in more texts says little
)

func termPrefix(term string) string { return "t/" + term + "/" }

// posted returns c with the postings of a text, at most limit of them: of the
// terms that are most frequent in it, the longer of equals.
func posted[S any](c memory.Change[S], id string, t terms, limit int) memory.Change[S] {
	order := t.order
	if len(order) > limit {
		order = slices.Clone(order)
		slices.SortStableFunc(order, func(a, b string) int {
			return cmp.Or(cmp.Compare(t.count[b], t.count[a]), cmp.Compare(len(b), len(a)))
		})
		order = order[:limit]
	}
	for _, term := range order {
		c = c.Put(termPrefix(term)+id, fmt.Appendf(nil, "%d %d", t.count[term], t.length))
	}
	return c
}

// hit is a text that a query found.
type hit struct {
	id    string
	score float64 // see rank
}

// rank returns the texts that share terms with the query, best first, of equals
// the newest.
//
// The score is BM25 (Robertson and Zaragoza, "The Probabilistic Relevance
// Framework: BM25 and Beyond", 2009, with k1 = 1.2 and b = 0.75; the idf is
// Lucene's ln(1 + (N − n + 0.5) / (n + 0.5)), which is never negative) divided
// by the sum of the idf of all terms of the query, of which those that no text
// has count as if one had them. So a text of average length that has each term
// once scores 1, and one that has half of what the query asks for, by
// information, 0.5.
func rank(ctx context.Context, r *memory.Records, c corpus, query string) ([]hit, error) {
	if c.Docs == 0 {
		return nil, nil
	}
	q := termsOf(query)
	if len(q.order) > maxQueryTerms { // the longest say most
		slices.SortStableFunc(q.order, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
		q.order = q.order[:maxQueryTerms]
	}
	average := max(float64(c.Length)/float64(c.Docs), 1)
	scores := make(map[string]float64)
	all := 0.0
	for _, term := range q.order {
		type posting struct {
			id            string
			count, length float64
		}
		var list []posting
		prefix := termPrefix(term)
		for e, err := range r.Scan(ctx, prefix, &storage.ScanOptions{Reverse: true, Limit: maxPostings}) {
			if err != nil {
				return nil, fmt.Errorf("read postings: %w", err)
			}
			count, length, ok := strings.Cut(string(e.Value), " ")
			n, err1 := strconv.Atoi(count)
			l, err2 := strconv.Atoi(length)
			if !ok || err1 != nil || err2 != nil || n <= 0 || l <= 0 {
				continue // damaged: the others still count
			}
			list = append(list, posting{strings.TrimPrefix(e.Key, prefix), float64(n), float64(l)})
		}
		n := max(float64(len(list)), 1)
		idf := math.Log(1 + (max(float64(c.Docs), n)-n+0.5)/(n+0.5))
		all += idf
		for _, p := range list {
			scores[p.id] += idf * p.count * (bm25K1 + 1) / (p.count + bm25K1*(1-bm25B+bm25B*p.length/average))
		}
	}
	hits := make([]hit, 0, len(scores))
	for id, score := range scores {
		hits = append(hits, hit{id, score / all})
	}
	slices.SortFunc(hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.id, a.id))
	})
	return hits, nil
}

// scanAfter asks for at most n entries beyond a key.
func scanAfter(key string, n int) *storage.ScanOptions {
	return &storage.ScanOptions{After: key, Limit: n}
}
