package memory_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/storage"
)

// world is what the store should hold: the fold of all batches that took effect,
// in their order. It checks each as it is made, and knows from the actors what a
// batch has to contain.
type world struct {
	mu      sync.Mutex
	seq     int // counts all that happens
	seed    uint64
	keep    int // Options.KeepTurns
	crashes int // that may still happen

	states map[string]*fold
	lines  map[string]*lineage // by key prefix
	runs   map[string]*execution
	edits  map[string]*edit // by token
	count  int

	fault error // the first
	trace []event
}

// fold is a state key with all that it ever held.
type fold struct {
	key     string
	history []version
}

// version is what a state key holds from a moment on.
type version struct {
	seq    int
	found  bool
	clears int
	tokens []string
}

func (f *fold) now() *version { return &f.history[len(f.history)-1] }

// between says whether the key held tokens at a moment since seq.
func (f *fold) between(seq int, found bool, tokens []string) bool {
	for i, v := range f.history {
		if i+1 < len(f.history) && f.history[i+1].seq <= seq {
			continue
		}
		if v.found == found && slices.Equal(v.tokens, tokens) {
			return true
		}
	}
	return false
}

// lineage is a sequence of turns.
type lineage struct {
	turns []turnMade
	first int
}

type turnMade struct {
	execution string
	step      int
	texts     []string
}

// execution is a run, over all processes that ran it.
type execution struct {
	id      string
	who     memory.Identity
	depth   int
	parent  *execution
	lineage string
	p       *process // that runs it
	child   bool     // its parent is there to return to
	again   bool     // it was resumed
	left    bool     // nobody runs it: its caller abandoned it
	free    bool     // and nobody will end it either

	edits    []*edit             // not in the store yet
	step     int                 // turns in the store
	latest   int                 // number of the last of them
	tried    bool                // to return
	returned bool                // to its parent, in the store
	wrote    int                 // when the call began that wrote the last of them: what a tool does meanwhile may come later
	ended    bool                // in the store
	gone     bool                // its record was pruned, and did not come back
	forgot   bool                // turns of it were pruned with its record
	denied   bool                // a conflict was answered for a batch of it that took effect
	pruned   map[string][]string // what its states held then
	shown    map[int]string

	turn  []string // texts of the turn at work that are in it
	maybe []string // texts after them that a call which failed may have taken
	log   []string // texts of the turns before it
	prior []string // what its log began with
	based bool     // prior is known
	mid   []string // what its log began with after turns of the thread, while those are not known
	low   int      // the log began with at least that many turns of the thread
	high  int      // and at most that many

	seeds map[string][]string // what crossed from its parent, by state key of execution scope
	apart map[string]bool     // layers whose state crossed from its parent in a shared scope
	input int                 // Usage.Input of its turns and returned children
	spent int                 // what may be in its usage beyond that
}

// edit is a change that a hook asked for.
type edit struct {
	token  string
	run    *execution
	layer  string
	key    string // state key
	hook   string
	step   int    // of the turn, for Store
	child  string // for OnReturn
	issued int
	sure   int // when it was certain that the runtime has it; 0: it is not
	clear  bool
	void   bool // the runtime gave it up: never to be seen
	vague  bool // a clear may have swallowed it
	batch  int  // that it came with; 0: none yet
}

type event struct {
	who, what, key, how string
	keys                []string
}

func newWorld(seed uint64, keep int) *world {
	return &world{
		seed: seed, keep: keep, states: make(map[string]*fold), lines: make(map[string]*lineage),
		runs: make(map[string]*execution), edits: make(map[string]*edit),
	}
}

// tick counts what happens. mu is held.
func (w *world) tick() int { w.seq++; return w.seq }

// wrong notes the first fault.
func (w *world) wrong(format string, args ...any) {
	if w.fault == nil {
		w.fault = fmt.Errorf(format, args...)
		w.trace = append(w.trace, event{who: "model", what: "FAULT: " + w.fault.Error()})
	}
}

func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault != nil
}

func (w *world) mayCrash() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.crashes--
	return w.crashes >= 0
}

// saw adds an operation of the store to the trace.
func (w *world) saw(r *request, how string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := event{who: r.call.who, what: r.what, key: r.key, how: how}
	for i := range r.ops {
		sign := "+"
		if r.ops[i].Delete {
			sign = "-"
		}
		e.keys = append(e.keys, sign+r.ops[i].Key)
	}
	w.trace = append(w.trace, e)
}

// said adds a word of an actor to the trace.
func (w *world) said(who, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, event{who: who, what: fmt.Sprintf(format, args...)})
}

// report is an error with the interleaving that led to it.
func (w *world) report(err error) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for i, e := range w.trace {
		fmt.Fprintf(&b, "%4d %-14s %s", i, e.who, e.what)
		if e.keys != nil {
			for _, key := range e.keys {
				b.WriteString(" " + short(key))
			}
		} else if e.key != "" {
			b.WriteString(" " + short(e.key))
		}
		if e.how != "" {
			b.WriteString(" → " + short(e.how))
		}
		b.WriteByte('\n')
	}
	return fmt.Sprintf("%v\n\nthe interleaving:\n%s\n%v", err, b.String(), err)
}

func short(text string) string {
	return strings.NewReplacer("_threads/", "T/", "_layers/", "L/", "_runs/", "R/", "000000000", "…").Replace(text)
}

// fold returns what is known of a state key. mu is held.
func (w *world) fold(key string) *fold {
	f := w.states[key]
	if f == nil {
		f = &fold{key: key, history: []version{{}}}
		w.states[key] = f
	}
	return f
}

func (w *world) line(prefix string) *lineage {
	l := w.lines[prefix]
	if l == nil {
		l = &lineage{first: 1}
		w.lines[prefix] = l
	}
	return l
}

