// Package thread reads the threads that package memory stores: which there are, the
// executions and turns of each, the states of the layers, what a model was shown and
// why. It writes nothing, needs no layer and no policy, and may read a store that is
// being written to.
//
// The one decision: a turn's record refers to what earlier ones hold, so that its
// size does not depend on the length of the thread. [Replay] puts a prompt together
// again, and [Explain] says where each item of it is from.
package thread

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/storage"
)

// Info says where a thread stands.
type Info struct {
	Thread    string `json:"thread"`
	Turns     int    `json:"turns"`     // number of the last turn; 0 if only children have committed yet
	First     int    `json:"first"`     // number of the first turn that is kept
	Execution string `json:"execution"` // that committed the last turn
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
	if errors.Is(err, storage.ErrNotFound) { // a child has committed, and its parent not yet
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
	// ErrUnknownExecution says that the store holds nothing of an execution:
	// it never committed, or was pruned.
	ErrUnknownExecution = errors.New("unknown execution")
	// ErrPruned says that a turn, or one that it refers to, is no longer kept.
	ErrPruned = errors.New("turn is no longer kept")
)

// FormatError says that a record was written by a newer version of the layer or
// of package memory. It is left as it is. Its fields are the record's Key, and as
// ints the format that it has (Have) and the newest known one (Supported).
type FormatError = stored.FormatError
