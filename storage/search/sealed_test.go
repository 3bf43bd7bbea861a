package search_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

// TestSealed compares an index of which nearly all is sealed, and nearly nothing held,
// with one that holds everything, as both grow and shrink.
func TestSealed(t *testing.T) {
	docs := talk(700, 21)
	for i := range docs {
		switch {
		case i%50 < 10: // sessions that are told at once
			docs[i].Session = fmt.Sprintf("long-%d", i%2)
		case i%50 == 10:
			docs[i].Session = ""
		case i%50 == 11:
			docs[i].Time = time.Time{}
		case i%50 > 40: // a clock that stands still
			docs[i].Time = docs[41].Time
			docs[i].Session = "still"
		}
		docs[i].ID = fmt.Sprintf("%03d-%d", i*37%1000, i)
	}
	whole, wholeScope := open(t, nil)
	search.SealEarly(t)
	ix, scope := open(t, nil)
	watcher := must(search.New(nil))(t)
	rng := rand.New(rand.NewPCG(4, 4))
	left := make(map[string]bool)
	for i := 0; i < len(docs); {
		n := min(1+rng.IntN(4), len(docs)-i)
		part := docs[i : i+n]
		var gone []string
		if i > 300 && i < 500 && i%2 == 0 {
			gone = append(gone, docs[i-rng.IntN(200)-1].ID, docs[i-1].ID, "no such")
		}
		for _, d := range part {
			left[d.ID] = true
		}
		for _, id := range gone {
			delete(left, id)
		}
		must(0, scope.Apply(t.Context(), must(ix.Replace(t.Context(), scope, gone, part...))(t)...))(t)
		must(0, wholeScope.Apply(t.Context(), must(whole.Replace(t.Context(), wholeScope, gone, part...))(t)...))(t)
		i += n
		if i%20 == 0 {
			must(watcher.Len(t.Context(), scope))(t)
		}
	}
	if n := len(keys(t, scope, "s/2/")); n < 3 {
		t.Fatalf("%d segments are sealed", n)
	}
	fresh, freshScope := open(t, nil)
	for _, d := range docs {
		if left[d.ID] {
			add(t, fresh, freshScope, d)
		}
	}
	late := must(search.New(nil))(t)
	for i, q := range questions(60) {
		q := search.Query{Text: q, Floor: -1, Limit: 12, Around: 2, Similar: map[string]float64{docs[i].ID: 0.4, docs[i*2].ID: 0.3}}
		switch i % 4 {
		case 1:
			q.Text += " In January 2025?"
			q.Filter.Exclude = func(id string) bool { return strings.HasSuffix(id, "2") }
		case 2:
			q.Filter = search.Filter{Sessions: []string{"still", "long-1"}, From: docs[10].Time}
		}
		for name, c := range map[string]struct {
			got, want           *search.Index
			gotScope, wantScope storage.Scoped
		}{
			"late":   {late, fresh, scope, freshScope},
			"writer": {ix, whole, scope, wholeScope},
		} {
			want, got := find(t, c.want, c.wantScope, q), find(t, c.got, c.gotScope, q)
			if name == "late" { // those who saw deletions count them, each as it saw them
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s, %q (-held +sealed):\n%s", name, q.Text, diff)
				}
			} else if len(got.Hits) != len(want.Hits) {
				t.Errorf("%s finds %d, not %d", name, len(got.Hits), len(want.Hits))
			}
		}
	}
	for name, ix := range map[string]*search.Index{"writer": ix, "watcher": watcher, "late": late} {
		got := must(ix.IDs(t.Context(), scope))(t)
		slices.Sort(got)
		if diff := cmp.Diff(slices.Sorted(maps.Keys(left)), got); diff != "" {
			t.Errorf("documents of %s (-want +got):\n%s", name, diff)
		}
		if n := must(ix.Len(t.Context(), scope))(t); n != len(left) {
			t.Errorf("%s has %d documents, want %d", name, n, len(left))
		}
		for _, d := range docs {
			if has := must(ix.Has(t.Context(), scope, d.ID))(t); has != left[d.ID] {
				t.Errorf("%s has %s: %t", name, d.ID, has)
			}
		}
		if n := ix.Held(); n > 4<<10 {
			t.Errorf("%s holds %d bytes of blocks", name, n)
		}
	}
	for f, err := range search.Check(t.Context(), scope) {
		t.Errorf("check: %+v, %v", f, err)
	}
	if n := must(search.Rebuild(t.Context(), scope, nil))(t); n != len(left) {
		t.Errorf("rebuilt %d documents", n)
	}
	for f, err := range search.Check(t.Context(), scope) {
		t.Errorf("check after rebuilding: %+v, %v", f, err)
	}
	must(0, scope.Apply(t.Context(), must(ix.Delete(t.Context(), scope, slices.Collect(maps.Keys(left))...))(t)...))(t)
	if left := slices.Concat(keys(t, scope, "s/"), keys(t, scope, "b/"), keys(t, scope, "d/")); len(left) > 0 {
		t.Errorf("of an index whose documents were all deleted these are left: %v", left)
	}
}

// TestSealedWriters merge and seal at once, beside readers.
func TestSealedWriters(t *testing.T) {
	search.SealEarly(t)
	docs := talk(400, 5)
	_, scope := open(t, nil)
	reader := must(search.New(nil))(t)
	var wg, readers sync.WaitGroup
	over := make(chan bool)
	for range 2 {
		readers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				if _, err := reader.Search(t.Context(), scope, search.Query{Text: docs[i%len(docs)].Text}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for w := range 2 {
		wg.Go(func() {
			ix, err := search.New(nil)
			for i := w; i < len(docs) && err == nil; i += 2 {
				var ops []storage.Op
				if ops, err = ix.Append(t.Context(), scope, docs[i]); err == nil {
					err = scope.Apply(t.Context(), ops...)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	close(over)
	readers.Wait()
	for name, ix := range map[string]*search.Index{"reader": reader, "late": must(search.New(nil))(t)} {
		if n := must(ix.Len(t.Context(), scope))(t); n != len(docs) {
			t.Errorf("%s has %d documents, want %d", name, n, len(docs))
		}
		if res := find(t, ix, scope, search.Query{Text: docs[7].Text, Limit: 400, Floor: -1}); len(res.Hits) == 0 {
			t.Errorf("%s finds nothing: %s", name, res.Note)
		} else {
			had := make(map[string]bool)
			for _, h := range res.Hits {
				if had[h.ID] {
					t.Errorf("%s finds %s twice", name, h.ID)
				}
				had[h.ID] = true
			}
		}
	}
	for f, err := range search.Check(t.Context(), scope) {
		t.Errorf("check: %+v, %v", f, err)
	}
}
