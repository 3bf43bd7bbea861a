package bench

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// lane is one side of a comparison.
type lane struct {
	op    func(ctx context.Context, i int) error
	i     atomic.Int64    // calls begun
	lat   []time.Duration // of all calls in the rounds that count
	rates []float64       // calls per second, of each round
}

// compare measures an operation of two sides in alternating rounds, after one
// that does not count. The ratio is that of rates, or of times. There may be
// only one side.
func (c *contest) compare(ctx context.Context, op string, workers int, rates bool, mine *side, f func(context.Context, int) error,
	other *side, g func(context.Context, int) error,
) error {
	c.say(op)
	a, b := &lane{op: f}, &lane{op: g}
	lanes := []*lane{a, b}
	if other == nil {
		lanes = lanes[:1]
	}
	runtime.GC()
	if rates && c.engine != "mem" {
		flush() // earlier writes must not slow down this round
	}
	for round := -1; round < c.o.Rounds; round++ {
		for _, l := range lanes {
			if err := l.round(ctx, workers, c.o.Round, round >= 0); err != nil {
				return err
			}
		}
		slices.Reverse(lanes)
	}
	name := c.name(mine.name, op, workers)
	a.report(c.r, name)
	if other == nil {
		return nil
	}
	ratios := make([]float64, len(a.rates))
	for i := range ratios {
		if ratios[i] = a.rates[i] / b.rates[i]; !rates {
			ratios[i] = 1 / ratios[i]
		}
	}
	slices.Sort(ratios)
	c.r.add(name, "ratio", ratios[len(ratios)/2], "×")
	if other == c.direct && op != "find1000" {
		b.report(c.r, c.name(other.name, op, workers))
	}
	return nil
}

func (l *lane) report(r *Report, name string) {
	slices.Sort(l.lat)
	slices.Sort(l.rates)
	r.add(name, "p50", micros(l.lat[len(l.lat)/2]), "µs")
	r.add(name, "p99", micros(l.lat[len(l.lat)*99/100]), "µs")
	r.add(name, "rate", l.rates[len(l.rates)/2], "1/s")
}

// round lets workers call the operation for some time, each at least once.
func (l *lane) round(ctx context.Context, workers int, d time.Duration, counts bool) error {
	lats := make([][]time.Duration, workers)
	errs := make([]error, workers)
	began := time.Now()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for {
				start := time.Now()
				errs[w] = l.op(ctx, int(l.i.Add(1)))
				end := time.Now()
				lats[w] = append(lats[w], end.Sub(start))
				if errs[w] == nil {
					errs[w] = ctx.Err()
				}
				if errs[w] != nil || end.Sub(began) >= d {
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	if !counts {
		return errors.Join(errs...)
	}
	calls := 0
	for _, lat := range lats {
		calls += len(lat)
		l.lat = append(l.lat, lat...)
	}
	l.rates = append(l.rates, float64(calls)/took.Seconds())
	return errors.Join(errs...)
}
