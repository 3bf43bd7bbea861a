package recent_test

import (
	"testing"

	"github.com/stratamem/strata/internal/recent"
)

func TestCache(t *testing.T) {
	sizes := map[string]int{"large": 3}
	c := recent.Cache[string, int]{Limit: 8, Size: func(key string, _ int) int { return max(sizes[key], 2) }}
	if _, ok := c.Get("a"); ok {
		t.Error("an empty cache has a value")
	}
	has := func(want ...string) {
		t.Helper()
		for _, key := range want {
			if v, ok := c.Get(key); !ok || v != len(key) {
				t.Errorf("%q is %d, %v", key, v, ok)
			}
		}
	}
	put := func(key string) { c.Put(key, len(key)) }
	put("a")
	put("bb")
	put("a") // counts once
	put("ccc")
	put("dddd")
	has("a", "bb", "ccc", "dddd")
	put("e") // the others are old
	has("a") // and used again
	put("ff")
	put("g")
	put("hh") // now those of the first generation that were not used are gone
	for _, key := range []string{"bb", "ccc", "dddd"} {
		if _, ok := c.Get(key); ok {
			t.Errorf("%q is kept, and was not used", key)
		}
	}
	has("a", "e", "ff", "g", "hh")
	put("large")
	if _, ok := c.Get("large"); ok {
		t.Error("what is over a quarter of the limit is kept")
	}
	put("hh")
	has("hh")
}

// TestBound: no more than twice the limit is kept, and what is in use stays.
func TestBound(t *testing.T) {
	c := recent.Cache[int, int]{Limit: 100, Size: func(_, v int) int { return 1 + max(v, 0)%3 }}
	for i := range 10_000 {
		c.Put(i, i)
		c.Put(-1, -1)
	}
	kept := 0
	for i := range 10_000 {
		if _, ok := c.Get(i); ok {
			kept += 1 + i%3
		}
		if kept > 200 {
			t.Fatalf("over %d is kept", kept)
		}
	}
}
