package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// growing is a layer whose state is what users said, in a list; "drop" takes the
// oldest half out, "replace" puts other words in the place of all, and "clear"
// clears it.
func growing(scope memory.Scope) memory.Layer {
	return memory.Define(memory.Spec{ID: "list", Scope: scope}, memory.Hooks[[]string]{
		Recall: func(_ context.Context, in *memory.RecallInput[[]string]) (memory.Recalled[[]string], error) {
			return memory.Recalled[[]string]{Text: strings.Join(in.State, ";")}, nil
		},
		Store: func(_ context.Context, in *memory.StoreInput[[]string]) (memory.Change[[]string], error) {
			text := in.New[0].Text()
			if text == "clear" {
				return memory.Clear[[]string](), nil
			}
			return memory.Update(func(s []string) []string {
				switch text {
				case "drop":
					return s[len(s)/2:]
				case "replace":
					for i := range s {
						s[i] = fmt.Sprintf("%x-%d", s[i], len(s))
					}
					return s
				}
				return append(s, text)
			}), nil
		},
	})
}

const (
	listState = "_layers/list/resource/r/state"
	listBase  = "_layers/list/resource/r/base"
)

// fact is a text that no other shortens much.
func fact(n int) string {
	return fmt.Sprintf("fact %d of %x: %x", n, n*n*2654435761, n*40503*n*n)
}

func listed(t *testing.T, store storage.Adapter) string {
	t.Helper()
	for info, err := range thread.States(t.Context(), store, "list") {
		if err != nil {
			t.Fatal(err)
		}
		return string(info.State)
	}
	return ""
}

// raw returns what is stored under a key, unpacked; "" if nothing is.
func raw(t *testing.T, store storage.Adapter, key string) string {
	t.Helper()
	value, _, err := store.Get(t.Context(), key)
	if errors.Is(err, storage.ErrNotFound) {
		return ""
	}
	if err == nil {
		value, err = pack.Unpack(value)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}

func sayTo(t *testing.T, run *memory.Run, text string) {
	t.Helper()
	project(t, run, projection.Text(projection.User, text))
	commit(t, run, "ok")
}

// TestStateThatGrows pins that a turn writes of a long state what is new, that any
// reader has all of it, and that nothing is left of what goes.
func TestStateThatGrows(t *testing.T) {
	store := mem.New()
	written := 0
	counted := &counts{Adapter: store, put: func(key string, value []byte) {
		if key == listState || key == listBase {
			written += len(value)
		}
	}}
	m := newMemory(t, counted, nil, growing(memory.ScopeResource))
	run := begin(t, m, memory.Identity{Thread: "t", Resource: "r"})
	var want []string
	check := func() {
		t.Helper()
		if got := listed(t, store); got != `["`+strings.Join(want, `","`)+`"]` {
			t.Fatalf("after %d turns the state is %s", len(want), got)
		}
	}
	for n := range 60 {
		want = append(want, fact(n))
		sayTo(t, run, fact(n))
		check()
	}
	written = 0
	for n := range 20 {
		want = append(want, fact(60+n))
		sayTo(t, run, fact(60+n))
	}
	check()
	if whole := len(listed(t, store)); written > 20*whole/4 {
		t.Errorf("20 turns of a state of %d bytes write %d", whole, written)
	}
	// Another Memory goes on with it, and this one sees that.
	other := begin(t, newMemory(t, store, nil, growing(memory.ScopeResource)), memory.Identity{Thread: "u", Resource: "r"})
	for n := range 30 {
		want = append(want, fact(100+n), fact(200+n))
		sayTo(t, other, fact(100+n))
		sayTo(t, run, fact(200+n))
		check()
	}
	// What goes is in none of the two records.
	gone := want[:len(want)/2]
	want = want[len(want)/2:]
	sayTo(t, run, "drop")
	check()
	for _, key := range []string{listState, listBase} {
		for _, text := range gone {
			if strings.Contains(raw(t, store, key), text) {
				t.Errorf("%s still has %q", key, text)
			}
		}
	}
	sayTo(t, run, "replace")
	sayTo(t, run, "replace")
	if raw(t, store, listBase) != "" {
		t.Error("a state that is replaced again and again has a base")
	}
	for range 3 {
		sayTo(t, run, "more")
	}
	if raw(t, store, listBase) == "" {
		t.Error("a state that is added to has no base")
	}
	sayTo(t, run, "clear")
	if state, base := listed(t, store), raw(t, store, listBase); state != "" || base != "" {
		t.Errorf("after clearing: state %s, base %s", state, base)
	}
}

// TestStateOfAnyShape changes a state in every way in turn, by runs of one Memory and
// of another: what one left in memory for the next must not show.
func TestStateOfAnyShape(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 13))
		store := mem.New()
		one, other := newMemory(t, store, nil, growing(memory.ScopeResource)), newMemory(t, store, nil, growing(memory.ScopeResource))
		var runs []*memory.Run
		for i, m := range []*memory.Memory{one, one, other} {
			runs = append(runs, begin(t, m, memory.Identity{Thread: fmt.Sprint("t", i), Resource: "r"}))
		}
		var want []string
		turn := func(text string) {
			switch text {
			case "clear":
				want = nil
			case "drop":
				want = slices.Clone(want[len(want)/2:])
			case "replace":
				for i := range want {
					want[i] = fmt.Sprintf("%x-%d", want[i], len(want))
				}
			default:
				want = append(want, text)
			}
			run := runs[0]
			if rng.IntN(4) == 0 {
				run = runs[rng.IntN(3)]
			}
			sayTo(t, run, text)
			whole := `["` + strings.Join(want, `","`) + `"]`
			if got := listed(t, store); got != whole && (len(want) > 0 || len(got) > len("null")) {
				t.Fatalf("seed %d: after %q the state is %.200s, and should be %.200s", seed, text, got, whole)
			}
		}
		for n := range 300 {
			switch p := rng.IntN(30); {
			case p == 0:
				turn("clear")
			case p < 3:
				turn("drop")
			case p < 6 && len(want) > 0 && len(want[0]) < 500:
				turn("replace")
			default:
				turn(fact(n))
			}
		}
	}
}

