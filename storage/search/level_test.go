package search_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/search"
)

// TestLevels builds an index a document at a time, with deletions, until there are
// segments of every level, by one Index and by two in turns, and finds in it what is
// found where the same documents were added in few large steps.
func TestLevels(t *testing.T) {
	n := 17_500 // the highest level begins at 16,384
	if testing.Short() {
		n = 1200
	}
	ctx := t.Context()
	docs := talk(n, 3)
	for i := range docs {
		docs[i].Session = fmt.Sprint("session-", i/700)
		if i%5 == 0 {
			docs[i].Time = docs[max(i-1, 0)].Time // neighbours by their ids
		}
	}
	store := mem.New()
	defer store.Close()
	slow, fast := storage.Scope(store, "_search/slow"), storage.Scope(store, "_search/fast")
	writers := []*search.Index{must(search.New(nil))(t), must(search.New(nil))(t)}
	rng := rand.New(rand.NewPCG(1, 1))
	gone := make(map[string]bool)
	for i := range docs {
		ix := writers[i/100%2]
		add(t, ix, slow, docs[i])
		if rng.IntN(50) == 0 {
			id := docs[rng.IntN(i+1)].ID
			gone[id] = true
			must(0, slow.Apply(ctx, must(ix.Delete(ctx, slow, id))(t)...))(t)
		}
	}
	docs = slices.DeleteFunc(docs, func(d search.Doc) bool { return gone[d.ID] })
	want := fill(t, fast, docs, 400)
	for f, err := range search.Check(ctx, slow) {
		t.Fatalf("%+v, %v", f, err)
	}
	levels := make(map[string]int)
	for key, err := range slow.List(ctx, "s/") {
		must(0, err)(t)
		levels[key[:3]]++
	}
	t.Logf("segments: %v", levels)
	if levels["s/2"]+levels["s/3"] == 0 || n > 16_384 && levels["s/3"] == 0 {
		t.Errorf("no segment of the highest level: %v", levels)
	}
	compare := func(name string, ix *search.Index) {
		if got := must(ix.Len(ctx, slow))(t); got != len(docs) {
			t.Errorf("%s: %d documents, want %d", name, got, len(docs))
		}
		for i, text := range questions(60) {
			if i%3 == 0 {
				text += " " + docs[rng.IntN(len(docs))].Text
			}
			q := search.Query{Text: text, Floor: -1, Around: 2}
			a, b := find(t, want, fast, q), find(t, ix, slow, q)
			if !slices.EqualFunc(a.Hits, b.Hits, func(a, b search.Hit) bool {
				same := func(a, b search.Doc) bool { return a.ID == b.ID }
				return a.ID == b.ID && math.Abs(a.Score-b.Score) < 1e-4 && slices.EqualFunc(a.Before, b.Before, same) && slices.EqualFunc(a.After, b.After, same)
			}) {
				t.Fatalf("%s: %q finds\n%v, want\n%v", name, text, ids(b), ids(a))
			}
		}
	}
	compare("the first writer", writers[0])
	compare("the second writer", writers[1])
	compare("who reads it anew", must(search.New(nil))(t))
	must(0, slow.Apply(ctx, must(writers[0].Delete(ctx, slow, must(writers[0].IDs(ctx, slow))(t)[:200]...))(t)...))(t)
	for f, err := range search.Check(ctx, slow) {
		t.Fatalf("after deletions: %+v, %v", f, err)
	}
}

// TestHeld pins what of a large index is in memory: columns, and what was read
// lately.
func TestHeld(t *testing.T) {
	n := 60_000
	if testing.Short() {
		n = 20_000
	}
	scope := storage.Scope(boltStore(t), "_search/a")
	fill(t, scope, talk(n, 1), 400)
	before := heap()
	ix := must(search.New(nil))(t)
	for _, text := range questions(1500) {
		must(ix.Search(t.Context(), scope, search.Query{Text: text}))(t)
	}
	held := heap() - before
	runtime.KeepAlive(ix)
	t.Logf("%d KB are held of %d documents", held>>10, n)
	if most := uint64(10<<20 + 4<<20); held > most { // columns and caches, and the newest segments
		t.Errorf("%d KB are held, over %d", held>>10, most>>10)
	}
}

// TestOldSegments goes on with an index that commit 4a288b4 wrote: a backup of one
// with segments of two levels.
func TestOldSegments(t *testing.T) {
	ctx := t.Context()
	backup := must(os.Open("testdata/4a288b4.jsonl"))(t)
	defer backup.Close()
	store := mem.New()
	defer store.Close()
	must(storage.Restore(ctx, store, backup, nil))(t)
	scope := storage.Scope(store, "_search/a")
	docs := talk(170, 9)
	fresh := storage.Scope(store, "_search/b")
	apart := fill(t, fresh, docs[:100], 100)
	ix := must(search.New(nil))(t)
	check := func(n int) {
		t.Helper()
		if got := must(ix.Len(ctx, scope))(t); got != n {
			t.Errorf("%d documents, want %d", got, n)
		}
		for _, d := range []int{0, 31, 50, 99} {
			q := search.Query{Text: docs[d].Text, Floor: -1, Around: 2}
			if got, want := ids(find(t, ix, scope, q)), ids(find(t, apart, fresh, q)); !slices.Equal(got, want) {
				t.Errorf("%d of %d: found %v, want %v", d, n, got, want)
			}
		}
		for f, err := range search.Check(ctx, scope) {
			t.Errorf("%+v, %v", f, err)
		}
	}
	check(100)
	for _, d := range docs[100:] {
		add(t, ix, scope, d)
		add(t, apart, fresh, d)
	}
	check(170)
}
