package killtest_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/open"
)

// By these variables the test binary knows that it is the process to be killed.
const (
	childSpec  = "STRATA_KILLTEST_SPEC"  // what to open
	childRound = "STRATA_KILLTEST_ROUND" // how often the store was opened before
	childSeed  = "STRATA_KILLTEST_SEED"
	childFull  = "STRATA_KILLTEST_FULL"  // sync every write
	childFault = "STRATA_KILLTEST_FAULT" // of the engine
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	if spec := os.Getenv(childSpec); spec != "" {
		err := live(context.Background(), spec)
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(3)
	}
	os.Exit(m.Run())
}

func openStore(ctx context.Context, spec string, d storage.Durability) (storage.Adapter, error) {
	return open.Open(ctx, spec, &open.Options{Durability: d, Files: []string{soma.GovernancePrefix}})
}

// world is what everybody in the process to be killed works on.
type world struct {
	db     storage.Adapter
	soma   *soma.Store
	memory *memory.Memory
	round  int
	seed   uint64
	// work gives whoever is at the desk something to do after each step of an
	// agent, so that neither takes all of the processor.
	work chan struct{}
}

// live does everything at once, until the process is killed.
func live(ctx context.Context, spec string) error {
	round, err := strconv.Atoi(os.Getenv(childRound))
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(os.Getenv(childSeed), 10, 64)
	if err != nil {
		return err
	}
	durability := storage.Process
	if os.Getenv(childFull) != "" {
		durability = storage.Full
	}
	w := &world{round: round, seed: seed, work: make(chan struct{}, 2*agents)}
	if w.db, err = openStore(ctx, spec, durability); err != nil {
		return err
	}
	if w.db, err = faulty(ctx, w.db, os.Getenv(childFault)); err != nil {
		return err
	}
	if w.soma, err = soma.Open(ctx, w.db, nil); err != nil {
		return err
	}
	w.memory, err = memory.New(w.db, stack(w.soma), &memory.Options{Policy: projection.Policy{Budget: 6000}, Model: "none"})
	if err != nil {
		return err
	}
	var runs []*thread.Run
	for x, err := range thread.Runs(ctx, w.db) {
		if err != nil {
			return err
		}
		if x.Outcome == "" {
			runs = append(runs, x)
		}
	}
	say(told, "ready")
	var all sync.WaitGroup
	failed := make(chan error, 1)
	start := func(name string, f func(ctx context.Context, rnd *rand.Rand) error) {
		all.Go(func() {
			h := fnv.New64a()
			h.Write([]byte(name))
			rnd := rand.New(rand.NewPCG(w.seed, h.Sum64()))
			for {
				if err := f(ctx, rnd); err != nil {
					select {
					case failed <- fmt.Errorf("%s: %w", name, err):
					default:
					}
					return
				}
			}
		})
	}
	for i := range agents {
		a := w.newAgent(i, runs)
		start(a.who.Agent, a.step)
	}
	d := &desk{world: w}
	start("proposer", d.propose)
	start("anna", d.review("anna"))
	start("bert", d.review("bert"))
	start("keeper", d.keep)
	start("forgetter", d.forget)
	if w.round%7 == 6 {
		start("compacter", func(ctx context.Context, _ *rand.Rand) error {
			<-w.work
			return storage.Compact(ctx, w.db)
		})
	}
	for range agents {
		w.work <- struct{}{}
	}
	return <-failed
}

// token returns the nth token of somebody in this round.
func (w *world) token(kind byte, who byte, n int) string {
	return fmt.Sprintf("%c%d%c%d%c", kind, w.round, who, n, kind)
}

// settle makes a change, again while others are faster.
func settle(f func() error) error {
	for {
		err := f()
		if !errors.Is(err, storage.ErrConflict) {
			return err
		}
		say(told, "conflict")
	}
}
