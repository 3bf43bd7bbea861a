package layers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage/search"
)

// SemanticRecallOptions configures [SemanticRecall].
type SemanticRecallOptions struct {
	// Spec overrides: ID "semantic-recall", slot [memory.SlotSemanticRecall],
	// scope resource (so that other threads of the person are searched), budget
	// at most 1,500 tokens, placement live.
	Spec memory.Spec
	// Search sets the language of the words and how relevance is computed. Its
	// Ranking.Floor decides when nothing is recalled.
	Search search.Options
	// Embed adds vectors to the words, to find the same statement in different
	// words as well; nil: only words.
	Embed *Embedding
	// TopK is how many passages are recalled at most, not counting neighbours; 0
	// means 10. Passages that score less than 0.4 of the best one are left out.
	TopK int
	// Rank replaces the order by relevance: it returns those of the candidates to
	// recall, best first. It receives at most 50. If it fails, the order by
	// relevance is used.
	Rank func(ctx context.Context, query string, candidates []search.Hit) ([]search.Hit, error)
}

// SemanticRecall returns the layer that finds earlier items of its scope by the
// words of the newest user message, wherever they are: in turns that the prompt
// no longer holds, and in other threads.
//
// Despite its name it knows words, not meaning, unless Embed is given: it ranks
// with package search, in which a day of a thread is a session. A Rank function
// can reorder the candidates, but each of these shares a word with the query or
// is next to an item that does.
//
// Results are shown as [search.Pack] formats them: by day, each passage with
// its speaker, the best ones with their neighbours. If nothing is relevant
// enough, the layer recalls nothing and its note says so.
//
// Each turn adds its messages and tool results to the index; nothing is ever
// rebuilt. An item is cut into passages of about 1,000 bytes at sentence ends:
// at most 8 per item and 40 per turn, with messages of users and assistants
// before tool results. Anything beyond that is not found later, but stays in
// the thread. The index of a scope uses at most 10 MB of memory and about 30
// bytes per passage, see [search.Index]; those of the 64 scopes used last are
// kept in memory.
//
// Tool: search. There is no state. The records are those of package search,
// with ids <time>-<digest>-<passage>, the passages of an item in one record,
// and the thread and item id as scope and source of a document; v/… those of
// package vector; and w/<id> → nothing, for passages that wait for their
// vector.
func SemanticRecall(opts *SemanticRecallOptions) memory.Layer {
	var r semanticRecall
	if opts != nil {
		r.SemanticRecallOptions = *opts
	}
	if r.TopK <= 0 {
		r.TopK = 10
	}
	r.Search.Bundle = true // the passages of an item
	r.indexes = newIndexes(r.Search)
	if r.Embed != nil {
		r.vectors = newVectors(r.Embed, &r.calls)
	}
	spec := override(memory.Spec{
		ID: "semantic-recall", Slot: memory.SlotSemanticRecall, Scope: memory.ScopeResource,
		Budget: projection.Between(0, 1500), Placement: projection.Live, Format: 1,
	}, r.Spec)
	r.id = spec.ID
	hooks := memory.Hooks[struct{}]{
		Recall: r.recall,
		Store:  r.store,
		Tools: []memory.Tool[struct{}]{
			memory.NewTool("search", "Search earlier conversations for words. Returns passages with speaker and time.", r.search),
		},
	}
	if r.Rank != nil || r.Embed != nil {
		hooks.Dispose = func(ctx context.Context, in *memory.DisposeInput[struct{}]) error {
			return r.calls.wait(ctx, in.Execution)
		}
	}
	return memory.Define(spec, hooks)
}

type semanticRecall struct {
	SemanticRecallOptions
	id      string
	calls   calls
	indexes indexes[search.Index]
	vectors *vectors // nil: none
}

const (
	maxPassage    = 1000 // bytes, about
	maxPassages   = 8    // of an item
	maxTurn       = 40   // passages of a turn
	maxCandidates = 50   // looked at
	maxSource     = 1024 // bytes of an item's id
)

