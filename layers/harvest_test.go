package layers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
)

// act makes a turn with tool calls, of which every fifth fails, and commits it
// with what they returned.
func (c *conversation) act(name string, calls int) {
	c.t.Helper()
	c.ask("go")
	var asked, results []projection.Item
	for i := range calls {
		id := fmt.Sprintf("%s-%d", name, i)
		asked = append(asked, projection.Call(id, "tool-"+id, `{}`))
		r := projection.Result(id, "done")
		r.Failed = i%5 == 0
		results = append(results, r)
	}
	c.settle(func() error { return c.run.Commit(c.t.Context(), memory.Response{Items: asked}) })
	if _, err := c.run.Project(c.t.Context(), results...); err != nil {
		c.t.Error(err)
	}
	c.commit("done")
}

// harvested counts what of a kind a team has in the archive.
func (k *knowing) harvested(kind, team string) (n int) {
	k.Helper()
	for e, err := range k.s.Query(k.Context(), soma.Query{Type: kind, Layer: soma.Archive, Team: soma.AllTeams}) {
		if err != nil {
			k.Fatal(err)
		}
		if e.Team == team {
			n++
		}
	}
	return n
}

// waiting counts the records of what waits.
func waiting(t *testing.T, store storage.Adapter) (n int) {
	t.Helper()
	for key, err := range store.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(key, "/waiting/") {
			n++
		}
	}
	return n
}

// A turn creates no more than a worker may in one run. The rest is harvested by
// the turns that follow, of whatever run, and nothing is lost.
func TestHarvestIsCarriedOver(t *testing.T) {
	eachEngine(t, func(t *testing.T, store storage.Adapter) {
		k := know(t, store, nil)
		c := k.begin("t1", "red")
		c.act("a", 250) // which is 300 decisions
		if n := k.harvested("decision", "red"); n != soma.MaxCreates {
			t.Errorf("the first turn has harvested %d", n)
		}
		c.act("b", 5) // 6 more; two turns
		if n := k.harvested("decision", "red"); n != 3*soma.MaxCreates {
			t.Errorf("three turns have harvested %d", n)
		}
		c.end() // takes them, and the outcome
		if n, w := k.harvested("decision", "red"), waiting(t, store); n != 306 || w != 0 {
			t.Errorf("the run has harvested %d, %d records wait", n, w)
		}
		c = k.begin("t2", "red")
		c.act("c", 500) // 600
		c.end()
		if n, runs := k.harvested("decision", "red"), k.harvested("execution", "red"); n != 306+199 || runs != 2 {
			t.Errorf("two runs have harvested %d, and %d outcomes", n, runs)
		}

		// Somebody else's run goes on, in a process of its own.
		k = know(t, store, nil)
		c = k.begin("t3", "blue")
		for range 5 {
			c.ask("hello")
			c.commit("hello")
		}
		if n, other, w := k.harvested("decision", "red"), k.harvested("decision", "blue"), waiting(t, store); n != 306+600 || other != 0 || w != 0 {
			t.Errorf("harvested %d, %d for the team that did nothing, %d records wait", n, other, w)
		}
	})
}

// Runs that harvest the same at once lose nothing of it.
func TestHarvestAtOnce(t *testing.T) {
	store := openMem(t)
	k := know(t, store, nil)
	var wg sync.WaitGroup
	for i := range 4 {
		c := k.begin(fmt.Sprint("t", i), "red")
		wg.Go(func() {
			c.act(fmt.Sprint("x", i), 200)
			c.end()
		})
	}
	wg.Wait()
	c := k.begin("last", "red")
	for range 20 {
		c.ask("hello")
		c.commit("hello")
	}
	if n, w := k.harvested("decision", "red"), waiting(t, store); n != 4*240 || w != 0 {
		t.Errorf("harvested %d, %d records wait", n, w)
	}
}

// picky takes some of what it is given and then fails.
type picky struct {
	layers.KnowledgeStore
	take int
}

func (p *picky) Harvest(ctx context.Context, list []layers.Happening) (int, error) {
	if p.take >= len(list) {
		return p.KnowledgeStore.Harvest(ctx, list)
	}
	taken, err := p.KnowledgeStore.Harvest(ctx, list[:p.take])
	return taken, errors.Join(err, errors.New("the disk is full"))
}

// What an error has cut short is carried over, and an error that leaves nothing
// to do is in the report.
func TestHarvestFails(t *testing.T) {
	store := openMem(t)
	k := know(t, store, nil)
	p := &picky{k.s, 3}
	k.m = remember(t, store, layers.Knowledge(p, nil)...)
	c := k.begin("t1", "red")
	c.act("a", 10) // 12
	if n, w := k.harvested("decision", "red"), waiting(t, store); n != 3 || w != 1 {
		t.Errorf("harvested %d, %d records wait", n, w)
	}
	p.take = 0
	c.ask("hello")
	c.commit("hello")
	if rep := c.run.Report(); !strings.Contains(fmt.Sprint(rep), "the disk is full") {
		t.Errorf("the report does not say it: %+v", rep)
	}
	p.take = 1000
	c.ask("hello")
	c.commit("hello")
	if n, w := k.harvested("decision", "red"), waiting(t, store); n != 12 || w != 0 {
		t.Errorf("harvested %d, %d records wait", n, w)
	}
}
