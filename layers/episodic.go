package layers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

// EpisodicOptions configures [Episodic].
type EpisodicOptions struct {
	// Spec overrides: ID "episodic", slot [memory.SlotEpisodic], scope
	// resource, budget at most 800 tokens, placement live.
	Spec memory.Spec
	// TopK is how many episodes are recalled at most; 0 means 3.
	TopK int
	// Floor is the least relevance of an episode: the share of the query's
	// information that it matches; 0 means 0.25, negative no minimum.
	Floor float64
	// Language is that of [search.Options].
	Language string
	// Summarize writes the summary of an execution, in a few sentences. It
	// replaces the default, which says what was asked, which tools were used, how
	// the execution ended and what was answered last.
	Summarize func(ctx context.Context, in SummarizeInput) (string, error)
}

// Episode is what is remembered of a finished execution.
type Episode struct {
	Execution string         `json:"execution"`
	Thread    string         `json:"thread"`
	Begun     time.Time      `json:"begun,omitzero"` // time of its first item
	Ended     time.Time      `json:"ended,omitzero"` // time of its last item
	Outcome   memory.Outcome `json:"outcome"`
	Summary   string         `json:"summary"`        // at most 2,000 bytes
	Refs      []string       `json:"refs,omitempty"` // ids of the items from which the default summary was made
}

// SummarizeInput is the input of Summarize.
type SummarizeInput struct {
	Execution *memory.Execution // the one that asks; after a failure, not always the one to summarise
	Episode   Episode           // with the default summary
	Events    []Event           // the first 20 and the last 40 of the execution
}

// Episodic returns the layer that keeps one summary of every finished execution
// and recalls those that match the words of the query, by the words of the
// summary and by what the user said in the execution. If the query asks for
// what was last ("where were we?", "last time"), the newest episode comes
// first. Episodes whose items a run still holds are left out.
//
// Episodes are written when an execution ends, children included, whatever its
// outcome; an execution in which nobody said anything leaves none. If Summarize
// fails, the episode has the default summary, and the events wait in the
// layer's records until a later turn, of any execution in the scope, summarises
// them. If nothing is relevant enough, the layer recalls nothing and its note
// says so.
//
// The state is {"backlog"}: how summarising goes. The records are e/<id> →
// [Episode], wait/<id> → an episode with its events, open/<digest of the
// execution> → key of its first item, and those of package search. Ids are
// <time of the end>-<digest>. Episodes are kept until the layer is cleared.
func Episodic(opts *EpisodicOptions) memory.Layer {
	var e episodic
	if opts != nil {
		e.EpisodicOptions = *opts
	}
	if e.TopK <= 0 {
		e.TopK = 3
	}
	e.Floor = cmp.Or(e.Floor, 0.25)
	e.indexes = newIndexes(search.Options{Language: e.Language})
	spec := override(memory.Spec{
		ID: "episodic", Slot: memory.SlotEpisodic, Scope: memory.ScopeResource,
		Budget: projection.Between(0, 800), Placement: projection.Live, Format: 1,
	}, e.Spec)
	return memory.Define(spec, memory.Hooks[episodes]{
		Recall:     e.recall,
		Store:      e.store,
		OnComplete: e.complete,
		Dispose: func(ctx context.Context, in *memory.DisposeInput[episodes]) error {
			return e.calls.wait(ctx, in.Execution)
		},
	})
}

// episodes is the state.
type episodes struct {
	Backlog backlog `json:"backlog,omitzero"`
}

type episodic struct {
	EpisodicOptions
	calls   calls
	indexes indexes[search.Index]
}

const (
	episodePrefix = "e/"
	waitPrefix    = "wait/"
	openPrefix    = "open/"

	maxSummary              = 2000    // bytes
	maxSaid                 = 8 << 10 // bytes
	firstEvents, lastEvents = 20, 40
)

