package memory_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// What a store under the scheduler answers when it does not do as it was asked.
var (
	errIO      = errors.New("the disk said no")
	errAnswer  = errors.New("the connection went away")
	errCrashed = errors.New("the process is dead")
	errOver    = errors.New("the seed is over")
)

// weights say how often, of a thousand operations, something goes wrong.
type weights struct {
	name     string
	conflict int // a write: a conflict that is none
	lost     int // a write: done, and an error comes back
	lostRace int // a write: done, and a conflict comes back, as of an engine that tried again by itself
	fail     int // a write: not done, an error
	read     int // a read: an error
	stall    int // nothing until the context ends
	cancel   int // the caller's context ends
	crash    int // a write: the process dies, before or after it
	outside  int // before a write: somebody else changes a state, or writes one or a head again
	calls    int // a call has a context that ends by itself
	storm    bool
}

var profiles = []weights{
	{name: "calm"},
	{name: "conflicts", conflict: 120, outside: 200},
	{name: "errors", fail: 120, read: 15, outside: 150, conflict: 50},
	{name: "contexts", stall: 30, cancel: 40, outside: 100, calls: 150},
	{name: "answers", lost: 150, lostRace: 60, outside: 80},
	{name: "crashes", crash: 60, outside: 60, lost: 30},
	{name: "storm", conflict: 300, outside: 300, fail: 20, storm: true},
	{name: "all", conflict: 60, lost: 60, lostRace: 30, fail: 60, read: 8, stall: 10, cancel: 15, crash: 15, outside: 120, calls: 60},
}

// scheduler lets exactly one operation of the store go at a time, and decides
// what comes of it: one seed is one interleaving.
type scheduler struct {
	world   *world
	inner   *mem.Store
	rng     *rand.Rand
	w       weights
	mute    bool // the engine never says which version a write made
	threads int
	alone   bool // there is one process

	live   atomic.Int64 // goroutines of the actors
	mu     sync.Mutex
	parked []*request
	last   string // who went last
	victim string // of a storm
}

// request is an operation that waits to be let go.
type request struct {
	ctx  context.Context
	call *call
	p    *process
	what string
	key  string
	ops  []storage.Op
	done chan error
}

func (r *request) order() string { return r.call.who + " " + r.what + " " + r.key }

var errStall = errors.New("stall")

