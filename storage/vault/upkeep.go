package vault

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

const (
	// indexBehind is how long _index.json may be outdated while there are writes.
	indexBehind = 4 * time.Second
	// watchPeriod is how often files are examined for watchers if the system has
	// no events.
	watchPeriod = 500 * time.Millisecond
	// compactFrom is the size of the full segments from which the log is compacted
	// automatically, if more than half of it is obsolete.
	compactFrom = 64 << 20
	// baseFrame is how many bytes of records share a frame of a base.
	baseFrame = 256 << 10
)

// upkeep is what a store does in the background.
type upkeep struct {
	boot      string
	name      string // of this store's temporary files
	temps     atomic.Int64
	wake      chan struct{}
	stop      chan struct{}
	cancel    context.CancelFunc
	running   sync.WaitGroup
	watchOnce sync.Once

	indexing sync.Mutex
	written  uint64     // number of changes that _index.json has, plus one; 0 if none
	old      []*segment // replaced by a base, until no read uses them; guarded by Store.mu
}

func (s *Store) startUpkeep() {
	ctx, cancel := context.WithCancel(context.Background())
	s.upkeep.wake, s.upkeep.stop, s.upkeep.cancel = make(chan struct{}, 1), make(chan struct{}), cancel
	if !s.opts.ReadOnly {
		s.wakeUpkeep()
		s.upkeep.running.Go(func() { s.keepUp(ctx) })
	}
}

func (s *Store) wakeUpkeep() {
	select {
	case s.upkeep.wake <- struct{}{}:
	default:
	}
}

// stopUpkeep waits for the goroutines.
func (s *Store) stopUpkeep() {
	close(s.upkeep.stop)
	s.upkeep.cancel()
	s.upkeep.watchOnce.Do(func() {}) // none may start any more
	if s.watch != nil {
		s.syncing.Lock()
		if s.watch != nil {
			s.watch.close()
		}
		s.syncing.Unlock()
	}
	s.upkeep.running.Wait()
}

// keepUp renews the index some time after each change, and keeps the log small.
func (s *Store) keepUp(ctx context.Context) {
	timer := time.NewTimer(indexBehind)
	defer timer.Stop()
	for {
		select {
		case <-s.upkeep.stop:
			return
		case <-s.upkeep.wake:
		}
		timer.Reset(indexBehind)
		select {
		case <-s.upkeep.stop:
			return
		case <-timer.C:
		}
		if err := errors.Join(s.writeIndex(false), s.tidy(ctx), s.dropOld()); err != nil && ctx.Err() == nil {
			s.logger.Warn("vault: upkeep", "dir", s.root, "error", err)
		}
	}
}

// tidy settles full segments, and compacts the log if that is worthwhile.
func (s *Store) tidy(ctx context.Context) error {
	s.syncing.Lock()
	full := s.at.segment - 1
	s.syncing.Unlock()
	if full <= s.settled() {
		return nil
	}
	if err := s.settle(full); err != nil {
		return err
	}
	base, numbers, err := segmentsOf(s.root)
	if err != nil {
		return err
	}
	size := fileSize(segmentPath(s.root, base, true))
	for _, no := range numbers[:max(0, len(numbers)-1)] {
		size += fileSize(segmentPath(s.root, no, false))
	}
	live := int64(0)
	s.snapshot().logged(func(_ string, it item) bool {
		live += it.at.size
		return true
	})
	if size < compactFrom || size < 2*live {
		return nil
	}
	return s.Compact(ctx)
}

// settle makes the documents of the segments up to full durable in their files,
// so that they no longer need the log.
func (s *Store) settle(full uint64) error {
	if s.opts.Durability == storage.Full {
		if err := s.syncFiles(full); err != nil {
			return fmt.Errorf("sync vault: %w", err)
		}
	}
	err := s.putWhole(filepath.Join(s.root, settledName), binary.LittleEndian.AppendUint64(nil, full))
	if err != nil {
		return fmt.Errorf("write %s: %w", settledName, engine.DiskError(err))
	}
	return nil
}

