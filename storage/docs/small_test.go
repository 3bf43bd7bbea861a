package docs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/docs"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/storagetest"
)

// TestSmallStore: a collection in a store that takes little has what one without
// limits has; its documents are taken in as many steps as they need.
func TestSmallStore(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	whole, store := openMem(t), storagetest.Limited(mem.New(), storagetest.Small)
	big, small := collection(t, whole, docs.Owner{}, "x"), collection(t, store, docs.Owner{}, "x")
	left := map[string]int{}
	for range 60 {
		name := fmt.Sprintf("file%d.txt", rng.IntN(12))
		if rng.IntN(4) == 0 {
			for _, c := range []*docs.Collection{big, small} {
				if _, err := c.Remove(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
			delete(left, name)
			continue
		}
		texts := make([]string, 1+rng.IntN(40))
		for i := range texts {
			for range 1 + rng.IntN(60) {
				texts[i] += fmt.Sprintf("word%d ", rng.IntN(500))
			}
		}
		d := document(name, texts...)
		d.Digest = fmt.Sprint(rng.Uint64())
		put(t, big, d)
		put(t, small, d)
		left[name] = len(texts)
	}
	if diff := cmp.Diff(names(t, big), names(t, small)); diff != "" || len(left) == 0 {
		t.Errorf("documents: (-want +got)\n%s", diff)
	}
	n := 0
	for _, passages := range left {
		n += passages
	}
	sound(t, store, n)
	big, small = collection(t, whole, docs.Owner{}, "x"), collection(t, store, docs.Owner{}, "x") // just opened
	for _, text := range []string{"word1", "word7 word8", "word400 word3 word21"} {
		if diff := cmp.Diff(found(t, big, docs.Query{Text: text}), found(t, small, docs.Query{Text: text})); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", text, diff)
		}
	}
	if got, err := small.Rebuild(t.Context()); err != nil || got != n {
		t.Errorf("Rebuild: %d, %v, want %d", got, err, n)
	}
	sound(t, store, n)
}

// TestPassageTooLarge: a document with a passage that the store cannot hold is refused
// before anything of it, or of those before it, is written.
func TestPassageTooLarge(t *testing.T) {
	store := storagetest.Limited(mem.New(), storagetest.Small)
	c := collection(t, store, docs.Owner{}, "x")
	var text strings.Builder
	for rng := rand.New(rand.NewPCG(11, 12)); text.Len() < 10_000; {
		fmt.Fprintf(&text, "%x ", rng.Uint64())
	}
	err := c.Put(t.Context(), document("a.txt", "one", "two"), document("b.txt", "one", text.String()))
	if !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "put document 1: passage 1: ") || !strings.Contains(err.Error(), "cut it into smaller ones") {
		t.Errorf("Put: %v", err)
	}
	for key := range store.List(t.Context(), "") {
		t.Errorf("a refused document set %q", key)
	}
	if _, err := docs.Open(store, docs.Owner{Kind: "resource", ID: strings.Repeat("i", 100)}, strings.Repeat("n", 92), nil); err == nil || !strings.Contains(err.Error(), "use shorter ones") {
		t.Errorf("Open with long names: %v", err)
	}
}