// store notes where the execution begins, and summarises waiting episodes.
func (e *episodic) store(ctx context.Context, in *memory.StoreInput[episodes]) (memory.Change[episodes], error) {
	var c memory.Change[episodes]
	if e.Summarize != nil && !in.State.Backlog.ok() {
		c = e.catchUp(ctx, in)
	}
	if in.Execution.Step() == 0 && len(in.New) > 0 {
		c = c.Put(openPrefix+digest(in.Execution.ID()), []byte(itemKey(in.Execution, &in.New[0], 0)))
	}
	return c, nil
}

// waitingEpisode is an episode whose events wait for Summarize.
type waitingEpisode struct {
	Episode Episode `json:"episode"`
	Events  []Event `json:"events"`
}

// catchUp tries one waiting episode, a different one each time.
func (e *episodic) catchUp(ctx context.Context, in *memory.StoreInput[episodes]) memory.Change[episodes] {
	seen := in.State.Backlog
	settle := func(now backlog) memory.Change[episodes] {
		return memory.Update(func(s episodes) episodes {
			if s.Backlog == seen { // otherwise another execution has failed meanwhile
				s.Backlog = now
			}
			return s
		})
	}
	key, w, err := nextEpisode(ctx, in.Records, seen.After)
	if err == nil && key == "" {
		key, w, err = nextEpisode(ctx, in.Records, "")
	}
	if err == nil && key == "" {
		return settle(backlog{})
	}
	now := seen
	if key != "" {
		now.After = key
	}
	var value []byte
	if err == nil {
		w.Episode.Summary, err = e.summarize(ctx, in.Execution, w.Episode, w.Events)
	}
	if err == nil {
		value, err = json.Marshal(&w.Episode)
	}
	if err != nil {
		now.Failures++
		now.Error = line(err.Error(), 200)
		return settle(now)
	}
	return settle(now).Put(episodePrefix+strings.TrimPrefix(key, waitPrefix), value).Delete(key)
}

func nextEpisode(ctx context.Context, r *memory.Records, after string) (key string, w waitingEpisode, err error) {
	for entry, err := range r.Scan(ctx, waitPrefix, scanAfter(after, 1)) {
		if err != nil {
			return "", w, err
		}
		if err := json.Unmarshal(entry.Value, &w); err != nil {
			err = fmt.Errorf("decode %s: %w", entry.Key, err)
			return entry.Key, w, err
		}
		return entry.Key, w, nil
	}
	return "", w, nil
}

func (e *episodic) summarize(ctx context.Context, x *memory.Execution, ep Episode, list []Event) (string, error) {
	in := SummarizeInput{Execution: x, Episode: ep, Events: list}
	text, err := attempt(ctx, &e.calls, x, func(ctx context.Context) (string, error) { return e.Summarize(ctx, in) })
	if err == nil {
		if text = line(text, maxSummary); text == "" {
			err = errors.New("summarize: the summary is empty")
		}
	}
	return text, err
}

// complete writes the episode of the execution.
func (e *episodic) complete(ctx context.Context, in *memory.CompleteInput[episodes]) (memory.Change[episodes], error) {
	x := in.Execution
	open := openPrefix + digest(x.ID())
	first, err := in.Records.Get(ctx, open)
	if errors.Is(err, storage.ErrNotFound) {
		return memory.Change[episodes]{}, nil // no turn was committed
	}
	if err != nil {
		return memory.Change[episodes]{}, err
	}
	t := tale{keep: e.Summarize != nil, names: make(map[string]*use), failed: make(map[string]int)}
	if err := t.read(ctx, in, string(first)); err != nil {
		return memory.Change[episodes]{}, err
	}
	ep, said := t.episode(x, in.Outcome)
	if ep.Summary == "" {
		return memory.Change[episodes]{}.Delete(open), nil
	}
	var heard []Event // events to keep waiting if Summarize fails
	if e.Summarize != nil {
		heard = events(x, t.ends(), true)
		var text string
		if text, err = e.summarize(ctx, x, ep, heard); err == nil {
			ep.Summary, heard = text, nil
		}
	}
	value, failure := json.Marshal(&ep)
	if failure != nil {
		return memory.Change[episodes]{}, failure
	}
	id := timeKey(ep.Ended) + "-" + digest(x.ID())
	ix, failure := e.indexes.of(in.Records)
	if failure != nil {
		return memory.Change[episodes]{}, failure
	}
	ops, failure := ix.Append(ctx, in.Records, search.Doc{ID: id, Time: ep.Ended, Text: said + "\n" + ep.Summary})
	if failure != nil {
		return memory.Change[episodes]{}, failure
	}
	var c memory.Change[episodes]
	if heard != nil {
		c = memory.Update(func(s episodes) episodes {
			s.Backlog = s.Backlog.failed(err, nil)
			return s
		})
		value, failure := json.Marshal(waitingEpisode{ep, heard})
		if failure != nil {
			return memory.Change[episodes]{}, failure
		}
		c = c.Put(waitPrefix+id, value)
	}
	return written(c.Delete(open).Put(episodePrefix+id, value), "", ops), nil
}

