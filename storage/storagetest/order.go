package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
)

func orderCases() []testCase {
	return []testCase{
		{name: "list-order", run: listOrder},
		{name: "scan", run: scan},
		{name: "scan-options", run: scanOptions},
		{name: "write-in-the-loop", run: writeInTheLoop},
		{name: "use-in-the-loop", run: useInTheLoop},
		{name: "close-in-the-loop", run: closeInTheLoop},
		{name: "stop-and-repeat", run: stopAndRepeat},
		{name: "scoped", run: scoped},
	}
}

func listOrder(t *testing.T, e Engine) {
	a := e.open(t)
	diff(t, "keys of an empty store", list(t, a, ""), []string{})
	keys := []string{
		"_", "_a", "_a/b", "_a/b/c", "_a/b\x01", "_a/b0", "_a/ba", "_a/é", "_b/\U0010FFFF", "_b/~",
		"a/b", "a/b/c", "a/ba", "a-b/c", "a/\x00", "ab/c", "b/é", "b/z", "zz/zz",
	}
	for _, key := range keys {
		set(t, a, key, `{}`)
	}
	slices.Sort(keys)
	for _, prefix := range []string{"", "_", "_a", "_a/", "_a/b", "a", "a/", "a/b", "a/b/", "b/\xc3", "_b/\xf4", "x", "zz/zz", "zz/zz/", "\xff", "/", "A"} {
		under := []string{}
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) {
				under = append(under, key)
			}
		}
		diff(t, fmt.Sprintf("List %q", prefix), list(t, a, prefix), under)
		diff(t, fmt.Sprintf("Scan %q", prefix), keysOf(t, storage.Scan(t.Context(), a, prefix, nil)), under)
		slices.Reverse(under)
		diff(t, fmt.Sprintf("Scan %q in reverse", prefix),
			keysOf(t, storage.Scan(t.Context(), a, prefix, &storage.ScanOptions{Reverse: true})), under)
	}
}

func scan(t *testing.T, e Engine) {
	a := e.open(t)
	keys := fill(t, e, a, 700) // several pages
	big := strings.Repeat("x", min(100_000, storage.LimitsOf(a).Value))
	for i := range 20 {
		key := fmt.Sprintf("_zbig/%02d", i)
		set(t, a, key, big)
	}
	i := 0
	for entry, err := range storage.Scan(t.Context(), a, "", nil) {
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := a.Get(t.Context(), entry.Key)
		if err != nil {
			t.Fatal(err)
		}
		if !equal(entry.Key, entry.Value, got) {
			t.Errorf("Scan and Get differ for %q", entry.Key)
		}
		if e.has("Scanner") && entry.Version != version(t, a, entry.Key) {
			t.Errorf("Scan and Get differ for %q", entry.Key)
		}
		i++
	}
	if i != len(keys)+20 {
		t.Errorf("Scan yields %d entries of %d", i, len(keys)+20)
	}
}

func scanOptions(t *testing.T, e Engine) {
	a := e.open(t)
	keys := fill(t, e, a, 300)
	for _, prefix := range []string{"", "_fill/", "fill/", "fill/0001", "none/"} {
		for _, after := range []string{"", "_", "_fill/000050", "_fill/000050x", "fill/", "fill/000120", "fill/000199", "fill/999", "zz"} {
			for _, limit := range []int{0, 1, 2, 31, 32, 33, 100, 1000} {
				for _, reverse := range []bool{false, true} {
					opts := storage.ScanOptions{After: after, Limit: limit, Reverse: reverse}
					got := keysOf(t, storage.Scan(t.Context(), a, prefix, &opts))
					diff(t, fmt.Sprintf("Scan %q %+v", prefix, opts), got, naiveScan(keys, prefix, opts))
				}
			}
		}
	}
	// Paging by After sees everything once.
	var paged []string
	for {
		opts := storage.ScanOptions{Limit: 7}
		if len(paged) > 0 {
			opts.After = paged[len(paged)-1]
		}
		page := keysOf(t, storage.Scan(t.Context(), a, "", &opts))
		if len(page) == 0 {
			break
		}
		paged = append(paged, page...)
	}
	diff(t, "paged keys", paged, keys)
}

