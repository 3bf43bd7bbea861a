package memory_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stratamem/strata/layers"
	"github.com/stratamem/strata/memory"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// noteState is a state of 1,200 characters.
type noteState struct {
	Turn int    `json:"turn"`
	Text string `json:"text"`
}

// noteLayers returns n layers that recall their state, of which the first
// changing ones change it at every turn.
func noteLayers(n, changing int) []memory.Layer {
	layers := make([]memory.Layer, n)
	for i := range layers {
		change := i < changing
		layers[i] = memory.Define(memory.Spec{ID: fmt.Sprintf("layer-%d", i), Slot: 100 + i}, memory.Hooks[noteState]{
			Init: func(context.Context, *memory.InitInput[noteState]) (noteState, error) {
				return noteState{Text: strings.Repeat(fmt.Sprintf("note %d. ", i), 150)[:1200]}, nil
			},
			Recall: func(_ context.Context, in *memory.RecallInput[noteState]) (memory.Recalled[noteState], error) {
				return memory.Recalled[noteState]{Text: in.State.Text}, nil
			},
			Store: func(_ context.Context, in *memory.StoreInput[noteState]) (memory.Change[noteState], error) {
				if !change {
					return memory.Change[noteState]{}, nil
				}
				return memory.Update(func(s noteState) noteState {
					s.Turn++
					s.Text = fmt.Sprintf("%06d", s.Turn) + s.Text[6:]
					return s
				}), nil
			},
		})
	}
	return layers
}

// BenchmarkTurn is one whole turn: a user item of 400 characters, five layers,
// the view, an answer of 400 characters, and the commit.
func BenchmarkTurn(b *testing.B) {
	for _, c := range []struct{ messages, layers, changing int }{
		{200, 5, 0}, {200, 5, 1}, {200, 5, 5}, {1000, 5, 1}, {5000, 5, 1}, {200, 50, 1},
	} {
		b.Run(fmt.Sprintf("messages=%d/layers=%d/changing=%d", c.messages, c.layers, c.changing), func(b *testing.B) {
			ctx := context.Background()
			m, err := memory.New(mem.New(), noteLayers(c.layers, c.changing), nil)
			if err != nil {
				b.Fatal(err)
			}
			run, err := m.Begin(ctx, memory.Identity{Thread: "t"})
			if err != nil {
				b.Fatal(err)
			}
			text := strings.Repeat("word ", 80)
			turn := func() {
				if _, err := run.Project(ctx, projection.Text(projection.User, text)); err != nil {
					b.Fatal(err)
				}
				if err := run.Commit(ctx, memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, text)}}); err != nil {
					b.Fatal(err)
				}
			}
			for range c.messages / 2 {
				turn()
			}
			b.ReportAllocs()
			took := make([]time.Duration, 0, 1<<20)
			for b.Loop() {
				began := time.Now()
				turn()
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
		})
	}
}

// BenchmarkContention compares the turns of 16 runs that all write one person's
// memory with those of one run: ratio is the rate of the 16 by the rate of the
// one, in the same process and interleaved.
func BenchmarkContention(b *testing.B) {
	const runs, turns = 16, 8
	for _, set := range []string{"counters", "ready"} {
		for _, engine := range engines {
			b.Run(set+"/"+engine, func(b *testing.B) {
				ctx := context.Background()
				stack := []memory.Layer{counting("a", memory.ScopeResource), counting("b", memory.ScopeResource)}
				if set == "ready" {
					stack = append(stack, layers.WorkingMemory(nil), layers.Entity(nil), layers.Observations(nil), layers.Episodic(nil), layers.SemanticRecall(nil))
				}
				m, err := memory.New(openEngine(b, engine, storage.Full), stack, nil)
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				play := func(runs, turns int) time.Duration {
					var wg sync.WaitGroup
					all := make([]*memory.Run, runs)
					for i := range all {
						n++
						all[i] = begin(b, m, memory.Identity{Thread: fmt.Sprint("t", n), Resource: "anna"})
					}
					began := time.Now()
					for i, run := range all {
						wg.Go(func() {
							for turn := range turns {
								if _, err := run.Project(ctx, user(fmt.Sprintf("Step %d of job %d: read file %d, then write its summary to section %d.", turn, n+i, turn*n, i))); err != nil {
									b.Error(err)
								}
								if err := run.Commit(ctx, memory.Response{Items: []projection.Item{projection.Text(projection.Assistant, "Noted.")}}); err != nil {
									b.Error(err)
								}
							}
						})
					}
					wg.Wait()
					took := time.Since(began)
					for _, run := range all {
						if err := run.End(ctx, memory.Success); err != nil {
							b.Fatal(err)
						}
					}
					return took
				}
				var one, many time.Duration
				for b.Loop() {
					// What they write makes the next ones slower: take turns.
					many += play(runs, turns)
					for range 2 * runs {
						one += play(1, turns)
					}
					many += play(runs, turns)
				}
				b.ReportMetric(float64(one)/float64(many), "ratio")
				b.ReportMetric(float64(2*b.N*runs*turns)/many.Seconds(), "turns/s")
			})
		}
	}
}
