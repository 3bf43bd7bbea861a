package vault

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"

	"github.com/stratamem/strata/storage"
)

// Check implements [storage.Checker]. It reads every file and every record,
// compares the index with the documents, verifies the checksums of the log and
// the chain of the audit log, and reports files that are not documents. Writes
// wait while it reads; the loop body runs after that.
func (s *Store) Check(ctx context.Context) iter.Seq2[storage.Fault, error] {
	return func(yield func(storage.Fault, error) bool) {
		if s.closed.Load() {
			yield(storage.Fault{}, storage.ErrClosed)
			return
		}
		var faults []storage.Fault
		err := s.group.Exclusive(ctx, func() error {
			return s.locked(ctx, func() error {
				listed, err := s.list("") // list first, then examine
				if err == nil {
					err = s.refresh()
				}
				if err != nil {
					return fmt.Errorf("check: %w", err)
				}
				v := view{st: s.snapshot(), root: s.root, store: s}
				faults = append(checkState(v), s.strays(listed)...)
				log, err := s.checkLog()
				faults = append(faults, log...)
				return err
			})
		})
		if err == nil {
			var damage *storage.CorruptError
			if _, _, err = s.Verify(ctx); errors.As(err, &damage) {
				faults, err = append(faults, storage.Fault{Path: damage.Path, Reason: damage.Reason, Repair: damage.Repair}), nil
			}
		}
		yieldAll(faults, err, yield)
	}
}

func yieldAll(faults []storage.Fault, err error, yield func(storage.Fault, error) bool) {
	for _, f := range faults {
		if !yield(f, nil) {
			return
		}
	}
	if err != nil {
		yield(storage.Fault{}, err)
	}
}

const repairIndex = "run strata vault rebuild"

// checkState reads everything that the state has and compares it.
func checkState(v view) (faults []storage.Fault) {
	add := func(f storage.Fault) { faults = append(faults, f) }
	docs, records, entries := 0, 0, 0
	v.st.items.Scan(func(key string, it item) bool {
		if it.doc == nil {
			records++
			if _, err := it.record(key); err != nil {
				add(storage.Fault{Key: key, Path: it.from.f.Name(), Reason: "the record cannot be read: " + err.Error(), Repair: "replace or delete what has this key, or restore a backup"})
			}
			return true
		}
		d := it.doc
		path := d.path(v.root)
		if !storage.IsDocument(key) {
			records++
		}
		if d.bad != "" {
			add(d.fault(key, v.root))
			return true
		}
		if storage.IsDocument(key) {
			docs++
		}
		text, err := v.text(d)
		if err != nil || digestOf(text) != d.digest {
			if info, err := os.Lstat(path); err != nil || statOf(info) != d.stat {
				entries += len(d.entries)
				return true // changed since we looked
			}
			add(storage.Fault{Key: key, Path: path, Reason: "the file has changed, although its size and time have not", Repair: repairIndex})
			return true
		}
		now := parse(key, d.dir, d.name, d.stat, text, v.st.fields)
		for _, entry := range now.entries {
			entries++
			if _, ok := v.st.index.Get(entry); !ok {
				add(storage.Fault{Key: key, Path: path, Reason: "the document is missing from the index", Repair: repairIndex})
			}
		}
		if !storage.IsDocument(key) {
			return true
		}
		if f, err := decode(text, isCut(d.dir) || isCut(d.name)); err == nil && isConflict(f.body) {
			add(storage.Fault{Key: key, Path: path, Reason: "the body has the marks of a merge conflict", Repair: "edit the file"})
		}
		return true
	})
	if docs != v.st.docs || records != v.st.records {
		add(storage.Fault{Path: v.root, Repair: repairIndex, Reason: fmt.Sprintf(
			"the store counts %d documents and %d records, it has %d and %d", v.st.docs, v.st.records, docs, records)})
	}
	if extra := v.st.index.Len() - entries; extra > 0 && len(faults) == 0 {
		add(storage.Fault{Path: v.root, Reason: fmt.Sprintf("the index has %d entries without a document", extra), Repair: repairIndex})
	}
	return faults
}

// checkLog verifies the checksums of the log. The caller holds the lock.
func (s *Store) checkLog() (faults []storage.Fault, err error) {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	if s.cur == nil {
		return nil, nil
	}
	_, numbers, err := segmentsOf(s.root)
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	for _, no := range numbers {
		if no > s.at.segment {
			break
		}
		g, err := openSegment(s.root, no, false)
		if err != nil {
			faults = append(faults, storage.Fault{Path: segmentPath(s.root, no, false), Reason: err.Error(), Repair: repairLog})
			continue
		}
		limit := int64(-1)
		if no == s.at.segment {
			limit = s.at.at // a writer is at work beyond it
		}
		frames, torn, err := g.read(int64(len(segmentMagic)), limit)
		g.f.Close()
		if err != nil {
			return faults, fmt.Errorf("read log: %w", err)
		}
		last := int64(len(segmentMagic))
		if len(frames) > 0 {
			last = frames[len(frames)-1].end
		}
		if torn || no == s.at.segment && last < s.at.at {
			faults = append(faults, storage.Fault{Path: g.f.Name(), Reason: fmt.Sprintf("the log is damaged at byte %d", last), Repair: repairLog})
		}
	}
	return faults, nil
}
