package bolt_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/bolt"
)

// turns plays the batches that a turn of an agent with the ready layers makes:
// as many small keys, and of what size, and where; a turn's record; a state that
// is written whole; and the segments of an index, which are merged as package
// levels does. What it writes depends on nothing but how often it is called.
type turns struct {
	rng      *rand.ChaCha8
	n        int
	segments [3][]segment
	applied  int            // bytes handed to Apply
	live     map[string]int // bytes of each key and its value
}

type segment struct {
	key  string
	size int
}

func newTurns() *turns {
	return &turns{rng: rand.NewChaCha8([32]byte{3}), live: make(map[string]int)}
}

func (a *turns) put(ops []storage.Op, key string, size int) []storage.Op {
	a.live[key] = len(key) + size
	a.applied += len(key) + size
	return append(ops, storage.Put(key, noise(a.rng, size)))
}

func (a *turns) remove(ops []storage.Op, key string) []storage.Op {
	delete(a.live, key)
	a.applied += len(key)
	return append(ops, storage.Remove(key))
}

// next returns the batch of the next turn.
func (a *turns) next() (ops []storage.Op) {
	const layers = "_layers/"
	r := rand.New(a.rng)
	a.n++
	at := fmt.Sprintf("%016x-%04x", 1_700_000_000_000_000+a.n*60_000_000, a.n)
	thread := fmt.Sprintf("_threads/t%05d/", a.n/50)
	ops = a.put(ops, fmt.Sprintf("%sturns/%012d", thread, a.n), 10_000)
	ops = a.put(ops, thread+"head", 90)
	ops = a.put(ops, thread+"epoch", 730)
	ops = a.put(ops, fmt.Sprintf("_runs/%08d", a.n/50), 220)
	for _, layer := range []string{"entity", "episodic", "semantic-recall"} { // states that never change
		key := layers + layer + "/resource/anna/state"
		a.live[key] = len(key) + 7
		a.applied += len(key) + 7
		ops = append(ops, storage.Put(key, []byte(`{"n":1}`)))
	}
	ops = a.put(ops, layers+"observations/resource/anna/state", 12_000)
	for i := range 20 {
		name := noise(a.rng, 1)
		ops = a.put(ops, fmt.Sprintf("%sentity/resource/anna/r0/m/n%x%x/%s-%03d", layers, r.IntN(8), name, at, i), 215)
	}
	index := layers + "semantic-recall/resource/anna/r0/"
	for i := range 5 {
		ops = a.put(ops, fmt.Sprintf("%sd/%s-%d", index, at, i), 900)
	}
	ops = a.merged(ops, index, 1600)
	return a.put(ops, index+"head", 24)
}

// merged adds a segment, and makes one of sixteen of a level.
func (a *turns) merged(ops []storage.Op, index string, size int) []storage.Op {
	level := 0
	for ; level < len(a.segments)-1 && len(a.segments[level]) == 15; level++ {
		for _, s := range a.segments[level] {
			size += s.size
			ops = a.remove(ops, s.key)
		}
		a.segments[level] = nil
	}
	s := segment{fmt.Sprintf("%ss/%d/%x", index, level, noise(a.rng, 12)), size}
	a.segments[level] = append(a.segments[level], s)
	return a.put(ops, s.key, s.size)
}

// liveBytes returns how many bytes of keys and values there are.
func (a *turns) liveBytes() (n int) {
	for _, size := range a.live {
		n += size
	}
	return n
}

// written returns how many bytes this process has given to write calls.
func written(tb testing.TB) int {
	tb.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		tb.Skip("the system does not tell how much is written")
	}
	var n int
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "wchar: %d", &n); err == nil {
			return n
		}
	}
	tb.Skip("the system does not tell how much is written")
	return 0
}

// play makes turns and returns how many bytes were written.
func (a *turns) play(tb testing.TB, s *bolt.Store, turns int) int {
	tb.Helper()
	before := written(tb)
	for range turns {
		if err := s.Apply(tb.Context(), a.next()...); err != nil {
			tb.Fatal(err)
		}
	}
	return written(tb) - before
}

// TestLongLife pins what a turn writes and what the file becomes, over a life in
// which the segments grow to half a megabyte.
func TestLongLife(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, &bolt.Options{Durability: storage.Process})
	a := newTurns()
	a.play(t, s, 100) // so that there are some places to write to
	const part = 300
	early := a.play(t, s, part)
	a.play(t, s, 2*part)
	a.applied = 0
	late := a.play(t, s, part)
	if late > early*5/4 {
		t.Errorf("a turn writes %d bytes after %d turns, and %d at first", late/part, a.n, early/part)
	}
	if late > 9*a.applied {
		t.Errorf("a turn writes %d bytes for %d", late/part, a.applied/part)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if live := a.liveBytes(); info.Size() > int64(2*live) {
		t.Errorf("the file has %d bytes, for %d of keys and values", info.Size(), live)
	}
	if found := faults(t, s); len(found) > 0 {
		t.Errorf("Check found %+v", found)
	}
}

// BenchmarkTurn reports the bytes written a turn, by those handed to Apply, and
// the size of the file by that of the keys and values in it, after as many turns.
func BenchmarkTurn(b *testing.B) {
	for _, n := range []int{1000, 3000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				path := filepath.Join(b.TempDir(), "store.db")
				s := open(b, path, &bolt.Options{Durability: storage.Process})
				a := newTurns()
				a.play(b, s, n*9/10)
				a.applied = 0
				last := n / 10
				wrote := a.play(b, s, last)
				info, err := os.Stat(path)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(wrote)/float64(last), "B/turn")
				b.ReportMetric(float64(wrote)/float64(a.applied), "x/applied")
				b.ReportMetric(float64(info.Size())/float64(a.liveBytes()), "x/live")
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
