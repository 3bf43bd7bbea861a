package storage_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

func TestGroups(t *testing.T) {
	s := mem.New()
	for _, key := range []string{"_a/x/1", "_a/x/2", "_a/x-y/1", "_a/x.z/1/2", "_a/lone", "_a/y/1", "_b/x/1"} {
		if err := storage.Set(t.Context(), s, key, nil); err != nil {
			t.Fatal(err)
		}
	}
	asked := 0
	pair := func(key string) (string, bool) {
		asked++
		parts := strings.SplitN(key, "/", 3)
		return strings.Join(parts[:2], "/"), len(parts) == 3
	}
	var got []string
	for group, err := range storage.Groups(t.Context(), s, "_a/", pair) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, group)
	}
	if want := []string{"_a/x-y", "_a/x.z", "_a/x", "_a/y"}; !slices.Equal(got, want) || asked != 5 {
		t.Errorf("groups %q after %d keys, want %q after 5", got, asked, want)
	}
	for group := range storage.Groups(t.Context(), s, "", pair) {
		if group != "_a/x-y" {
			t.Errorf("the first group is %q", group)
		}
		break
	}
}
