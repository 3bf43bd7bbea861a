package soma_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// piecemeal is an engine of which readers may see a batch in progress, as the
// contract allows and the vault does it. Its writers see whole batches.
type piecemeal struct {
	*mem.Store
	mu      sync.Mutex
	reads   func(key string) // before each
	between func(n int)      // after each change of a batch that is made in steps
	waits   func()           // a writer waits for another
}

func (p *piecemeal) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	if p.reads != nil {
		p.reads(key)
	}
	return p.Store.Get(ctx, key)
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
	}
	for n, op := range ops {
		op.Check = false
		if err := p.Store.Apply(ctx, op); err != nil {
			return err
		}
		if ctx.Value(step{}) != nil {
			p.between(n)
		}
	}
	return nil
}

// step marks the context of what is made in steps.
type step struct{}

// TestForgetBesideABatch retires a canon entry while a link is taken out of it, and
// lets whoever forgets see each state of the batch at each of its reads.
func TestForgetBesideABatch(t *testing.T) {
	forget := func(read, change int) (seen bool) {
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

		var retired sync.WaitGroup
		begun, resume := make(chan struct{}), make(chan struct{})
		begin, end := sync.OnceFunc(func() { close(begun) }), sync.OnceFunc(func() { close(resume) })
		db.waits = end
		left := read
		db.reads = func(key string) {
			if key != "insight/canon-new" {
				return
			}
			if left--; left != 0 {
				return
			}
			db.reads = nil
			db.between = func(n int) {
				if n == change {
					seen = true
					begin()
					<-resume
				}
			}
			retired.Go(func() {
				if err := w.As(anna).Retire(context.WithValue(w.Context(), step{}, true), "canon-new", "over"); err != nil {
					t.Error(err)
				}
				begin()
			})
			<-begun
		}
		if _, err := w.As(anna).Forget(w.Context(), "canon-old", "it names a customer"); err != nil {
			t.Error(err)
		}
		db.reads = nil
		end()
		retired.Wait()
		if e := w.read("canon-new"); e.Unratified {
			t.Errorf("read %d, change %d: the entry is not what was decided", read, change)
		}
		w.same("withheld", w.withheld(), []string(nil))
		return seen
	}
	for read := 1; forget(read, 0); read++ {
		for change := 1; forget(read, change); change++ {
		}
	}
}
