package thread

import (
	"context"
	"iter"
	"time"

	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

// Turn is the record of one turn: one Commit. It contains the items that were
// new in it and refers to all others, so that its size does not depend on the
// length of the thread. [Replay] puts them together.
type Turn struct {
	V         int                        `json:"v"`
	Number    int                        `json:"turn"` // within its lineage, from 1
	Execution string                     `json:"execution"`
	Base      int                        `json:"base,omitempty"` // the lineage's last turn when the execution began
	Step      int                        `json:"step"`           // number of the execution's turns, including this one
	Time      time.Time                  `json:"time,omitzero"`
	Tokenizer string                     `json:"tokenizer,omitempty"`
	Before    int                        `json:"before,omitempty"` // number of items in the execution's log before this turn
	Items     []projection.Item          `json:"items,omitempty"`  // new in the log: from outside first, then the response
	Given     int                        `json:"given,omitempty"`  // number of the first Items that a child was given before its parent committed them
	Sizes     []int                      `json:"sizes,omitempty"`  // of Items, in tokens
	View      *View                      `json:"view,omitempty"`   // nil if nothing was projected
	Layers    []projection.LayerUse      `json:"layers,omitempty"`
	History   *projection.HistoryUse     `json:"history,omitempty"`
	Opened    string                     `json:"opened,omitempty"` // why the view opened an epoch
	Notes     []string                   `json:"notes,omitempty"`
	Hooks     []HookReport               `json:"hooks,omitempty"` // those that failed, were skipped, or have a note
	Usage     *Usage                     `json:"usage,omitempty"`
	Cost      float64                    `json:"cost,omitempty"`
	Model     string                     `json:"model,omitempty"`
	Texts     map[string]projection.Item `json:"texts,omitempty"` // by digest: items that later turns may refer to
}

// View is a view by reference.
type View struct {
	Cap          int    `json:"cap"`
	Tokens       int    `json:"tokens"`
	Stable       int    `json:"stable,omitempty"`
	StableTokens int    `json:"stable_tokens,omitempty"`
	Breakpoints  []int  `json:"breakpoints,omitempty"`
	Bands        []Band `json:"bands,omitempty"`
}

// Band is a segment of a view: a stretch of the log, or items by digest.
type Band struct {
	Band  projection.Band `json:"band"`
	Log   *Position       `json:"log,omitempty"`
	Count int             `json:"count,omitempty"` // number of log items from there
	Items []ItemRef       `json:"items,omitempty"`
}

// Position is the place of an item in a log.
type Position struct {
	Execution string `json:"in,omitempty"` // whose log it is; empty: the execution itself
	Turn      int    `json:"t"`
	Item      int    `json:"i,omitempty"` // index in Turn.Items
}

// ItemRef refers to an item by its digest: the first 128 bits of the SHA-256 of
// its encoding, in hex.
type ItemRef struct {
	Digest string `json:"d"`
	Turn   int    `json:"t"` // of the same lineage; its Texts have the item
	Layer  string `json:"layer,omitempty"`
	Tokens int    `json:"n,omitempty"`
}

// Turns yields in order the turns of a thread that are kept, of any execution,
// beginning after a turn number. [RunTurns] yields those of children.
func Turns(ctx context.Context, store storage.Adapter, thread string, after int) iter.Seq2[*Turn, error] {
	return turnsAfter(ctx, store, stored.ThreadLineage(thread), after)
}

// RunTurns yields the turns that an execution committed and that are
// kept, in order.
func RunTurns(ctx context.Context, store storage.Adapter, execution string) iter.Seq2[*Turn, error] {
	return func(yield func(*Turn, error) bool) {
		x, err := FindRun(ctx, store, execution)
		if err != nil {
			yield(nil, err)
			return
		}
		for t, err := range turnsAfter(ctx, store, x.Lineage, x.FirstTurn-1) {
			switch {
			case err == nil && t.Number > x.LastTurn:
				return
			case err == nil && t.Execution != execution:
				continue
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

func turnsAfter(ctx context.Context, store storage.Adapter, lineage string, after int) iter.Seq2[*Turn, error] {
	return func(yield func(*Turn, error) bool) {
		opts := &storage.ScanOptions{After: stored.TurnKey(lineage, max(after, 0))}
		for e, err := range storage.Scan(ctx, store, stored.TurnsPrefix(lineage), opts) {
			var t *Turn
			if err == nil {
				t, err = stored.Decode[Turn](e.Key, e.Value)
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}
