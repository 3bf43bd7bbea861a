package layers_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// TestBadInput plays what nobody should give a memory with the ready layers, and holds
// what a turn costs in figures that no machine changes: values that are read, bytes
// that are read and written, and bytes that are allocated. Of four quarters the last
// may cost at most twice what the second does. It plays a hundredth or so of what is
// meant,
//
//	STRATA_FULL=1 go test -timeout 0 -v -run TestBadInput ./layers
//
// all of it: a thread of 1,000,000 items of one word, an item of 4 MB in each of 100
// turns, 10,000 threads of one person, 10,000 turns while the clock stands still. That
// takes two minutes of CPU.
func TestBadInput(t *testing.T) {
	full := os.Getenv("STRATA_FULL") != ""
	size := func(small, large int) int {
		if full {
			return large
		}
		return small
	}
	word := func(n int) string {
		return fmt.Sprintf("%c%c%c%c", 'A'+n%26, 'a'+n/26%26, 'a'+n/676%26, 'a'+n/17576%26)
	}
	t.Run("items of one word", func(t *testing.T) {
		const items = 250 // of a turn
		n := 0
		b := burden{t: t, turns: size(40, 4000), most: cost{reads: 200, read: 64 << 10, written: 32 << 10, allocated: 4 << 20}}
		b.play(time.Second, func(i int) (string, []projection.Item, string) {
			input := make([]projection.Item, items-1)
			for j := range input {
				n++
				input[j] = projection.Text(projection.User, word(n))
			}
			return "thread", input, word(i)
		})
	})
	t.Run("items of 4 MB", func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		b := burden{t: t, turns: size(4, 100), most: cost{reads: 200, read: 64 << 10, written: 2 << 20, allocated: 64 << 20}}
		b.play(time.Second, func(i int) (string, []projection.Item, string) {
			var text strings.Builder
			for text.Len() < 4_000_000 {
				fmt.Fprintf(&text, "%s met %s on %d May. ", word(random.IntN(9999)), word(random.IntN(9999)), random.IntN(99))
			}
			return "thread", []projection.Item{projection.Text(projection.User, "Go on.")}, text.String()
		})
	})
	t.Run("threads", func(t *testing.T) {
		b := burden{t: t, turns: size(400, 10_000), most: cost{reads: 200, read: 64 << 10, written: 16 << 10, allocated: 1 << 20}}
		b.play(time.Second, func(i int) (string, []projection.Item, string) {
			return fmt.Sprint("thread ", i), []projection.Item{projection.Text(projection.User, fmt.Sprintf("We met %s %d, remember that it is due on 3 May.", word(i), i))}, "I see, " + word(i/2) + " it is."
		})
	})
	t.Run("clock that stands still", func(t *testing.T) {
		b := burden{t: t, turns: size(400, 10_000), most: cost{reads: 200, read: 64 << 10, written: 12 << 10, allocated: 2 << 20}}
		b.play(0, func(i int) (string, []projection.Item, string) {
			return "thread", []projection.Item{projection.Text(projection.User, fmt.Sprintf("We met %s %d, remember that it is due on 3 May.", word(i%50), i))}, "I see, " + word(i) + " it is."
		})
	})
}

// burden plays turns and holds what they cost.
type burden struct {
	t     *testing.T
	turns int
	most  cost // of a turn, in any quarter
}

// cost is what a turn costs.
type cost struct {
	reads     int // values that are read
	read      int // bytes of them
	written   int // bytes of keys and values
	allocated int // bytes
}

func (c cost) String() string {
	return fmt.Sprintf("%d reads of %d bytes, %d bytes written, %d allocated", c.reads, c.read, c.written, c.allocated)
}

func (b *burden) play(tick time.Duration, turn func(i int) (thread string, input []projection.Item, answer string)) {
	b.t.Helper()
	ctx := b.t.Context()
	store := &counted{Store: mem.New()}
	defer store.Close()
	var now atomic.Int64
	now.Store(begin.UnixNano())
	m, err := memory.New(store, []memory.Layer{
		layers.WorkingMemory(nil), layers.Entity(nil), layers.Observations(nil), layers.Episodic(nil), layers.SemanticRecall(nil),
	}, &memory.Options{Policy: projection.Policy{Budget: 32_000}, Clock: func() time.Time { return time.Unix(0, now.Load()) }})
	if err != nil {
		b.t.Fatal(err)
	}
	var run *memory.Run
	open := ""
	end := func() {
		if run != nil {
			if err := run.End(ctx, memory.Success); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	var quarters []cost
	store.take()
	for i := range b.turns {
		now.Add(int64(tick))
		thread, input, answer := turn(i)
		allocated := totalAlloc()
		if thread != open {
			end()
			if run, err = m.Begin(ctx, memory.Identity{Thread: thread, Resource: "anna"}); err != nil {
				b.t.Fatal(err)
			}
			open = thread
		}
		if _, err := run.Project(ctx, input...); err != nil {
			b.t.Fatal(err)
		}
		if err := run.Commit(ctx, memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, answer)}}); err != nil {
			b.t.Fatal(err)
		}
		for _, h := range run.Report().Hooks {
			if h.Status != memory.StatusOK {
				b.t.Fatalf("%s of %s: %s %s", h.Hook, h.Layer, h.Status, h.Error)
			}
		}
		store.allocated.Add(int64(totalAlloc() - allocated))
		if raced {
			store.allocated.Store(0)
		}
		if quarter := b.turns / 4; (i+1)%quarter == 0 {
			c := store.take()
			quarters = append(quarters, cost{c.reads / quarter, c.read / quarter, c.written / quarter, c.allocated / quarter})
		}
	}
	end()
	if err := m.Close(ctx); err != nil {
		b.t.Fatal(err)
	}
	for i, c := range quarters {
		b.t.Logf("quarter %d of %d turns: %v", i+1, b.turns, c)
		if c.reads > b.most.reads || c.read > b.most.read || c.written > b.most.written || c.allocated > b.most.allocated {
			b.t.Errorf("quarter %d: a turn costs %v, more than %v", i+1, c, b.most)
		}
	}
	if second, last := quarters[1], quarters[3]; last.reads > 2*second.reads || last.written > 2*second.written || last.allocated > 2*second.allocated {
		b.t.Errorf("a turn costs %v in the last quarter, and %v in the second", last, second)
	}
}

func totalAlloc() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// counted is a store that counts what is read and written.
type counted struct {
	*mem.Store
	reads, read, written, allocated atomic.Int64
}

func (c *counted) take() cost {
	return cost{int(c.reads.Swap(0)), int(c.read.Swap(0)), int(c.written.Swap(0)), int(c.allocated.Swap(0))}
}

func (c *counted) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	value, version, err := c.Store.Get(ctx, key)
	c.reads.Add(1)
	c.read.Add(int64(len(value)))
	return value, version, err
}

func (c *counted) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for key, err := range c.Store.List(ctx, prefix) {
			c.read.Add(int64(len(key)))
			if !yield(key, err) {
				return
			}
		}
	}
}

func (c *counted) Scan(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		for e, err := range c.Store.Scan(ctx, prefix, opts) {
			c.reads.Add(1)
			c.read.Add(int64(len(e.Value)))
			if !yield(e, err) {
				return
			}
		}
	}
}

func (c *counted) Apply(ctx context.Context, ops ...storage.Op) error {
	for i := range ops {
		c.written.Add(int64(len(ops[i].Key) + len(ops[i].Value)))
	}
	return c.Store.Apply(ctx, ops...)
}
