package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stratamem/strata/storage"
)

const storageSuite = "storage"

// StorageEngines are the engines that [Storage] measures.
var StorageEngines = []string{"bolt", "badger", "vault", "mem"}

// StorageOptions configures [Storage]. The zero value means the documented
// defaults.
type StorageOptions struct {
	Engines  []string      // some of StorageEngines; nil means all
	Sizes    []int         // documents in the store; nil means 10,000 and 100,000
	Dir      string        // where stores are created and removed; "" means the system's directory for temporary files
	Round    time.Duration // how long one side is measured before the other; 0 means 150 ms
	Rounds   int           // of each; 0 means 8
	Progress func(string)  // called with the name of each case as it begins; may be nil
}

// Storage measures each engine and, in the same run, direct use of what it is
// built on: bbolt, badger, and for the vault a temporary file, fsync, rename
// and fsync of the directory for each document. Documents have about 1 KiB,
// random keys, and the five fields that package soma declares.
//
// Both sides are measured in short alternating rounds, so that other work of
// the machine affects both alike. Cases are ENGINE/OP/WRITERS/N, with the
// metrics p50 and p99 in µs, rate in calls per second, and ratio; those of the
// other side are ENGINE-direct/…. The ratio is the median over the rounds: for
// writes, the rate divided by that of direct use (more is better), and for
// everything else the time divided by that of direct use (less is better).
//
//	set           one new document, durable (Full) when the call returns
//	set-indexed   the same with five declared fields; its ratio is to set
//	set-process   the same without a sync (Process); its ratio is to set
//	apply10       ten new documents in one batch
//	get           one document
//	list1000      1,000 keys
//	scan1000      1,000 documents in key order
//	find1000      1,000 documents by a declared field; its ratio is to the direct scan
//	open          of a store that was closed, its files in memory; metric heap:
//	              bytes that it keeps in the heap
//	rebuild       open of a vault that has lost its index
//	disk          metric size: bytes on disk for each document
//	disk-indexed  the same with five declared fields
//
// set with one writer also has the metric written: bytes that the disk wrote
// per document, over some hundred consecutive documents; anything else written
// to the disk counts too. It is missing if the system does not reveal it.
func Storage(ctx context.Context, opts *StorageOptions) (*Report, error) {
	o := StorageOptions{}
	if opts != nil {
		o = *opts
	}
	if len(o.Engines) == 0 {
		o.Engines = StorageEngines
	}
	if len(o.Sizes) == 0 {
		o.Sizes = []int{10_000, 100_000}
	}
	if o.Round <= 0 {
		o.Round = 150 * time.Millisecond
	}
	if o.Rounds <= 0 {
		o.Rounds = 8
	}
	for _, e := range o.Engines {
		if !slices.Contains(StorageEngines, e) {
			return nil, fmt.Errorf("bench storage: engine %q is not known: use some of %s", e, strings.Join(StorageEngines, ", "))
		}
	}
	for _, n := range o.Sizes {
		if n < 1000 {
			return nil, fmt.Errorf("bench storage: a store of %d documents is too small: use 1000 or more", n)
		}
	}
	r := NewReport(storageSuite)
	for _, n := range o.Sizes {
		for _, e := range o.Engines {
			c := &contest{o: &o, r: r, engine: e, n: n}
			if err := c.run(ctx); err != nil {
				return nil, fmt.Errorf("bench storage: %s: %w", e, err)
			}
		}
	}
	return r, nil
}

// contest is one engine and its direct use, at one size.
type contest struct {
	o      *StorageOptions
	r      *Report
	engine string
	n      int
	dir    string
	// The sides, each with a store of its own.
	plain, indexed, direct *side
}

// side is a store being measured.
type side struct {
	name string
	dir  string
	open func(ctx context.Context, level storage.Durability) (database, error)
	db   database
	next atomic.Int64 // the next document to be made
}