func (r *semanticRecall) store(ctx context.Context, in *memory.StoreInput[struct{}]) (memory.Change[struct{}], error) {
	var c memory.Change[struct{}]
	docs := passages(in.Execution, in.New)
	if len(docs) > 0 {
		ix, err := r.indexes.of(in.Records)
		if err != nil {
			return c, err
		}
		ops, err := ix.Append(ctx, in.Records, docs...)
		if err != nil {
			return c, err
		}
		c = written(c, "", ops)
	}
	if r.vectors != nil {
		return r.vectors.add(ctx, in.Execution, in.Records, c, docs)
	}
	return c, nil
}

// passages cuts the messages and then the tool results among items into
// passages, up to the maximum for a turn.
func passages(x *memory.Execution, items []projection.Item) []search.Doc {
	var docs []search.Doc
	thread := x.Identity().Thread
	for _, kind := range []projection.Kind{projection.Message, projection.ToolResult} {
		for i := range items {
			it := &items[i]
			if it.Kind != kind || kind == projection.Message && !it.FromUser() && it.Role != projection.Assistant {
				continue
			}
			e := Event{Kind: it.Kind, Role: it.Role, Name: it.Name}
			text, _ := tidy(it.Text(), 2*maxPassages*maxPassage)
			n := 0
			for part := range cut(text, maxPassage) {
				if n == maxPassages {
					break
				}
				if len(docs) == maxTurn {
					x.Event("what goes beyond the passages of a turn is not indexed")
					return docs
				}
				d := search.Doc{
					ID:      fmt.Sprintf("%s-%d%.8s", itemKey(x, it, i), n, digest(part)),
					Session: digest(thread) + it.Time.UTC().Format(" 2006-01-02"),
					Speaker: e.Speaker(), Type: string(it.Kind), Scope: thread, Time: it.Time.UTC(), Text: part,
				}
				if len(it.ID) <= maxSource {
					d.Source = it.ID
				}
				docs = append(docs, d)
				n++
			}
		}
	}
	return docs
}

// itemOf returns the [itemKey] of the item that contains a passage.
func itemOf(id string) string { return id[:max(strings.LastIndexByte(id, '-'), 0)] }

// from returns the earliest time of what is shown, or zero if that is
// unlimited.
func (s *shown) from() time.Time {
	if len(s.times) == 0 || s.times[0].time == 0 { // keyTime maps anything before 1970 to 0
		return time.Time{}
	}
	return time.UnixMicro(s.times[0].time)
}

func (r *semanticRecall) recall(ctx context.Context, in *memory.RecallInput[struct{}]) (memory.Recalled[struct{}], error) {
	shown := shownIn(in)
	var out memory.Recalled[struct{}]
	found, err := r.find(ctx, in.Execution, in.Records, search.Query{
		Text: query(in.Query), Limit: r.TopK, Cut: 0.4,
		Filter: search.Filter{Exclude: shown.hasPassage, ExcludeFrom: shown.from()},
	})
	if err != nil {
		return out, err
	}
	docs := make(map[string]*search.Doc)
	for i := range found.Hits {
		h := &found.Hits[i]
		for _, list := range []*[]search.Doc{&h.Before, &h.After} {
			*list = slices.DeleteFunc(*list, func(d search.Doc) bool { return shown.hasPassage(d.ID) })
			for j := range *list {
				docs[(*list)[j].ID] = &(*list)[j]
			}
		}
		docs[h.ID] = &h.Doc
	}
	wrapper, _ := in.Execution.Fits(r.id, "", in.Budget)
	room := in.Budget - wrapper
	packed := search.Pack(found.Hits, room, in.Execution.Count)
	for packed.Text != "" { // a text that contains tags takes more space when shown
		tokens, ok := in.Execution.Fits(r.id, packed.Text, in.Budget)
		if ok {
			break
		}
		room -= tokens - in.Budget
		packed = search.Pack(found.Hits, room, in.Execution.Count)
	}
	if out.Note = found.Note; len(found.Hits) > 0 && packed.Text == "" {
		out.Note = fmt.Sprintf("none of the %d passages that were found fits in the budget", len(found.Hits))
	}
	out.Text = strings.TrimSuffix(packed.Text, "\n")
	cited := make(map[string]bool)
	for _, id := range packed.IDs {
		for _, ref := range []string{in.Records.Key(docs[id].Record), docs[id].Source} {
			if ref != "" && !cited[ref] {
				cited[ref] = true
				out.Refs = append(out.Refs, ref)
			}
		}
	}
	return out, nil
}

