package search_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

// passages are the documents of talk, three of each in a bundle.
func passages(n int) []search.Doc {
	docs := talk(n, 5)[:n]
	for i := range docs {
		docs[i].ID = fmt.Sprintf("%05d-x-%d", i/3, i%3)
	}
	return docs
}

func keys(t *testing.T, scope storage.Scoped, prefix string) (list []string) {
	t.Helper()
	for key, err := range scope.List(t.Context(), prefix) {
		must(0, err)(t)
		list = append(list, key)
	}
	return list
}

// TestBundle finds in bundles what is found apart, and beside documents that were
// added before there were bundles.
func TestBundle(t *testing.T) {
	ctx := t.Context()
	docs := passages(300)
	apart, others := open(t, nil, docs...)
	_, scope := open(t, nil, docs[:60]...)
	ix := must(search.New(&search.Options{Bundle: true}))(t)
	for part := range slices.Chunk(docs, 3) {
		add(t, ix, scope, part...) // the first ones are there
	}
	if n := len(keys(t, scope, "d/")); n != 60+80 {
		t.Errorf("%d records of documents, want 60 apart and 80 bundles", n)
	}
	plain := must(search.New(nil))(t) // who knows of no bundles
	for _, text := range []string{docs[7].Text, docs[100].Text, docs[299].Text} {
		q := search.Query{Text: text, Floor: -1}
		want := find(t, apart, others, q)
		for _, reader := range []*search.Index{ix, plain} {
			got := find(t, reader, scope, q)
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(search.Doc{}, "Record")); diff != "" {
				t.Errorf("%q (-apart +bundled):\n%s", text, diff)
			}
			for _, h := range got.Hits {
				record := must(search.ReadRecord(ctx, scope, h.Record))(t)
				if !slices.ContainsFunc(record, func(d search.Doc) bool { return d == h.Doc }) {
					t.Errorf("%s is not among the %d documents of %s", h.ID, len(record), h.Record)
				}
			}
		}
	}
	for _, d := range []search.Doc{docs[0], docs[100]} {
		if got := must(search.Read(ctx, scope, d.ID))(t); got.Text != d.Text {
			t.Errorf("%s reads %q", d.ID, got.Text)
		}
	}
	for _, id := range []string{"00099-x", "00099-x-7", "00000-x", "none", "-"} {
		if _, err := search.Read(ctx, scope, id); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("reading %q: %v", id, err)
		}
	}
}

// TestBundleChanges takes documents out of bundles and adds to them.
func TestBundleChanges(t *testing.T) {
	ctx := t.Context()
	docs := passages(90)
	opts := &search.Options{Bundle: true}
	_, scope := open(t, nil, docs[:30]...)
	ix := must(search.New(opts))(t)
	add(t, ix, scope, docs[30:]...)
	more := docs[40]
	more.ID, more.Text = docs[40].ID+"1", "a zebra"
	add(t, ix, scope, more)
	gone := []string{docs[0].ID, docs[31].ID, docs[33].ID, docs[34].ID, docs[35].ID}
	fresh := docs[31]
	fresh.ID, fresh.Text = docs[31].ID+"2", "an okapi"
	must(0, scope.Apply(ctx, must(ix.Replace(ctx, scope, gone, fresh))(t)...))(t)
	for i := range docs {
		d, err := search.Read(ctx, scope, docs[i].ID)
		if out := slices.Contains(gone, docs[i].ID); out != errors.Is(err, storage.ErrNotFound) || !out && d.Text != docs[i].Text {
			t.Errorf("%s, deleted: %t, reads %q, %v", docs[i].ID, out, d.Text, err)
		}
	}
	for text, id := range map[string]string{"zebra": more.ID, "okapi": fresh.ID} {
		if got := ids(find(t, ix, scope, search.Query{Text: text, Floor: -1})); len(got) == 0 || got[0] != id {
			t.Errorf("%s finds %v", text, got)
		}
	}
	if slices.Contains(keys(t, scope, "d/"), "d/00011-x") {
		t.Error("a bundle without documents is left")
	}
	check := func() {
		t.Helper()
		for f, err := range search.Check(ctx, scope) {
			t.Errorf("%+v, %v", f, err)
		}
	}
	check()
	if n := must(search.Rebuild(ctx, scope, nil))(t); n != 90-5+2 {
		t.Errorf("rebuilt %d documents", n)
	}
	check()
	const key = "d/00020-x"
	value := must(scope.Get(ctx, key))(t)
	must(0, scope.Apply(ctx, storage.Put(key, value[:len(value)-1])))(t)
	if _, err := search.Read(ctx, scope, "00020-x-1"); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("reading of a damaged bundle: %v", err)
	}
	if _, err := ix.Append(ctx, scope, search.Doc{ID: "00020-x-9", Text: "a"}); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("adding to a damaged bundle: %v", err)
	}
	var faults []string
	for f, err := range search.Check(ctx, scope) {
		must(0, err)(t)
		faults = append(faults, f.Key)
	}
	if got := strings.Join(faults, " "); got != "d/00020-x d/00020-x-0 d/00020-x-1 d/00020-x-2" {
		t.Errorf("check finds faults of %s", got)
	}
}

// TestBundleSize pins what a bundle is for.
func TestBundleSize(t *testing.T) {
	size := func(opts *search.Options) (n int) {
		ix, scope := open(t, opts)
		for part := range slices.Chunk(passages(300), 3) {
			for _, op := range must(ix.Append(t.Context(), scope, part...))(t) {
				if strings.HasPrefix(op.Key, "d/") {
					n += len(op.Key) + len(op.Value)
				}
			}
		}
		return n
	}
	if apart, bundled := size(nil), size(&search.Options{Bundle: true}); 4*bundled > 3*apart {
		t.Errorf("bundles have %d bytes, the same apart %d", bundled, apart)
	}
}

// TestBundleIsReadAnew finds in a bundle that was found before what another writer has
// made of it, also while others search.
func TestBundleIsReadAnew(t *testing.T) {
	opts := &search.Options{Bundle: true}
	ix, scope := open(t, opts, search.Doc{ID: "a-1", Text: "The boat is green."}, search.Doc{ID: "a-2", Text: "So is the sail."})
	other := must(search.New(opts))(t)
	var wg sync.WaitGroup
	for i := range 20 {
		text := fmt.Sprintf("The boat number %d is red.", i)
		gone := []string{"a-1", fmt.Sprintf("a-x%d", i-1)}
		must(0, scope.Apply(t.Context(), must(other.Replace(t.Context(), scope, gone, search.Doc{ID: fmt.Sprintf("a-x%d", i), Text: text}))(t)...))(t)
		res := find(t, ix, scope, search.Query{Text: "boat", Floor: -1})
		if len(res.Hits) == 0 || res.Hits[0].Text != text {
			t.Fatalf("found %+v, want %q", res.Hits, text)
		}
		wg.Go(func() {
			if _, err := ix.Search(t.Context(), scope, search.Query{Text: "boat sail", Floor: -1}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