func (c *contest) run(ctx context.Context) (err error) {
	if c.dir, err = os.MkdirTemp(c.o.Dir, "strata-bench-"); err != nil {
		return err
	}
	defer func() {
		for _, s := range []*side{c.plain, c.indexed, c.direct} {
			if s != nil && s.db != nil {
				err = errors.Join(err, s.db.close())
			}
		}
		err = errors.Join(err, os.RemoveAll(c.dir))
	}()
	if err := c.fill(ctx); err != nil {
		return err
	}
	for _, f := range []func(context.Context) error{c.opening, c.reads, c.writes} {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}

// fill creates the stores with their documents, closes them to see their size,
// and opens them for measuring.
func (c *contest) fill(ctx context.Context) error {
	c.say("fill")
	c.plain, c.indexed = c.side(c.engine, "plain"), c.side(c.engine, "indexed")
	sides := []*side{c.plain, c.indexed}
	if c.engine != "mem" {
		s := &side{name: c.engine + "-direct", dir: filepath.Join(c.dir, "direct")}
		s.open = func(_ context.Context, level storage.Durability) (database, error) {
			return openDirect(c.engine, s.dir, level == storage.Full)
		}
		c.direct = s
		sides = append(sides, s)
	}
	for _, s := range sides {
		if err := c.fillSide(ctx, s); err != nil {
			return err
		}
		if s == c.indexed {
			if err := storage.EnsureIndex(ctx, s.db.(*engine).a, benchFields...); err != nil {
				return err
			}
		}
	}
	return nil
}

// side returns a store of the engine.
func (c *contest) side(name, dir string) *side {
	s := &side{name: name, dir: filepath.Join(c.dir, dir)}
	s.open = func(ctx context.Context, level storage.Durability) (database, error) {
		return openEngine(ctx, c.engine, s.dir, level)
	}
	return s
}

func (c *contest) fillSide(ctx context.Context, s *side) (err error) {
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		return err
	}
	if s.db, err = s.open(ctx, storage.None); err != nil {
		return err
	}
	for s.next.Load() < int64(c.n) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.db.set(ctx, s.make(min(1000, c.n-int(s.next.Load())), c.teams())); err != nil {
			return err
		}
	}
	if c.engine == "mem" {
		return nil
	}
	return c.reopen(ctx, s, storage.Full)
}

// reopen closes a store and opens it again.
func (c *contest) reopen(ctx context.Context, s *side, level storage.Durability) error {
	err := s.db.close()
	s.db = nil
	if err != nil {
		return err
	}
	s.db, err = s.open(ctx, level)
	return err
}

// make returns the next n documents.
func (s *side) make(n, teams int) []storage.Entry {
	docs := make([]storage.Entry, n)
	first := int(s.next.Add(int64(n))) - n
	for i := range docs {
		docs[i] = document(first+i, teams)
	}
	return docs
}

// teams is the number of teams, chosen so that each has 1,000 documents.
func (c *contest) teams() int { return c.n / 1000 }

// reads measures what changes nothing, before documents are added.
func (c *contest) reads(ctx context.Context) error {
	get := func(s *side) func(context.Context, int) error {
		return func(ctx context.Context, i int) error { return s.db.get(ctx, documentKey(i*7919%c.n)) }
	}
	for _, readers := range []int{1, 16} {
		if err := c.compare(ctx, "get", readers, false, c.plain, get(c.plain), c.direct, get(c.direct)); err != nil {
			return err
		}
	}
	list := func(s *side) func(context.Context, int) error {
		return func(ctx context.Context, _ int) error { return want(s.db.list(ctx, 1000)) }
	}
	if err := c.compare(ctx, "list1000", 1, false, c.plain, list(c.plain), c.direct, list(c.direct)); err != nil {
		return err
	}
	// From below the middle of the keys, so that 1,000 follow.
	scan := func(s *side) func(context.Context, int) error {
		return func(ctx context.Context, i int) error {
			from := ""
			if c.n >= 10_000 {
				from = fmt.Sprintf("doc/%x", i%8)
			}
			return want(s.db.scan(ctx, from, 1000))
		}
	}
	if err := c.compare(ctx, "scan1000", 1, false, c.plain, scan(c.plain), c.direct, scan(c.direct)); err != nil {
		return err
	}
	find := func(ctx context.Context, i int) error {
		return want(c.indexed.db.(*engine).find(ctx, teamOf(i, c.teams())))
	}
	return c.compare(ctx, "find1000", 1, false, c.indexed, find, c.direct, scan(c.direct))
}

func want(n int, err error) error {
	if err == nil && n < 1000 {
		err = fmt.Errorf("%d results, want 1000", n)
	}
	return err
}

// writes measures what adds documents.
func (c *contest) writes(ctx context.Context) error {
	set := func(s *side, n int) func(context.Context, int) error {
		return func(ctx context.Context, _ int) error { return s.db.set(ctx, s.make(n, c.teams())) }
	}
	for _, writers := range []int{1, 16} {
		for _, f := range []func() error{
			func() error {
				return c.compare(ctx, "set", writers, true, c.plain, set(c.plain, 1), c.direct, set(c.direct, 1))
			},
			func() error {
				return c.compare(ctx, "set-indexed", writers, true, c.indexed, set(c.indexed, 1), c.plain, set(c.plain, 1))
			},
			func() error {
				return c.compare(ctx, "apply10", writers, true, c.plain, set(c.plain, 10), c.direct, set(c.direct, 10))
			},
		} {
			if err := f(); err != nil {
				return err
			}
		}
	}
	if c.engine == "mem" {
		return nil
	}
	if err := c.flushed(ctx); err != nil {
		return err
	}
	return c.unsynced(ctx, set)
}

