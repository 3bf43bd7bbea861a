package badger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/badger"
)

// longKey returns a key of 1 KiB.
func longKey(kind string, i int) string {
	return fmt.Sprintf("%s/%04d-%s", kind, i, strings.Repeat("k", storage.MaxKey-len(kind)-6))
}

// TestLargestBatches: whatever the contract admits as one batch is one
// transaction, with the smallest memtable there is.
func TestLargestBatches(t *testing.T) {
	s := open(t, t.TempDir(), &badger.Options{MemTable: 1})
	ctx := t.Context()
	if err := s.EnsureIndex(ctx, "f"); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 1000, 2035, 2036, 7000, 2035} { // 2,036 is where the value log begins
		for _, kind := range []string{"_r", "doc"} {
			var ops []storage.Op
			left := storage.MaxBatchBytes
			for i := range storage.MaxBatch {
				value := make([]byte, size)
				if kind == "doc" {
					value = fmt.Appendf(nil, `{"f":"%d","pad":"%s"}`, i, strings.Repeat("x", max(size-20, 0)))
				}
				if left -= storage.MaxKey + len(value); left < 0 {
					break
				}
				ops = append(ops, storage.Put(longKey(kind, i), value))
			}
			if err := s.Apply(ctx, ops...); err != nil {
				t.Fatalf("%d values of %d bytes: %v", len(ops), size, err)
			}
		}
	}
	for _, n := range []int{storage.MaxValue, storage.MaxValue - 1} {
		if err := storage.Set(ctx, s, "_r/value", make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		if got, _, err := s.Get(ctx, "_r/value"); err != nil || len(got) != n {
			t.Fatalf("%d of %d bytes, %v", len(got), n, err)
		}
	}
	var ops []storage.Op
	for i := range storage.MaxBatch {
		ops = append(ops, storage.Remove(longKey("doc", i)))
	}
	if err := s.Apply(ctx, ops...); err != nil {
		t.Fatal(err)
	}
	if found := faults(t, s); len(found) > 0 {
		t.Errorf("Check found %+v", found)
	}
}

// crowd is a document with so many index entries that no transaction holds
// them.
func crowd(n int) []byte {
	tags := make([]string, 40_000)
	for i := range tags {
		tags[i] = fmt.Sprintf(`"%d-%d"`, n, i)
	}
	return fmt.Appendf(nil, `{"n":"%d","tags":["all",%s]}`, n, strings.Join(tags, ","))
}

func count(t *testing.T, s *badger.Store, field, value string) (n int) {
	t.Helper()
	for _, err := range s.Find(t.Context(), storage.Query{Equal: map[string]string{field: value}}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestManyEntries has documents with 40,000 index entries come, change and go
// in one batch, while others look: they see all of a batch or nothing.
func TestManyEntries(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.EnsureIndex(ctx, "tags", "n"); err != nil {
		t.Fatal(err)
	}
	looked := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			for n := range 3 {
				for e, err := range s.Find(ctx, storage.Query{Equal: map[string]string{"tags": fmt.Sprintf("%d-5", n)}}) {
					if err == nil && !strings.HasPrefix(string(e.Value), fmt.Sprintf(`{"n":"%d"`, n)) {
						err = fmt.Errorf("found %.30s by the tag of %d", e.Value, n)
					}
					if err != nil && ctx.Err() == nil {
						looked <- err
						return
					}
				}
			}
		}
		looked <- nil
	}()
	for n := range 3 {
		if err := s.Apply(ctx, storage.Put("doc/a", crowd(n)), storage.Put("doc/b", crowd(n)), storage.Put("_r/n", fmt.Append(nil, n))); err != nil {
			t.Fatal(err)
		}
		if got := count(t, s, "tags", fmt.Sprintf("%d-39999", n)); got != 2 {
			t.Errorf("%d documents of 2", got)
		}
		if got := count(t, s, "tags", fmt.Sprintf("%d-39999", n-1)); got != 0 {
			t.Errorf("%d documents of the batch before", got)
		}
	}
	cancel()
	if err := <-looked; err != nil {
		t.Error(err)
	}
	if found := faults(t, s); len(found) > 0 {
		t.Errorf("Check found %+v", found)
	}
	if err := s.Apply(t.Context(), storage.Remove("doc/a"), storage.Remove("doc/b")); err != nil {
		t.Fatal(err)
	}
	if found := faults(t, s); len(found) > 0 || count(t, s, "tags", "all") != 0 {
		t.Errorf("Check found %+v", found)
	}
}

// TestKilledWithManyEntries kills a process in the middle of such a batch, and
// of an EnsureIndex.
func TestKilledWithManyEntries(t *testing.T) {
	const works = "STRATA_TEST_WORKS"
	if dir := os.Getenv(works); dir != "" {
		s := open(t, dir, &badger.Options{Durability: storage.Process})
		fmt.Println("open")
		for n := 0; ; n++ {
			err := s.Apply(t.Context(), storage.Put("doc/a", crowd(n)), storage.Put("doc/b", crowd(n)), storage.Put("_r/n", fmt.Append(nil, n)))
			if err = errors.Join(err, s.EnsureIndex(t.Context(), "tags", fmt.Sprintf("none-%d", n))); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := t.TempDir()
	for kill := range 6 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWithManyEntries$")
		cmd.Env = append(os.Environ(), works+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(kill*131%700+20)*time.Millisecond, func() { cmd.Process.Kill() })
		cmd.Wait()
		timer.Stop()
		s := open(t, dir, nil)
		if found := faults(t, s); len(found) > 0 {
			t.Fatalf("kill %d: Check found %+v", kill, found)
		}
		if err := s.EnsureIndex(t.Context(), "tags"); err != nil {
			t.Fatal(err)
		}
		if value, _, err := s.Get(t.Context(), "_r/n"); err == nil {
			for _, tag := range []string{"all", string(value) + "-7"} {
				if got := count(t, s, "tags", tag); got != 2 {
					t.Errorf("kill %d: %d documents with the tag %s, want 2", kill, got, tag)
				}
			}
		}
		if found := faults(t, s); len(found) > 0 {
			t.Fatalf("kill %d: Check found %+v", kill, found)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
