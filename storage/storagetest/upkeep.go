package storagetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/backup"
	"github.com/stratamem/strata/storage/mem"
)

func upkeepCases() []testCase {
	return []testCase{
		{name: "stats", run: stats, needs: []string{"Statter"}},
		{name: "check", run: check, needs: []string{"Checker"}},
		{name: "compact", run: compact, needs: []string{"Compacter"}},
		{name: "compact-while-used", run: compactWhileUsed, needs: []string{"Compacter"}},
		{name: "compact-durable", run: compactDurable, needs: []string{"Compacter"}, durable: true},
		{name: "snapshot", run: snapshot, needs: []string{"Snapshotter"}},
		{name: "closed", run: closed},
		{name: "cancelled", run: cancelled},
	}
}

func stats(t *testing.T, e Engine) {
	a := e.open(t)
	at := func(documents, records int64) {
		t.Helper()
		st, err := storage.StatsOf(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		if st.Documents != documents || st.Records != records {
			t.Errorf("Stats count %d documents and %d records, want %d and %d", st.Documents, st.Records, documents, records)
		}
		if st.Engine == "" || st.Opened.IsZero() || st.Bytes < 0 {
			t.Errorf("Stats are %+v", st)
		}
	}
	at(0, 0)
	fill(t, e, a, 100)
	at(100, 100)
	fill(t, e, a, 100) // the same again
	at(100, 100)
	remove(t, a, "fill/000001")
	remove(t, a, "fill/000001")
	remove(t, a, "_fill/000001")
	at(99, 99)
	apply(t, a, storage.Put("fill/x", []byte(`{}`)), storage.Put("fill/x", []byte(`{}`)), storage.Remove("fill/000002"), storage.Remove("fill/000002"))
	at(99, 99)
	_ = a.Apply(t.Context(), storage.Put("fill/y", []byte(`{}`)), storage.Put("fill/x", []byte(`{}`)).IfAbsent())
	at(99, 99)
}

func check(t *testing.T, e Engine) {
	a := e.open(t)
	sound(t, e, a)
	declare(t, a, "even", "n")
	fill(t, e, a, 300)
	for i := range 100 {
		remove(t, a, fmt.Sprintf("fill/%06d", i*3))
	}
	sound(t, e, a)
	set(t, a, "_rec/after", "")
	sound(t, e, a)
}

func compact(t *testing.T, e Engine) {
	a := e.open(t)
	declare(t, a, "even")
	fill(t, e, a, 300)
	for i := range 250 {
		remove(t, a, fmt.Sprintf("fill/%06d", i))
		set(t, a, fmt.Sprintf("_fill/%06d", i), "short")
	}
	before, err := backup.TallyOf(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := storage.Compact(t.Context(), a); err != nil {
			t.Fatalf("Compact: %v", err)
		}
		after, err := backup.TallyOf(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "content after Compact", after, before)
		wantFound(t, a, storage.Query{Equal: fields{"even": "true"}, Limit: 1}, "fill/000250")
	}
	set(t, a, "fill/new", `{"even":"new"}`)
	wantFound(t, a, storage.Query{Equal: fields{"even": "new"}}, "fill/new")
	sound(t, e, a)
}

func compactWhileUsed(t *testing.T, e Engine) {
	a := e.open(t)
	keys := fill(t, e, a, 100)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 60 {
				set(t, a, fmt.Sprintf("_w/%d", w), fmt.Sprint(i))
				want(t, a, fmt.Sprintf("_w/%d", w), fmt.Sprint(i))
				if got := list(t, a, "fill/"); len(got) != 100 {
					t.Errorf("List yields %d keys of 100", len(got))
				}
			}
		})
	}
	for range 4 {
		if err := storage.Compact(t.Context(), a); err != nil {
			t.Errorf("Compact: %v", err)
		}
	}
	wg.Wait()
	if got := len(list(t, a, "")); got != len(keys)+4 {
		t.Errorf("%d keys, want %d", got, len(keys)+4)
	}
	sound(t, e, a)
}

