// Package layertest proves memory layers: what package memory promises for all of
// them, as a list of cases, each over a store of its own.
//
// It does not judge how well a layer remembers, which package bench/recall
// measures, and needs nothing but a [Layer]:
//
//	func TestMood(t *testing.T) {
//		layertest.Run(t, layertest.Layer{
//			New:   func(*testing.T, storage.Adapter) memory.Layer { return Mood() },
//			Turns: []layertest.Turn{{"The total is wrong.", "I look into it."}, {"Wrong again!", "Sorry."}},
//			Ask:   "And now?",
//			Shows: "complained 2 times",
//		})
//	}
//
// The one decision: a layer is proven through the runtime, by what prompts show and
// what is in the store, and never by a call of its hooks, so that the suite holds for
// whatever a layer is made of. It is tested itself with layers that each do one thing
// wrong.
package layertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/storagetest"
)

// Layer is what is to be proven.
type Layer struct {
	// New makes the layer, of a memory over store. It is called several times over one
	// store, as by several processes: what the layer has learned must be in the store
	// alone.
	New func(t *testing.T, store storage.Adapter) memory.Layer
	// Prepare puts into a new store what the layer is to find there; nil for nothing.
	Prepare func(t *testing.T, store storage.Adapter)
	// Turns are what is said in a thread. The prompt for Ask has the text Shows in what
	// the layer says: after them in that thread, or in another if the layer's scope is
	// not the thread. A layer of scope execution is proven with another one.
	Turns      []Turn
	Ask, Shows string
	// Fixed says that Shows is not of the turns, but there from the beginning. Else
	// whom the layer's scope keeps apart must not see it.
	Fixed bool
}

// Turn is what the user says, and what the model answers.
type Turn struct{ User, Assistant string }

// Run runs all cases as subtests of t.
func Run(t *testing.T, l Layer) {
	for _, c := range []struct {
		name string
		run  func(p *proof)
	}{
		{"shows-what-was-said", func(p *proof) { p.shows(p.memory()) }},
		{"reading-writes-nothing", readingWritesNothing},
		{"the-same-again", theSameAgain},
		{"what-is-known-is-stored", knownIsStored},
		{"others-see-nothing", othersSeeNothing},
		{"keeps-its-budget", keepsItsBudget},
		{"after-a-failure", afterAFailure},
		{"children", children},
		{"many-at-once", manyAtOnce},
		{"small-store", smallStore},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &proof{T: t, Layer: l, store: mem.New()}
			c.run(p)
		})
	}
}

// proof is one case at work.
type proof struct {
	*testing.T
	Layer
	store  storage.Adapter
	policy projection.Policy
	spec   memory.Spec // of the layer that was made last
}

func (p *proof) check(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// talker is who says the turns.
func talker() memory.Identity {
	return memory.Identity{Thread: "first", Resource: "anna", Agent: "helper", Team: "red"}
}

// asker is who asks: in another thread, where the layer's data is there too, because
// what the prompt shows as history need not be recalled.
func (p *proof) asker() memory.Identity {
	who := talker()
	if p.spec.Scope != memory.ScopeThread {
		who.Thread = "second"
	}
	return who
}

// memory is one with the layer alone, over the store, in which the turns were said.
func (p *proof) memory() *memory.Memory {
	p.Helper()
	if p.Prepare != nil {
		p.Prepare(p.T, p.store)
	}
	m := p.another()
	run := p.begin(m, talker())
	for _, t := range p.Turns {
		p.say(run, t)
	}
	p.check(run.End(p.Context(), memory.Success))
	p.sound(run)
	return m
}

// another is a memory as another process has it over the same store.
func (p *proof) another() *memory.Memory {
	p.Helper()
	layer := p.New(p.T, p.store)
	p.spec = layer.Spec()
	m, err := memory.New(p.store, []memory.Layer{layer}, &memory.Options{Policy: p.policy, VerifyStates: true})
	p.check(err)
	return m
}

func (p *proof) begin(m *memory.Memory, who memory.Identity) *memory.Run {
	p.Helper()
	run, err := m.Begin(p.Context(), who)
	p.check(err)
	return run
}

// say commits a turn.
func (p *proof) say(run *memory.Run, t Turn) {
	p.Helper()
	_, err := run.Project(p.Context(), projection.Text(projection.User, t.User))
	p.check(err)
	p.check(run.Commit(p.Context(), memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, t.Assistant)}}))
	p.sound(run)
}

// sound holds that all hooks went well.
func (p *proof) sound(run *memory.Run) {
	p.Helper()
	for _, h := range run.Report().Hooks {
		if h.Status != memory.StatusOK {
			p.Errorf("%s is %s: %s", h.Hook, h.Status, h.Error)
		}
	}
}

// preview returns what the layer says when Ask is asked, and writes nothing.
func (p *proof) preview(m *memory.Memory, who memory.Identity) string {
	p.Helper()
	run := p.begin(m, who)
	view, err := run.Project(p.Context(), projection.Text(projection.User, p.Ask))
	p.check(err)
	p.sound(run)
	said := p.said(view)
	p.check(run.Discard(p.Context()))
	return said
}

// said is what the layer says in a view.
func (p *proof) said(view *projection.View) string {
	var b strings.Builder
	for _, it := range view.All() {
		if it.Layer == p.spec.ID {
			fmt.Fprintln(&b, it.Text())
		}
	}
	return b.String()
}