func (s *Store) syncFiles(full uint64) error {
	dir, err := os.Open(s.root)
	if err != nil {
		return err
	}
	defer dir.Close()
	if all, err := syncAll(dir); all || err != nil {
		return err
	}
	_, numbers, err := segmentsOf(s.root)
	if err != nil {
		return err
	}
	settled := s.settled()
	paths := map[string]bool{s.root: true, auditPath(s.root, 0): true}
	for _, no := range numbers {
		if no <= settled || no > full {
			continue
		}
		g, err := openSegment(s.root, no, false)
		if err != nil {
			return err
		}
		frames, _, err := g.read(int64(len(segmentMagic)), -1)
		if err = errors.Join(err, g.f.Close()); err != nil {
			return err
		}
		for i := range frames {
			for j := range frames[i].changes {
				if c := &frames[i].changes[j]; c.dir != "" {
					paths[filepath.Join(s.root, c.dir, c.name)] = true
					for dir := c.dir; dir != "."; dir = path.Dir(dir) {
						paths[filepath.Join(s.root, dir)] = true
					}
				}
			}
		}
	}
	for path := range paths {
		if err := syncDir(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// startWatching delivers changes by others to watchers even if this store reads
// nothing.
func (s *Store) startWatching() {
	s.syncing.Lock()
	watch := s.watch
	if watch != nil {
		watch.addLog()
	}
	s.syncing.Unlock()
	s.upkeep.running.Go(func() {
		for watch != nil && watch.wait() {
			s.look()
		}
		tick := time.NewTicker(watchPeriod)
		defer tick.Stop()
		for {
			select {
			case <-s.upkeep.stop:
				return
			case <-tick.C:
				s.look()
			}
		}
	})
}

func (s *Store) look() {
	if err := s.refresh(); err != nil && !s.closed.Load() {
		s.logger.Warn("vault: watch", "dir", s.root, "error", err)
		s.hub.Publish(storage.Event{Kind: storage.EventOverflow})
	}
}

// Compact implements [storage.Compacter]. It writes the existing records to a
// file of their own and drops the segments of the log before it; the disk must
// have space for both. Writes wait meanwhile. The files of documents are not
// touched.
func (s *Store) Compact(ctx context.Context) error {
	if s.closed.Load() {
		return storage.ErrClosed
	}
	if err := s.writable(); err != nil {
		return err
	}
	return s.group.Exclusive(ctx, func() error {
		return s.locked(ctx, func() error {
			if err := s.roll(true); err != nil {
				return err
			}
			full := s.at.segment - 1
			err := s.settle(full)
			if err == nil {
				err = s.writeIndex(false)
			}
			if err == nil {
				err = s.writeBase(ctx, full)
			}
			if err == nil {
				crashPoint("based")
				err = s.mark(change{kind: opBased, seq: full})
			}
			if err != nil {
				return fmt.Errorf("compact %s: %w", s.root, engine.DiskError(err))
			}
			s.dropSegments(full)
			return s.dropOld()
		})
	})
}

// dropOld closes the segments that nobody reads any more: by taking reading, it
// waits for reads that began with an older state.
func (s *Store) dropOld() error {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, g := range s.upkeep.old {
		errs = append(errs, g.drop())
	}
	s.upkeep.old = nil
	return errors.Join(errs...)
}

// writeBase writes all records to a base. The caller holds the lock, and the
// current segment is empty.
func (s *Store) writeBase(ctx context.Context, full uint64) error {
	st := s.snapshot()
	path := segmentPath(s.root, full, true)
	temp := s.tempName()
	f, err := s.who.open(temp, os.O_CREATE|os.O_EXCL|os.O_RDWR, true)
	if err != nil {
		return err
	}
	g := &segment{no: full, base: true, f: f, size: 1 << 62} // no space after frames
	_, err = f.WriteString(segmentMagic)
	at := int64(len(segmentMagic))
	out := frame{seq: s.seq, time: s.clock}
	size := 0
	flush := func() {
		if err == nil && len(out.changes) > 0 {
			at, err = g.write(at, out.encode(), false)
			out.changes, size = out.changes[:0], 0
		}
	}
	out.changes = append(out.changes, change{kind: opFields, value: encodeFields(st.fields)})
	st.logged(func(key string, it item) bool {
		if err != nil {
			return false
		}
		var value []byte
		if value, err = it.record(key); err == nil {
			err = ctx.Err()
		}
		out.changes = append(out.changes, change{kind: opPutRecord, key: key, seq: it.seq, value: engine.Seal(key, it.seq, value)})
		if size += len(value); size > baseFrame {
			flush()
		}
		return true
	})
	flush()
	if err == nil && s.opts.Durability == storage.Full {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	if s.opts.Durability == storage.Full {
		return syncDir(filepath.Dir(path))
	}
	return nil
}

// readBase takes in the records of a base. The caller holds syncing.
func (s *Store) readBase(no uint64) error {
	g, err := openSegment(s.root, no, true)
	if err != nil {
		return err
	}
	frames, torn, err := g.read(int64(len(segmentMagic)), -1)
	if err == nil && torn {
		err = &storage.CorruptError{Path: g.f.Name(), Reason: "a checksum does not agree", Repair: repairLog}
	}
	if err != nil {
		return errors.Join(err, g.f.Close())
	}
	s.mu.Lock()
	s.segments[no] = g
	s.mu.Unlock()
	for i := range frames {
		f := &frames[i]
		s.seq, s.clock = max(s.seq, f.seq), max(s.clock, f.time)
		s.takeRecords(f, g)
		for j := range f.changes {
			c := &f.changes[j]
			if c.kind == opFields {
				if err := s.declare(decodeFields(c.value)); err != nil {
					return err
				}
			}
			if c.dir != "" {
				s.takeDoc(c)
			}
		}
	}
	return nil
}

// rebase takes the records of full segments from a base, so that the segments
// can be removed. The caller holds syncing.
func (s *Store) rebase(full uint64) error {
	g, err := openSegment(s.root, full, true)
	if errors.Is(err, os.ErrNotExist) {
		return nil // a later mark names a newer base
	}
	if err != nil {
		return err
	}
	frames, torn, err := g.read(int64(len(segmentMagic)), -1)
	if err == nil && torn {
		err = &storage.CorruptError{Path: g.f.Name(), Reason: "a checksum does not agree", Repair: repairLog}
	}
	if err != nil {
		return errors.Join(err, g.f.Close())
	}
	s.change(func() {
		for i := range frames {
			for j := range frames[i].changes {
				c := &frames[i].changes[j]
				if it, ok := s.now.items.Get(c.key); ok && c.kind == opPutRecord && it.seq == c.seq {
					s.now.put(c.key, item{from: g, at: span{c.at, int64(len(c.value))}, seq: c.seq})
				}
			}
		}
		for no, old := range s.segments {
			if no <= full {
				s.upkeep.old = append(s.upkeep.old, old)
				delete(s.segments, no)
			}
		}
		s.segments[full] = g
	})
	return nil
}

// dropSegments removes the files that a base has replaced.
func (s *Store) dropSegments(full uint64) {
	entries, err := os.ReadDir(filepath.Join(s.root, logDir))
	if err != nil {
		return // the next compaction does it
	}
	for _, e := range entries {
		var no uint64
		if _, err := fmt.Sscanf(e.Name(), "%d.", &no); err == nil && (no < full || no == full && filepath.Ext(e.Name()) == ".log") {
			_ = os.Remove(filepath.Join(s.root, logDir, e.Name()))
		}
	}
}
