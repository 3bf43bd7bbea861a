package storagetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stratamem/strata/storage"
)

func batchCases() []testCase {
	return []testCase{
		{name: "apply", run: applyBatch},
		{name: "apply-limits", run: applyLimits},
		{name: "apply-preconditions", run: preconditions},
		{name: "apply-is-atomic", run: atomicity},
		{name: "versions-made", run: versionsMade},
		{name: "versions", run: versions},
		{name: "counters", run: counters},
		{name: "conflicts-are-each-ones-own", run: conflictsApart},
	}
}

func applyBatch(t *testing.T, e Engine) {
	a := e.open(t)
	apply(t, a)
	set(t, a, "doc/old", `{}`)
	apply(t, a,
		storage.Put("doc/a", []byte(`{"n":1}`)), storage.Put("_rec/a", []byte("one")),
		storage.Remove("doc/old"), storage.Remove("doc/never"))
	want(t, a, "doc/a", `{"n":1}`)
	want(t, a, "_rec/a", "one")
	wantGone(t, a, "doc/old")
	// Changes to one key are made in order.
	apply(t, a,
		storage.Put("doc/a", []byte(`{"n":2}`)), storage.Put("doc/a", []byte(`{"n":3}`)),
		storage.Put("_rec/a", []byte("two")), storage.Remove("_rec/a"),
		storage.Remove("_rec/b"), storage.Put("_rec/b", []byte("b")))
	want(t, a, "doc/a", `{"n":3}`)
	wantGone(t, a, "_rec/a")
	want(t, a, "_rec/b", "b")
	diff(t, "keys", list(t, a, ""), []string{"_rec/b", "doc/a"})
	sound(t, e, a)
}

func applyLimits(t *testing.T, e Engine) {
	a := e.open(t)
	limits := storage.LimitsOf(a)
	ops := make([]storage.Op, limits.Ops)
	for i := range ops {
		ops[i] = storage.Put(fmt.Sprintf("doc/%04d", i), []byte(`{"n":1}`))
	}
	checkInvalid(t, "Apply of one more than the limit", a.Apply(t.Context(), append(ops, storage.Remove("_x"))...))
	diff(t, "keys after a refused batch", list(t, a, ""), []string{})
	apply(t, a, ops...)
	if got := len(list(t, a, "")); got != limits.Ops {
		t.Errorf("%d keys after Apply of %d", got, limits.Ops)
	}
	// Values that fill a batch to the byte, keys and all, and one byte more.
	const key = len("_big/0000")
	big := make([]storage.Op, limits.Batch/(limits.Value+key)+2)
	for i := range big {
		big[i] = storage.Put(fmt.Sprintf("_big/%04d", i), make([]byte, limits.Batch/len(big)-key))
	}
	last := &big[0]
	full := append(last.Value, make([]byte, limits.Batch%len(big))...)
	last.Value = append(full, 0)
	checkInvalid(t, "Apply of a byte more than the limit", a.Apply(t.Context(), big...))
	wantGone(t, a, "_big/0000")
	last.Value = full
	apply(t, a, big...)
	checkInvalid(t, "Apply with a bad document",
		a.Apply(t.Context(), storage.Put("_big/c", nil), storage.Put("doc/c", []byte(`[]`))))
	wantGone(t, a, "_big/c")
}

func preconditions(t *testing.T, e Engine) {
	a := e.open(t)
	ctx := t.Context()
	refused := func(what, key string, ops ...storage.Op) {
		t.Helper()
		before := list(t, a, "")
		err := a.Apply(ctx, ops...)
		var conflict *storage.ConflictError
		if !errors.Is(err, storage.ErrConflict) || !errors.As(err, &conflict) || conflict.Key != key {
			t.Errorf("%s: error %v, want a ConflictError of %q", what, err, key)
		}
		diff(t, what, list(t, a, ""), before)
	}
	put := func(key, value string) storage.Op { return storage.Put(key, []byte(value)) }

	apply(t, a, put("doc/a", `{"n":1}`).IfAbsent(), put("_rec/a", "1").IfAbsent())
	refused("IfAbsent of a key that is there", "doc/a", put("_rec/b", "b"), put("doc/a", `{"n":2}`).IfAbsent())
	refused("IfVersion of an absent key", "doc/b", put("_rec/b", "b"), put("doc/b", `{}`).IfVersion("other"))
	refused("IfVersion of no such version", "doc/a", put("doc/a", `{}`).IfVersion("no such version"))
	want(t, a, "doc/a", `{"n":1}`)

	v := version(t, a, "doc/a")
	apply(t, a, put("doc/a", `{"n":2}`).IfVersion(v))
	refused("IfVersion of the version before", "doc/a", put("_rec/a", "2"), put("doc/a", `{"n":3}`).IfVersion(v))
	want(t, a, "doc/a", `{"n":2}`)
	want(t, a, "_rec/a", "1")

	// One precondition on a key that is deleted, and one that fails last.
	refused("Remove with an old version", "doc/a", storage.Remove("doc/a").IfVersion(v))
	refused("Remove of an absent key with a version", "doc/x", storage.Remove("doc/x").IfVersion(v))
	apply(t, a, storage.Remove("doc/x").IfAbsent())
	refused("the last of many", "_rec/a", put("_m/1", ""), put("_m/2", ""), storage.Remove("doc/a"), put("_rec/a", "").IfAbsent())
	apply(t, a, storage.Remove("doc/a").IfVersion(version(t, a, "doc/a")))
	wantGone(t, a, "doc/a")

	// Preconditions test the state before the batch, wherever they are in it.
	apply(t, a, put("_order/a", "1"), put("_order/a", "2").IfAbsent())
	want(t, a, "_order/a", "2")
	v = version(t, a, "_order/a")
	apply(t, a, storage.Remove("_order/a"), put("_order/a", "3").IfVersion(v))
	want(t, a, "_order/a", "3")
	sound(t, e, a)
}