// naiveScan is what Scan should yield for the sorted keys.
func naiveScan(keys []string, prefix string, opts storage.ScanOptions) []string {
	got := []string{}
	keys = slices.Clone(keys)
	if opts.Reverse {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		beyond := opts.After == "" || !opts.Reverse && key > opts.After || opts.Reverse && key < opts.After
		if strings.HasPrefix(key, prefix) && beyond {
			got = append(got, key)
		}
		if opts.Limit > 0 && len(got) == opts.Limit {
			break
		}
	}
	return got
}

func writeInTheLoop(t *testing.T, e Engine) {
	a := e.open(t)
	keys := fill(t, e, a, 400)
	ctx := t.Context()
	n := 0
	for key, err := range a.List(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		set(t, a, key, `{"changed":true}`)
		set(t, a, "_log/"+storage.Join(key), strings.Repeat("log ", 300)) // lets a file grow
		remove(t, a, "_log/"+storage.Join(key))
		n++
	}
	if n != len(keys) {
		t.Errorf("List yields %d keys of %d", n, len(keys))
	}
	for entry, err := range storage.Scan(ctx, a, "", nil) {
		if err != nil {
			t.Fatal(err)
		}
		remove(t, a, entry.Key)
	}
	diff(t, "keys left", list(t, a, ""), []string{})
	fill(t, e, a, 200)
	if err := storage.EnsureIndex(ctx, a, "even"); err != nil {
		t.Fatal(err)
	}
	n = 0
	for entry, err := range storage.Find(ctx, a, storage.Query{Equal: map[string]string{"even": "true"}}) {
		if err != nil {
			t.Fatal(err)
		}
		set(t, a, entry.Key, `{"even":"no more"}`)
		n++
	}
	if n != 100 {
		t.Errorf("Find yields %d documents of 100", n)
	}
	sound(t, e, a)
}

// useInTheLoop makes every other call during an iteration: none may wait for
// its end.
func useInTheLoop(t *testing.T, e Engine) {
	a := e.open(t)
	keys := fill(t, e, a, 200)
	declare(t, a, "even")
	set(t, a, "doc/a", `{"f":"1"}`)
	inside := func(what string) {
		t.Helper()
		for name, err := range calls(t.Context(), e, a) {
			if err != nil && !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%s in a %s: %v", name, what, err)
			}
		}
		set(t, a, "doc/a", `{"f":"1"}`)
	}
	listed := 0
	for _, err := range a.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if listed++; listed%100 == 1 {
			inside("List")
		}
	}
	if listed < len(keys) {
		t.Errorf("List yields %d keys of %d", listed, len(keys))
	}
	for _, what := range []string{"Scan", "Find"} {
		seq := storage.Scan(t.Context(), a, "fill/", nil)
		if what == "Find" {
			seq = storage.Find(t.Context(), a, storage.Query{Prefix: "fill/"})
		}
		n := 0
		for _, err := range seq {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n%100 == 1 {
				inside(what)
			}
		}
		if n != 200 {
			t.Errorf("%s yields %d entries of 200", what, n)
		}
	}
	sound(t, e, a)
}

