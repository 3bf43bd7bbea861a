package thread

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/storage"
)

// Identity says on whose behalf an execution runs.
type Identity struct {
	Thread   string `json:"thread"` // the conversation; required
	Resource string `json:"resource,omitempty"`
	Agent    string `json:"agent,omitempty"`
	Team     string `json:"team,omitempty"`
}

// Usage counts tokens as the provider reported them. CacheRead is nil if it was
// not reported, which differs from zero.
type Usage struct {
	Input      int  `json:"input,omitempty"`
	Output     int  `json:"output,omitempty"`
	CacheRead  *int `json:"cache_read,omitempty"`
	CacheWrite *int `json:"cache_write,omitempty"`
}

// Plus returns the sum of two usages, which shares no memory with them. A
// figure that only one of them has counts.
func (u Usage) Plus(v Usage) Usage {
	u.Input += v.Input
	u.Output += v.Output
	u.CacheRead = sum(u.CacheRead, v.CacheRead)
	u.CacheWrite = sum(u.CacheWrite, v.CacheWrite)
	return u
}

func sum(a, b *int) *int {
	if a == nil && b == nil {
		return nil
	}
	n := 0
	if a != nil {
		n += *a
	}
	if b != nil {
		n += *b
	}
	return &n
}

// Outcome says how an execution ended.
type Outcome string

// The outcomes of an execution.
const (
	Success Outcome = "success"
	Failure Outcome = "failure"
	Aborted Outcome = "aborted"
)

// Run is the record of an execution. It is written with the first turn; when
// the execution ends, it loses what only resuming needs.
type Run struct {
	V         int       `json:"v"`
	ID        string    `json:"execution"`
	Identity  Identity  `json:"identity"`
	Lineage   string    `json:"lineage"` // key prefix of its turns
	Depth     int       `json:"depth,omitempty"`
	Parent    string    `json:"parent,omitempty"`
	Root      int       `json:"root,omitempty"` // for a child: the thread's turn at which its topmost ancestor spawned
	Fork      *Log      `json:"fork,omitempty"` // the log that it began with, if that came from its parent
	Began     time.Time `json:"began,omitzero"`
	Ended     time.Time `json:"ended,omitzero"`
	Outcome   Outcome   `json:"outcome,omitempty"` // empty while it runs
	Base      int       `json:"base,omitempty"`
	FirstTurn int       `json:"first,omitempty"`
	LastTurn  int       `json:"last,omitempty"`
	Step      int       `json:"step,omitempty"`
	Resumed   string    `json:"resumed,omitempty"` // identifies the Resume that wrote it; empty: it ran where it began
	Usage     Usage     `json:"usage,omitzero"`
	Cost      float64   `json:"cost,omitempty"`
	Model     string    `json:"model,omitempty"`
}

// Log returns the log of the execution up to its last turn.
func (x *Run) Log() *Log {
	return &Log{Execution: x.ID, Lineage: x.Lineage, Base: x.Base, Turn: max(x.Base, x.LastTurn), Fork: x.Fork}
}

// Runs yields the executions of a store in the order of their ids, which with
// the default ids is the order in which they began.
func Runs(ctx context.Context, store storage.Adapter) iter.Seq2[*Run, error] {
	return func(yield func(*Run, error) bool) {
		for e, err := range storage.Scan(ctx, store, stored.RunSpace, nil) {
			var x *Run
			if err == nil {
				x, err = stored.Decode[Run](e.Key, e.Value)
			}
			if !yield(x, err) || err != nil {
				return
			}
		}
	}
}

// FindRun returns the record of an execution. If there is none, the error is
// [ErrUnknownExecution].
func FindRun(ctx context.Context, store storage.Adapter, execution string) (*Run, error) {
	key := stored.RunKey(execution)
	data, _, err := store.Get(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, fmt.Errorf("%q: %w", execution, ErrUnknownExecution)
	}
	if err != nil {
		return nil, err
	}
	return stored.Decode[Run](key, data)
}
