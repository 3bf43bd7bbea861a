package memory_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/stratamem/strata/internal/pack"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/storage"
)

// batchMade is a batch of a memory, taken apart.
type batchMade struct {
	call    *call
	number  int
	infos   map[string]*thread.Run
	gone    []string // executions whose record it removes
	turns   map[string]*turnRecord
	heads   map[string]headRecord // by lineage
	pruned  map[string][]int
	states  map[string]*envelope // nil: removed
	records map[string][]string  // tokens, by state key and generation
	latest  map[string]string    // the record "last"
	removed []string             // records
}

type turnRecord struct {
	thread.Turn
	lineage string
}

type headRecord struct {
	Turn  int `json:"turn"`
	First int `json:"first"`
}

// applied checks a batch that took effect, and folds it.
func (w *world) applied(c *call, ops []storage.Op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &batchMade{
		call: c, number: w.tick(), infos: make(map[string]*thread.Run), turns: make(map[string]*turnRecord), heads: make(map[string]headRecord),
		pruned: make(map[string][]int), states: make(map[string]*envelope), records: make(map[string][]string), latest: make(map[string]string),
	}
	for i := range ops {
		if err := b.take(&ops[i]); err != nil {
			w.wrong("batch of %s: %s: %v", c.who, ops[i].Key, err)
			return
		}
	}
	w.checkTurns(b)
	w.checkRemoved(b)
	w.checkStates(b)
	w.checkRuns(b)
}

// take puts one op where it belongs.
func (b *batchMade) take(op *storage.Op) error {
	into := func(v any) error {
		record, err := pack.Unpack(op.Value)
		if err != nil {
			return err
		}
		return json.Unmarshal(record, v)
	}
	lineage, rest, isTurn := strings.Cut(op.Key, "turns/")
	space, _, _ := strings.Cut(op.Key, "/")
	name := op.Key[strings.LastIndexByte(op.Key, '/')+1:]
	switch {
	case space == "_threads" && isTurn && op.Delete:
		var n int
		fmt.Sscan(rest, &n)
		b.pruned[lineage] = append(b.pruned[lineage], n)
	case space == "_threads" && isTurn:
		t := &turnRecord{lineage: lineage}
		if err := into(&t.Turn); err != nil {
			return err
		}
		if rest != fmt.Sprintf("%012d", t.Number) {
			return fmt.Errorf("it has the number %d", t.Number)
		}
		if !op.Check || op.If != "" {
			return fmt.Errorf("a turn is written without the condition that it is new")
		}
		b.turns[t.Execution] = t
	case space == "_threads" && op.Delete: // a child's, pruned
	case space == "_threads" && name == "head":
		var h headRecord
		if err := into(&h); err != nil {
			return err
		}
		b.heads[strings.TrimSuffix(op.Key, "head")] = h
	case space == "_runs" && op.Delete:
		b.gone = append(b.gone, name)
	case space == "_runs":
		var x thread.Run
		if err := into(&x); err != nil {
			return err
		}
		b.infos[x.ID] = &x
	case space == "_layers" && name == "state" && op.Delete:
		b.states[op.Key] = nil
	case space == "_layers" && name == "state":
		e := new(envelope)
		if err := into(e); err != nil {
			return err
		}
		b.states[op.Key] = e
	case space == "_layers" && op.Delete:
		b.removed = append(b.removed, op.Key)
	case space == "_layers" && name == "last":
		b.latest[op.Key] = string(op.Value)
	case space == "_layers":
		at := strings.TrimSuffix(op.Key, "t/"+name)
		b.records[at] = append(b.records[at], name)
	default:
		return fmt.Errorf("nobody should write it")
	}
	return nil
}