// find searches with the layer's Rank.
func (r *semanticRecall) find(ctx context.Context, x *memory.Execution, records *memory.Records, q search.Query) (search.Result, error) {
	ix, err := r.indexes.of(records)
	if err != nil {
		return search.Result{}, err
	}
	if r.Rank != nil {
		q.Rank = func(ctx context.Context, text string, hits []search.Hit) ([]search.Hit, error) {
			hits, err := attempt(ctx, &r.calls, x, func(ctx context.Context) ([]search.Hit, error) { return r.Rank(ctx, text, hits) })
			if err != nil {
				err = errors.New(line(err.Error(), 200))
			}
			return hits, err
		}
	}
	note := ""
	if r.vectors != nil {
		if q.Similar, err = r.vectors.similar(ctx, x, records, q.Text, q.Filter.Exclude); err != nil {
			note = "by words alone: " + line(err.Error(), 200)
		}
	}
	found, err := ix.Search(ctx, records, q)
	found.Note = strings.Join(slices.DeleteFunc([]string{note, found.Note}, func(s string) bool { return s == "" }), "; ")
	return found, err
}

type searchArgs struct {
	Query   string `json:"query" jsonschema:"words to search for"`
	Speaker string `json:"speaker,omitempty" jsonschema:"only what this person said"`
	From    string `json:"from,omitempty" jsonschema:"only from this day on, as 2006-01-02"`
	Until   string `json:"until,omitempty" jsonschema:"only up to and with this day, as 2006-01-02"`
	Limit   int    `json:"limit,omitempty" jsonschema:"at most so many passages, 20 at most; the default is 5"`
}

// recalled is a passage as returned by the tool.
type recalled struct {
	Text    string    `json:"text"`
	Speaker string    `json:"speaker"`
	Time    time.Time `json:"time,omitzero"`
	Thread  string    `json:"thread"`
	Item    string    `json:"item,omitempty"` // id
	Score   float64   `json:"score,omitempty"`
}

type searchResult struct {
	Passages []recalled `json:"passages"`
	Note     string     `json:"note,omitempty"` // why there are no passages
}

func (r *semanticRecall) search(ctx context.Context, in *memory.ToolInput[struct{}], args searchArgs) (searchResult, memory.Change[struct{}], error) {
	out := searchResult{Passages: []recalled{}}
	q := search.Query{Text: query(args.Query), Limit: 5, Around: -1}
	if args.Limit > 0 {
		q.Limit = min(args.Limit, 20)
	}
	if args.Speaker != "" {
		q.Filter.Speakers = []string{args.Speaker}
	}
	var err error
	if q.Filter.From, err = day(args.From); err == nil {
		if q.Filter.To, err = day(args.Until); !q.Filter.To.IsZero() {
			q.Filter.To = q.Filter.To.AddDate(0, 0, 1)
		}
	}
	if err != nil {
		return out, memory.Change[struct{}]{}, err
	}
	found, err := r.find(ctx, in.Execution, in.Records, q)
	if err != nil {
		return out, memory.Change[struct{}]{}, err
	}
	out.Note = found.Note
	for i := range found.Hits {
		h := &found.Hits[i]
		out.Passages = append(out.Passages, recalled{h.Text, h.Speaker, h.Time, h.Scope, h.Source, h.Score})
	}
	return out, memory.Change[struct{}]{}, nil
}

func day(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return t, fmt.Errorf("search: %q is no day like 2026-01-31", line(text, 40))
	}
	return t, nil
}