// lastTime matches queries about what was last.
var lastTime = regexp.MustCompile(`(?i)\b(?:last time|last conversation|last session|previous(?:ly)?|where (?:were|was|did) (?:we|i)|where we left|left off|continue|carry on|pick up where|what did we do|what have we done)\b`)

func (e *episodic) recall(ctx context.Context, in *memory.RecallInput[episodes]) (memory.Recalled[episodes], error) {
	var out memory.Recalled[episodes]
	out.Note = in.State.Backlog.note("summarize")
	text := query(in.Query)
	var ids []string
	if lastTime.MatchString(text) {
		for key, err := range in.Records.Scan(ctx, episodePrefix, &storage.ScanOptions{Reverse: true, Limit: 1}) {
			if err != nil {
				return out, err
			}
			ids = append(ids, strings.TrimPrefix(key.Key, episodePrefix))
		}
	}
	ix, err := e.indexes.of(in.Records)
	if err != nil {
		return out, err
	}
	// The search also returns episodes that are still in the log: only if too few
	// others are left does it ask for more, each of which must be read.
	var found search.Result
	for _, limit := range []int{2 * e.TopK, max(maxCandidates, 2*e.TopK)} {
		found, err = ix.Search(ctx, in.Records, search.Query{Text: text, Floor: e.Floor, Limit: limit, Around: -1})
		if err != nil {
			return out, err
		}
		for i := range found.Hits {
			if h := &found.Hits[i]; h.Score >= e.Floor && !slices.Contains(ids, h.ID) {
				ids = append(ids, h.ID)
			}
		}
		if out.Items, err = e.show(ctx, in, ids); err != nil {
			return out, err
		}
		if len(out.Items) == e.TopK || len(found.Hits) < limit {
			break
		}
	}
	if len(out.Items) == 0 && out.Note == "" {
		if out.Note = found.Note; len(ids) > 0 {
			out.Note = "the episodes that match are still in the log"
		}
	}
	return out, nil
}

// show returns the first TopK of the episodes that are no longer in the log.
func (e *episodic) show(ctx context.Context, in *memory.RecallInput[episodes], ids []string) ([]projection.Item, error) {
	var items []projection.Item
	for _, id := range ids {
		if len(items) == e.TopK {
			break
		}
		value, err := in.Records.Get(ctx, episodePrefix+id)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var ep Episode
		if json.Unmarshal(value, &ep) != nil || ep.visible(in) {
			continue // damaged: the others still count
		}
		it := item(fmt.Sprintf("[%s, %s] %s", ep.Ended.Format("2006-01-02 15:04"), ep.Outcome, line(ep.Summary, maxSummary)))
		it.Refs = append([]string{in.Records.Key(episodePrefix + id)}, ep.Refs...)
		items = append(items, it)
	}
	return items, nil
}

// visible reports whether the prompt shows the whole episode.
func (ep *Episode) visible(in *memory.RecallInput[episodes]) bool {
	shown := in.Shown
	if len(shown) > 1 && shown[0].FromUser() && shown[0].Text() == in.Query {
		shown = shown[1:] // which may be isolated, before a gap
	}
	return ep.Thread == in.Execution.Identity().Thread && len(shown) > 0 && !shown[0].Time.UTC().After(ep.Begun)
}