// checkTurns checks that turns are dense, and are what the callers were told.
func (w *world) checkTurns(b *batchMade) {
	for id, t := range b.turns {
		x, l := w.runs[id], w.line(t.lineage)
		if x != nil && x.lineage == "" && strings.HasPrefix(t.lineage, "_threads/"+x.who.Thread+"/runs/") && strings.HasSuffix(t.lineage, "/"+id+"/") {
			x.lineage = t.lineage
		}
		switch {
		case !b.about(x):
			w.wrong("%s writes a turn of %s, which it is not about", b.call.who, id)
			return
		case t.lineage != x.lineage:
			w.wrong("the turn of %s goes to %s", id, t.lineage)
		case t.Number <= len(l.turns) && x.forgot && x.depth > 0: // its lineage is numbered anew
			l.turns = l.turns[:t.Number-1]
		case t.Number != len(l.turns)+1:
			w.wrong("%s writes turn %d of %s, which has %d", id, t.Number, t.lineage, len(l.turns))
		case t.Step != x.step+1:
			w.wrong("%s writes its step %d (turn %d) when it has %d: the turn is written twice or is missing", id, t.Step, t.Number, x.step)
		case b.infos[id] == nil || b.infos[id].LastTurn != t.Number || b.infos[id].Step != t.Step:
			w.wrong("turn %d of %s: the record of the execution is %+v", t.Number, id, b.infos[id])
		case b.heads[t.lineage].Turn != t.Number:
			w.wrong("turn %d of %s: the head says %d", t.Number, id, b.heads[t.lineage].Turn)
		}
		var texts []string
		for i := range t.Items {
			texts = append(texts, t.Items[i].Text())
		}
		if !slices.ContainsFunc(x.atWork(), func(want []string) bool { return slices.Equal(texts, want) }) {
			w.wrong("turn %d of %s has the items %q, not %q, and perhaps %q", t.Number, id, texts, x.turn, x.maybe)
		}
		if t.Usage != nil && t.Step > x.step { // one that was denied and forgotten is written again
			x.input += t.Usage.Input
		}
		l.turns = append(l.turns, turnMade{id, t.Step, texts})
		x.step, x.latest, x.wrote = t.Step, t.Number, b.call.started
	}
	for prefix, h := range b.heads {
		l := w.line(prefix)
		if h.Turn != len(l.turns) {
			w.wrong("the head of %s says %d, there are %d turns", prefix, h.Turn, len(l.turns))
		}
		gone := b.pruned[prefix]
		slices.Sort(gone)
		for _, n := range gone {
			if n >= h.First || w.keep == 0 || n > h.Turn-w.keep {
				w.wrong("turn %d of %s is pruned, the first kept is %d of %d", n, prefix, h.First, h.Turn)
			}
		}
		if first := max(h.First, 1); first < l.first {
			w.wrong("the first turn of %s goes back from %d to %d", prefix, l.first, first)
		} else {
			l.first = first
		}
	}
}

// deny takes note of a batch that took effect and for which a conflict is answered.
func (w *world) deny(ops []storage.Op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range ops {
		if id, ok := strings.CutPrefix(ops[i].Key, "_runs/"); ok && w.runs[id] != nil {
			w.runs[id].denied = true
		}
	}
}

// checkRemoved checks that what is removed was unreachable, or its owner goes.
func (w *world) checkRemoved(b *batchMade) {
	for _, id := range b.gone {
		if x := w.runs[id]; x != nil && b.infos[id] == nil {
			x.gone, x.forgot = true, true
		}
	}
	for _, key := range b.removed {
		parts := strings.SplitN(key, "/", 6) // _layers, layer, kind, id, r<clears>, record
		if x := w.runs[parts[3]]; parts[2] == string(memory.ScopeExecution) && x != nil && (x.ended || x.gone) {
			continue
		}
		f := w.fold(strings.Join(parts[:4], "/") + "/state")
		var clears int
		if fmt.Sscanf(parts[4], "r%d", &clears); clears >= f.now().clears {
			w.wrong("%s removes %s, a record that can be reached", b.call.who, key)
		}
	}
}

