package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/storage/mem"
)

type addArgs struct {
	N   int    `json:"n" jsonschema:"what to add"`
	How string `json:"how,omitempty"`
}

type addResult struct {
	Sum int `json:"sum"`
}

func tooled() memory.Layer {
	return memory.Define(memory.Spec{ID: "sum"}, memory.Hooks[counter]{Tools: []memory.Tool[counter]{
		memory.NewTool("add", "Add to the sum.", func(_ context.Context, in *memory.ToolInput[counter], args addArgs) (addResult, memory.Change[counter], error) {
			switch args.How {
			case "panic":
				panic("boom")
			case "error":
				return addResult{}, add(1000), errHook
			case "bad change":
				return addResult{}, add(1000).Put("", nil), nil
			}
			return addResult{Sum: in.State.N + args.N}, add(args.N).Put(fmt.Sprint("k", args.N), nil), nil
		}),
	}})
}

func TestTools(t *testing.T) {
	store := mem.New()
	m := newMemory(t, store, nil, tooled())
	run := begin(t, m, memory.Identity{})
	tools := run.Tools()
	if len(tools) != 1 || tools[0].Name != "sum_add" || tools[0].Description != "Add to the sum." {
		t.Fatalf("tools %+v", tools)
	}
	if schema, err := json.Marshal(tools[0].InputSchema); err != nil || !json.Valid(schema) || tools[0].InputSchema.Properties["n"].Description != "what to add" {
		t.Errorf("schema %s, %v", schema, err)
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := run.Call(t.Context(), "sum_add", json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	out, err := run.Call(t.Context(), "sum_add", json.RawMessage(`{"n":1}`))
	if err != nil || string(out) != `{"sum":191}` {
		t.Errorf("got %s, %v", out, err)
	}
	for _, bad := range []string{`{`, `[]`, `{}`, `{"n":"1"}`, `{"n":1,"m":2}`, ``, `null`} {
		var args *memory.ArgumentsError
		if _, err := run.Call(t.Context(), "sum_add", json.RawMessage(bad)); !errors.As(err, &args) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	var panicked *memory.PanicError
	if _, err := run.Call(t.Context(), "sum_add", json.RawMessage(`{"n":1,"how":"panic"}`)); !errors.As(err, &panicked) {
		t.Errorf("got %v", err)
	}
	if _, err := run.Call(t.Context(), "sum_add", json.RawMessage(`{"n":1,"how":"error"}`)); !errors.Is(err, errHook) {
		t.Errorf("got %v", err)
	}
	if _, err := run.Call(t.Context(), "sum_add", json.RawMessage(`{"n":1,"how":"bad change"}`)); err == nil {
		t.Error("a bad change was taken")
	}
	if _, err := run.Call(t.Context(), "sum_sub", nil); !errors.Is(err, memory.ErrUnknownTool) {
		t.Errorf("got %v", err)
	}
	if n := count(t, run, "sum"); n != 191 {
		t.Errorf("state %d", n)
	}
	if stored(t, store, "sum") != "" {
		t.Error("written before Commit")
	}
	commit(t, run, "hi")
	if got := stored(t, store, "sum"); got != `{"n":191}` {
		t.Errorf("state %s", got)
	}
	keys := 0
	for range store.List(t.Context(), "_layers/sum/thread/t/r0/") {
		keys++
	}
	if keys != 20 {
		t.Errorf("%d records", keys)
	}
	end(t, run)
	if _, err := run.Call(t.Context(), "sum_add", json.RawMessage(`{"n":1}`)); !errors.Is(err, memory.ErrEnded) {
		t.Errorf("got %v", err)
	}
}
