package backup

import (
	"context"
	"fmt"
	"iter"

	"github.com/stratamem/strata/storage"
)

// CopyOptions configures [Copy]. The zero value means the defaults.
type CopyOptions struct {
	// Resume continues a Copy that was interrupted: dst may hold part of src.
	// Equal values are left alone, others are replaced, and a key that only dst
	// has is refused.
	Resume bool
	// Progress is called from time to time.
	Progress func(CopyProgress)
}

// CopyProgress says how far a [Copy] has got.
type CopyProgress struct {
	Verifying bool  // the second pass: both stores are read and compared
	Done      int64 // keys of this pass so far
	Written   int64 // keys written to dst so far
	Total     int64 // keys in src at the beginning; 0 if unknown
}

// Copy makes dst hold what src holds, with the same indexes declared, and
// returns its tally. It writes in batches, then reads both stores and compares
// them entry by entry; a difference, which may also be due to a write to src
// meanwhile, is a [*storage.CorruptError] that names the key. dst must be empty
// unless opts.Resume is set.
func Copy(ctx context.Context, dst, src storage.Adapter, opts *CopyOptions) (Tally, error) {
	if opts == nil {
		opts = &CopyOptions{}
	}
	c := copier{ctx: ctx, dst: dst, src: src, report: opts.Progress}
	total, err := c.copy(opts.Resume)
	if err != nil {
		return Tally{}, fmt.Errorf("copy: %w", err)
	}
	return total, nil
}

type copier struct {
	ctx      context.Context
	dst, src storage.Adapter
	report   func(CopyProgress)
	progress CopyProgress
}

func (c *copier) copy(resume bool) (Tally, error) {
	if !resume {
		if err := ensureEmpty(c.ctx, c.dst, "destination is not empty: copy into a new store, or resume"); err != nil {
			return Tally{}, err
		}
	}
	if st, err := storage.StatsOf(c.ctx, c.src); err == nil {
		c.progress.Total = st.Documents + st.Records
	}
	if err := c.transfer(); err != nil {
		return Tally{}, err
	}
	fields, err := declaredIn(c.ctx, c.src)
	if err == nil && len(fields) > 0 {
		err = storage.EnsureIndex(c.ctx, c.dst, fields...)
	}
	if err != nil {
		return Tally{}, err
	}
	return c.verify()
}

// transfer writes to dst what it lacks, walking both stores in key order.
func (c *copier) transfer() error {
	b := newBulk(c.ctx, c.dst)
	there, stop := iter.Pull2(storage.Scan(c.ctx, c.dst, "", nil))
	defer stop()
	have, err, ok := there()
	for e, srcErr := range storage.Scan(c.ctx, c.src, "", nil) {
		if err != nil || srcErr != nil {
			return first(srcErr, err)
		}
		if ok && have.Key < e.Key {
			return extra(have.Key)
		}
		same := false
		if ok && have.Key == e.Key {
			if same, err = sameValue(have, e); err != nil {
				return err
			}
			have, err, ok = there()
		}
		if !same {
			if err := b.put(e.Key, e.Value); err != nil {
				return err
			}
			c.progress.Written++
		}
		c.step()
	}
	if err != nil {
		return err
	}
	if ok {
		return extra(have.Key)
	}
	return b.flush()
}

func extra(key string) error {
	return &storage.InvalidError{Key: key, Rule: "destination has a key that the source lacks"}
}

// verify reads both stores and compares them.
func (c *copier) verify() (Tally, error) {
	c.progress.Verifying, c.progress.Done = true, 0
	tally := newTallier()
	there, stop := iter.Pull2(storage.Scan(c.ctx, c.dst, "", nil))
	defer stop()
	for e, err := range storage.Scan(c.ctx, c.src, "", nil) {
		if err != nil {
			return Tally{}, err
		}
		have, err, ok := there()
		if err != nil {
			return Tally{}, err
		}
		if !ok || have.Key != e.Key {
			return Tally{}, differs(e.Key)
		}
		if same, err := sameValue(have, e); err != nil || !same {
			return Tally{}, first(err, differs(e.Key))
		}
		value, err := agreed(e)
		if err != nil {
			return Tally{}, err
		}
		tally.add(e.Key, value)
		c.step()
	}
	if have, err, ok := there(); ok {
		return Tally{}, first(err, differs(have.Key))
	}
	if c.report != nil {
		c.report(c.progress)
	}
	return tally.sum(), nil
}

func (c *copier) step() {
	if c.progress.Done++; c.report != nil && c.progress.Done%bulkOps == 0 {
		c.report(c.progress)
	}
}

func differs(key string) error {
	return &storage.CorruptError{
		Key:    key,
		Reason: "the copy differs from its source",
		Repair: "keep writers off both stores and resume the copy",
	}
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
