package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// lifeBudget is the tokens of a prompt and its answer.
const lifeBudget = 32_000

// markTurns is the number of turns in a window: figures are those of the turns
// since the previous mark.
const markTurns = 1000

// life is a person's threads, played one after another with the ready-made
// layers over one store.
type life struct {
	name   string // of the case, without the number of turns
	engine string
	script script
	turns  int
	mark   int
	dir    string // where the store is created; "" means the directory for temporary files
	r      *Report

	store    *meter
	path     string // of the store
	memory   *memory.Memory
	run      *memory.Run
	thread   string
	now      time.Time // of the turn being played
	empty    float64   // heap of the process with the empty store
	played   int
	text     int // bytes of everything said
	w        window
	usageAt  usage // usage when the window's measurement continued
	writesAt int64
}

// window is what was measured since the last mark.
type window struct {
	project, commit []time.Duration
	begin, end      time.Duration
	threads         int
	hooks           map[part]time.Duration // by layer, and project or commit
	spent           usage
}

// readyLayers returns the layers that people use, with their defaults.
func readyLayers() []memory.Layer {
	return []memory.Layer{
		layers.WorkingMemory(nil), layers.Entity(nil), layers.Observations(nil), layers.Episodic(nil), layers.SemanticRecall(nil),
	}
}

