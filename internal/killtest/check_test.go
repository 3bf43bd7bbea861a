package killtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/memory/thread"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

// standing is what is known of something that was to be done.
type standing int

const (
	unheard standing = iota
	inDoubt          // it was begun: it may be there, or not
	void             // it was not done, and never will be
	stands           // it was acknowledged, or has been seen: it must be there
)

// hear takes note of a line of the journal.
func (l *life) hear(line line) {
	id := line.arg(0)
	note := func(all map[string]standing) {
		switch line.mark {
		case begun:
			all[id] = inDoubt
		case done:
			all[id] = stands
		}
	}
	switch line.verb {
	case "turn":
		note(l.turns)
		l.Turns += count(line.mark == done)
	case "end":
		note(l.ends)
		l.Ends += count(line.mark == done)
	case "resumed":
		l.resumed = append(l.resumed, line)
		l.Resumed++
	case "conflict":
		l.Conflicts++
	case "ready":
	default:
		l.hearKnowledge(line)
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// check is a look at a store whose process was killed.
type check struct {
	*life
	ctx      context.Context
	db       storage.Adapter
	problems [][]byte

	all   map[string][]byte // the whole store
	runs  map[string]*thread.Run
	took  []taken             // every turn that is stored
	byRun map[string][]taken  // in order
	found map[string]standing // tokens of stored turns
}

// taken is a stored turn with its plan.
type taken struct {
	plan
	*thread.Turn
}

func (c *check) bad(format string, args ...any) {
	if len(c.problems) < 20 {
		c.problems = append(c.problems, fmt.Appendf(nil, format, args...))
	}
}

// check opens the store and compares all that is in it with what was
// acknowledged and with each other. What it finds is settled then.
func (l *life) check(ctx context.Context) (problems [][]byte, err error) {
	c := &check{life: l, ctx: ctx, all: map[string][]byte{}, runs: map[string]*thread.Run{}, byRun: map[string][]taken{}, found: map[string]standing{}}
	if err := l.loosen(); err != nil {
		return nil, err
	}
	start := time.Now()
	if c.db, err = openStore(ctx, l.spec, storage.Process); err != nil {
		return nil, fmt.Errorf("open after a kill: %w", err)
	}
	if took := time.Since(start); took > openBound {
		c.bad("open after a kill took %v", took)
	}
	defer func() { err = errors.Join(err, c.db.Close()) }()
	for _, step := range []func() error{c.sound, c.read, c.readTurns, c.checkTurns, c.checkRuns, c.checkStates, c.checkLayers, c.checkKnowledge, c.checkHand} {
		if err := step(); err != nil {
			return c.problems, fmt.Errorf("look at the store: %w", err)
		}
	}
	return c.problems, nil
}

func (c *check) sound() error {
	for f, err := range storage.Check(c.ctx, c.db) {
		if err != nil {
			return err
		}
		if name := strings.TrimSuffix(filepath.Base(f.Path), ".md"); c.things[strings.TrimPrefix(name, "canon-")] != nil && c.things[strings.TrimPrefix(name, "canon-")].original != "" {
			continue // a person has broken it
		}
		c.bad("damage: %+v", f)
	}
	return nil
}

func (c *check) read() error {
	for e, err := range storage.Scan(c.ctx, c.db, "", nil) {
		if err != nil {
			return err
		}
		c.all[e.Key] = e.Value
	}
	return nil
}

// readTurns reads every turn as hosts do, of threads and of children, and
// checks that turns are numbered without a gap.
func (c *check) readTurns() error {
	for x, err := range thread.Runs(c.ctx, c.db) {
		if err != nil {
			return err
		}
		c.runs[x.ID] = x
	}
	take := func(turn *thread.Turn) {
		t := taken{Turn: turn}
		if len(turn.Items) > 0 {
			t.plan, _ = planOf(turn.Items[0].Text())
		}
		c.took = append(c.took, t)
		c.byRun[turn.Execution] = append(c.byRun[turn.Execution], t)
	}
	for info, err := range thread.List(c.ctx, c.db) {
		if err != nil {
			return err
		}
		n := 0
		for turn, err := range thread.Turns(c.ctx, c.db, info.Thread, 0) {
			if err != nil {
				return err
			}
			if n++; turn.Number != n {
				c.bad("turn %d of %s has the number %d", n, info.Thread, turn.Number)
			}
			take(turn)
		}
		if info.Turns != n {
			c.bad("%s has %d turns, its head says %d", info.Thread, n, info.Turns)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.runs)) {
		if c.runs[id].Parent == "" {
			continue
		}
		for turn, err := range thread.RunTurns(c.ctx, c.db, id) {
			if err != nil {
				return err
			}
			take(turn)
		}
	}
	return nil
}

// checkTurns checks that each stored turn is whole, that all that were
// acknowledged are there, and that of those that are not there is nothing
// anywhere.
func (c *check) checkTurns() error {
	for _, t := range c.took {
		where := fmt.Sprintf("turn %d of run %s", t.Number, t.Execution)
		want := []string{"user", "assistant"}
		if t.closes {
			want = want[:1]
		}
		for range t.calls {
			want = slices.Insert(want, 1, "tool_call", "tool_result")
		}
		var got []string
		for i := range t.Items {
			it := &t.Items[i]
			if it.Kind == projection.Message {
				got = append(got, string(it.Role))
			} else {
				got = append(got, string(it.Kind))
			}
			if it.Kind != projection.ToolCall && firstToken('q', it.Text()) != t.token {
				c.bad("%s: item %d is of another turn than %s", where, i, t.token)
			}
		}
		if t.token == "" || !slices.Equal(got, want) {
			c.bad("%s has the items %q, want %q", where, got, want)
		}
		switch c.turns[t.token] {
		case unheard:
			c.bad("%s has the token %q, which nobody has used", where, t.token)
		case void:
			c.bad("%s with %s is there, and was not after the kill that cut it off", where, t.token)
		}
		if c.found[t.token] == stands {
			c.bad("%s: %s was written twice", where, t.token)
		}
		c.found[t.token] = stands
	}
	for token, s := range c.turns {
		there := c.found[token] == stands
		if s == stands && !there {
			c.bad("turn %s was acknowledged and is not there", token)
		}
		c.Open += count(s == inDoubt)
		if c.turns[token] = void; there {
			c.turns[token] = stands
		}
	}
	for key, value := range c.all {
		for _, text := range [][]byte{[]byte(key), packedEpoch.ReplaceAll(value, nil)} {
			for token := range tokens('q', text) {
				if c.found[token] != stands {
					c.bad("%s has the token %s of a turn that is not there", key, token)
				}
			}
		}
	}
	return nil
}

// checkRuns checks the records of runs: how far they are, what they cost, and
// that a turn that was to be written with the end of its run was.
func (c *check) checkRuns() error {
	cost := map[string]float64{}
	for id, list := range c.byRun {
		x := c.runs[id]
		if x == nil {
			c.bad("run %s has turns and no record", id)
			continue
		}
		for i, t := range list {
			if t.Step != i+1 {
				c.bad("turn %d of run %s is its step %d", i+1, id, t.Step)
			}
			if t.closes && (i != len(list)-1 || x.Outcome == "") {
				c.bad("turn %s was to end run %s, which goes on", t.token, id)
			}
			cost[id] += float64(count(!t.closes))
		}
	}
	total := maps.Clone(cost)
	for id, x := range c.runs {
		if x.Step != len(c.byRun[id]) {
			c.bad("run %s has %d turns, its record says %d", id, len(c.byRun[id]), x.Step)
		}
		if x.Outcome == memory.Success && x.Parent != "" {
			total[x.Parent] += cost[id]
		}
	}
	for id, x := range c.runs {
		if x.Cost != total[id] {
			c.bad("run %s cost %v, its record says %v", id, total[id], x.Cost)
		}
		if s := c.ends[id]; s == void && x.Outcome != "" {
			c.bad("run %s has ended, and had not after the kill that cut it off", id)
		}
	}
	for id, s := range c.ends {
		x := c.runs[id]
		if s == stands && x != nil && x.Outcome == "" { // one that did nothing has no record
			c.bad("the end of run %s was acknowledged and is not there", id)
		}
		if s == inDoubt {
			c.Open++
			c.ends[id] = unheard // it is resumed, and ends later
			if x != nil && x.Outcome != "" {
				c.ends[id] = stands
			}
		}
	}
	for _, l := range c.resumed {
		var step int
		fmt.Sscan(l.arg(1), &step)
		if step > len(c.byRun[l.arg(0)]) {
			c.bad("run %s was resumed at step %d and has %d turns", l.arg(0), step, len(c.byRun[l.arg(0)]))
		}
	}
	c.resumed = nil
	return nil
}

// checkStates compares the states of the ledgers, and their records, with the
// turns that are stored: each holds those of its scope, once.
func (c *check) checkStates() error {
	want := map[string]ledger{} // by the prefix of the layer's data in a scope
	add := func(scope memory.Scope, id string, t taken) {
		key := fmt.Sprintf("_layers/%s/%s/%s/", ledgerID(scope), scope, id)
		marks := []string{t.token}
		if !t.mark {
			marks = nil
		}
		want[key] = want[key].with([]string{t.token}, marks)
	}
	for _, t := range c.took {
		x := c.runs[t.Execution]
		if x == nil {
			continue
		}
		add(memory.ScopeThread, x.Identity.Thread, t)
		add(memory.ScopeResource, x.Identity.Resource, t)
		add(memory.ScopeGlobal, "all", t)
		if x.Outcome == "" {
			add(memory.ScopeExecution, x.ID, t)
		}
		if parent := c.runs[x.Parent]; parent != nil && parent.Outcome == "" && x.Outcome == memory.Success {
			add(memory.ScopeExecution, parent.ID, t)
		}
	}
	for info, err := range thread.States(c.ctx, c.db, "") {
		if err != nil {
			return err
		}
		prefix, isState := strings.CutSuffix(info.Key, "state")
		if !isState || !strings.HasPrefix(info.Layer, "ledger-") {
			continue
		}
		w := want[prefix]
		if x := c.runs[info.ID]; info.Kind == memory.ScopeExecution && (x == nil || x.Outcome != "") {
			continue // what is left of a run that has ended goes with its thread
		}
		delete(want, prefix)
		var got ledger
		if err := json.Unmarshal(info.State, &got); err != nil {
			return err
		}
		if !sameList(got.Turns, w.Turns) || !sameList(got.Marks, w.Marks) {
			c.bad("the state of %s has %v, the turns that are stored are %v", info.Key, got, w)
		}
		if info.Kind == memory.ScopeThread {
			c.inOrder(info.Key, got.Turns)
		}
		c.checkRecords(prefix+"r0/turn/", w.Turns)
		c.checkRecords(prefix+"r0/mark/", w.Marks)
	}
	for prefix, w := range want {
		c.bad("there is no state below %s, the turns that are stored are %v", prefix, w)
	}
	return nil
}

func sameList(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// inOrder checks that a state has the turns of each run in their order.
func (c *check) inOrder(key string, list []string) {
	at := map[string]int{}
	for i, token := range list {
		at[token] = i
	}
	for id, turns := range c.byRun {
		for i := 1; i < len(turns); i++ {
			if at[turns[i].token] < at[turns[i-1].token] {
				c.bad("%s has the turns of run %s in another order", key, id)
			}
		}
	}
}

func (c *check) checkRecords(prefix string, want []string) {
	var got []string
	for key, value := range c.all {
		if rest, ok := strings.CutPrefix(key, prefix); ok {
			got = append(got, rest)
			if string(value) != rest {
				c.bad("the record %s is of another token", key)
			}
		}
	}
	if !sameList(got, want) {
		c.bad("the records below %s are %v, want %v", prefix, got, want)
	}
}

// checkLayers compares what ready layers keep with the turns: SemanticRecall has
// every message and result in its index, Episodic every run that has ended.
func (c *check) checkLayers() error {
	const at = "/resource/" + resource + "/r0/"
	var items, episodes []string
	said := map[string]bool{}
	for _, t := range c.took {
		for i := range t.Items {
			if t.Items[i].Kind != projection.ToolCall {
				items = append(items, t.Items[i].ID)
			}
		}
		said[t.Execution] = true
	}
	for id, x := range c.runs {
		if x.Outcome != "" && said[id] {
			episodes = append(episodes, id)
		}
	}
	recall := storage.Scope(c.db, "_layers/semantic-recall"+at)
	var indexed, remembered []string
	for e, err := range recall.Scan(c.ctx, "d/", nil) {
		if err != nil {
			return err
		}
		docs, err := search.ReadRecord(c.ctx, recall, e.Key)
		if err != nil {
			return err
		}
		for i := range docs {
			indexed = append(indexed, docs[i].Source)
		}
	}
	if !sameList(items, indexed) {
		c.bad("%d items are stored, %d are in the index of semantic-recall; %s", len(items), len(indexed), differ(items, indexed))
	}
	for f, err := range search.Check(c.ctx, recall) {
		if err != nil {
			return err
		}
		c.bad("the index of semantic-recall has a fault: %+v", f)
	}
	for key, value := range c.all {
		if !strings.HasPrefix(key, "_layers/episodic"+at+"e/") {
			continue
		}
		var e struct {
			Execution string `json:"execution"`
		}
		if err := json.Unmarshal(value, &e); err != nil {
			return err
		}
		remembered = append(remembered, e.Execution)
	}
	if !sameList(episodes, remembered) {
		c.bad("%d runs have ended, %d episodes are there; %s", len(episodes), len(remembered), differ(episodes, remembered))
	}
	return nil
}

// differ says what is in one of two lists alone.
func differ(want, got []string) string {
	n := map[string]int{}
	for _, s := range want {
		n[s]++
	}
	for _, s := range got {
		n[s]--
	}
	var b bytes.Buffer
	for _, s := range slices.Sorted(maps.Keys(n)) {
		if n[s] != 0 {
			fmt.Fprintf(&b, " %s (%+d)", s, -n[s])
		}
	}
	return "too many or few:" + b.String()
}
