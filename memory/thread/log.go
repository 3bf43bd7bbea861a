package thread

import (
	"context"
	"iter"

	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/storage"
)

// Log is a log up to a turn: first the log that it began with, then the turns
// of a lineage up to Base, then those of an execution.
type Log struct {
	Execution string `json:"execution"`
	Lineage   string `json:"lineage"`
	Base      int    `json:"base,omitempty"`
	Turn      int    `json:"turn"` // the last
	Fork      *Log   `json:"fork,omitempty"`
}

// Of returns the part of the log that belongs to an execution, with what comes
// before it, or nil if there is none. An empty id means the last execution.
func (l *Log) Of(execution string) *Log {
	for l != nil && execution != "" && l.Execution != execution {
		l = l.Fork
	}
	return l
}

// Logged is a turn of a log, with the part of the log that it is in.
type Logged struct {
	*Turn
	In *Log
}

// Backward yields the turns of the log that are kept, newest first; a nil Log
// has none. It holds no lock while the loop body runs.
func (l *Log) Backward(ctx context.Context, store storage.Adapter) iter.Seq2[Logged, error] {
	return func(yield func(Logged, error) bool) {
		for in := l; in != nil; in = in.Fork {
			prefix := stored.TurnsPrefix(in.Lineage)
			opts := storage.ScanOptions{Reverse: true, After: prefix + stored.Pad(min(in.Turn, 1<<40)+1)}
			for e, err := range storage.Scan(ctx, store, prefix, &opts) {
				var t *Turn
				if err == nil {
					t, err = stored.Decode[Turn](e.Key, e.Value)
				}
				if err == nil && !in.sees(t) {
					continue
				}
				if !yield(Logged{t, in}, err) || err != nil {
					return
				}
			}
		}
	}
}

// sees reports whether this part of the log includes a turn of its lineage.
func (l *Log) sees(t *Turn) bool {
	return t.Number <= l.Turn && (t.Number <= l.Base || t.Execution == l.Execution)
}