// envelope is what stands under a state key.
type envelope struct {
	Clears int `json:"clears"`
	State  *struct {
		T []string `json:"t"`
	} `json:"state"`
}

// intrude returns what somebody else writes to a state key: a token more.
func (w *world) intrude(key string) (token string, ops []storage.Op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	v := w.fold(key).now()
	token = fmt.Sprintf("out.%d", w.count)
	tokens := append(slices.Clone(v.tokens), token)
	text, err := json.Marshal(tokens)
	if err != nil {
		panic(err)
	}
	ops = append(ops, storage.Put(key, fmt.Appendf(nil, `{"v":1,"clears":%d,"state":{"t":%s}}`, v.clears, text)))
	if recorded(key) {
		prefix := fmt.Sprintf("%sr%d/", strings.TrimSuffix(key, "state"), v.clears)
		ops = append(ops, storage.Put(prefix+"t/"+token, nil), storage.Put(prefix+"last", []byte(token)))
	}
	return token, ops
}

// intruded notes that somebody else wrote.
func (w *world) intruded(key, token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, event{who: "somebody", what: "writes " + token, key: key})
	if token != "" {
		f := w.fold(key)
		v := *f.now()
		v.seq, v.found, v.tokens = w.tick(), true, append(slices.Clone(v.tokens), token)
		f.history = append(f.history, v)
	}
}

// issue notes that a hook asks for a change.
func (w *world) issue(x *execution, layer, key, hook string, step int) *edit {
	w.count++
	e := &edit{token: fmt.Sprintf("%s.%s%d", x.id, hook[:1], w.count), run: x, layer: layer, key: key, hook: hook, step: step, issued: w.tick()}
	x.edits = append(x.edits, e)
	w.edits[e.token] = e
	return e
}

// atWork returns what the texts of the turn at work can be.
func (x *execution) atWork() [][]string {
	all := [][]string{slices.Clip(x.turn)}
	for _, text := range x.maybe {
		for _, texts := range all {
			all = append(all, append(slices.Clip(texts), text))
		}
	}
	return all
}

// known notes that all changes of a run which hooks of that kind asked for are
// with the runtime.
func (w *world) known(x *execution, hook string) {
	for _, e := range x.edits {
		if e.hook == hook && e.sure == 0 && !e.void {
			e.sure = w.tick()
		}
	}
}

// abandoned notes that what a run did not write is lost: its process is dead, or
// its caller gave it up.
func (w *world) abandoned(x *execution) {
	for _, e := range x.edits {
		e.void = true
	}
	x.edits, x.turn, x.maybe = nil, nil, nil
}

// crashed notes that a process is dead.
func (w *world) crashed(p *process) { w.said("model", "%s is dead", p.name) }

// left notes that a run's caller abandoned it, and its children with it.
func (w *world) left(x *execution) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.left = true
	if x.parent == nil || !x.child {
		x.free = true
	}
	for _, id := range w.family(x, "") {
		if y := w.runs[id]; x.free && y.left {
			y.free = true
		}
	}
}

// orphan returns a run in the store that nobody runs and that did not end, or nil.
func (w *world) orphan(a *actor) *execution {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []*execution
	for _, x := range w.runs {
		if x.step > 0 && !x.ended && !x.gone && x.p != nil && (x.left && x.free || x.p.dead.Load() && x.p.live.Load() == 0) {
			found = append(found, x)
		}
	}
	if len(found) == 0 || a.one(2) {
		return nil
	}
	slices.SortFunc(found, func(a, b *execution) int { return strings.Compare(a.id, b.id) })
	x := found[a.rng.IntN(len(found))]
	x.left, x.free, x.p, x.child = false, false, a.p, false
	x.again = true
	w.abandoned(x)
	return x
}

// resumed checks what a resumed run knows.
func (w *world) resumed(run *memory.Run, x *execution) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.log = nil
	for _, t := range w.line(x.lineage).turns {
		if t.execution == x.id {
			x.log = append(x.log, t.texts...)
		}
	}
	if got := run.Execution(); got.Step() != x.step || got.Depth() != x.depth || got.Identity() != x.who {
		w.wrong("%s is resumed with step %d and depth %d, not %d and %d", x.id, got.Step(), got.Depth(), x.step, x.depth)
	}
}

// spawned notes a child.
func (w *world) spawned(run *memory.Run, x *execution, log bool) *execution {
	w.mu.Lock()
	defer w.mu.Unlock()
	y := w.runs[run.Execution().ID()] // its lineage is known with its first turn
	y.child, y.p = true, x.p
	if !log {
		y.based = true
		return y
	}
	y.based, y.low, y.high = x.based, x.low, x.high
	y.prior, y.mid = slices.Concat(x.prior, x.log), slices.Concat(x.mid, x.log)
	y.turn, y.maybe = slices.Clone(x.turn), slices.Clone(x.maybe)
	return y
}

// length returns how many turns a thread has.
func (w *world) length(thread string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.line("_threads/" + thread + "/").turns)
}

// state returns the key under which a layer of a run has its state.
func stateKeyOf(layer string, scope memory.Scope, x *execution) string {
	kind, id := scope, ""
	switch scope {
	case memory.ScopeGlobal:
		id = "all"
	case memory.ScopeExecution:
		id = x.id
	case memory.ScopeResource:
		id = x.who.Resource
	case memory.ScopeThread:
		id = x.who.Thread
	}
	return fmt.Sprintf("_layers/%s/%s/%s/state", layer, kind, id)
}

// recorded says whether a layer keeps a record for each token.
func recorded(key string) bool { return strings.HasPrefix(key, "_layers/re") }