func compactDurable(t *testing.T, e Engine) {
	dir := t.TempDir()
	a := e.openIn(t, dir)
	keys := fill(t, e, a, 100)
	if err := storage.Compact(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	set(t, a, "_after/a", "1")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = e.openIn(t, dir)
	want(t, a, "_after/a", "1")
	if got := len(list(t, a, "")); got != len(keys)+1 {
		t.Errorf("%d keys, want %d", got, len(keys)+1)
	}
	sound(t, e, a)
}

// snapshot takes snapshots and backups while batches are applied: each shows
// all of a batch or nothing of it, and nothing of what comes later.
func snapshot(t *testing.T, e Engine) {
	a := e.open(t)
	declare(t, a, "f")
	keys := fill(t, e, a, 300)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	batch := func(n int) (ops []storage.Op) {
		for i := range 40 { // far apart in the order of keys
			ops = append(ops, storage.Put(fmt.Sprintf("%c/%02d", 'a'+i%26, i), fmt.Appendf(nil, `{"f":"%d"}`, n)))
		}
		return ops
	}
	apply(t, a, batch(0)...)
	wg.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			apply(t, a, batch(n)...)
		}
	})
	whole := func(what string, still storage.Adapter) {
		t.Helper()
		values := map[string]int{}
		n := 0
		for entry, err := range storage.Scan(t.Context(), still, "", nil) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; len(entry.Key) == 4 {
				values[string(entry.Value)]++
			}
		}
		if len(values) != 1 || n != len(keys)+40 {
			t.Errorf("%s shows %d keys of %d, and of batches %v", what, n, len(keys)+40, values)
		}
	}
	for range 5 {
		still, err := storage.Snapshot(t.Context(), a)
		if err != nil {
			t.Fatalf("Snapshot: %v", err)
		}
		for range 2 {
			whole("a snapshot", still)
		}
		sound(t, e, still)
		if got := len(keysOf(t, storage.Find(t.Context(), still, storage.Query{Range: &storage.Range{Field: "f"}}))); got != 40 {
			t.Errorf("Find in a snapshot yields %d documents of 40", got)
		}
		if err := still.Close(); err != nil {
			t.Errorf("Close of a snapshot: %v", err)
		}
		text, _ := backedUp(t, a)
		m := mem.New()
		if _, err := backup.Restore(t.Context(), m, bytes.NewReader(text), nil); err != nil {
			t.Fatal(err)
		}
		whole("a backup", m)
	}
	// A snapshot outlives its original.
	still, err := storage.Snapshot(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	wg.Wait()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	whole("the snapshot of a closed store", still)
	if err := still.Close(); err != nil {
		t.Errorf("Close of a snapshot: %v", err)
	}
}

// calls has every method and function there is, by name, with the error that it
// returned.
func calls(ctx context.Context, e Engine, a storage.Adapter) map[string]error {
	// A sequence that ends without an error leaves nil.
	errs := map[string]error{"List": nil, "Scan": nil, "Scan in reverse": nil, "Find all": nil, "Find": nil}
	if e.has("Checker") {
		errs["Check"] = nil
	}
	if e.has("UnreadableLister") {
		errs["Unreadable"] = nil
	}
	_, _, errs["Get"] = a.Get(ctx, "doc/a")
	errs["Set"] = storage.Set(ctx, a, "doc/a", []byte(`{}`))
	errs["Delete"] = storage.Delete(ctx, a, "doc/a")
	for _, err := range a.List(ctx, "") {
		errs["List"] = err
	}
	for _, err := range storage.Scan(ctx, a, "", nil) {
		errs["Scan"] = err
	}
	for _, err := range storage.Scan(ctx, a, "", &storage.ScanOptions{Reverse: true}) {
		errs["Scan in reverse"] = err
	}
	for _, err := range storage.Find(ctx, a, storage.Query{}) {
		errs["Find all"] = err
	}
	for _, err := range storage.Find(ctx, a, storage.Query{Equal: fields{"f": "1"}}) {
		errs["Find"] = err
	}
	errs["Backup"] = func() error { _, err := backup.Write(ctx, a, new(bytes.Buffer)); return err }()
	errs["Apply"] = a.Apply(ctx, storage.Put("_a", nil))
	if e.has("Finder") {
		errs["EnsureIndex"] = storage.EnsureIndex(ctx, a, "g")
	}
	if e.has("Watcher") {
		_, errs["Watch"] = storage.Watch(ctx, a, "")
	}
	if e.has("Statter") {
		_, errs["Stats"] = storage.StatsOf(ctx, a)
	}
	if e.has("Snapshotter") {
		_, errs["Snapshot"] = storage.Snapshot(ctx, a)
	}
	if e.has("Compacter") {
		errs["Compact"] = storage.Compact(ctx, a)
	}
	if e.has("Checker") {
		for _, err := range storage.Check(ctx, a) {
			errs["Check"] = err
		}
	}
	if e.has("UnreadableLister") {
		for _, err := range storage.Unreadable(ctx, a, "") {
			errs["Unreadable"] = err
		}
	}
	return errs
}

func closed(t *testing.T, e Engine) {
	a := e.open(t)
	set(t, a, "doc/a", `{"f":"1"}`)
	declare(t, a, "f")
	for range 2 {
		if err := a.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	for name, err := range calls(t.Context(), e, a) {
		wantErr(t, name+" after Close", err, storage.ErrClosed)
	}
}

func cancelled(t *testing.T, e Engine) {
	a := e.open(t)
	set(t, a, "doc/a", `{"f":"1"}`)
	declare(t, a, "f")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range calls(ctx, e, a) {
		wantErr(t, name+" with an ended context", err, context.Canceled)
	}
	want(t, a, "doc/a", `{"f":"1"}`)
	diff(t, "keys", list(t, a, ""), []string{"doc/a"})
	sound(t, e, a)
}
