package storagetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stratamem/strata/storage"
)

func concurrentCases() []testCase {
	return []testCase{
		{name: "concurrent-writers", run: concurrentWriters},
		{name: "values-are-whole", run: valuesAreWhole},
		{name: "value-and-version-together", run: valueAndVersion},
		{name: "find-while-writing", run: findWhileWriting},
		{name: "nothing-is-unreadable", run: nothingIsUnreadable},
	}
}

// concurrentWriters: a writer reads what it wrote, in every possible way.
func concurrentWriters(t *testing.T, e Engine) {
	a := e.open(t)
	declare(t, a, "w")
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			prefix := fmt.Sprintf("doc/%d-", w)
			for i := range 20 {
				key, value := fmt.Sprintf("%s%02d", prefix, i), fmt.Sprintf(`{"w":"%d","i":%d}`, w, i)
				set(t, a, key, value)
				want(t, a, key, value)
				if got := list(t, a, key); len(got) != 1 {
					t.Errorf("List yields %q after Set of %q", got, key)
				}
				if got := keysOf(t, storage.Scan(t.Context(), a, prefix, &storage.ScanOptions{Reverse: true, Limit: 1})); len(got) != 1 || got[0] != key {
					t.Errorf("Scan yields %q after Set of %q", got, key)
				}
				q := storage.Query{Equal: fields{"w": strconv.Itoa(w)}, Prefix: key}
				if got := keysOf(t, storage.Find(t.Context(), a, q)); len(got) != 1 {
					t.Errorf("Find yields %q after Set of %q", got, key)
				}
				if i%3 == 0 {
					remove(t, a, key)
					wantGone(t, a, key)
					if got := keysOf(t, storage.Find(t.Context(), a, q)); len(got) != 0 {
						t.Errorf("Find yields %q after Delete", got)
					}
				}
			}
		})
	}
	wg.Wait()
	if got := len(list(t, a, "doc/")); got != 8*13 {
		t.Errorf("%d documents, want %d", got, 8*13)
	}
	sound(t, e, a)
}

// reading calls read in two goroutines while writes are made, at least 100 of
// them and until there were 200 reads.
func reading(t *testing.T, write func(i int), read func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var reads atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				read()
				reads.Add(1)
			}
		})
	}
	for i := 0; i < 100 || reads.Load() < 200 && !t.Failed(); i++ {
		write(i)
	}
	cancel()
	wg.Wait()
}

// valuesAreWhole replaces large values while they are read: nobody may see part
// of one, nor the key absent in between.
func valuesAreWhole(t *testing.T, e Engine) {
	a := e.open(t)
	most := storage.LimitsOf(a).Value - 10
	value := func(i int) string {
		return `{"v":"` + strings.Repeat(string(rune('a'+i%26)), min(1000*(i%50)+1, most)) + `"}`
	}
	keys := []string{"doc/a", "_rec/a"}
	for _, key := range keys {
		set(t, a, key, value(0))
	}
	reading(t, func(i int) { set(t, a, keys[i%2], value(i)) }, func() {
		for _, key := range keys {
			got, _, err := a.Get(t.Context(), key)
			if err != nil {
				t.Errorf("Get: %v", err)
				return
			}
			text := strings.Split(string(got), `"`)
			if len(text) != 5 || text[3] != strings.Repeat(text[3][:1], len(text[3])) {
				t.Errorf("Get saw parts of values: %.100q", got)
			}
		}
	})
}

// valueAndVersion: the value and version that Get returns belong together,
// whoever writes meanwhile.
func valueAndVersion(t *testing.T, e Engine) {
	a := e.open(t)
	for _, key := range []string{"doc/a", "_rec/a"} {
		set(t, a, key, `{"n":0}`)
		var mu sync.Mutex
		seen := map[storage.Version]string{}
		reading(t, func(i int) { set(t, a, key, fmt.Sprintf(`{"n":%d}`, i)) }, func() {
			got, v, err := a.Get(t.Context(), key)
			if err != nil {
				t.Errorf("Get: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if other, ok := seen[v]; ok && other != string(got) {
				t.Errorf("Get gave %s and %s with the same version", other, got)
			}
			seen[v] = string(got)
		})
	}
}

// findWhileWriting: what Find yields matches the query, whoever writes
// meanwhile, and unchanged documents are always found.
func findWhileWriting(t *testing.T, e Engine) {
	a := e.open(t)
	declare(t, a, "f")
	for i := range 10 {
		set(t, a, fmt.Sprintf("doc/still-%d", i), `{"f":"a"}`)
	}
	q := storage.Query{Equal: fields{"f": "a"}}
	write := func(i int) {
		set(t, a, fmt.Sprintf("doc/%d", i%10), fmt.Sprintf(`{"f":"%c"}`, 'a'+i/10%2))
	}
	reading(t, write, func() {
		still := 0
		for entry, err := range storage.Find(t.Context(), a, q) {
			switch {
			case err != nil:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("Find: %v", err)
				}
				return
			case !q.Match(entry.Key, entry.Value):
				t.Errorf("Find yields %q with %s", entry.Key, entry.Value)
			case strings.HasPrefix(entry.Key, "doc/still-"):
				still++
			}
		}
		if still != 10 {
			t.Errorf("Find yields %d documents of 10 that did not change", still)
		}
	})
	sound(t, e, a)
}

// nothingIsUnreadable: what is being written, replaced and deleted is not
// damage.
func nothingIsUnreadable(t *testing.T, e Engine) {
	a := e.open(t)
	long := strings.Repeat("x", min(300, storage.LimitsOf(a).Key-len("doc/0")))
	write := func(i int) {
		key := fmt.Sprintf("doc/%s%d", long[:len(long)*(i%2)], i%7)
		if i%5 == 4 {
			remove(t, a, key)
			return
		}
		set(t, a, key, fmt.Sprintf(`{"f":%d}`, i))
	}
	reading(t, write, func() {
		for _, prefix := range []string{"", "doc/", "doc/x", "other/"} {
			for f, err := range storage.Unreadable(t.Context(), a, prefix) {
				t.Errorf("Unreadable %q yields %+v, %v", prefix, f, err)
			}
		}
	})
	sound(t, e, a)
}