// checkStates checks that each state is what it was with the changes of the
// batch's runs, in order, and that its records say the same.
func (w *world) checkStates(b *batchMade) {
	keys := make([]string, 0, len(b.states))
	for key := range b.states {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		f, e := w.fold(key), b.states[key]
		was := *f.now()
		now := version{seq: b.number}
		if e == nil {
			x := w.runs[strings.Split(key, "/")[3]]
			if !strings.Contains(key, "/execution/") || x == nil || !x.gone && (b.infos[x.id] == nil || b.infos[x.id].Outcome == "") {
				w.wrong("%s removes %s, which is still needed", b.call.who, key)
			}
			if x != nil && x.gone {
				if x.pruned == nil {
					x.pruned = make(map[string][]string)
				}
				x.pruned[key] = was.tokens
			}
			f.history = append(f.history, now)
			continue
		}
		now.clears = e.Clears
		if now.found = e.State != nil; now.found {
			now.tokens = e.State.T
		}
		base := w.base(key, &was, now.tokens)
		if x := w.runs[strings.Split(key, "/")[3]]; x != nil {
			delete(x.pruned, key)
			if x.forgot { // nobody knows what it still had
				w.trust(b, f, now)
				continue
			}
		}
		switch {
		case now.clears == was.clears+1:
			base = nil
		case now.clears != was.clears:
			w.wrong("%s: the state of %s was cleared %d times, now %d", b.call.who, key, was.clears, now.clears)
			return
		case len(now.tokens) < len(base) || !slices.Equal(now.tokens[:len(base)], base):
			w.wrong("%s loses what was acknowledged: %s held %q and is overwritten with %q", b.call.who, key, base, now.tokens)
			return
		}
		added := now.tokens[len(base):]
		w.checkAdded(b, key, now.clears > was.clears, added)
		at := fmt.Sprintf("%sr%d/", strings.TrimSuffix(key, "state"), now.clears)
		if recorded(key) && !slices.Equal(b.records[at], added) {
			w.wrong("%s adds %q to %s, and the records %q", b.call.who, added, key, b.records[at])
		}
		delete(b.records, at)
		if last := b.latest[at+"last"]; recorded(key) && len(added) > 0 && last != added[len(added)-1] {
			w.wrong("%s: the last of %q is recorded as %q", b.call.who, added, last)
		}
		f.history = append(f.history, now)
	}
	for at, tokens := range b.records {
		w.wrong("%s writes the records %q under %s, which is not the generation of a state that it checks", b.call.who, tokens, at)
	}
}

// trust takes a state as it is written.
func (w *world) trust(b *batchMade, f *fold, now version) {
	for _, token := range now.tokens {
		if e := w.edits[token]; e != nil {
			e.batch = b.number
		}
	}
	for at := range b.records {
		if strings.HasPrefix(at, strings.TrimSuffix(f.key, "state")) {
			delete(b.records, at)
		}
	}
	f.history = append(f.history, now)
}

// base is what a state key holds before the batch: for the first state of a child,
// what crossed.
func (w *world) base(key string, was *version, now []string) []string {
	if was.found || !strings.Contains(key, "/execution/") {
		return was.tokens
	}
	x := w.runs[strings.Split(key, "/")[3]]
	switch {
	case x == nil:
	case x.pruned[key] != nil && (!x.again || len(now) > 0 && now[0] == x.pruned[key][0]):
		return x.pruned[key] // the run that was at work goes on with what it had
	case was.seq == 0:
		return x.seeds[key]
	}
	return was.tokens
}

// checkAdded checks what a batch adds to a state.
func (w *world) checkAdded(b *batchMade, key string, cleared bool, added []string) {
	place := make(map[string]int)
	var before *edit
	for i, token := range added {
		e := w.edits[token]
		switch {
		case e == nil || e.key != key:
			w.wrong("%s adds %q to %s, which nobody asked for there", b.call.who, token, key)
			return
		case e.batch != 0 && e.run.denied && e.run.forgot:
			// The answer was wrong, and the thread forgot the execution before it could
			// be seen: a conflict is believed, for an execution goes on, also over
			// conflicts, whose thread has forgotten it.
		case e.batch != 0:
			w.wrong("%s adds %q to %s again: the update ran twice", b.call.who, token, key)
			return
		case e.void || e.clear:
			w.wrong("%s adds %q to %s, which was given up", b.call.who, token, key)
			return
		case !b.about(e.run):
			w.wrong("%s adds %q, a change of another execution", b.call.who, token)
			return
		}
		// What returns have changed is written with them, before what the turn at
		// work changed earlier.
		hurried := before != nil && before.hook == "return" && e.hook != "return"
		if before != nil && before.run == e.run && e.sure != 0 && e.sure < before.issued && !hurried {
			w.wrong("%s adds %q before %q, which was changed first", b.call.who, before.token, token)
		}
		if before != nil && before.run != e.run && e.run.parent == before.run {
			w.wrong("%s adds %q of the parent before %q of the child", b.call.who, before.token, token)
		}
		e.batch, place[token], before = b.number, i, e
	}
	if !cleared {
		return
	}
	for _, id := range b.call.runs {
		w.checkCleared(b, key, w.runs[id])
	}
	if b.call.kind == "return" { // what the parent clears, it clears after the child's changes
		for _, e := range w.runs[b.call.runs[0]].edits {
			e.vague = e.vague || e.key == key && e.batch == 0
		}
	}
}