// unsynced measures writes that survive a kill, but not a power loss. The store
// with indexes is replaced by one of that kind.
func (c *contest) unsynced(ctx context.Context, set func(*side, int) func(context.Context, int) error) error {
	err := c.indexed.db.close()
	c.indexed.db = nil
	if err != nil {
		return err
	}
	s := c.side(c.engine, "process")
	c.indexed = s
	if err := c.fillSide(ctx, s); err != nil {
		return err
	}
	if err := c.reopen(ctx, s, storage.Process); err != nil {
		return err
	}
	for _, writers := range []int{1, 16} {
		if err := c.compare(ctx, "set-process", writers, true, s, set(s, 1), c.plain, set(c.plain, 1)); err != nil {
			return err
		}
	}
	return nil
}

// opening measures the time to open a store, and the memory that it takes.
func (c *contest) opening(ctx context.Context) error {
	if c.engine == "mem" {
		return nil
	}
	c.say("open")
	const times = 5
	took := func(s *side) (all []time.Duration, heap float64, err error) {
		for range times {
			if err := s.db.close(); err != nil {
				return nil, 0, err
			}
			s.db = nil
			before := heapSize()
			began := time.Now()
			if s.db, err = s.open(ctx, storage.Full); err != nil {
				return nil, 0, err
			}
			all = append(all, time.Since(began))
			heap = max(0, heapSize()-before)
		}
		slices.Sort(all)
		return all, heap, nil
	}
	mine, heap, err := took(c.plain)
	if err != nil {
		return err
	}
	other, otherHeap, err := took(c.direct)
	if err != nil {
		return err
	}
	name := c.name(c.plain.name, "open", 1)
	c.r.add(name, "p50", micros(mine[times/2]), "µs")
	c.r.add(name, "heap", heap, "B")
	if c.engine != "vault" { // files need no opening
		direct := c.name(c.direct.name, "open", 1)
		c.r.add(name, "ratio", float64(mine[times/2])/float64(other[times/2]), "×")
		c.r.add(direct, "p50", micros(other[times/2]), "µs")
		c.r.add(direct, "heap", otherHeap, "B")
	} else if err := c.rebuild(ctx); err != nil {
		return err
	}
	return c.sizes()
}

// rebuild measures the open of a vault without an index.
func (c *contest) rebuild(ctx context.Context) error {
	err := c.plain.db.close()
	c.plain.db = nil
	if err == nil {
		err = os.Remove(filepath.Join(c.plain.dir, "_index.json"))
	}
	if err != nil {
		return err
	}
	began := time.Now()
	c.plain.db, err = c.plain.open(ctx, storage.Full)
	c.r.add(c.name("vault", "rebuild", 1), "p50", micros(time.Since(began)), "µs")
	return err
}

// sizes reports the sizes of the stores on disk.
func (c *contest) sizes() error {
	base := 0.0
	for _, s := range []*side{c.direct, c.plain, c.indexed} {
		size, err := diskSize(s.dir)
		if err != nil {
			return err
		}
		name := c.name(s.name, "disk", 1)
		if s == c.indexed {
			name = c.name(c.engine, "disk-indexed", 1)
		}
		c.r.add(name, "size", float64(size)/float64(c.n), "B")
		if s == c.direct {
			base = float64(size)
		} else {
			c.r.add(name, "ratio", float64(size)/base, "×")
		}
	}
	return nil
}

// diskSize returns the size of the files below a directory.
func diskSize(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			size += allocated(info)
		}
		return err
	})
	return size, err
}

func heapSize() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// flushed reports how many bytes the device writes for each document that is
// set individually.
func (c *contest) flushed(ctx context.Context) error {
	sets := 64 * c.o.Rounds
	for _, s := range []*side{c.plain, c.direct} {
		if s == nil {
			continue
		}
		flush()
		before, ok := deviceWrites(s.dir)
		for range sets {
			if err := s.db.set(ctx, s.make(1, c.teams())); err != nil {
				return err
			}
		}
		flush()
		if after, _ := deviceWrites(s.dir); ok {
			c.r.add(c.name(s.name, "set", 1), "written", float64(after-before)/float64(sets), "B")
		}
	}
	return nil
}

func (c *contest) name(side, op string, writers int) string {
	return fmt.Sprintf("%s/%s/%d/%d", side, op, writers, c.n)
}

func (c *contest) say(op string) {
	if c.o.Progress != nil {
		c.o.Progress(fmt.Sprintf("%s/%s/%d", c.engine, op, c.n))
	}
}
