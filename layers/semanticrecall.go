package layers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

// SemanticRecallOptions are the options of [SemanticRecall].
type SemanticRecallOptions struct {
	// Spec overrides: ID "semantic-recall", slot [memory.SlotSemanticRecall],
	// scope resource (so that other threads of the person are searched), budget
	// at most 1,500 tokens, placement live.
	Spec memory.Spec
	// TopK is how many snippets are recalled at most; 0 means 5.
	TopK int
	// MinScore is the least relevance of a snippet, from 0 to about 2; 0 means
	// 0.25, negative no bound. A snippet that has half of what the query asks
	// for, by information, scores about 0.5.
	MinScore float64
	// Tail is how many of the newest items of the log are taken to be in the
	// prompt already, and are not recalled; 0 means 20, negative none.
	Tail int
	// Rank replaces the order by relevance: it returns those of the candidates
	// to recall, best first. It is given at most 50, MinScore or not. If it
	// fails, the order by relevance holds.
	Rank func(ctx context.Context, query string, candidates []Snippet) ([]Snippet, error)
}

// Snippet is a passage of an earlier item.
type Snippet struct {
	Text    string    `json:"text"`
	Speaker string    `json:"speaker"`
	Time    time.Time `json:"time,omitzero"`
	Thread  string    `json:"thread"`
	Item    string    `json:"item,omitempty"` // id
	Score   float64   `json:"score,omitempty"`

	id string
}

// SemanticRecall returns the layer that finds earlier items of its scope by the
// words of the newest user message, wherever they stand: in turns that the
// prompt no longer holds, and in other threads.
//
// Despite its name it knows words, not meaning: it ranks by BM25, over words in
// lower case without English endings and stop words, the names of speakers
// among them. A Rank function can do better with the candidates, but finds none
// that share no word.
//
// Each turn adds its messages and tool results to the index; nothing is ever
// rebuilt. An item is cut into passages of about 1,000 bytes at sentence ends:
// at most 8 of an item and 40 of a turn, what users and assistants said before
// what tools returned. A turn writes at most 400 records: where its passages
// have more terms, each gives up its rarest and shortest. What goes beyond is
// not found later, but stays in the thread.
//
// If nothing is relevant enough it recalls nothing and its note says so.
//
// Tool: search. The state is {"docs", "length"}: how many passages there are,
// and how many words. The records are d/<id> → [Snippet] without its score, and
// t/<term>/<id> → "<count> <length>"; ids are <time>-<digest>-<passage>.
func SemanticRecall(opts *SemanticRecallOptions) memory.Layer {
	var r semanticRecall
	if opts != nil {
		r.SemanticRecallOptions = *opts
	}
	if r.TopK <= 0 {
		r.TopK = 5
	}
	r.MinScore = cmp.Or(r.MinScore, 0.25)
	r.Tail = cmp.Or(r.Tail, 20)
	spec := override(memory.Spec{
		ID: "semantic-recall", Slot: memory.SlotSemanticRecall, Scope: memory.ScopeResource,
		Budget: projection.Exactly(1500), Placement: projection.Live, Format: 1,
	}, r.Spec)
	hooks := memory.Hooks[corpus]{
		Recall: r.recall,
		Store:  r.store,
		Tools: []memory.Tool[corpus]{
			memory.NewTool("search", "Search earlier conversations for words. Returns passages with speaker and time.", r.search),
		},
	}
	if r.Rank != nil {
		hooks.Dispose = func(ctx context.Context, in *memory.DisposeInput[corpus]) error {
			return r.calls.wait(ctx, in.Execution)
		}
	}
	return memory.Define(spec, hooks)
}

type semanticRecall struct {
	SemanticRecallOptions
	calls calls
}

const (
	docPrefix     = "d/"
	maxPassage    = 1000 // bytes, about
	maxPassages   = 8    // of an item
	maxTurn       = 40   // passages of a turn
	maxRecords    = 400  // written by a turn
	maxCandidates = 50   // given to Rank
)

// passage is a part of an item to be indexed.
type passage struct {
	Snippet
	terms terms
}

func (r *semanticRecall) store(_ context.Context, in *memory.StoreInput[corpus]) (memory.Change[corpus], error) {
	list := passages(in.Execution, in.New)
	if len(list) == 0 {
		return memory.Change[corpus]{}, nil
	}
	limit := share(list, maxRecords-len(list))
	var added corpus
	for i := range list {
		added.Docs++
		added.Length += int64(list[i].terms.length)
	}
	c := memory.Update(func(c corpus) corpus {
		c.Docs += added.Docs
		c.Length += added.Length
		return c
	})
	for i := range list {
		value, err := json.Marshal(&list[i].Snippet)
		if err != nil {
			return memory.Change[corpus]{}, err
		}
		c = posted(c.Put(docPrefix+list[i].id, value), list[i].id, list[i].terms, limit)
	}
	return c, nil
}

// share returns how many terms each passage may have, so that all have at most
// total: those that need less leave the rest to the others.
func share(list []passage, total int) int {
	var sizes []int
	for i := range list {
		sizes = append(sizes, len(list[i].terms.order))
	}
	slices.Sort(sizes)
	for i, n := range sizes {
		left := len(sizes) - i
		if n*left > total {
			return total / left
		}
		total -= n
	}
	return maxRecords
}

