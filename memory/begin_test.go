package memory_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// gotten takes note of the keys that are asked for.
type gotten struct {
	*mem.Store
	keys []string
}

func (s *gotten) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	s.keys = append(s.keys, key)
	return s.Store.Get(ctx, key)
}

// TestBeginReadsWhatThePrefixNeeds: to go on with the prefix of the last prompt, no
// turn is read for texts that the prompt showed and the prefix has no use for.
func TestBeginReadsWhatThePrefixNeeds(t *testing.T) {
	store := &gotten{Store: mem.New()}
	opts := options()
	opts.System = []projection.Item{projection.Text(projection.System, "be brief")}
	m := newMemory(t, store, opts)
	run := begin(t, m, memory.Identity{Thread: "a"})
	for range 5 {
		project(t, run, user("hello"))
		commit(t, run, "hi")
	}
	end(t, run)
	store.keys = nil
	run = begin(t, m, memory.Identity{Thread: "a"})
	if view := project(t, run, user("again")); view.Opened != "" {
		t.Errorf("the prefix was lost: %s", view.Opened)
	}
	for _, key := range store.keys {
		if strings.Contains(key, "/turns/") {
			t.Errorf("%s was read by itself: the end of the log has what is needed", key)
		}
	}
	end(t, run)
}
