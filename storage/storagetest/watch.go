package storagetest

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/stratamem/strata/storage"
)

func watchCases() []testCase {
	needs := []string{"Watcher"}
	return []testCase{
		{name: "watch", run: watch, needs: needs},
		{name: "watch-overflow", run: watchOverflow, needs: needs},
		{name: "watch-ends", run: watchEnds, needs: needs},
		{name: "watch-in-the-loop", run: watchInTheLoop, needs: needs},
	}
}

func subscribe(t *testing.T, ctx context.Context, a storage.Adapter, prefix string) iter.Seq2[storage.Event, error] {
	t.Helper()
	events, err := storage.Watch(ctx, a, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// takeUntil reads events up to the one that sets key.
func takeUntil(t *testing.T, events iter.Seq2[storage.Event, error], key string) []storage.Event {
	t.Helper()
	var got []storage.Event
	for ev, err := range events {
		if err != nil {
			t.Fatalf("Watch: %v", err)
		}
		if got = append(got, ev); ev.Key == key {
			break
		}
	}
	return got
}

func watch(t *testing.T, e Engine) {
	a := e.open(t)
	set(t, a, "doc/before", `{}`)
	all, docs := subscribe(t, t.Context(), a, ""), subscribe(t, t.Context(), a, "doc/")
	set(t, a, "doc/a", `{}`)
	set(t, a, "_rec/a", ``)
	remove(t, a, "doc/before")
	remove(t, a, "doc/never")
	want := []storage.Event{
		{Kind: storage.EventSet, Key: "doc/a"}, {Kind: storage.EventSet, Key: "_rec/a"}, {Kind: storage.EventDelete, Key: "doc/before"},
	}
	apply(t, a, storage.Put("doc/b", []byte(`{}`)), storage.Remove("_rec/a"))
	_ = a.Apply(t.Context(), storage.Put("doc/refused", []byte(`{}`)), storage.Put("doc/a", []byte(`{}`)).IfAbsent())
	want = append(want, storage.Event{Kind: storage.EventSet, Key: "doc/b"}, storage.Event{Kind: storage.EventDelete, Key: "_rec/a"})
	set(t, a, "doc/last", `{}`)
	want = append(want, storage.Event{Kind: storage.EventSet, Key: "doc/last"})
	diff(t, "events", takeUntil(t, all, "doc/last"), want)
	var wantDocs []storage.Event
	for _, ev := range want {
		if storage.IsDocument(ev.Key) {
			wantDocs = append(wantDocs, ev)
		}
	}
	diff(t, "events of documents", takeUntil(t, docs, "doc/last"), wantDocs)
}

// watchOverflow: a reader that falls behind is told so, and can continue.
func watchOverflow(t *testing.T, e Engine) {
	a := e.open(t)
	events := subscribe(t, t.Context(), a, "_rec/")
	next, stop := iter.Pull2(events)
	defer stop()
	const most = 200_000 // any smaller bound will do
	overflow, seen := false, 0
	for written := 0; written < most && !overflow; {
		for range 5 {
			ops := make([]storage.Op, storage.LimitsOf(a).Ops)
			for i := range ops {
				ops[i] = storage.Put(fmt.Sprintf("_rec/%06d", written), nil)
				written++
			}
			apply(t, a, ops...)
		}
		for seen < written && !overflow {
			ev, err, ok := next()
			if err != nil || !ok {
				t.Fatalf("Watch ended: %v", err)
			}
			if overflow = ev.Kind == storage.EventOverflow; overflow {
				break
			}
			if key := fmt.Sprintf("_rec/%06d", seen); ev.Key != key {
				t.Fatalf("event of %q, want %q: a gap without an overflow", ev.Key, key)
			}
			seen++
		}
	}
	if !overflow {
		t.Fatalf("no overflow in %d events", most)
	}
	set(t, a, "_rec/after", "")
	for {
		ev, err, ok := next()
		if err != nil || !ok {
			t.Fatalf("Watch ended after an overflow: %v", err)
		}
		if ev.Key == "_rec/after" {
			return
		}
	}
}

func watchEnds(t *testing.T, e Engine) {
	a := e.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := subscribe(t, ctx, a, "")
	never := subscribe(t, ctx, a, "") // nobody ranges over it
	_ = never
	closing := subscribe(t, t.Context(), a, "")
	set(t, a, "_rec/a", "")
	n := 0
	for ev, err := range events {
		if n++; n == 1 {
			if err != nil || ev.Key != "_rec/a" {
				t.Fatalf("event %v, %v", ev, err)
			}
			cancel()
			continue
		}
		wantErr(t, "Watch with an ended context", err, context.Canceled)
	}
	if n != 2 {
		t.Errorf("%d events", n)
	}
	if _, err := storage.Watch(ctx, a, ""); err == nil {
		t.Error("Watch with an ended context: no error")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	var last error
	for _, err := range closing {
		last = err
	}
	wantErr(t, "Watch of a closed store", last, storage.ErrClosed)
	_, err := storage.Watch(t.Context(), a, "")
	wantErr(t, "Watch after Close", err, storage.ErrClosed)
}

func watchInTheLoop(t *testing.T, e Engine) {
	a := e.open(t)
	events := subscribe(t, t.Context(), a, "_rec/")
	set(t, a, "_rec/0", "")
	n := 0
	for ev, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 20 {
			break
		}
		set(t, a, fmt.Sprintf("_rec/%d", n), "")
		want(t, a, ev.Key, "")
	}
	set(t, a, "_rec/later", "") // nobody listens any more
}