// TestStateOfExecutionThatGrows pins that its base goes with it.
func TestStateOfExecutionThatGrows(t *testing.T) {
	store := mem.New()
	run := begin(t, newMemory(t, store, nil, growing(memory.ScopeExecution)), memory.Identity{Thread: "t"})
	for n := range 60 {
		sayTo(t, run, fact(n))
	}
	if n := countKeys(t, store, "_layers/list/"); n != 2 {
		t.Errorf("%d records, want a state and its base", n)
	}
	end(t, run)
	if n := countKeys(t, store, "_layers/list/"); n != 0 {
		t.Errorf("%d records are left of an execution that ended", n)
	}
}

func countKeys(t *testing.T, store storage.Adapter, prefix string) (n int) {
	t.Helper()
	for _, err := range store.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestStateWithoutBase pins that a state whose base is gone, damaged or another's is
// an error and not another state, and that a reader which comes between the two
// reads again.
func TestStateWithoutBase(t *testing.T) {
	store := mem.New()
	run := begin(t, newMemory(t, store, nil, growing(memory.ScopeResource)), memory.Identity{Thread: "t", Resource: "r"})
	for n := range 60 {
		sayTo(t, run, fact(n))
	}
	want := listed(t, store)
	state, base := get(t, store, listState), get(t, store, listBase)
	read := func(s storage.Adapter) (got string, err error) {
		for info, e := range thread.States(t.Context(), s, "list") {
			got, err = string(info.State), e
		}
		return got, err
	}
	for what, value := range map[string][]byte{"none": nil, "another": []byte(`["x"]`), "a part": base[:len(base)/2]} {
		op := storage.Put(listBase, value)
		if value == nil {
			op = storage.Remove(listBase)
		}
		if err := store.Apply(t.Context(), op); err != nil {
			t.Fatal(err)
		}
		if got, err := read(store); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("base: %s: %q, %v", what, got, err)
		}
		if _, err := newMemory(t, store, nil, growing(memory.ScopeResource)).Begin(t.Context(), memory.Identity{Thread: "u", Resource: "r"}); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("base: %s: Begin: %v", what, err)
		}
	}
	if err := store.Apply(t.Context(), storage.Put(listBase, []byte(`["x"]`)), storage.Put(listState, state)); err != nil {
		t.Fatal(err)
	}
	if got, err := read(&late{Adapter: store, key: listBase, come: func() { put(t, store, listBase, base) }}); err != nil || got != want {
		t.Errorf("a reader between a state and its base has %q, %v", got, err)
	}
}

// late is a store in which another writer comes after a key was read.
type late struct {
	storage.Adapter
	key  string
	come func()
}

func (s *late) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	value, version, err := s.Adapter.Get(ctx, key)
	if key == s.key && s.come != nil {
		s.come()
		s.come = nil
	}
	return value, version, err
}

// counts is a store that tells what is put.
type counts struct {
	storage.Adapter
	put func(key string, value []byte)
}

func (s *counts) Apply(ctx context.Context, ops ...storage.Op) error {
	for i := range ops {
		if !ops[i].Delete {
			s.put(ops[i].Key, ops[i].Value)
		}
	}
	return s.Adapter.Apply(ctx, ops...)
}

func get(t *testing.T, store storage.Adapter, key string) []byte {
	t.Helper()
	value, _, err := store.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func put(t *testing.T, store storage.Adapter, key string, value []byte) {
	t.Helper()
	if err := store.Apply(t.Context(), storage.Put(key, value)); err != nil {
		t.Fatal(err)
	}
}
