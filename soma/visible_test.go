package soma_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/search"
)

// piecemeal is an engine of which readers may see a batch in progress, as the
// contract allows and the vault does it: what are files there one after the other,
// then the records. Its writers see whole batches.
type piecemeal struct {
	*mem.Store
	mu      sync.Mutex
	reads   func()      // before each read of others
	between func(n int) // after each step of a batch that is made in steps
	waits   func()      // a writer waits for another
	twice   []string    // texts that entered the index when they were there
}

func (p *piecemeal) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	p.read(ctx)
	return p.Store.Get(ctx, key)
}

func (p *piecemeal) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	p.read(ctx)
	return p.Store.List(ctx, prefix)
}

func (p *piecemeal) Scan(ctx context.Context, prefix string, opts *storage.ScanOptions) iter.Seq2[storage.Entry, error] {
	p.read(ctx)
	return p.Store.Scan(ctx, prefix, opts)
}

func (p *piecemeal) read(ctx context.Context) {
	if p.reads != nil && ctx.Value(inSteps{}) == nil {
		p.reads()
	}
}

func (p *piecemeal) Apply(ctx context.Context, ops ...storage.Op) error {
	if !p.mu.TryLock() {
		p.waits()
		p.mu.Lock()
	}
	defer p.mu.Unlock()
	for _, op := range ops {
		_, v, err := p.Store.Get(ctx, op.Key)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		if op.Check && op.If != v {
			return &storage.ConflictError{Key: op.Key}
		}
		if _, text := search.DocID(strings.TrimPrefix(op.Key, "_search/")); text && !op.Delete && v != "" {
			p.twice = append(p.twice, op.Key)
		}
	}
	var records []storage.Op
	n := 0
	step := func(ops ...storage.Op) error {
		if err := p.Store.Apply(ctx, ops...); err != nil {
			return err
		}
		if ctx.Value(inSteps{}) != nil {
			p.between(n)
		}
		n++
		return nil
	}
	for _, op := range ops {
		op.Check = false
		if !storage.IsDocument(op.Key) && !strings.HasPrefix(op.Key, soma.GovernancePrefix) {
			records = append(records, op)
		} else if err := step(op); err != nil {
			return err
		}
	}
	return step(records...)
}

// inSteps marks the context of what is made in steps.
type inSteps struct{}

// TestBesideABatch lets what one does meet each state of a batch that another makes,
// from each of its reads to each of those that follow, or until it writes.
func TestBesideABatch(t *testing.T) {
	for name, c := range map[string]struct {
		batch func(ctx context.Context, s *soma.Store) error // made in steps
		meets func(w *world) error
		reads int // in which the batch is seen; until the next write in any case
	}{
		"a link is taken out of what is retired": {
			func(ctx context.Context, s *soma.Store) error { return s.As(anna).Retire(ctx, "canon-new", "over") },
			func(w *world) error {
				_, err := w.As(anna).Forget(w.Context(), "canon-old", "it names a customer")
				return err
			},
			16,
		},
		"a search looks at what is edited": {
			func(ctx context.Context, s *soma.Store) error {
				_, err := s.As(anna).Update(ctx, "event", map[string]any{"name": "Weevil"})
				return err
			},
			func(w *world) error {
				w.Store.Close() // so that all is looked at
				for _, err := range w.Query(w.Context(), soma.Query{Text: "Zyzzyva"}) {
					if err != nil {
						return err
					}
				}
				return nil
			},
			16,
		},
	} {
		t.Run(name, func(t *testing.T) {
			meet := func(from, state, to int) (begun, ended bool) {
				db := &piecemeal{Store: mem.New()}
				w := &world{T: t, db: db, clock: &clock{t: time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)}}
				w.open()
				w.create(harvester, archived("event", ""))
				w.create(synthesizer, w.proposed("old", 0.5, "event"))
				w.create(synthesizer, w.proposed("new", 0.5, "event"))
				_, err := w.promote(anna, "old", "x")
				w.check(err)
				_, err = w.supersede("canon-old", "new", "better")
				w.check(err)
				other, err := soma.Open(w.Context(), db, &soma.Options{Now: w.now})
				w.check(err)
				defer other.Close()

				var made sync.WaitGroup
				there, resume := make(chan struct{}), make(chan struct{})
				arrive, end := sync.OnceFunc(func() { close(there) }), sync.OnceFunc(func() { close(resume) })
				db.waits = end
				db.between = func(n int) {
					if n == state {
						begun = true
						arrive()
						<-resume
					}
				}
				read := 0
				db.reads = func() {
					switch read++; read {
					case from:
						made.Go(func() {
							if err := c.batch(context.WithValue(w.Context(), inSteps{}, true), other); err != nil {
								t.Error(err)
							}
							arrive()
						})
						<-there
					case to:
						ended = true
						end()
						made.Wait()
					}
				}
				if err := c.meets(w); err != nil {
					t.Error(err)
				}
				db.reads = nil
				end()
				made.Wait()
				w.same("withheld", w.withheld(), []string(nil))
				w.same("entered twice", db.twice, []string(nil))
				for f, err := range search.Check(w.Context(), storage.Scope(db, "_search/")) {
					t.Errorf("the index has a fault: %v, %v", f, err)
				}
				if t.Failed() {
					t.Fatalf("state %d, from read %d to read %d", state, from, to)
				}
				return begun, ended
			}
			for from := 1; ; from++ {
				state := 0
				for ; ; state++ {
					begun, _ := meet(from, state, 0)
					if !begun {
						break
					}
					for to := from + 1; to <= from+c.reads; to++ {
						if _, ended := meet(from, state, to); !ended {
							break
						}
					}
				}
				if state == 0 {
					break
				}
			}
		})
	}
}
