package search_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/search"
	"github.com/stratamem/strata/storage/storagetest"
)

// TestSmallStore: an index in a store that takes little has what one without limits
// has, whatever is added and deleted, with the texts in bundles and apart.
func TestSmallStore(t *testing.T) {
	words := strings.Fields("apple banana cherry damson elder fig grape hazel ilex juniper kale lemon mango nutmeg olive pear quince rowan sorrel thyme")
	for _, bundle := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(3, 4))
		type side struct {
			store storage.Scoped
			index *search.Index
		}
		open := func(s storage.Scoped) side {
			ix, err := search.New(&search.Options{Bundle: bundle})
			if err != nil {
				t.Fatal(err)
			}
			return side{s, ix}
		}
		whole := open(storage.Scope(mem.New(), "_layers/a"))
		small := open(storage.Scope(storagetest.Limited(mem.New(), storagetest.Small), "_layers/a"))
		var ids []string
		change := func(s side, gone []string, docs ...search.Doc) {
			t.Helper()
			ops, err := s.index.Replace(t.Context(), s.store, gone, docs...)
			if err == nil {
				err = s.store.Apply(t.Context(), ops...)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for n := range 400 {
			var gone []string
			var docs []search.Doc
			if len(ids) > 0 && rng.IntN(4) == 0 {
				i := rng.IntN(len(ids))
				gone = ids[i : i+1 : i+1]
				ids = slices.Delete(slices.Clone(ids), i, i+1)
			}
			for i := range rng.IntN(4) {
				text := make([]string, 1+rng.IntN(60))
				for j := range text {
					text[j] = words[rng.IntN(len(words))] + fmt.Sprint(rng.IntN(40))
				}
				d := search.Doc{ID: fmt.Sprintf("t%d-%d", n/5, 10*n+i), Session: "s", Text: strings.Join(text, " ")}
				docs = append(docs, d)
				ids = append(ids, d.ID)
			}
			change(whole, gone, docs...)
			change(small, gone, docs...)
		}
		slices.Sort(ids)
		for range 2 {
			whole, small = open(whole.store), open(small.store)
			have, err := small.index.IDs(t.Context(), small.store)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(have)
			if diff := cmp.Diff(ids, have); diff != "" {
				t.Fatalf("bundle %t: (-want +got)\n%s", bundle, diff)
			}
			for _, q := range []string{"apple1", "fig7 grape2", "thyme39 kale0 olive3"} {
				want, err1 := whole.index.Search(t.Context(), whole.store, search.Query{Text: q, Limit: 10, Floor: -1})
				got, err2 := small.index.Search(t.Context(), small.store, search.Query{Text: q, Limit: 10, Floor: -1})
				if err := errors.Join(err1, err2); err != nil {
					t.Fatal(err)
				}
				texts := func(r search.Result) (list []string) {
					for i := range r.Hits {
						list = append(list, fmt.Sprintf("%.6f %s", r.Hits[i].Score, r.Hits[i].ID))
					}
					slices.Sort(list) // equal scores have no order
					return list
				}
				if diff := cmp.Diff(texts(want), texts(got)); diff != "" || len(want.Hits) == 0 {
					t.Errorf("bundle %t, %q: %d hits (-want +got)\n%s", bundle, q, len(want.Hits), diff)
				}
			}
			for f, err := range search.Check(t.Context(), small.store) {
				t.Errorf("bundle %t: Check: %+v, %v", bundle, f, err)
			}
			// Once more with all of the segments made anew.
			if n, err := search.Rebuild(t.Context(), small.store, &search.Options{Bundle: bundle}); err != nil || n != len(ids) {
				t.Fatalf("Rebuild: %d, %v, want %d", n, err, len(ids))
			}
		}
	}
}

// TestDocumentTooLarge: what the store cannot hold is refused with what to do, by the
// index and by who asks before.
func TestDocumentTooLarge(t *testing.T) {
	s := storage.Scope(storagetest.Limited(mem.New(), storagetest.Small), "_layers/a")
	ix, err := search.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	unlike := func(n int) string {
		var b strings.Builder
		for b.Len() < n {
			fmt.Fprintf(&b, "%x ", rng.Uint64())
		}
		return b.String()
	}
	for _, test := range []struct {
		doc  search.Doc
		want string
	}{
		{search.Doc{ID: "a", Text: strings.Repeat("the same words again ", 1000)}, ""},
		{search.Doc{ID: "b", Text: unlike(1500)}, ""},
		{search.Doc{ID: "c", Text: unlike(9000)}, "cut it into smaller ones"},
		{search.Doc{ID: strings.Repeat("d", 250), Text: "short"}, "give it a shorter name"},
	} {
		ops, err := ix.Append(t.Context(), s, test.doc)
		if err == nil {
			err = s.Apply(t.Context(), ops...)
		}
		for _, err := range []error{err, ix.Fits(s, &test.doc)} {
			if (err == nil) != (test.want == "") || err != nil && (!errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%.10s: %v, want %q", test.doc.ID, err, test.want)
			}
		}
	}
}
