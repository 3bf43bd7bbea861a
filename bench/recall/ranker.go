package recall

import (
	"context"
	"slices"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/search"
)

// Ranker is a way to find turns.
type Ranker struct {
	Name string
	// Open indexes the turns of a conversation.
	Open func(ctx context.Context, turns []search.Doc) (Searcher, error)
}

// Searcher finds turns of one conversation.
type Searcher interface {
	// Search returns the ids of at most n turns, best first.
	Search(ctx context.Context, question string, n int) ([]string, error)
	// Bytes is the size of the index without the turns themselves, or 0 if
	// unknown.
	Bytes(ctx context.Context) (int64, error)
	Close() error
}

// plain is a ranking by words alone.
func plain() search.Ranking {
	return search.Ranking{
		Session: -1, Previous: -1, Next: -1, Speaker: -1, Date: -1, When: -1, Answer: -1, Far: -1, Floor: -1,
	}
}

// Rankers are those of package storage/search: its default, and that without
// the floor; plain BM25 with the same analysis, and with each single cue;
// nofloor without each single cue; and four, which has only the first four
// cues. Without a floor, only the order is measured.
func Rankers() []Ranker {
	cues := []struct {
		name string
		set  func(r *search.Ranking, weight float64) // 0 means the default, -1 off
	}{
		{"session", func(r *search.Ranking, w float64) { r.Session = w }},
		{"neighbours", func(r *search.Ranking, w float64) { r.Previous, r.Next = w, w }},
		{"speaker", func(r *search.Ranking, w float64) { r.Speaker = w }},
		{"date", func(r *search.Ranking, w float64) { r.Date = w }},
		{"when", func(r *search.Ranking, w float64) { r.When = w }},
		{"answer", func(r *search.Ranking, w float64) { r.Answer = w }},
		{"far", func(r *search.Ranking, w float64) { r.Far = w }},
	}
	var alone, without []Ranker
	four := search.Ranking{Floor: -1}
	for i, c := range cues {
		r := plain()
		c.set(&r, 0)
		alone = append(alone, Search("plain+"+c.name, r))
		r = search.Ranking{Floor: -1}
		c.set(&r, -1)
		without = append(without, Search("nofloor-"+c.name, r))
		if i >= 4 {
			c.set(&four, -1)
		}
	}
	list := []Ranker{Search("default", search.Ranking{}), Search("nofloor", search.Ranking{Floor: -1}), Search("plain", plain())}
	return slices.Concat(list, alone, without, []Ranker{Search("four", four)})
}

// Search returns a ranker of package storage/search.
func Search(name string, ranking search.Ranking) Ranker {
	return Ranker{name, func(ctx context.Context, turns []search.Doc) (Searcher, error) {
		ix, err := search.New(&search.Options{Ranking: ranking})
		if err != nil {
			return nil, err
		}
		s := &ours{index: ix, store: mem.New()}
		s.scope = storage.Scope(s.store, "_search")
		for len(turns) > 0 {
			n := min(len(turns), 100)
			ops, err := ix.Append(ctx, s.scope, turns[:n]...)
			if err != nil {
				return nil, err
			}
			if err := s.scope.Apply(ctx, ops...); err != nil {
				return nil, err
			}
			turns = turns[n:]
		}
		return s, nil
	}}
}

// ours is a Searcher of package storage/search.
type ours struct {
	index *search.Index
	store storage.Adapter
	scope storage.Scoped
}

func (s *ours) Search(ctx context.Context, question string, n int) ([]string, error) {
	res, err := s.index.Search(ctx, s.scope, search.Query{Text: question, Limit: n, Around: -1})
	if err != nil {
		return nil, err
	}
	var ids []string
	for i := range res.Hits {
		ids = append(ids, res.Hits[i].ID)
	}
	return ids, nil
}

func (s *ours) Bytes(ctx context.Context) (int64, error) {
	var n int64
	for e, err := range s.scope.Scan(ctx, "s/", nil) {
		if err != nil {
			return 0, err
		}
		n += int64(len(e.Key) + len(e.Value))
	}
	return n, nil
}

func (s *ours) Close() error { return s.store.Close() }
