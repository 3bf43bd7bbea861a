package bolt_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/bolt"
)

// A process that writes and reads a large file has a part of it in its resident
// size, not all, and reads what is there, also while pages are let go of.
func TestMappedPagesAreLetGoOf(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 256 MB")
	}
	ctx := context.Background()
	store, err := bolt.Open(ctx, filepath.Join(t.TempDir(), "large.db"), &bolt.Options{Durability: storage.Process})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const values = 256
	key := func(i int) string { return fmt.Sprintf("_large/%03d", i) }
	value := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 1<<20) }
	for i := range values {
		if err := storage.Set(ctx, store, key(i), value(i)); err != nil {
			t.Fatal(err)
		}
	}
	most := 0
	read := func() {
		var all sync.WaitGroup
		defer all.Wait()
		for part := range 4 {
			all.Go(func() {
				for i := part; i < values; i += 4 {
					got, _, err := store.Get(ctx, key(i))
					if err != nil || !bytes.Equal(got, value(i)) {
						t.Errorf("value %d: error %v", i, err)
						return
					}
				}
			})
		}
		for i := range 64 {
			if err := storage.Set(ctx, store, "_small/key", []byte{byte(i)}); err != nil {
				t.Error(err)
			}
		}
	}
	for range 3 {
		read()
		for i := range 64 { // while nothing reads
			if err := storage.Set(ctx, store, "_small/key", []byte{byte(i), 1}); err != nil {
				t.Fatal(err)
			}
		}
		most = max(most, mapped(t))
	}
	if most > 160<<20 {
		t.Errorf("%d MB of mapped files are resident, over 160", most>>20)
	}
}

// mapped returns the bytes of mapped files in the resident size.
func mapped(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var kb int
		if n, _ := fmt.Sscanf(line, "RssFile: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	t.Skip("the system does not say")
	return 0
}
