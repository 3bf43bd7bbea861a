package storage_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/storagetest"
)

// TestSmall runs the contract on a store that takes little: the suite asks for no more
// than what the engine says it takes, and for all of that.
func TestSmall(t *testing.T) {
	storagetest.Run(t, storagetest.Engine{
		Name:     "small",
		Volatile: true,
		Open: func(context.Context, string) (storage.Adapter, error) {
			return storagetest.Limited(mem.New(), storagetest.Small), nil
		},
		Without: []string{"Finder", "Watcher", "Statter", "Checker", "UnreadableLister", "Compacter", "Snapshotter"},
	})
}

func TestLimitsOf(t *testing.T) {
	constants := storage.Limits{Ops: storage.MaxBatch, Batch: storage.MaxBatchBytes, Value: storage.MaxValue, Key: storage.MaxKey}
	m := mem.New()
	defer m.Close()
	if got := storage.LimitsOf(m); got != constants {
		t.Errorf("limits of an engine that says none: %+v", got)
	}
	beyond := storage.Limits{Ops: storage.MaxBatch + 1, Batch: 1 << 30, Value: -1}
	if got := storage.LimitsOf(storagetest.Limited(m, beyond)); got != constants {
		t.Errorf("limits beyond the constants: %+v", got)
	}
	small := storagetest.Limited(m, storagetest.Small)
	if got := storage.LimitsOf(small); got != storagetest.Small {
		t.Errorf("limits of a small store: %+v", got)
	}
	want := storagetest.Small
	want.Key -= len("_layers/notes/")
	if got := storage.Scope(small, "_layers/notes").Limits(); got != want {
		t.Errorf("limits of a namespace: %+v, want %+v", got, want)
	}
}

func TestLimitsValidate(t *testing.T) {
	l := storage.Limits{Ops: 3, Batch: 100, Value: 60, Key: 10}
	put := func(key string, n int) storage.Op { return storage.Put(key, make([]byte, n)) }
	for _, test := range []struct {
		rule string
		ops  []storage.Op
	}{
		{"", nil},
		{"", []storage.Op{put("_a/4567890", 60)}},
		{"", []storage.Op{put("_a", 48), put("_b", 48)}},
		{"batch is over 100 bytes", []storage.Op{put("_a", 48), put("_b", 49)}},
		{"", []storage.Op{storage.Remove("_a"), storage.Remove("_b"), storage.Remove("_c")}},
		{"batch has over 3 ops", []storage.Op{storage.Remove("_a"), storage.Remove("_b"), storage.Remove("_c"), storage.Remove("_d")}},
		{"value is over 60 bytes", []storage.Op{put("_a", 61)}},
		{"key is over 10 bytes", []storage.Op{storage.Remove("_a/45678901")}},
		{"key is over 10 bytes", []storage.Op{put("_a/45678901", 0)}},
		{"not a JSON object", []storage.Op{storage.Put("doc/a", []byte("[]"))}},
	} {
		err := l.ValidateOps(test.ops)
		if (err == nil) != (test.rule == "") || err != nil && !strings.Contains(err.Error(), test.rule) {
			t.Errorf("ValidateOps of %d: %v, want %q", len(test.ops), err, test.rule)
		}
		fits := test.rule == "" || !strings.HasPrefix(test.rule, "batch")
		if got := l.Fit(test.ops); got != fits {
			t.Errorf("Fit of %d ops, %q: %t", len(test.ops), test.rule, got)
		}
	}
	for n, want := range map[int]string{1 << 20: "value is over 1 MiB", 3 << 10: "value is over 3 KiB", 1000: "value is over 1000 bytes"} {
		l := storage.Limits{Value: n}
		if err := l.ValidateEntry("_a", make([]byte, n)); err != nil {
			t.Error(err)
		}
		if err := l.ValidateEntry("_a", make([]byte, n+1)); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("a value over %d: %v, want %q", n, err, want)
		}
	}
}

func TestBatches(t *testing.T) {
	put := func(n int) storage.Op { return storage.Put("_a", make([]byte, n-2)) }
	l := storage.Limits{Ops: 3, Batch: 100, Value: 200}
	for _, test := range []struct {
		sizes []int
		want  []int // ops of each batch
	}{
		{nil, nil},
		{[]int{10}, []int{1}},
		{[]int{10, 10, 10}, []int{3}},
		{[]int{10, 10, 10, 10, 10, 10, 10}, []int{3, 3, 1}},
		{[]int{50, 50, 1 + 2}, []int{2, 1}},
		{[]int{50, 51, 49}, []int{1, 2}},
		{[]int{150, 10, 10}, []int{1, 2}}, // one that only fits alone
		{[]int{10, 150, 10}, []int{1, 1, 1}},
	} {
		var ops []storage.Op
		for _, n := range test.sizes {
			ops = append(ops, put(n))
		}
		var got []int
		n := 0
		for part := range l.Batches(ops) {
			if err := l.ValidateOps(part); err != nil {
				t.Errorf("%v: %v", test.sizes, err)
			}
			if &part[0] != &ops[n] {
				t.Errorf("%v: a batch is not what comes next", test.sizes)
			}
			n += len(part)
			got = append(got, len(part))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%v: (-want +got)\n%s", test.sizes, diff)
		}
		for range l.Batches(ops) {
			break
		}
	}
}