// versionsMade applies to an engine that says which versions a batch made, and
// to one that does not.
func versionsMade(t *testing.T, e Engine) {
	a := e.open(t)
	put := func(key, value string) storage.Op { return storage.Put(key, []byte(value)) }
	check := func(key string, made storage.Version) {
		t.Helper()
		if made != "" && made != version(t, a, key) {
			t.Errorf("%q has version %q, the batch made %q", key, version(t, a, key), made)
		}
	}
	for i := range 20 {
		value := fmt.Sprintf(`{"n":%d}`, i)
		var document, record, early, gone storage.Version
		set(t, a, "_rec/gone", "")
		apply(t, a, put("doc/a", value).Making(&document), put("_rec/a", "early").Making(&early), put("_rec/a", value).Making(&record),
			storage.Remove("_rec/gone").Making(&gone), storage.Remove("_rec/never"))
		check("doc/a", document)
		check("_rec/a", record)
		if gone != "" || early != "" && early == record {
			t.Errorf("the versions %q and %q, and %q for a deleted key", early, record, gone)
		}
		if record == "" {
			continue
		}
		// The version made is a precondition that holds, once.
		op := put("_rec/a", value+" again").IfVersion(record)
		apply(t, a, op)
		if err := a.Apply(t.Context(), put("_rec/b", ""), op); !errors.Is(err, storage.ErrConflict) {
			t.Errorf("Apply with an old version: %v", err)
		}
		wantGone(t, a, "_rec/b")
	}
	sound(t, e, a)
}

func versions(t *testing.T, e Engine) {
	a := e.open(t)
	for _, key := range []string{"doc/a", "_rec/a"} {
		_, _, err := a.Get(t.Context(), key)
		wantErr(t, "Get of an absent key", err, storage.ErrNotFound)
		values := map[storage.Version]string{}
		for i := range 40 {
			value := fmt.Sprintf(`{"n":%d}`, i/2) // each value twice
			if i%5 == 0 {
				remove(t, a, key)
			}
			if i%3 == 0 {
				apply(t, a, storage.Put(key, []byte(value)))
			} else {
				set(t, a, key, value)
			}
			got, v, err := a.Get(t.Context(), key)
			if err != nil || !equal(key, got, []byte(value)) {
				t.Fatalf("Get = %q, %v, want %q", got, err, value)
			}
			if v == "" {
				t.Fatal("the version of a value is that of an absent one")
			}
			if other, ok := values[v]; ok && other != value {
				t.Errorf("%s and %s have the same version", other, value)
			}
			values[v] = value
			if again := version(t, a, key); again != v {
				t.Errorf("version is %q, then %q", v, again)
			}
		}
	}
}

// counters is the classic test of compare-and-set: no increment may be lost.
func counters(t *testing.T, e Engine) {
	a := e.open(t)
	const writers, each = 8, 25
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if err := increment(a, "_counter/a"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	want(t, a, "_counter/a", strconv.Itoa(writers*each))
}

// conflictsApart: requests that share a commit do not share conflicts.
func conflictsApart(t *testing.T, e Engine) {
	a := e.open(t)
	set(t, a, "_taken/a", "")
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := range 10 {
				op := storage.Put(fmt.Sprintf("doc/%d-%d", w, i), []byte(`{}`))
				if w%2 == 0 {
					apply(t, a, op)
					continue
				}
				err := a.Apply(context.Background(), op, storage.Put("_taken/a", nil).IfAbsent())
				wantErr(t, "Apply", err, storage.ErrConflict)
			}
		})
	}
	wg.Wait()
	if got := len(list(t, a, "doc/")); got != 80 {
		t.Errorf("%d documents, want 80", got)
	}
	sound(t, e, a)
}

// atomicity reads while batches are applied: it must see all of a batch, or
// nothing of it.
func atomicity(t *testing.T, e Engine) {
	a := e.open(t)
	size := min(20, storage.LimitsOf(a).Ops)
	batch := func(n int) []storage.Op {
		ops := make([]storage.Op, 0, size)
		for i := range size {
			ops = append(ops, storage.Put(fmt.Sprintf("_atomic/%02d", i), strconv.AppendInt(nil, int64(n), 10)))
		}
		return ops
	}
	apply(t, a, batch(0)...)
	last := 0
	reading(t, func(i int) { last = i; apply(t, a, batch(i)...) }, func() {
		seen := map[string]bool{}
		for entry, err := range storage.Scan(t.Context(), a, "_atomic/", nil) {
			if err != nil {
				t.Errorf("Scan: %v", err)
				return
			}
			seen[string(entry.Value)] = true
		}
		// An engine without torn reads reads a page in one go.
		if len(seen) > 1 && !e.TornReads && e.has("Scanner") {
			t.Errorf("Scan saw parts of batches: %v", seen)
		}
	})
	whole := func() {
		t.Helper()
		for i := range size {
			want(t, a, fmt.Sprintf("_atomic/%02d", i), strconv.Itoa(last))
		}
	}
	whole()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, "Apply with an ended context", a.Apply(ctx, batch(-1)...), context.Canceled)
	whole()
	if got := len(list(t, a, "")); got != size {
		t.Errorf("%d keys, want %d", got, size)
	}
}
