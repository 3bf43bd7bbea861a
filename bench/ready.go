package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stratamem/strata/bench/locomo"
)

const readySuite = "turn-ready"

// ReadyEngines are the engines that [Ready] measures, with how many turns it
// plays on each by default.
var ReadyEngines = []string{"mem", "bolt", "badger", "vault"}

var readyTurns = map[string]int{"mem": 10_000, "bolt": 6000, "badger": 3000, "vault": 3000}

// ReadyOptions configures [Ready]. The zero value means the documented
// defaults.
type ReadyOptions struct {
	Data     []locomo.Conversation // what is played, each as a thread; nil means a generated agent at work
	Engines  []string              // some of ReadyEngines; nil means all
	Turns    int                   // played on each engine; 0 means 10,000 on mem, 6,000 on bolt, 3,000 on badger and vault
	Live     int                   // turns of the live run; 0 means 10,000, negative skips it
	Window   int                   // turns from one mark to the next; 0 means 1,000
	Dir      string                // where stores are created and removed; "" means the directory for temporary files
	Progress func(string)          // called with the name of each case as it begins; may be nil
}

// seed of what is varied and generated.
const readySeed = 1

// Ready measures turns over a long life: WorkingMemory, Entity, Observations,
// Episodic and SemanticRecall with their defaults, prompts of 32,000 tokens,
// and threads of one person, one after another, each ended before the next
// begins. A turn is what the user said, or a tool returned, and the answer;
// each turn takes a minute and each thread a day. Data shorter than the life is
// played again, as other threads, with every second name and every number of
// two or more digits replaced.
//
// Cases are ready/ENGINE/N, where N counts the turns played; their figures
// cover the window of 1,000 turns that ends there:
//
//	project_p50 …   µs of Project and of Commit, the 50th and 99th percentile
//	applied         bytes of keys and values given to the store, a turn
//	wchar           bytes that the process gave to write calls, a turn (Linux);
//	                badger writes to mapped files, which are not among them
//	file_ratio      what the store takes of the disk by the text played so far; of
//	                mem the bytes of its keys and values
//	heap            bytes beyond the store, after a collection, with one thread at
//	                work: what the process had with the empty store is taken off,
//	                and of mem what a copy of the store takes. What an engine on
//	                disk comes to hold for itself is in it.
//	text            bytes of text of a turn, tool calls included, since the first
//	ops             changes given to the store, a turn
//	cpu             µs of user and system time a turn, collections included
//	allocs, bytes   allocated, a turn
//	begin, end      µs of Begin and of End, the mean
//
// Rows ready/ENGINE/N/LAYER have the layer's share of the time of all Projects
// (project) and Commits (commit), measured by its hooks: they run concurrently,
// so shares may add up to more than 1. state and records are bytes per turn
// that the layer wrote; /turns are the records of turns, /heads those of
// threads and executions.
//
// live/bolt/N is the same for a single generated thread of one execution, with
// 400 characters each way. turn/mem/200 is the case of [Turn], to show the
// speed of the machine. Engines write with the durability Process.
func Ready(ctx context.Context, opts *ReadyOptions) (*Report, error) {
	o := ReadyOptions{}
	if opts != nil {
		o = *opts
	}
	if o.Engines == nil {
		o.Engines = ReadyEngines
	}
	for _, e := range o.Engines {
		if !slices.Contains(ReadyEngines, e) {
			return nil, fmt.Errorf("bench ready: engine %q is not known: use some of %s", e, strings.Join(ReadyEngines, ", "))
		}
	}
	if o.Window <= 0 {
		o.Window = markTurns
	}
	if o.Live == 0 {
		o.Live = 10_000
	}
	r := NewReport(readySuite)
	if o.Progress != nil {
		o.Progress(machineCase.name)
	}
	if err := machineCase.run(ctx, r); err != nil {
		return nil, fmt.Errorf("bench %s: %w", machineCase.name, err)
	}
	play := func(l life) error {
		if o.Progress != nil {
			o.Progress(l.name)
		}
		l.mark, l.dir, l.r = o.Window, o.Dir, r
		if err := l.play(ctx); err != nil {
			return fmt.Errorf("bench %s: %w", l.name, err)
		}
		return nil
	}
	for _, engine := range o.Engines {
		l := life{name: "ready/" + engine, engine: engine, turns: o.Turns, script: sessions(readySeed)}
		if o.Data != nil {
			l.script = chats(o.Data, readySeed)
		}
		if l.turns <= 0 {
			l.turns = readyTurns[engine]
		}
		if err := play(l); err != nil {
			return nil, err
		}
	}
	if o.Live > 0 {
		return r, play(life{name: "live/bolt", engine: "bolt", turns: o.Live, script: monologue(readySeed)})
	}
	return r, nil
}
