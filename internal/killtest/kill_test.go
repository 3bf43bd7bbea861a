package killtest_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	killsName = "STRATA_KILLS"
	seedName  = "STRATA_KILL_SEED"

	// storeLife is how many kills a store lives through. What it holds makes
	// each check longer.
	storeLife = 10
	// openBound is how long opening may take after a kill.
	openBound = 10 * time.Second
)

// kills is how often a process is killed for each engine: STRATA_KILLS, or else
// 500 in CI, and 20 elsewhere, with -short or with -race.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv(killsName)); err == nil && n > 0 {
		return n
	}
	if os.Getenv("CI") != "" && !testing.Short() && !race {
		return 500
	}
	return 20
}

// TestKills kills the stack over each engine.
func TestKills(t *testing.T) {
	for _, engine := range []string{"bolt", "badger", "vault"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel() // while one waits for its kill, another checks
			seed := rand.Uint64()
			if n, err := strconv.ParseUint(os.Getenv(seedName), 10, 64); err == nil {
				seed = n
			}
			var sum figures
			start := time.Now()
			for n := 0; n < kills(); n += storeLife {
				// Each store has a seed of its own, so that one can be run again.
				life := newLife(t, engine, seed+uint64(n), "")
				problems, err := life.run(t, min(storeLife, kills()-n))
				sum = sum.plus(life.figures)
				if err != nil || len(problems) > 0 {
					t.Errorf("after %d kills: %v\n%s", sum.Kills, err, bytes.Join(problems, []byte("\n")))
					t.Fatalf("kept: %s (store and journal)\nagain: %s=%d %s=%d go test -count=1 -run '^TestKills$/^%s$' ./internal/killtest",
						life.dir, seedName, life.seed, killsName, storeLife, engine)
				}
				if err := os.RemoveAll(life.dir); err != nil {
					t.Error(err)
				}
				if done := n + storeLife; done%500 == 0 {
					t.Logf("%s: %v, %v", engine, sum, time.Since(start).Round(time.Second))
				}
			}
			t.Logf("%s: %v in %v, seed %d", engine, sum, time.Since(start).Round(time.Millisecond), seed)
			if sum.Turns == 0 || sum.Decisions == 0 || sum.Resumed == 0 && kills() > 1 {
				t.Error("too little was done before the kills to prove anything")
			}
		})
	}
}

// figures count what was acknowledged and held.
type figures struct{ Kills, Turns, Ends, Decisions, Forgets, Edits, Resumed, Open, Conflicts, Guarded, Withheld int }

func (f figures) plus(g figures) figures {
	return figures{
		f.Kills + g.Kills, f.Turns + g.Turns, f.Ends + g.Ends, f.Decisions + g.Decisions, f.Forgets + g.Forgets,
		f.Edits + g.Edits, f.Resumed + g.Resumed, f.Open + g.Open, f.Conflicts + g.Conflicts, f.Guarded + g.Guarded, f.Withheld + g.Withheld,
	}
}

func (f figures) String() string {
	return fmt.Sprintf("%d kills, acknowledged: %d turns, %d ends of runs, %d changes of knowledge, %d forgets, %d edits by hand; "+
		"%d runs resumed, %d operations cut off, %d conflicts seen by a caller, %d policies found to block their call, %d of them edited by hand",
		f.Kills, f.Turns, f.Ends, f.Decisions, f.Forgets, f.Edits, f.Resumed, f.Open, f.Conflicts, f.Guarded, f.Withheld)
}

// life is a store that lives through a number of kills.
type life struct {
	engine, fault string
	dir, spec     string
	seed          uint64
	rnd           *rand.Rand
	full          bool // every write is synced

	turns   map[string]standing
	ends    map[string]standing
	things  map[string]*thing
	resumed []line
	hand    *hand // nil: there are no files for people
	figures
}

func newLife(t *testing.T, engine string, seed uint64, fault string) *life {
	t.Helper()
	dir, err := os.MkdirTemp("", "strata-kills-"+engine+"-")
	if err != nil {
		t.Fatal(err)
	}
	l := &life{
		engine: engine, fault: fault, dir: dir, spec: engine + ":" + filepath.Join(dir, "store"), seed: seed,
		rnd:   rand.New(rand.NewPCG(seed, 0)),
		turns: map[string]standing{}, ends: map[string]standing{}, things: map[string]*thing{},
	}
	l.full = l.rnd.IntN(4) == 0
	if engine == "vault" {
		l.hand = &hand{dir: filepath.Join(dir, "store"), rnd: rand.New(rand.NewPCG(seed, 1)), notes: map[string]*note{}}
	}
	return l
}

// run kills a number of processes, and returns what was wrong after one of them.
func (l *life) run(t *testing.T, kills int) (problems [][]byte, err error) {
	copied, err := os.OpenFile(filepath.Join(l.dir, "journal"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer copied.Close()
	for round := range kills {
		fmt.Fprintf(copied, "# round %d, seed %d\n", round, l.seed)
		if err := l.round(round, copied); err != nil {
			return nil, fmt.Errorf("round %d: %w", round, err)
		}
		l.Kills++
		if err := l.edit(copied); err != nil { // nobody has it open now
			return nil, err
		}
		if problems, err = l.check(t.Context()); err != nil || len(problems) > 0 {
			return problems, err
		}
	}
	return nil, nil
}

// round starts a process and kills it.
func (l *life) round(round int, copied *os.File) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), childSpec+"="+l.spec, fmt.Sprint(childRound, "=", round),
		fmt.Sprint(childSeed, "=", l.rnd.Uint64()), childFault+"="+l.fault)
	if race { // or nobody would see what it says
		cmd.Env = append(cmd.Env, "GORACE=halt_on_error=1")
	}
	if l.full {
		cmd.Env = append(cmd.Env, childFull+"=1")
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var once sync.Once
	kill := func(delay time.Duration) {
		once.Do(func() { time.AfterFunc(delay, func() { cmd.Process.Kill() }) })
	}
	upTo := func(most time.Duration) time.Duration { return time.Duration(l.rnd.Int64N(int64(most))) }
	lines := -1 // of the journal, until the process is killed; -1: after a time
	switch n := l.rnd.IntN(10); {
	case n == 0: // while it opens, too
		kill(upTo(50 * time.Millisecond))
	case n < 6:
		lines = l.rnd.IntN(80)
	}
	delay := upTo(60 * time.Millisecond)
	if lines >= 0 {
		delay = upTo(2 * time.Millisecond)
	}
	stuck := time.AfterFunc(time.Minute, func() { cmd.Process.Signal(syscall.SIGQUIT) }) // to say where
	defer stuck.Stop()
	for line := range journal(out, copied) {
		ready := line.mark == told && line.verb == "ready"
		if ready && lines < 0 || lines == 0 {
			kill(delay)
		}
		if lines > 0 {
			lines--
		}
		l.hear(line)
		if err := l.edit(copied); err != nil {
			return err
		}
	}
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.Exited() {
		return fmt.Errorf("the process ended by itself: %w\n%s", err, said.Bytes())
	}
	return nil
}
