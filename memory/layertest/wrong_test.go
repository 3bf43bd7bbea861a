package layertest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/layertest"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
)

// heard is the state of the layers here: what the user has said.
type heard struct {
	Said []string `json:"said,omitempty"`
}

// recalls says what was heard.
func recalls(_ context.Context, in *memory.RecallInput[heard]) (memory.Recalled[heard], error) {
	return memory.Recalled[heard]{Text: strings.Join(in.State.Said, "\n")}, nil
}

// learns keeps what the user says.
func learns(_ context.Context, in *memory.StoreInput[heard]) (memory.Change[heard], error) {
	text := in.New[0].Text()
	return memory.Update(func(h heard) heard {
		h.Said = append(h.Said[:len(h.Said):len(h.Said)], text)
		return h
	}), nil
}

func define(scope memory.Scope, hooks memory.Hooks[heard]) memory.Layer {
	return memory.Define(memory.Spec{ID: "heard", Scope: scope, Placement: projection.Live, Format: 1}, hooks)
}

var (
	shared sync.Mutex
	of     []string // what the layers that keep it past the store have heard
	calls  int
)

// wrong are layers that each do one thing wrong, with the case that says so.
var wrong = map[string]func(store storage.Adapter) memory.Layer{
	"shows-what-was-said": func(storage.Adapter) memory.Layer {
		return define(memory.ScopeResource, memory.Hooks[heard]{Recall: recalls}) // learns nothing
	},
	"reading-writes-nothing": func(store storage.Adapter) memory.Layer {
		return define(memory.ScopeResource, memory.Hooks[heard]{Store: learns, Recall: func(ctx context.Context, in *memory.RecallInput[heard]) (memory.Recalled[heard], error) {
			if err := storage.Set(ctx, store, "_seen", []byte(in.Query)); err != nil {
				return memory.Recalled[heard]{}, err
			}
			return recalls(ctx, in)
		}})
	},
	"the-same-again": func(storage.Adapter) memory.Layer {
		return define(memory.ScopeResource, memory.Hooks[heard]{Store: learns, Recall: func(ctx context.Context, in *memory.RecallInput[heard]) (memory.Recalled[heard], error) {
			shared.Lock()
			defer shared.Unlock()
			calls++
			return memory.Recalled[heard]{Text: fmt.Sprintln(in.State.Said, calls)}, nil
		}})
	},
	"what-is-known-is-stored": func(storage.Adapter) memory.Layer {
		var said []string // in the layer, not in the store
		return define(memory.ScopeResource, memory.Hooks[heard]{
			Store: func(_ context.Context, in *memory.StoreInput[heard]) (memory.Change[heard], error) {
				shared.Lock()
				defer shared.Unlock()
				said = append(said, in.New[0].Text())
				return memory.Change[heard]{}, nil
			},
			Recall: func(context.Context, *memory.RecallInput[heard]) (memory.Recalled[heard], error) {
				shared.Lock()
				defer shared.Unlock()
				return memory.Recalled[heard]{Text: strings.Join(said, "\n")}, nil
			},
		})
	},
	"others-see-nothing": func(storage.Adapter) memory.Layer {
		return define(memory.ScopeResource, memory.Hooks[heard]{
			Store: func(_ context.Context, in *memory.StoreInput[heard]) (memory.Change[heard], error) {
				shared.Lock()
				defer shared.Unlock()
				of = append(of, in.New[0].Text())
				return memory.Change[heard]{}, nil
			},
			Recall: func(context.Context, *memory.RecallInput[heard]) (memory.Recalled[heard], error) {
				shared.Lock()
				defer shared.Unlock()
				return memory.Recalled[heard]{Text: strings.Join(of, "\n")}, nil
			},
		})
	},
	"keeps-its-budget": func(storage.Adapter) memory.Layer {
		return define(memory.ScopeResource, memory.Hooks[heard]{Store: learns, Recall: func(ctx context.Context, in *memory.RecallInput[heard]) (memory.Recalled[heard], error) {
			if in.Budget < 1000 {
				return memory.Recalled[heard]{}, errors.New("there is no room")
			}
			return recalls(ctx, in)
		}})
	},
	"after-a-failure": func(store storage.Adapter) memory.Layer {
		broken := false // what could not be read once is not read again
		return define(memory.ScopeResource, memory.Hooks[heard]{Store: learns, Recall: func(ctx context.Context, in *memory.RecallInput[heard]) (memory.Recalled[heard], error) {
			_, _, err := store.Get(ctx, "_names")
			if broken = broken || err != nil && !errors.Is(err, storage.ErrNotFound); broken {
				return memory.Recalled[heard]{}, nil
			}
			return recalls(ctx, in)
		}})
	},
	"children": func(storage.Adapter) memory.Layer {
		return define(memory.ScopeResource, memory.Hooks[heard]{Store: learns, Recall: recalls, OnReturn: func(context.Context, *memory.ReturnInput[heard]) (memory.Returned[heard], error) {
			return memory.Returned[heard]{}, errors.New("whose child is that?")
		}})
	},
	"many-at-once": func(storage.Adapter) memory.Layer {
		return define(memory.ScopeResource, memory.Hooks[heard]{Recall: recalls, Store: func(_ context.Context, in *memory.StoreInput[heard]) (memory.Change[heard], error) {
			in.State.Said = append(in.State.Said, in.New[0].Text()) // what it was given to read
			next := in.State
			if len(next.Said) > len(turns) {
				return memory.Change[heard]{}, errors.New("that is too much")
			}
			return memory.Update(func(heard) heard { return next }), nil
		}})
	},
	"small-store": func(storage.Adapter) memory.Layer {
		return define(memory.ScopeResource, memory.Hooks[heard]{Recall: recalls, Store: func(ctx context.Context, in *memory.StoreInput[heard]) (memory.Change[heard], error) {
			ch, err := learns(ctx, in)
			for i := range 100 {
				ch = ch.Put(fmt.Sprint("copy", i), make([]byte, 1<<10))
			}
			return ch, err
		}})
	},
}

var turns = []layertest.Turn{{User: "I live in Lisbon.", Assistant: "I see."}, {User: "It is late.", Assistant: "It is."}}

func prove(t *testing.T, layer func(storage.Adapter) memory.Layer) {
	layertest.Run(t, layertest.Layer{
		New:   func(_ *testing.T, store storage.Adapter) memory.Layer { return layer(store) },
		Turns: turns, Ask: "Where do I live?", Shows: "Lisbon",
	})
}

func TestRight(t *testing.T) {
	for _, scope := range []memory.Scope{memory.ScopeThread, memory.ScopeResource, memory.ScopeGlobal} {
		t.Run(string(scope), func(t *testing.T) {
			prove(t, func(storage.Adapter) memory.Layer {
				return define(scope, memory.Hooks[heard]{Recall: recalls, Store: learns})
			})
		})
	}
}

const childEnv = "STRATA_WRONG_LAYER"

// TestWrong runs the suite over each wrong layer, in a process of its own, in which it
// must fail.
func TestWrong(t *testing.T) {
	if name := os.Getenv(childEnv); name != "" {
		prove(t, wrong[name])
		return
	}
	for name := range wrong {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWrong$")
			cmd.Env = append(os.Environ(), childEnv+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestWrong/"+name+" ") {
				t.Errorf("%v: the case does not fail:\n%s", err, out)
			}
		})
	}
}
