package badger_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/badger"
)

func usage(t *testing.T, s *badger.Store) int64 {
	t.Helper()
	st, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st.Bytes
}

func big(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%08d", i), 1<<17) } // 1 MiB

// litter leaves 200 MiB of large values in the value log, of which 10 are alive.
func litter(t *testing.T, s *badger.Store) {
	t.Helper()
	for i := range 200 {
		if err := storage.Set(t.Context(), s, fmt.Sprintf("_big/%03d", i), big(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 200 {
		if i%20 == 0 {
			continue
		}
		if err := storage.Delete(t.Context(), s, fmt.Sprintf("_big/%03d", i)); err != nil {
			t.Fatal(err)
		}
	}
}

func alive(t *testing.T, s storage.Adapter, want int) {
	t.Helper()
	n := 0
	for e, err := range storage.Scan(t.Context(), s, "_big/", nil) {
		if err != nil {
			t.Fatal(err)
		}
		var i int
		if _, err := fmt.Sscanf(e.Key, "_big/%d", &i); err != nil || !bytes.Equal(e.Value, big(i)) {
			t.Errorf("%s is not what was set", e.Key)
		}
		n++
	}
	if n != want {
		t.Errorf("%d values, want %d", n, want)
	}
}

func TestCompactReclaims(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &badger.Options{Durability: storage.None, GCInterval: -1})
	litter(t, s)
	before := usage(t, s)
	still, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Reads go on meanwhile, and find values in the place they are moved to.
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for i := 0; ctx.Err() == nil; i += 20 {
				if value, _, err := s.Get(t.Context(), fmt.Sprintf("_big/%03d", i%200)); err != nil || !bytes.Equal(value, big(i%200)) {
					t.Errorf("Get: %d bytes, %v", len(value), err)
				}
			}
		})
	}
	for range 3 {
		if err := s.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	readers.Wait()
	alive(t, s, 10)
	alive(t, still, 10)
	if err := still.Close(); err != nil {
		t.Fatal(err)
	}
	after := usage(t, s)
	if before < 180<<20 || after > before/2 {
		t.Errorf("%d MiB before, %d after", before>>20, after>>20)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, nil)
	alive(t, s, 10)
	if found := faults(t, s); len(found) > 0 {
		t.Errorf("Check found %+v", found)
	}
}

// announce is a writer of log lines that tells of one that holds a text.
type announce struct {
	text string
	seen chan struct{}
}

func (a *announce) Write(line []byte) (int, error) {
	if strings.Contains(string(line), a.text) {
		select {
		case a.seen <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

// TestGarbageIsCollected: what one process leaves, the goroutine of the next
// collects by itself.
func TestGarbageIsCollected(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &badger.Options{Durability: storage.None, GCInterval: -1})
	litter(t, s)
	before := usage(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	log := &announce{text: "collected garbage", seen: make(chan struct{}, 1)}
	s = open(t, dir, &badger.Options{
		Durability: storage.None, GCInterval: 20 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	const mostWrites = 1 << 20 // it takes some 70,000
	// badger learns of garbage when it merges tables, of which there are to be
	// enough.
	for i := 0; ; i++ {
		if i == mostWrites {
			t.Fatal("no garbage was collected")
		}
		if err := storage.Set(t.Context(), s, fmt.Sprintf("_small/%06d", i%5000), make([]byte, 2000)); err != nil {
			t.Fatal(err)
		}
		select {
		case <-log.seen:
			t.Logf("after %d writes", i)
		default:
			continue
		}
		break
	}
	alive(t, s, 10)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, nil)
	alive(t, s, 10)
	t.Logf("%d MiB before, %d after", before>>20, usage(t, s)>>20)
}

// TestVersionsDoNotRepeat: not after a delete, a merge that forgets it, and an
// Open.
func TestVersionsDoNotRepeat(t *testing.T) {
	dir := t.TempDir()
	seen := map[storage.Version]bool{}
	for range 4 {
		s := open(t, dir, nil)
		if err := storage.Set(t.Context(), s, "_a", []byte("same")); err != nil {
			t.Fatal(err)
		}
		_, v, err := s.Get(t.Context(), "_a")
		if err != nil || seen[v] {
			t.Errorf("version %q again, %v", v, err)
		}
		seen[v] = true
		if err := storage.Delete(t.Context(), s, "_a"); err != nil {
			t.Fatal(err)
		}
		if err := s.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := open(t, t.TempDir(), &badger.Options{Logger: log})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "level=DEBUG") || strings.Contains(text, "level=INFO") {
		t.Errorf("the log is\n%s", text)
	}
}
