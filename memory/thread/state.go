package thread

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"

	"github.com/stratamem/strata/memory/internal/stored"
	"github.com/stratamem/strata/storage"
)

// Scope says who shares a layer's data.
type Scope string

// The scopes of a layer.
const (
	ScopeThread    Scope = "thread"    // the executions of one thread; the default
	ScopeResource  Scope = "resource"  // all threads of one resource, usually a person
	ScopeGlobal    Scope = "global"    // everyone who uses the store
	ScopeExecution Scope = "execution" // one execution only
)

// Of returns the kind and id of the scope in which an execution finds a layer's
// data, as in [State]. Without a resource, a layer of resource scope uses the
// thread.
func (s Scope) Of(who Identity, execution string) (kind Scope, id string) {
	switch {
	case s == ScopeGlobal:
		return ScopeGlobal, "all"
	case s == ScopeExecution:
		return ScopeExecution, execution
	case s == ScopeResource && who.Resource != "":
		return ScopeResource, who.Resource
	}
	return ScopeThread, who.Thread
}

// State is a layer's stored state in one scope.
type State struct {
	Layer  string          `json:"layer"`
	Kind   Scope           `json:"kind"` // thread also for a resource scope without a resource
	ID     string          `json:"id"`
	Key    string          `json:"key"`
	Format int             `json:"format"`
	Clears int             `json:"clears,omitempty"` // how often it was cleared
	Size   int             `json:"size"`             // bytes of State
	State  json.RawMessage `json:"state,omitempty"`  // nil: cleared, or never written
}

// States yields the stored states of a layer, or of all layers if layer is
// empty, in the byte order of their keys.
func States(ctx context.Context, store storage.Adapter, layer string) iter.Seq2[State, error] {
	prefix := stored.LayerSpace
	if layer != "" {
		prefix += layer + "/"
	}
	return func(yield func(State, error) bool) {
		for key, err := range store.List(ctx, prefix) {
			segments := strings.Split(key, "/")
			if err == nil && (len(segments) != 5 || segments[4] != "state") {
				continue
			}
			var info State
			if err == nil {
				info, err = readState(ctx, store, key, segments)
			}
			if errors.Is(err, storage.ErrNotFound) {
				continue // deleted meanwhile
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

func readState(ctx context.Context, store storage.Adapter, key string, segments []string) (State, error) {
	id, err := storage.UnescapeSegment(segments[3])
	if err != nil {
		return State{}, err
	}
	e, err := stored.ReadEnvelope(ctx, store, key, func() ([]byte, error) {
		raw, _, err := store.Get(ctx, key)
		return raw, err
	})
	if err != nil {
		return State{}, err
	}
	return State{
		Layer: segments[1], Kind: Scope(segments[2]), ID: id, Key: key,
		Format: e.Format, Clears: e.Clears, Size: len(e.State), State: e.State,
	}, nil
}
