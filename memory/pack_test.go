package memory_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

const turnOne = "_threads/t/turns/000000000001"

// recordTurn commits a turn with a state and a text of some size, and returns
// the store.
func recordTurn(t *testing.T, text string) storage.Adapter {
	store := mem.New()
	m := newMemory(t, store, nil, memory.Define(memory.Spec{ID: "notes"}, memory.Hooks[string]{
		Store: func(_ context.Context, in *memory.StoreInput[string]) (memory.Change[string], error) {
			return memory.Update(func(string) string { return in.New[0].Text() }), nil
		},
	}))
	run := begin(t, m, memory.Identity{Thread: "t"})
	project(t, run, projection.Text(projection.User, text))
	commit(t, run, "ok")
	return store
}

// Long records are stored as frames, short ones as JSON, and both are read.
func TestRecordsArePacked(t *testing.T) {
	for _, text := range []string{"short", strings.Repeat("What is said once is said again. ", 200)} {
		store := recordTurn(t, text)
		for _, key := range []string{turnOne, "_layers/notes/thread/t/state"} {
			stored, _, err := store.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			packed := bytes.HasPrefix(stored, []byte{0x28, 0xB5, 0x2F, 0xFD})
			if long := len(text) > 1000; long && (!packed || len(stored) > len(text)/2) || !long && packed && key != turnOne {
				t.Errorf("%s with a text of %d bytes has %d, packed: %t", key, len(text), len(stored), packed)
			}
			if packed {
				if stored, err = pack.Unpack(stored); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Contains(stored, []byte(text)) {
				t.Errorf("%s is %s", key, stored)
			}
		}
		for turn, err := range thread.Turns(t.Context(), store, "t", 0) {
			if err != nil {
				t.Fatal(err)
			}
			if got := turn.Items[0].Text(); got != text {
				t.Errorf("read back: %s", cmp.Diff(text, got))
			}
		}
		m := newMemory(t, store, nil, memory.Define(memory.Spec{ID: "notes"}, memory.Hooks[string]{
			Recall: func(_ context.Context, in *memory.RecallInput[string]) (memory.Recalled[string], error) {
				return memory.Recalled[string]{Text: in.State}, nil
			},
		}))
		v := project(t, begin(t, m, memory.Identity{Thread: "t"}), projection.Text(projection.User, "again"))
		if got := strings.Join(textsOf(v), "\n"); strings.Count(got, text) < 2 {
			t.Errorf("history and state are not both in the next view:\n%s", got)
		}
	}
}

// A damaged frame is an error that names the key.
func TestDamagedFrame(t *testing.T) {
	store := recordTurn(t, strings.Repeat("What is said once is said again. ", 200))
	sound, _, err := store.Get(t.Context(), turnOne)
	if err != nil {
		t.Fatal(err)
	}
	var frames [][]byte
	for i := range sound {
		frames = append(frames, sound[:i], append(append(bytes.Clone(sound[:i]), sound[i]^0x55), sound[i+1:]...))
	}
	unnoticed := 0
	for _, f := range frames {
		if err := storage.Set(t.Context(), store, turnOne, f); err != nil {
			t.Fatal(err)
		}
		for _, err := range thread.Turns(t.Context(), store, "t", 0) {
			var corrupt *storage.CorruptError
			switch {
			case err == nil:
				unnoticed++ // a text of other words, of which engines tell by their checksum
			case !errors.As(err, &corrupt) || corrupt.Key != turnOne:
				t.Fatalf("%d of %d bytes: %v", len(f), len(sound), err)
			}
		}
	}
	if unnoticed > len(frames)/4 {
		t.Errorf("%d of %d damaged frames are read", unnoticed, len(frames))
	}
}

func textsOf(v *projection.View) (texts []string) {
	for _, it := range v.All() {
		texts = append(texts, it.Text())
	}
	return texts
}
