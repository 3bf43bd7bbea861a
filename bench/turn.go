package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/projection/tiktoken"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/bolt"
	"github.com/stratamem/strata/storage/mem"
)

// The shape of the conversations: messages and layer outputs of English-like
// text with so many characters.
const (
	messageChars = 400
	layerChars   = 1200
)

// TurnOptions of [Turn]. The zero value means the documented defaults.
type TurnOptions struct {
	Turns    int          // turns measured per case; 0 means 2,000
	Progress func(string) // told the name of each case as it begins; may be nil
}

// Turn measures one turn, and how much of each prompt is the beginning of the
// previous one.
//
// A turn is: append a user item of 400 characters, recall of all layers (1,200
// characters each, which are their state), budgets, assembling under a policy
// of 128,000 tokens, and the commit of an answer of 400 characters to a store,
// with the store hooks of all layers. The cases turn/ENGINE/MESSAGES have five
// layers of which one changes every turn; turn/mem/200/all changes all five,
// turn/mem/50layers has fifty of which one changes, turn/mem/200/o200k counts
// exact tokens. Metrics: p50 and p99 of the wall time, cpu (user and system
// time of the process per turn, garbage collection included), allocs and bytes
// allocated per turn.
//
// The cases prefix/… are described at [Prefix].
func Turn(ctx context.Context, opts *TurnOptions) (*Report, error) {
	if opts == nil {
		opts = &TurnOptions{}
	}
	r := NewReport("turn")
	exact, err := tiktoken.New("o200k_base")
	if err != nil {
		return nil, fmt.Errorf("bench turn: %w", err)
	}
	for _, c := range []turnCase{
		machineCase,
		{name: "turn/mem/200/all", messages: 200, layers: 5, changing: 5},
		{name: "turn/mem/1000", messages: 1000, layers: 5, changing: 1},
		{name: "turn/mem/5000", messages: 5000, layers: 5, changing: 1},
		{name: "turn/mem/50layers", messages: 200, layers: 50, changing: 1},
		{name: "turn/bolt/200", messages: 200, layers: 5, changing: 1, bolt: true},
		{name: "turn/mem/200/o200k", messages: 200, layers: 5, changing: 1, tokenizer: exact},
	} {
		if opts.Progress != nil {
			opts.Progress(c.name)
		}
		if opts.Turns > 0 {
			c.turns = opts.Turns
		}
		if err := c.run(ctx, r); err != nil {
			return nil, fmt.Errorf("bench %s: %w", c.name, err)
		}
	}
	if opts.Progress != nil {
		opts.Progress("prefix")
	}
	if err := Prefix(ctx, r); err != nil {
		return nil, err
	}
	return r, nil
}

// turnCase is one way to measure a turn.
type turnCase struct {
	name      string
	messages  int // in the log when measuring begins
	layers    int
	changing  int // layers that change every turn
	bolt      bool
	tokenizer projection.Tokenizer
	turns     int // measured; 0 means 2,000
}

// machineCase is the case by which machines compare.
var machineCase = turnCase{name: "turn/mem/200", messages: 200, layers: 5, changing: 1}

// roundTurns is how many turns are measured on one thread: few, so that the log
// stays about as long as the case says.
const roundTurns = 25

func (c *turnCase) run(ctx context.Context, r *Report) (err error) {
	store, closeStore, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	m, err := memory.New(store, noteLayers(c.layers, func(layer, _ int) bool { return layer < c.changing }), &memory.Options{Tokenizer: c.tokenizer})
	if err != nil {
		return err
	}
	var walls []time.Duration
	var spent usage
	for round := 0; len(walls) < cmp.Or(c.turns, 2000); round++ {
		if walls, err = c.round(ctx, m, round, walls, &spent); err != nil {
			return err
		}
	}
	slices.Sort(walls)
	n := float64(len(walls))
	r.add(c.name, "p50", micros(walls[len(walls)/2]), "µs")
	r.add(c.name, "p99", micros(walls[len(walls)*99/100]), "µs")
	r.add(c.name, "cpu", micros(spent.cpu)/n, "µs")
	r.add(c.name, "allocs", float64(spent.mallocs)/n, "allocs")
	r.add(c.name, "bytes", float64(spent.bytes)/n, "B")
	return m.Close(ctx)
}

// round measures some turns on a thread of its own.
func (c *turnCase) round(ctx context.Context, m *memory.Memory, round int, walls []time.Duration, spent *usage) ([]time.Duration, error) {
	run, err := m.Begin(ctx, memory.Identity{Thread: fmt.Sprint("t", round)})
	if err != nil {
		return walls, err
	}
	for i := range c.messages / 2 {
		if err := turn(ctx, run, round, i); err != nil {
			return walls, err
		}
	}
	runtime.GC()
	before := readUsage()
	for i := range roundTurns {
		began := time.Now()
		if err := turn(ctx, run, round, c.messages+i); err != nil {
			return walls, err
		}
		walls = append(walls, time.Since(began))
	}
	spent.add(readUsage().since(before))
	return walls, run.End(ctx, memory.Success)
}

func turn(ctx context.Context, run *memory.Run, round, i int) error {
	if _, err := run.Project(ctx, message(projection.User, round, i)); err != nil {
		return err
	}
	return run.Commit(ctx, memory.Response{Items: []projection.Item{message(projection.Assistant, round, i)}})
}

func (c *turnCase) open(ctx context.Context) (storage.Adapter, func() error, error) {
	if !c.bolt {
		s := mem.New()
		return s, s.Close, nil
	}
	dir, err := os.MkdirTemp("", "strata-bench-")
	if err != nil {
		return nil, nil, err
	}
	s, err := bolt.Open(ctx, filepath.Join(dir, "bench.db"), &bolt.Options{Durability: storage.Process})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, func() error { return errors.Join(s.Close(), os.RemoveAll(dir)) }, nil
}

// note is the state of a benchmark layer.
type note struct {
	Turn int    `json:"turn"`
	Text string `json:"text"`
}

// noteLayers returns n layers that contribute their state. changes says whether the
// Store hook of a layer rewrites it in a turn, turns counted from 1.
func noteLayers(n int, changes func(layer, turn int) bool) []memory.Layer {
	all := make([]memory.Layer, n)
	for i := range all {
		all[i] = memory.Define(memory.Spec{ID: fmt.Sprint("l", i), Slot: i}, memory.Hooks[note]{
			Init: func(_ context.Context, in *memory.InitInput[note]) (note, error) {
				if in.Found {
					return in.State, nil
				}
				return note{Text: text(layerChars, i, 0)}, nil
			},
			Recall: func(_ context.Context, in *memory.RecallInput[note]) (memory.Recalled[note], error) {
				return memory.Recalled[note]{Text: in.State.Text}, nil
			},
			Store: func(_ context.Context, in *memory.StoreInput[note]) (memory.Change[note], error) {
				turn := in.Execution.Step() + 1
				if !changes(i, turn) {
					return memory.Change[note]{}, nil
				}
				fresh := text(layerChars, i, turn)
				return memory.Update(func(note) note { return note{turn, fresh} }), nil
			},
			Clone: func(s note) note { return s },
		})
	}
	return all
}

func message(role projection.Role, round, i int) projection.Item {
	return projection.Text(role, text(messageChars, round, i))
}

// filler is what texts are made of: plain English prose about the matter.
var filler = strings.Repeat("The release moved to Thursday because the index rebuild takes nine hours on the replica. ", 1+layerChars/80)

// text returns n characters that begin with two numbers.
func text(n, a, b int) string {
	head := fmt.Sprintf("%d/%d ", a, b)
	return head + filler[:n-len(head)]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
