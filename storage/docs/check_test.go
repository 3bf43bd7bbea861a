package docs_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/docs"
)

// Damage is found, and what the index lost is made anew from the passages.
func TestCheckAndRebuild(t *testing.T) {
	store := openMem(t)
	c := collection(t, store, docs.Owner{}, "x")
	if n, err := c.Rebuild(t.Context()); n != 0 || err != nil {
		t.Errorf("rebuilt %d passages of nothing, %v", n, err)
	}
	put(t, c, document("a.md", lines(3, "granite")...), document("b.md", "marble"), document("c.md", "slate"))
	sound(t, store, 5)
	const prefix = "_docs/%/%/x/"
	var segments, passages, files []string
	for key, err := range store.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		switch rest := strings.TrimPrefix(key, prefix); {
		case strings.HasPrefix(rest, "i/s/"):
			segments = append(segments, key)
		case strings.HasPrefix(rest, "i/d/"):
			passages = append(passages, key)
		case strings.HasPrefix(rest, "f/"):
			files = append(files, key)
		}
	}
	faults := func(want ...string) {
		t.Helper()
		var got []string
		for f, err := range c.Check(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(f.Key, prefix) || f.Repair == "" {
				t.Errorf("fault %+v", f)
			}
			got = append(got, f.Reason)
		}
		slices.Sort(got)
		if len(got) != len(want) {
			t.Fatalf("faults %q, want %q", got, want)
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("fault %q, want %q", got[i], want[i])
			}
		}
	}
	for _, key := range segments {
		if err := storage.Set(t.Context(), store, key, []byte("\x01noise")); err != nil {
			t.Fatal(err)
		}
	}
	none := "document is in no segment"
	faults(none, none, none, none, none, "segment cannot be read")
	other := collection(t, store, docs.Owner{}, "x")
	if _, err := other.Search(t.Context(), docs.Query{Text: "marble"}); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("search: %v", err)
	}
	if n, err := other.Rebuild(t.Context()); n != 5 || err != nil {
		t.Errorf("rebuilt %d passages, %v", n, err)
	}
	sound(t, store, 5)
	expect(t, other, "marble", "b.md:1-2")

	// A passage, and the record of another document, are gone; adding them again
	// helps.
	if err := storage.Delete(t.Context(), store, passages[0]); err != nil {
		t.Fatal(err)
	}
	gone := files[len(files)-1]
	if err := storage.Delete(t.Context(), store, gone); err != nil {
		t.Fatal(err)
	}
	faults("3 passages belong to no document", "document has 0 of 1 passages", "indexed document is gone")
	if _, err := other.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, other, document("a.md", lines(3, "granite")...), document("b.md", "marble"), document("c.md", "slate"))
	sound(t, store, 5)
}
