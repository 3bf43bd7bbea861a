package guard

import (
	"sync"
	"time"
)

// tiers are the rings in which a series keeps its counts, finest first. A ring
// of n buckets answers for the time of n-1 of them, the current one and the one
// in which the time begins being parts.
var tiers = [...]struct {
	width   time.Duration
	buckets int64
}{
	{time.Second, 61},
	{time.Minute, 61},
	{10 * time.Minute, 145},
}

const bucketsOfSeries = 61 + 61 + 145

// WindowOptions are the options of [NewWindow].
type WindowOptions struct {
	Now      func() time.Time // nil: time.Now
	Subjects int              // how many subjects are told apart; 0: 1024
}

// Window counts calls and their outcomes over the last 24 hours, in memory: a
// loop reports every call that it makes, and gives the window to [Guard.Check].
// It may be used by many goroutines at once, and by many runs.
//
// Counts are never too low. They reach back further than asked for by less than
// a second where that is up to a minute, by less than a minute up to an hour,
// and by less than ten minutes up to a day. A call is counted when it starts.
// Two loops that ask at the same moment see the same count; a limit can be
// passed by as many as that.
//
// A subject takes 6.4 KB. When there are more than Subjects, those of which
// nothing was heard for 24 hours are forgotten, and if there are none, all
// further ones are counted together, and each is told the sum.
type Window struct {
	now   func() time.Time
	limit int

	mu     sync.Mutex
	series map[Subject]*series
	shared *series // of the subjects past the limit; nil while there are none
}

// NewWindow returns an empty window.
func NewWindow(opts *WindowOptions) *Window {
	w := &Window{now: time.Now, limit: 1024, series: map[Subject]*series{}}
	if opts != nil {
		if opts.Now != nil {
			w.now = opts.Now
		}
		if opts.Subjects > 0 {
			w.limit = opts.Subjects
		}
	}
	return w
}

// outcome is what is told of a call.
type outcome int

const (
	begun outcome = iota
	succeeded
	failed
)

// Start counts a call that begins: among all, for its agent, its tool, its
// node, and for the agent with the tool, as far as the fields of call are not
// empty. The caller calls finish once, when the outcome is known; what it says
// after that counts for nothing.
func (w *Window) Start(call Subject) (finish func(failed bool)) {
	w.add(call, begun)
	var once sync.Once
	return func(bad bool) {
		once.Do(func() {
			if bad {
				w.add(call, failed)
			} else {
				w.add(call, succeeded)
			}
		})
	}
}

// Tally implements [Rates]. over is at most 24 hours; more is taken for that.
// A subject of a node with an agent or a tool is not counted, and zero.
func (w *Window) Tally(of Subject, over time.Duration) Tally {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.series[of]
	if s == nil && (of.Node == "" || of == Subject{Node: of.Node}) {
		s = w.shared
	}
	if s == nil {
		return Tally{}
	}
	return s.tally(w.now(), min(over, maxOver))
}

func (w *Window) add(call Subject, o outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	w.seriesOf(Subject{}, now).add(now, o)
	if call.Agent != "" {
		w.seriesOf(Subject{Agent: call.Agent}, now).add(now, o)
	}
	if call.Tool != "" {
		w.seriesOf(Subject{Tool: call.Tool}, now).add(now, o)
	}
	if call.Node != "" {
		w.seriesOf(Subject{Node: call.Node}, now).add(now, o)
	}
	if call.Agent != "" && call.Tool != "" {
		w.seriesOf(Subject{Agent: call.Agent, Tool: call.Tool}, now).add(now, o)
	}
}

// seriesOf returns the series of a subject. As long as some subjects are in
// the shared series no other is given one of its own: it could have been there
// before.
func (w *Window) seriesOf(of Subject, now time.Time) *series {
	if s, ok := w.series[of]; ok {
		return s
	}
	if w.shared != nil && w.shared.idle(now) {
		w.shared = nil
	}
	if w.shared == nil && len(w.series) >= w.limit {
		for k, s := range w.series {
			if s.idle(now) {
				delete(w.series, k)
			}
		}
		if len(w.series) >= w.limit {
			w.shared = new(series)
		}
	}
	if w.shared != nil {
		return w.shared
	}
	s := new(series)
	w.series[of] = s
	return s
}

// series counts the calls of one subject.
type series struct {
	buckets [bucketsOfSeries]bucket // the rings of tiers, one after the other
	streak  int
	last    time.Time
}

type bucket struct {
	turn                      int64 // its time divided by its width
	calls, finished, failures uint32
}

func (s *series) idle(now time.Time) bool { return now.Sub(s.last) > maxOver }

func (s *series) add(now time.Time, o outcome) {
	s.last = now
	switch o {
	case succeeded:
		s.streak = 0
	case failed:
		s.streak++
	}
	ring := s.buckets[:]
	for _, t := range tiers {
		turn := now.UnixNano() / int64(t.width)
		b := &ring[turn%t.buckets]
		if b.turn < turn { // else it is this turn's, or the clock was set back
			*b = bucket{turn: turn}
		}
		switch o {
		case begun:
			b.calls++
		case failed:
			b.failures++
			b.finished++
		case succeeded:
			b.finished++
		}
		ring = ring[t.buckets:]
	}
}

func (s *series) tally(now time.Time, over time.Duration) Tally {
	sum := Tally{Streak: s.streak}
	ring := s.buckets[:]
	for i, t := range tiers {
		if i < len(tiers)-1 && over > t.width*time.Duration(t.buckets-1) {
			ring = ring[t.buckets:]
			continue
		}
		from := now.Add(-over).UnixNano() / int64(t.width)
		for _, b := range ring[:t.buckets] {
			if b.turn >= from {
				sum.Calls += int(b.calls)
				sum.Finished += int(b.finished)
				sum.Failures += int(b.failures)
			}
		}
		break
	}
	return sum
}