// ask waits until the scheduler lets an operation go. A nil error says that a
// read may be made, or that a write was.
func (s *scheduler) ask(ctx context.Context, p *process, what, key string, ops []storage.Op) error {
	r := &request{ctx: ctx, call: callOf(ctx), p: p, what: what, key: key, ops: ops, done: make(chan error, 1)}
	s.mu.Lock()
	s.parked = append(s.parked, r)
	s.mu.Unlock()
	err := <-r.done
	if err == errStall {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

// run lets operations go until all actors are done.
func (s *scheduler) run() {
	idle := time.Duration(0)
	for {
		synctest.Wait()
		s.mu.Lock()
		n := len(s.parked)
		s.mu.Unlock()
		if n == 0 {
			if s.live.Load() == 0 {
				return
			}
			// Somebody waits for a time: a pause between tries, or a timeout.
			// The random pauses are all shorter than this, so that they do not
			// decide who comes first.
			time.Sleep(max(60*time.Millisecond, idle/4))
			if idle += max(60*time.Millisecond, idle/4); idle > time.Hour {
				panic(s.world.report(errors.New("deadlock: nobody has asked the store for an hour")))
			}
			continue
		}
		idle = 0
		if s.rng.IntN(25) == 0 {
			time.Sleep(60 * time.Millisecond)
			continue
		}
		s.step(s.pick())
	}
}

// pick takes the request that goes next: often one of who went last, so that
// actors also get far without the others.
func (s *scheduler) pick() *request {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.parked, func(a, b *request) int { return cmp.Compare(a.order(), b.order()) })
	i := s.rng.IntN(len(s.parked))
	if same := slices.IndexFunc(s.parked, func(r *request) bool { return r.call.who == s.last }); same >= 0 && s.rng.IntN(2) == 0 {
		i = same
	}
	r := s.parked[i]
	s.parked = slices.Delete(s.parked, i, i+1)
	s.last = r.call.who
	return r
}

// step decides what comes of a request.
func (s *scheduler) step(r *request) {
	if s.world.failed() {
		r.done <- errOver
		return
	}
	if r.p.dead.Load() {
		r.done <- errCrashed
		return
	}
	if r.what == "" {
		r.done <- nil
		return
	}
	if r.ops == nil {
		how, err := s.read(r)
		s.world.saw(r, how)
		r.done <- err
		return
	}
	if s.hit(s.w.outside) && !r.p.calm {
		s.outside(r)
	}
	how, err := s.write(r)
	s.world.saw(r, how)
	if r.p.dead.Load() {
		s.world.crashed(r.p)
	}
	r.done <- err
}

func (s *scheduler) hit(weight int) bool { return weight > 0 && s.rng.IntN(1000) < weight }

func (s *scheduler) read(r *request) (how string, err error) {
	switch {
	case r.ctx.Err() != nil:
		return "context", r.ctx.Err()
	case r.p.calm:
	case s.hit(s.w.read):
		return "fails", errIO
	case s.hit(s.w.stall / 3):
		return s.stall(r)
	case s.hit(s.w.cancel / 3):
		r.call.cancel()
		if r.ctx.Err() != nil {
			return "cancelled", r.ctx.Err()
		}
	}
	return "", nil
}

// stall answers when the context ends; one that does not end by itself is ended.
func (s *scheduler) stall(r *request) (string, error) {
	if _, ok := r.ctx.Deadline(); ok {
		return "stalls", errStall
	}
	r.call.cancel()
	if r.ctx.Err() != nil {
		return "cancelled", r.ctx.Err()
	}
	return "fails", errIO
}

func (s *scheduler) write(r *request) (how string, err error) {
	if r.ctx.Err() != nil {
		return "context", r.ctx.Err()
	}
	if r.p.calm {
		return s.apply(r)
	}
	if s.w.storm && s.victim == "" && s.rng.IntN(6) == 0 {
		s.victim = r.call.who
	}
	conflict := s.w.conflict
	if s.w.storm && r.call.who != s.victim {
		conflict = 0
	}
	switch {
	case s.hit(conflict):
		if s.w.storm && s.rng.IntN(20) == 0 {
			s.victim = ""
		}
		return "conflict of nobody", &storage.ConflictError{Key: r.ops[s.rng.IntN(len(r.ops))].Key}
	case s.hit(s.w.lost):
		if how, err := s.apply(r); err != nil {
			return how, err
		}
		return "done, answer lost", errAnswer
	case s.hit(s.w.lostRace):
		if how, err := s.apply(r); err != nil {
			return how, err
		}
		s.world.deny(r.ops)
		return "done, conflict answered", &storage.ConflictError{Key: r.ops[0].Key}
	case s.hit(s.w.fail):
		return "fails", errIO
	case s.hit(s.w.stall):
		return s.stall(r)
	case s.hit(s.w.cancel):
		r.call.cancel()
		if r.ctx.Err() != nil {
			return "cancelled", r.ctx.Err()
		}
	case s.hit(s.w.crash) && s.world.mayCrash():
		how = "crash before"
		if s.rng.IntN(2) == 0 {
			how, _ = s.apply(r)
			how = "crash after: " + how
		}
		r.p.dead.Store(true)
		return how, errCrashed
	}
	return s.apply(r)
}

// apply makes a batch and tells the model.
func (s *scheduler) apply(r *request) (how string, err error) {
	ops := r.ops
	if s.mute {
		ops = slices.Clone(ops)
		for i := range ops {
			ops[i].Made = nil
		}
	}
	if err := s.inner.Apply(context.Background(), ops...); err != nil {
		if errors.Is(err, storage.ErrConflict) {
			// A thread that forgets turns does not queue for the children below them.
			if s.alone && s.w.name == "calm" && s.world.keep == 0 {
				s.world.mu.Lock()
				s.world.wrong("a run of the one Memory met a conflict: %v", err)
				s.world.mu.Unlock()
			}
			return "conflict: " + err.Error(), err
		}
		return err.Error(), err
	}
	s.world.applied(r.call, r.ops)
	return "done", nil
}

// outside has somebody else write: what another program does to a key that the
// request is about, or what a restored backup does to a head.
func (s *scheduler) outside(r *request) {
	var keys []string
	for i := range r.ops {
		key := r.ops[i].Key
		if strings.HasSuffix(key, "/state") && !strings.Contains(key, "/execution/") || strings.HasSuffix(key, "/head") && !strings.Contains(key, "/runs/") {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return
	}
	key := keys[s.rng.IntN(len(keys))]
	raw, _, err := s.inner.Get(context.Background(), key)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		panic(err)
	}
	token := ""
	ops := []storage.Op{storage.Put(key, raw)}
	switch {
	case strings.HasSuffix(key, "/state") && s.rng.IntN(3) > 0:
		token, ops = s.world.intrude(key)
	case raw == nil:
		return
	}
	if err := s.inner.Apply(context.Background(), ops...); err != nil {
		panic(err)
	}
	s.world.intruded(key, token)
}

// process is a program with a memory over the shared store.
type process struct {
	s    *scheduler
	name string
	calm bool // nothing goes wrong for it
	dead atomic.Bool
	live atomic.Int64 // its actors
}

// Get implements storage.Adapter, as do the others.
func (p *process) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	if err := p.s.ask(ctx, p, "get", key, nil); err != nil {
		return nil, "", err
	}
	return p.s.inner.Get(context.Background(), key)
}

func (p *process) Apply(ctx context.Context, ops ...storage.Op) error {
	return p.s.ask(ctx, p, "apply", ops[0].Key, ops)
}

func (p *process) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := p.s.ask(ctx, p, "list", prefix, nil); err != nil {
			yield("", err)
			return
		}
		for key, err := range p.s.inner.List(context.Background(), prefix) {
			if !yield(key, err) {
				return
			}
		}
	}
}

func (p *process) Scan(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		if err := p.s.ask(ctx, p, "scan", prefix, nil); err != nil {
			yield(storage.Entry{}, err)
			return
		}
		for e, err := range p.s.inner.Scan(context.Background(), prefix, opts) {
			if !yield(e, err) {
				return
			}
		}
	}
}

func (p *process) Close() error { return nil }

// call is one call of an actor into a memory. It travels in the context, down to
// the store.
type call struct {
	who     string
	kind    string
	runs    []string // that a batch of the call may be about
	started int      // when, by the world's count
	cancel  func()
	token   string     // that a tool asked for
	over    bool       // the run had ended before
	parent  *execution // of what a spawn begins
}

type callKey struct{}

func callOf(ctx context.Context) *call {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		panic(fmt.Sprint("an operation of the store has a context of nobody: ", ctx))
	}
	return c
}