// closeInTheLoop closes the store during an iteration. Close must not wait for
// it, and it must not continue as if nothing had happened.
func closeInTheLoop(t *testing.T, e Engine) {
	for _, what := range []string{"List", "Scan", "Find"} {
		a := e.open(t)
		keys := fill(t, e, a, 3000)
		n, last := 0, error(nil)
		step := func(err error) {
			if n++; n == 1 {
				if err := a.Close(); err != nil {
					t.Errorf("Close in a %s: %v", what, err)
				}
			}
			last = err
		}
		switch what {
		case "List":
			for _, err := range a.List(t.Context(), "") {
				step(err)
			}
		case "Scan":
			for _, err := range storage.Scan(t.Context(), a, "", nil) {
				step(err)
			}
		case "Find":
			for _, err := range storage.Find(t.Context(), a, storage.Query{}) {
				step(err)
			}
		}
		// What was read before may still be yielded.
		if last == nil && n < len(keys)/2 || last != nil && !errors.Is(last, storage.ErrClosed) {
			t.Errorf("%s in which the store was closed: %d entries, then %v", what, n, last)
		}
	}
}

func stopAndRepeat(t *testing.T, e Engine) {
	a := e.open(t)
	keys := fill(t, e, a, 100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listed, scanned, found := a.List(ctx, ""), storage.Scan(ctx, a, "", nil), storage.Find(ctx, a, storage.Query{})
	for range 2 {
		for key, err := range listed {
			if err != nil || key != keys[0] {
				t.Errorf("List begins with %q, %v", key, err)
			}
			break
		}
		for entry, err := range scanned {
			if err != nil || entry.Key != keys[0] {
				t.Errorf("Scan begins with %q, %v", entry.Key, err)
			}
			break
		}
		for entry, err := range found {
			if err != nil || entry.Key != keys[100] {
				t.Errorf("Find begins with %q, %v", entry.Key, err)
			}
			break
		}
	}
	n := 0
	for _, err := range scanned {
		if err != nil {
			wantErr(t, "cancelled Scan", err, context.Canceled)
			n = -1
			break
		}
		if n++; n == 5 {
			cancel()
		}
	}
	if n != -1 {
		t.Errorf("Scan went on for %d entries after its context ended", n)
	}
	for _, err := range listed {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("List with an ended context: %v", err)
		}
		break
	}
}

func scoped(t *testing.T, e Engine) {
	a := e.open(t)
	ctx := t.Context()
	set(t, a, "_layers/other", "outside")
	set(t, a, "_layers/notes2/a", "outside")
	for _, s := range []storage.Scoped{storage.Scope(a, "_layers/notes"), storage.Scope(a, "_layers/notes/")} {
		for _, rel := range []string{"b", "a", "c/d"} {
			if err := s.Apply(ctx, storage.Put(rel, []byte(rel))); err != nil {
				t.Fatal(err)
			}
		}
		want(t, a, "_layers/notes/c/d", "c/d")
		want(t, a, s.Key("a"), "a")
		if got, err := s.Get(ctx, "a"); err != nil || string(got) != "a" {
			t.Errorf("Get a = %q, %v", got, err)
		}
		var keys []string
		for key, err := range s.List(ctx, "") {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, key)
		}
		diff(t, "List", keys, []string{"a", "b", "c/d"})
		diff(t, "Scan after a", keysOf(t, s.Scan(ctx, "", &storage.ScanOptions{After: "a"})), []string{"b", "c/d"})
		diff(t, "Scan c/", keysOf(t, s.Scan(ctx, "c/", nil)), []string{"c/d"})
		diff(t, "Scan in reverse", keysOf(t, s.Scan(ctx, "", &storage.ScanOptions{Reverse: true, Limit: 2})), []string{"c/d", "b"})
		apply(t, s.Adapter(), storage.Put(s.Key("batch"), nil), storage.Remove(s.Key("batch")))
		if err := s.Apply(ctx, storage.Remove("a")); err != nil {
			t.Fatal(err)
		}
		wantGone(t, a, "_layers/notes/a")
		for _, rel := range []string{"", "../other", "..", "/"} {
			checkInvalid(t, fmt.Sprintf("Set %q", rel), s.Apply(ctx, storage.Put(rel, nil)))
		}
	}
	want(t, a, "_layers/other", "outside")
	want(t, a, "_layers/notes2/a", "outside")
}
