// Package thread reads the threads that package memory stores: which threads
// exist, their executions and turns, the states of the layers, and what a model
// was shown and why. It writes nothing, needs neither layers nor a policy, and
// may read a store that is being written.
//
// The one decision: a turn's record refers to what earlier ones hold, so that
// its size does not depend on the length of the thread. [Replay] rebuilds a
// prompt, and [Explain] says where each of its items comes from.
package thread

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/storage"
)

// Info describes a thread.
type Info struct {
	Thread    string `json:"thread"`
	Turns     int    `json:"turns"`     // number of the last turn; 0 if only children have committed yet
	First     int    `json:"first"`     // number of the first turn kept
	Execution string `json:"execution"` // the one that committed the last turn
}

// List yields the threads of a store, in the byte order of their keys,
// reading one record for each.
func List(ctx context.Context, store storage.Adapter) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		after := ""
		for {
			var entry storage.Entry
			for e, err := range storage.Scan(ctx, store, stored.ThreadSpace, &storage.ScanOptions{After: after, Limit: 1}) {
				if err != nil {
					yield(Info{}, err)
					return
				}
				entry = e
			}
			if entry.Key == "" {
				return
			}
			segment, _, _ := strings.Cut(entry.Key[len(stored.ThreadSpace):], "/")
			info, err := readInfo(ctx, store, segment)
			if !yield(info, err) {
				return
			}
			after = stored.ThreadSpace + segment + "/\U0010FFFF" // no key of the thread sorts after it
		}
	}
}

func readInfo(ctx context.Context, store storage.Adapter, segment string) (Info, error) {
	thread, err := storage.UnescapeSegment(segment)
	if err != nil {
		return Info{}, err
	}
	key := stored.HeadKey(stored.ThreadLineage(thread))
	data, _, err := store.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) { // a child has committed, but its parent has not
		return Info{Thread: thread, First: 1}, nil
	}
	if err != nil {
		return Info{}, err
	}
	h, err := stored.Decode[stored.Head](key, data)
	if err != nil {
		return Info{}, err
	}
	return Info{Thread: thread, Turns: h.Turn, First: max(h.First, 1), Execution: h.Execution}, nil
}

// The errors that callers branch on.
var (
	// ErrUnknownExecution means that the store has nothing of an execution: it
	// never committed, or was pruned.
	ErrUnknownExecution = errors.New("unknown execution")
	// ErrPruned means that a turn, or one that it refers to, is no longer kept.
	ErrPruned = errors.New("turn is no longer kept")
)

// FormatError means that a record was written by a newer version of the layer
// or of package memory. The record is left unchanged. Key is that of the
// record, Have its format, and Supported the newest known format.
type FormatError = stored.FormatError