func (l *life) play(ctx context.Context) (err error) {
	if l.path, err = os.MkdirTemp(l.dir, "strata-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.path)) }()
	e, err := openEngine(ctx, l.engine, l.path, storage.Process)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	able, ok := e.a.(capable)
	if !ok {
		return fmt.Errorf("engine %s lacks a capability", l.engine)
	}
	l.store = &meter{capable: able}
	l.empty = heapSize()
	l.now = time.Date(2025, 1, 6, 9, 0, 0, 0, time.UTC)
	if l.memory, err = memory.New(l.store, readyLayers(), &memory.Options{
		Policy: projection.Policy{Budget: lifeBudget}, Clock: func() time.Time { return l.now },
	}); err != nil {
		return err
	}
	l.reset()
	for c := range l.script {
		if err := l.chapter(ctx, &c); err != nil {
			return fmt.Errorf("turn %d: %w", l.played, err)
		}
		if l.played == l.turns {
			break
		}
	}
	if l.played < l.turns {
		return errors.New("the data has no turns: name a file in which somebody says something")
	}
	return errors.Join(l.close(ctx), l.memory.Close(ctx))
}

// chapter plays turns of a thread, continuing the current one if it is the
// same.
func (l *life) chapter(ctx context.Context, c *chapter) error {
	l.usageAt = readUsage() // without the cost of generating the chapter
	if l.run == nil || l.thread != c.thread {
		if err := l.open(ctx, c.thread); err != nil {
			return err
		}
	}
	for i := range c.turns {
		if err := l.turn(ctx, &c.turns[i]); err != nil {
			return err
		}
		if l.played%l.mark == 0 || l.played == l.turns {
			l.w.spent.add(readUsage().since(l.usageAt))
			if err := l.measure(ctx); err != nil {
				return err
			}
			l.reset()
		}
		if l.played == l.turns {
			return nil
		}
	}
	l.w.spent.add(readUsage().since(l.usageAt))
	return nil
}

// open ends the current thread and begins the next, a day later.
func (l *life) open(ctx context.Context, thread string) error {
	if err := l.close(ctx); err != nil {
		return err
	}
	l.now = l.now.Add(24 * time.Hour)
	began := time.Now()
	run, err := l.memory.Begin(ctx, memory.Identity{Thread: thread, Resource: "anna"})
	if err != nil {
		return err
	}
	l.w.begin += time.Since(began)
	l.w.threads++
	l.run, l.thread = run, thread
	return nil
}

func (l *life) close(ctx context.Context) error {
	if l.run == nil {
		return nil
	}
	began := time.Now()
	err := l.run.End(ctx, memory.Success)
	l.w.end += time.Since(began)
	l.run = nil
	return err
}

func (l *life) turn(ctx context.Context, x *exchange) error {
	l.now = l.now.Add(time.Minute)
	began := time.Now()
	if _, err := l.run.Project(ctx, x.input...); err != nil {
		return err
	}
	projected := time.Now()
	if err := l.run.Commit(ctx, memory.Response{Items: x.output}); err != nil {
		return err
	}
	l.w.commit = append(l.w.commit, time.Since(projected))
	l.w.project = append(l.w.project, projected.Sub(began))
	for _, h := range l.run.Report().Hooks {
		if h.Status != memory.StatusOK {
			return fmt.Errorf("%s of layer %s: %s", h.Hook, h.Layer, h.Error)
		}
		switch h.Hook {
		case "append", "recall":
			l.w.hooks[part{h.Layer, "project"}] += h.Took
		case "store":
			l.w.hooks[part{h.Layer, "commit"}] += h.Took
		}
	}
	l.played++
	l.text += x.bytes()
	return nil
}

// reset begins a window.
func (l *life) reset() {
	l.w = window{hooks: make(map[part]time.Duration)}
	l.store.take()
	l.writesAt, _ = writeCalls()
	l.usageAt = readUsage()
}

// measure reports the window that ends with the last turn.
func (l *life) measure(ctx context.Context) error {
	// First what measuring itself increases.
	writes, tells := writeCalls()
	wrote := l.store.take()
	heap := heapSize() - l.empty
	size, err := l.size(ctx, &heap)
	if err != nil {
		return err
	}
	w := &l.w
	n := float64(len(w.project))
	name := fmt.Sprint(l.name, "/", l.played)
	project, commit := sum(w.project), sum(w.commit)
	for _, p := range []struct {
		phase string
		times []time.Duration
	}{{"project", w.project}, {"commit", w.commit}} {
		slices.Sort(p.times)
		l.r.add(name, p.phase+"_p50", micros(p.times[len(p.times)/2]), "µs")
		l.r.add(name, p.phase+"_p99", micros(p.times[len(p.times)*99/100]), "µs")
	}
	l.r.add(name, "applied", float64(wrote.total())/n, "B")
	if tells {
		l.r.add(name, "wchar", float64(writes-l.writesAt)/n, "B")
	}
	l.r.add(name, "file_ratio", size/float64(l.text), "×")
	l.r.add(name, "heap", max(0, heap), "B")
	l.r.add(name, "text", float64(l.text)/float64(l.played), "B")
	l.r.add(name, "ops", float64(wrote.ops)/n, "")
	l.r.add(name, "cpu", micros(w.spent.cpu)/n, "µs")
	l.r.add(name, "allocs", float64(w.spent.mallocs)/n, "allocs")
	l.r.add(name, "bytes", float64(w.spent.bytes)/n, "B")
	if w.threads > 0 {
		l.r.add(name, "begin", micros(w.begin)/float64(w.threads), "µs")
		l.r.add(name, "end", micros(w.end)/float64(w.threads), "µs")
	}
	l.shares(name, project, commit, wrote, n)
	return nil
}

// shares reports each layer's share of the time of Project and Commit, and of
// the bytes. Hooks run concurrently, so that the shares may exceed the whole.
func (l *life) shares(name string, project, commit time.Duration, wrote applied, n float64) {
	owners := make(map[string]bool)
	for p := range wrote.bytes {
		owners[p.of] = true
	}
	for p := range l.w.hooks {
		owners[p.of] = true
	}
	for _, of := range slices.Sorted(maps.Keys(owners)) {
		row := name + "/" + of
		if took, ok := l.w.hooks[part{of, "project"}]; ok {
			l.r.add(row, "project", float64(took)/float64(project), "")
		}
		if took, ok := l.w.hooks[part{of, "commit"}]; ok {
			l.r.add(row, "commit", float64(took)/float64(commit), "")
		}
		for _, kind := range []string{"state", "records"} {
			if b, ok := wrote.bytes[part{of, kind}]; ok {
				l.r.add(row, kind, float64(b)/n, "B")
			}
		}
	}
}

// size returns the size of the store: on disk, or of keys and values for one in
// memory, whose share of the heap, measured with a copy, is subtracted.
func (l *life) size(ctx context.Context, heap *float64) (float64, error) {
	if l.engine != "mem" {
		n, err := diskSize(l.path)
		return float64(n), err
	}
	before := heapSize()
	twin := mem.New()
	var held float64
	var ops []storage.Op
	for e, err := range l.store.Scan(ctx, "", nil) {
		if err != nil {
			return 0, err
		}
		held += float64(len(e.Key) + len(e.Value))
		// A store keeps the key that it is given, which is now that of the first.
		if ops = append(ops, storage.Put(strings.Clone(e.Key), e.Value)); len(ops) == 100 {
			if err := twin.Apply(ctx, ops...); err != nil {
				return 0, err
			}
			ops = nil
		}
	}
	if err := twin.Apply(ctx, ops...); err != nil {
		return 0, err
	}
	ops = nil
	*heap -= heapSize() - before
	return held, twin.Close()
}

func sum(times []time.Duration) (all time.Duration) {
	for _, t := range times {
		all += t
	}
	return all
}
