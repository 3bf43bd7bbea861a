package search_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/storage/backup"
	"github.com/stratamem/strata/storage/search"
)

// TestOldIndex goes on with an index that commit 10ac4c1 wrote, which sealed no
// segments. The file is a backup of it.
func TestOldIndex(t *testing.T) {
	docs := talk(1400, 31)
	for i := range docs {
		docs[i].Text = docs[i].Text[:min(16, len(docs[i].Text))]
		docs[i].ID = fmt.Sprintf("turn%d-%03d", i/1200, i)
	}
	opts := &search.Options{Bundle: true}
	whole, wholeScope := open(t, opts)
	ix, scope := open(t, opts)
	file, err := os.Open("testdata/10ac4c1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	must(backup.Restore(t.Context(), scope.Adapter(), file, nil))(t)
	left := slices.Delete(slices.Delete(slices.Clone(docs), 1300, 1301), 7, 8)
	for part := range slices.Chunk(left, 40) {
		add(t, whole, wholeScope, part...)
	}
	same := func() {
		t.Helper()
		for i := range 40 {
			q := search.Query{Text: docs[i*33].Text, Floor: -1}
			want, got := find(t, whole, wholeScope, q), find(t, ix, scope, q)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q (-new +old):\n%s", q.Text, diff)
			}
		}
		for f, err := range search.Check(t.Context(), scope) {
			t.Errorf("check: %+v, %v", f, err)
		}
	}
	same()
	search.SealEarly(t)
	more := talk(200, 32)
	for i := range more {
		more[i].ID = fmt.Sprintf("more-%03d", i)
		more[i].Session = docs[1190+i].Session
		add(t, ix, scope, more[i])
		add(t, whole, wholeScope, more[i])
	}
	same()
	gone := []string{docs[8].ID, docs[1301].ID, more[7].ID}
	must(0, scope.Apply(t.Context(), must(ix.Delete(t.Context(), scope, gone...))(t)...))(t)
	must(0, wholeScope.Apply(t.Context(), must(whole.Delete(t.Context(), wholeScope, gone...))(t)...))(t)
	ix, whole = must(search.New(opts))(t), must(search.New(opts))(t)
	same()
	for _, key := range keys(t, scope, "s/2/") {
		name := strings.TrimPrefix(key, "s/2/")
		if len(keys(t, scope, "b/"+name+"/")) == 0 {
			t.Errorf("segment %s is not sealed", key)
		}
	}
}