// passages cuts the messages and then the tool results among items, until there
// are as many passages as a turn may have.
func passages(x *memory.Execution, items []projection.Item) []passage {
	var list []passage
	for _, kind := range []projection.Kind{projection.Message, projection.ToolResult} {
		for i := range items {
			it := &items[i]
			if it.Kind != kind || kind == projection.Message && it.Role != projection.User && it.Role != projection.Assistant {
				continue
			}
			e := Event{Kind: it.Kind, Role: it.Role, Name: it.Name}
			text, _ := tidy(it.Text(), 2*maxPassages*maxPassage)
			id := itemKey(x, it, i)
			n := 0
			for part := range cut(text, maxPassage) {
				if n == maxPassages {
					break
				}
				if len(list) == maxTurn {
					x.Event("what goes beyond the passages of a turn is not indexed")
					return list
				}
				if t := termsOf(it.Name + "\n" + part); t.length > 0 {
					list = append(list, passage{Snippet{
						Text: part, Speaker: e.Speaker(), Time: it.Time.UTC(), Thread: x.Identity().Thread,
						Item: it.ID, id: fmt.Sprintf("%s-%d", id, n),
					}, t})
					n++
				}
			}
		}
	}
	return list
}

func (r *semanticRecall) recall(ctx context.Context, in *memory.RecallInput[corpus]) (memory.Recalled[corpus], error) {
	visible := make(map[string]bool)
	for i := max(len(in.Log)-max(r.Tail, 0), 0); i < len(in.Log); i++ {
		visible[itemKey(in.Execution, &in.Log[i], i)] = true
	}
	var out memory.Recalled[corpus]
	switch asked := termsOf(query(in.Query)); {
	case in.State.Docs == 0:
		out.Note = "nothing is indexed yet"
		return out, nil
	case asked.length == 0:
		out.Note = "the query has no words to search for"
		return out, nil
	}
	list, best, err := r.find(ctx, in.Execution, in.Records, in.State, in.Query, visible, r.TopK)
	if err != nil && list == nil {
		return out, err
	}
	for _, s := range list {
		text := "[" + s.when() + s.Speaker
		if s.Thread != in.Execution.Identity().Thread {
			text += ", another conversation"
		}
		it := item(text+"] "+line(s.Text, 2*maxPassage), in.Records.Key(docPrefix+s.id))
		if s.Item != "" {
			it.Refs = append(it.Refs, s.Item)
		}
		out.Items = append(out.Items, it)
	}
	switch {
	case err != nil:
		out.Note = "ordered by relevance, rank failed: " + line(err.Error(), 200)
	case len(list) > 0:
	case best == 0:
		out.Note = "no earlier item shares a word with the query"
	default:
		out.Note = fmt.Sprintf("the best of %d passages scores %.2f, below %.2f", in.State.Docs, best, r.MinScore)
	}
	return out, nil
}

func (s *Snippet) when() string {
	if s.Time.IsZero() {
		return ""
	}
	return s.Time.UTC().Format("2006-01-02 15:04 ")
}

// find returns at most n snippets for a query, none of them of the visible
// items, and the score of the best that there was. If Rank fails, its error
// comes with the snippets by relevance.
func (r *semanticRecall) find(ctx context.Context, x *memory.Execution, records *memory.Records, c corpus, text string, visible map[string]bool, n int) (list []Snippet, best float64, err error) {
	hits, err := rank(ctx, records, c, query(text))
	if err != nil {
		return nil, 0, err
	}
	want := n
	if r.Rank != nil {
		want = max(n, maxCandidates)
	}
	var candidates []Snippet
	for _, h := range hits {
		if len(candidates) == want || r.Rank == nil && h.score < r.MinScore && best > 0 {
			break
		}
		if at := strings.LastIndexByte(h.id, '-'); visible[h.id[:max(at, 0)]] {
			continue
		}
		best = max(best, h.score)
		if r.Rank == nil && h.score < r.MinScore {
			break
		}
		value, err := records.Get(ctx, docPrefix+h.id)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		s := Snippet{id: h.id}
		if err := json.Unmarshal(value, &s); err != nil {
			continue // damaged: the others still count
		}
		s.Score = h.score
		candidates = append(candidates, s)
	}
	if r.Rank == nil || len(candidates) == 0 {
		return candidates, best, nil
	}
	list, err = attempt(ctx, &r.calls, x, func(ctx context.Context) ([]Snippet, error) {
		return r.Rank(ctx, text, slices.Clone(candidates))
	})
	if err != nil {
		list = slices.DeleteFunc(candidates, func(s Snippet) bool { return s.Score < r.MinScore })
	} else {
		list = slices.DeleteFunc(slices.Clone(list), func(s Snippet) bool {
			return !slices.ContainsFunc(candidates, func(c Snippet) bool { return c.id == s.id })
		})
	}
	return list[:min(len(list), n)], best, err
}

type searchArgs struct {
	Query string `json:"query" jsonschema:"words to search for"`
	Limit int    `json:"limit,omitempty" jsonschema:"at most so many passages, 20 at most; the default is 5"`
}

type searchResult struct {
	Passages []Snippet `json:"passages"`
}

func (r *semanticRecall) search(ctx context.Context, in *memory.ToolInput[corpus], args searchArgs) (searchResult, memory.Change[corpus], error) {
	n := r.TopK
	if args.Limit > 0 {
		n = min(args.Limit, 20)
	}
	list, _, err := r.find(ctx, in.Execution, in.Records, in.State, args.Query, nil, n)
	if err != nil && list == nil {
		return searchResult{}, memory.Change[corpus]{}, err
	}
	if list == nil {
		list = []Snippet{}
	}
	return searchResult{list}, memory.Change[corpus]{}, nil
}