// about says whether a batch may be one of a run: one that the call is about, or a
// descendant that ends with it.
func (b *batchMade) about(x *execution) bool {
	if x == nil || len(b.call.runs) == 0 {
		// A spawn that fails ends the children that it had begun.
		return x != nil && b.call.kind == "spawn" && x.parent != nil
	}
	for y := x; y != nil; y = y.parent {
		if y.id == b.call.runs[0] {
			return true
		}
	}
	return slices.Contains(b.call.runs, x.id)
}

// checkCleared finds the clears that a batch makes, and what they swallow.
func (w *world) checkCleared(b *batchMade, key string, x *execution) {
	cleared := 0
	for _, e := range x.edits {
		if e.key == key && e.clear && !e.void && e.batch == 0 {
			e.batch, cleared = b.number, e.issued
		}
	}
	for _, e := range x.edits {
		switch {
		case e.key != key || e.clear:
		case e.issued > cleared:
			// Whether the runtime had it before the clear, only the runtime knows.
			e.vague = e.vague || e.batch == 0 && (e.hook == "tool" || e.hook == "return")
		case e.batch == b.number && e.sure != 0 && e.sure < cleared:
			w.wrong("%s keeps %q in %s, which was cleared after it", b.call.who, e.token, key)
		case e.batch == 0 && e.sure != 0:
			e.batch = b.number // swallowed
		case e.batch == 0:
			e.vague = true
		}
	}
}

// checkRuns checks that a batch is whole: what belongs together came together.
func (w *world) checkRuns(b *batchMade) {
	for id, info := range b.infos {
		x := w.runs[id]
		switch {
		case !b.about(x):
			w.wrong("%s writes the record of %s, which it is not about", b.call.who, id)
			return
		case x.ended && !x.forgot:
			w.wrong("%s writes the record of %s, which has ended", b.call.who, id)
			return
		case info.Step != x.step || info.LastTurn != x.latest:
			w.wrong("%s: the record of %s has step %d and turn %d, not %d and %d", b.call.who, id, info.Step, info.LastTurn, x.step, x.latest)
		}
	}
	if b.call.kind == "return" {
		child := w.runs[b.call.runs[0]]
		if b.infos[child.parent.id] != nil && !child.returned {
			child.returned = true
			child.parent.input += child.input
		}
	}
	for id, info := range b.infos {
		x := w.runs[id]
		if got := info.Usage.Input; !x.forgot && got < x.input || got > x.input+x.spent {
			w.wrong("%s: the record of %s has used %d, not %d to %d", b.call.who, id, got, x.input, x.input+x.spent)
		}
		w.checkWhole(b, x, info)
	}
	ids := slices.Clone(b.call.runs)
	for id := range b.infos {
		ids = append(ids, id)
	}
	for _, id := range ids {
		x := w.runs[id]
		x.edits = slices.DeleteFunc(x.edits, func(e *edit) bool { return e.batch != 0 })
		info := b.infos[id]
		if info != nil {
			x.gone = false
		}
		if info != nil && info.Outcome != "" {
			x.ended = true
			for key := range w.states {
				if strings.Contains(key, "/execution/"+id+"/") && w.states[key].now().found {
					w.wrong("%s has ended and left %s", id, key)
				}
			}
		}
	}
}

// checkWhole checks that changes of a run are in a batch as soon as they have to
// be, and a turn's not without the turn.
func (w *world) checkWhole(b *batchMade, x *execution, info *thread.Run) {
	turn := b.turns[x.id]
	for _, e := range x.edits {
		mine := e.batch == b.number
		if e.hook == "store" && mine && (turn == nil || turn.Step != e.step) {
			w.wrong("%s writes %q to %s without the turn (step %d of %s) that it is part of", b.call.who, e.token, e.key, e.step, x.id)
		}
		if mine || e.void || e.vague || e.batch != 0 || (info.Outcome != "" || x.forgot) && strings.Contains(e.key, "/execution/") {
			continue
		}
		// A child that returns writes of its parent what returns have changed; the
		// rest comes with the parent's own batch.
		must := e.sure != 0 && e.sure < b.call.started && (b.call.kind != "return" || b.call.runs[0] == x.id || e.hook == "return")
		switch e.hook {
		case "store":
			must = must || turn != nil && turn.Step == e.step
		case "complete":
			must = must || info.Outcome != ""
		case "return":
			must = must || b.infos[e.child] != nil && b.infos[e.child].Outcome != ""
		}
		if must {
			w.wrong("%s writes %s without %q (%s, %s)", b.call.who, x.id, e.token, e.hook, e.key)
		}
	}
}
