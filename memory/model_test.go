package memory_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/storage/mem"
)

// The variables that choose other seeds than the default ones:
//
//	STRATA_SEEDS=1000000  how many
//	STRATA_SEED=17        only this one, or, with STRATA_SEEDS, from this one on
//	STRATA_PROFILE=calm   only those with this profile
const (
	seedsEnv   = "STRATA_SEEDS"
	seedEnv    = "STRATA_SEED"
	profileEnv = "STRATA_PROFILE"
)

func seeds(t *testing.T, usual uint64) (from, to uint64) {
	number := func(name string) (uint64, bool) {
		text := os.Getenv(name)
		if text == "" {
			return 0, false
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n, true
	}
	from, only := number(seedEnv)
	n, many := number(seedsEnv)
	switch {
	case many:
		return from, from + n
	case only:
		return from, from + 1
	}
	return 0, usual
}

// TestModel holds the whole machine against a model. Several processes, each with
// several actors, run turns, tools, children and retries over one store. A
// scheduler lets one operation of the store go at a time, and makes conflicts,
// errors, lost answers, crashes and ended contexts of them. Every batch that
// takes effect is checked against the fold of those before it: each change that
// was acknowledged is there, once, in order, and none without its turn.
func TestModel(t *testing.T) {
	usual := uint64(1200)
	if testing.Short() {
		usual = 300
	}
	from, to := seeds(t, usual)
	warmPack(t)
	// Seeds are independent: as many at once as there are processors.
	next, mu, failed := from, sync.Mutex{}, false
	only := os.Getenv(profileEnv)
	take := func() (seed uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		for only != "" && profileOf(next).name != only && next < to {
			next++
		}
		seed, ok = next, next < to && !failed
		next++
		return seed, ok
	}
	for range min(4, to-from) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for seed, ok := take(); ok; seed, ok = take() {
				if report := runSeed(t, seed); report != "" {
					mu.Lock()
					failed = true
					mu.Unlock()
					t.Errorf("seed %d: %s\n\nalone: %s=%d go test ./memory -run '^TestModel$'", seed, report, seedEnv, seed)
				}
			}
		})
	}
}

// warmPack has the codec of packed records make its channels outside of every
// bubble: one that a bubble made is of no use to the next.
func warmPack(t *testing.T) {
	var buffer []byte
	record := []byte(strings.Repeat("a record that is long enough to be packed ", 1000))
	if _, err := pack.Unpack(slices.Clone(pack.Pack(&buffer, record))); err != nil {
		t.Fatal(err)
	}
}

func profileOf(seed uint64) weights { return profiles[seed%uint64(len(profiles))] }

// runSeed runs one seed, and returns what was wrong with the interleaving.
func runSeed(t *testing.T, seed uint64) (report string) {
	synctest.Test(t, func(*testing.T) {
		rng := rand.New(rand.NewPCG(seed, 0))
		keep := []int{0, 0, 2, 3}[rng.IntN(4)]
		w := newWorld(seed, keep)
		w.crashes = rng.IntN(4)
		s := &scheduler{world: w, inner: mem.New(), rng: rng, w: profileOf(seed), mute: rng.IntN(4) == 0, threads: 1 + rng.IntN(2)}
		w.said("model", "seed %d, profile %s, keep %d, %d threads", seed, s.w.name, keep, s.threads)
		host := newHost(w, s, rng)
		processes := 1 + rng.IntN(3)
		s.alone = processes == 1
		for n := range processes {
			host.process(fmt.Sprint("p", n+1), 1+rng.IntN(3), 1+rng.IntN(2))
		}
		s.run()
		for round := 2; w.anyDead(s) && round < 4 && !w.failed(); round++ {
			host.process(fmt.Sprint("r", round), 1+rng.IntN(2), 2)
			s.run()
		}
		if !w.failed() {
			host.finish()
		}
		if w.failed() {
			report = w.report(w.fault)
		}
	})
	return report
}

// host makes processes with the layers of a seed.
type host struct {
	w      *world
	s      *scheduler
	rng    *rand.Rand
	layers []memory.Layer
	opts   memory.Options
	all    []*process
}

func newHost(w *world, s *scheduler, rng *rand.Rand) *host {
	h := &host{w: w, s: s, rng: rng}
	var some []int
	for i := range modelLayers {
		if rng.IntN(5) < 3 {
			some = append(some, i)
		}
	}
	if len(some) == 0 {
		some = []int{1}
	}
	for _, i := range some {
		h.layers = append(h.layers, w.layer(modelLayers[i].id, modelLayers[i].scope))
	}
	var mu sync.Mutex
	ids := 0
	h.opts = memory.Options{
		KeepTurns: w.keep, Parallel: []int{0, 1}[rng.IntN(2)], VerifyStates: rng.IntN(4) == 0,
		NewID: func() string {
			mu.Lock()
			defer mu.Unlock()
			ids++
			return fmt.Sprint("x", ids)
		},
	}
	return h
}

// process starts a process with actors.
func (h *host) process(name string, actors, episodes int) {
	p := &process{s: h.s, name: name}
	h.all = append(h.all, p)
	m, err := memory.New(p, h.layers, &h.opts)
	if err != nil {
		panic(err)
	}
	a := &actor{name: name, p: p, m: m, w: h.w, rng: rand.New(rand.NewPCG(h.rng.Uint64(), 0))}
	for n := range actors {
		a.start(fmt.Sprint(".", n+1), func(b *actor) { b.live(episodes) })
	}
}

func (w *world) anyDead(s *scheduler) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.runs {
		if x.p != nil && x.p.dead.Load() {
			return true
		}
	}
	return false
}