// shows holds that the prompt shows what it is to show.
func (p *proof) shows(m *memory.Memory) {
	p.Helper()
	if said := p.preview(m, p.asker()); !strings.Contains(said, p.Shows) {
		p.Errorf("the prompt does not show %q, but %q", p.Shows, said)
	}
}

// entries are all that is in the store.
func (p *proof) entries() map[string]string {
	p.Helper()
	all := make(map[string]string)
	for e, err := range storage.Scan(p.Context(), p.store, "", nil) {
		p.check(err)
		all[e.Key] = string(e.Value)
	}
	return all
}

func readingWritesNothing(p *proof) {
	m := p.memory()
	before := p.entries()
	p.preview(m, p.asker())
	if diff := cmp.Diff(before, p.entries()); diff != "" {
		p.Errorf("a prompt was made, and the store changed: (-before +after)\n%s", diff)
	}
}

func theSameAgain(p *proof) {
	m := p.memory()
	first := p.preview(m, p.asker())
	for range 3 {
		if diff := cmp.Diff(first, p.preview(m, p.asker())); diff != "" {
			p.Fatalf("the same question again shows something else: (-first +again)\n%s", diff)
		}
	}
}

func knownIsStored(p *proof) {
	m := p.memory()
	here := p.preview(m, p.asker())
	if diff := cmp.Diff(here, p.preview(p.another(), p.asker())); diff != "" {
		p.Errorf("another process shows something else: (-here +there)\n%s", diff)
	}
}

func othersSeeNothing(p *proof) {
	if p.Fixed {
		return
	}
	m := p.memory()
	other := p.asker()
	switch p.spec.Scope {
	case memory.ScopeGlobal:
		return // all are one
	case memory.ScopeResource:
		other.Thread, other.Resource = "other", "bert"
	case memory.ScopeThread:
		other.Thread = "other"
	}
	if said := p.preview(m, other); strings.Contains(said, p.Shows) {
		p.Errorf("%+v sees what is another's: %q", other, said)
	}
}

func keepsItsBudget(p *proof) {
	p.memory()
	for _, most := range []int{200, 400, 2000} {
		p.policy = projection.Policy{Budget: most, Reserve: -1}
		run := p.begin(p.another(), p.asker())
		view, err := run.Project(p.Context(), projection.Text(projection.User, p.Ask))
		switch {
		case p.spec.Required && errors.Is(err, projection.ErrBudget):
			continue // which is what Required says
		case err != nil:
			p.Fatalf("a prompt of %d tokens: %v", most, err)
		case view.Tokens > most:
			p.Errorf("a prompt of %d tokens has %d", most, view.Tokens)
		}
		p.sound(run)
		p.check(run.Discard(p.Context()))
	}
}

// failing is a store that cannot be read for a while.
type failing struct {
	storage.Adapter
	fails atomic.Bool
}

var errFailing = errors.New("the disk is away")

func (f *failing) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	if f.fails.Load() {
		return nil, "", errFailing
	}
	return f.Adapter.Get(ctx, key)
}

func (f *failing) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	if f.fails.Load() {
		return func(yield func(string, error) bool) { yield("", errFailing) }
	}
	return f.Adapter.List(ctx, prefix)
}

func afterAFailure(p *proof) {
	store := &failing{Adapter: p.store}
	p.store = store
	m := p.memory()
	run := p.begin(m, p.asker())
	store.fails.Store(true)
	_, _ = run.Project(p.Context(), projection.Text(projection.User, p.Ask)) // as well as it can
	store.fails.Store(false)
	p.check(run.Discard(p.Context()))
	p.shows(m)
}

func children(p *proof) {
	m := p.memory()
	run := p.begin(m, p.asker())
	p.say(run, Turn{p.Ask, "Let me have that looked up."})
	child, err := run.Spawn(p.Context(), nil)
	p.check(err)
	p.say(child, Turn{p.Ask, "It is looked up."})
	_, err = child.Return(p.Context(), memory.Result{Outcome: memory.Success, Text: "It is looked up."})
	p.check(err)
	p.sound(child)
	p.sound(run)
	p.say(run, Turn{p.Ask, "As I said."})
	p.check(run.End(p.Context(), memory.Success))
	p.sound(run)
}

func manyAtOnce(p *proof) {
	m := p.memory()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			run, err := m.Begin(p.Context(), talker())
			if err != nil {
				p.Error(err)
				return
			}
			for _, t := range p.Turns {
				_, err = run.Project(p.Context(), projection.Text(projection.User, t.User))
				if err == nil {
					err = run.Commit(p.Context(), memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, t.Assistant)}})
				}
				if err != nil {
					p.Error(err)
					break
				}
				p.sound(run)
			}
			if err := run.End(p.Context(), memory.Success); err != nil {
				p.Error(err)
			}
		})
	}
	wg.Wait()
	here := p.preview(m, p.asker())
	if diff := cmp.Diff(here, p.preview(p.another(), p.asker())); diff != "" {
		p.Errorf("another process shows something else: (-here +there)\n%s", diff)
	}
}

func smallStore(p *proof) {
	p.store = storagetest.Limited(p.store, storagetest.Small)
	p.shows(p.memory())
}
