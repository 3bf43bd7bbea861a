package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

// absorb takes into the state what other processes added to the log. The caller
// holds syncing.
func (s *Store) absorb() error {
	if s.end == nil {
		return nil
	}
	end, ok := readEnd(s.end)
	if !ok || end.position == s.at {
		return nil
	}
	return s.absorbTo(end.position)
}

// absorbTo takes in the log up to a position, and reads everything again if the
// log was compacted meanwhile.
func (s *Store) absorbTo(to position) error {
	if to.segment > s.at.segment || to.segment == s.at.segment && to.at > s.at.at {
		if err := s.follow(to); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return s.reload()
}

// follow takes in the log up to a position.
func (s *Store) follow(to position) error {
	for s.at != to {
		limit := int64(-1)
		if to.segment == s.at.segment {
			limit = to.at
		}
		frames, _, err := s.cur.read(s.at.at, limit)
		if err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		before := s.at
		for i := range frames {
			if err := s.take(&frames[i], false); err != nil {
				return err
			}
			if s.at.segment != before.segment {
				break
			}
		}
		if s.at == before || s.at.segment > to.segment {
			return &storage.CorruptError{Path: s.cur.f.Name(), Reason: "the log ends too early", Repair: repairLog}
		}
	}
	return nil
}

// take applies the changes of a frame that begins at s.at. own says that this
// store made them, published their events and knows their documents. The caller
// holds syncing.
func (s *Store) take(f *frame, own bool) error {
	s.at.at = f.end
	s.seq = max(s.seq, f.seq)
	s.clock = max(s.clock, f.time)
	var events []storage.Event
	changed := s.takeRecords(f, s.cur)
	for i := range f.changes {
		c := &f.changes[i]
		switch c.kind {
		case opFields:
			if err := s.declare(decodeFields(c.value)); err != nil {
				return err
			}
			continue
		case opNext:
			return s.enter(c.seq)
		case opBased:
			if err := s.rebase(c.seq); err != nil {
				return err
			}
			continue
		}
		if c.dir != "" && !own && !s.beyondIndex() {
			continue
		}
		if c.dir != "" {
			changed[i] = s.takeDoc(c)
		}
		if changed[i] && !own {
			kind := storage.EventSet
			if c.kind == opDeleteDoc || c.kind == opDeleteRecord {
				kind = storage.EventDelete
			}
			events = append(events, storage.Event{Kind: kind, Key: c.key})
		}
		if !own && c.dir != "" {
			s.dirty[c.dir+"/"+c.name] = true // another hand may have changed it since
		}
	}
	s.hub.Publish(events...)
	return nil
}

// beyondIndex reports whether the documents of the frame that ends at s.at may
// be newer than those that were read from _index.json.
func (s *Store) beyondIndex() bool {
	return s.at.segment > s.indexAt.segment || s.at.segment == s.indexAt.segment && s.at.at > s.indexAt.at
}

// takeRecords applies the changes of a frame to records in the log, all at
// once, so that a reader of one of a batch also reads the others. It returns
// which changes made a difference. The values are in a segment.
func (s *Store) takeRecords(f *frame, from *segment) []bool {
	changed := make([]bool, len(f.changes))
	s.change(func() {
		for i := range f.changes {
			changed[i] = s.takeRecord(&f.changes[i], from)
		}
	})
	return changed
}

// takeRecord applies the change of a record in the log and reports whether it
// made a difference. It is called inside change.
func (s *Store) takeRecord(c *change, from *segment) bool {
	if c.kind != opPutRecord && c.kind != opDeleteRecord {
		return false
	}
	old, had := s.now.items.Get(c.key)
	switch {
	case old.doc != nil: // it has become a file since
		return false
	case c.kind == opPutRecord:
		s.unfiled = s.unfiled || s.now.filed(c.key)
		s.now.put(c.key, item{from: from, at: span{c.at, int64(len(c.value))}, seq: c.seq})
	case !had:
		return false
	default:
		s.now.remove(c.key)
	}
	return true
}

// takeDoc applies the change of a document, or of a record that is a file, and
// reports whether it made a difference.
func (s *Store) takeDoc(c *change) bool {
	s.mu.RLock()
	old, _ := s.now.items.Get(c.key)
	s.mu.RUnlock()
	switch c.kind {
	case opPutDoc:
		d := c.doc
		if d == nil {
			if old.doc != nil && old.doc.digest == c.after && old.doc.rel() == c.dir+"/"+c.name {
				if old.doc.unseen { // we were faster than the log
					d := *old.doc
					d.unseen = false
					s.change(func() { s.putDoc(c.key, &d) })
				}
				return false
			}
			d = parse(c.key, c.dir, c.name, c.stat, bytes.Clone(c.value), s.declared())
		}
		s.change(func() { s.putDoc(c.key, d) })
	case opDeleteDoc:
		if old.doc == nil || old.doc.rel() != c.dir+"/"+c.name {
			return false
		}
		s.change(func() { s.dropDoc(c.key, old.doc) })
	}
	return true
}

// enter continues in the next segment.
func (s *Store) enter(no uint64) error {
	g, err := openSegment(s.root, no, false)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.segments[no] = g
	s.mu.Unlock()
	s.cur, s.at = g, position{no, int64(len(segmentMagic))}
	return nil
}

func encodeFields(fields []string) []byte {
	b, err := json.Marshal(fields)
	if err != nil {
		return nil // never: strings
	}
	return b
}

func decodeFields(b []byte) []string {
	var fields []string
	_ = json.Unmarshal(b, &fields) // covered by a checksum
	return fields
}

// declare adds declared fields and reads all documents for them.
func (s *Store) declare(fields []string) error {
	declared, added := engine.AddFields(s.declared(), fields)
	if len(added) == 0 {
		return nil
	}
	docs := map[string]*doc{}
	s.mu.RLock()
	s.now.items.Ascend(firstDocument, func(key string, it item) bool {
		if it.doc.bad == "" {
			docs[key] = it.doc
		}
		return true
	})
	s.mu.RUnlock()
	indexed := make(map[string]*doc, len(docs))
	for key, d := range docs {
		text, st, err := s.readText(d.dir, d.name)
		if err != nil { // gone or changed: the files are examined after this
			s.dirty[d.rel()] = true
			continue
		}
		now := parse(key, d.dir, d.name, st, text, declared)
		now.unseen = d.unseen
		if now.digest != d.digest {
			now.unseen = true
		}
		indexed[key] = now
	}
	s.change(func() {
		s.now.fields = declared
		for key, d := range indexed {
			s.putDoc(key, d)
		}
	})
	return nil
}

// locked calls f while no other process writes, with the state up to date and
// the unfinished work of others done. A read-only store keeps nobody out and
// does nothing for others.
func (s *Store) locked(ctx context.Context, f func() error) error {
	if s.closed.Load() {
		return storage.ErrClosed
	}
	if s.opts.ReadOnly {
		if err := s.refresh(); err != nil {
			return err
		}
		return f()
	}
	if err := s.lock.lock(ctx); err != nil {
		return err
	}
	defer s.lock.unlock()
	if err := s.ownDirs(logDir, tempDir); err != nil {
		return err
	}
	s.syncing.Lock()
	err := s.absorb()
	if err == nil {
		err = s.finish()
	}
	if err == nil {
		err = s.observe()
	}
	s.syncing.Unlock()
	if err != nil {
		return err
	}
	if err := s.audit.current(); err != nil {
		return fmt.Errorf("open audit log: %w", engine.DiskError(err))
	}
	if err := s.refile(); err != nil {
		return err
	}
	return f()
}

// finish completes what a process that died had begun, and removes what is
// torn. The caller holds the lock and syncing.
func (s *Store) finish() error {
	for s.cur.pending(s.at.at) {
		frames, torn, err := s.cur.read(s.at.at, -1)
		if err != nil {
			return fmt.Errorf("read vault: %w", err)
		}
		if torn {
			at := s.at.at
			if n := len(frames); n > 0 {
				at = frames[n-1].end
			}
			s.logger.Warn("vault: the end of the log was torn and is cut off", "dir", s.root, "segment", s.cur.no, "at", at)
			if err := s.cur.cut(at); err != nil {
				return fmt.Errorf("repair log: %w", engine.DiskError(err))
			}
		}
		if len(frames) == 0 {
			return nil
		}
		s.logger.Info("vault: commits of a process that died are finished", "dir", s.root, "commits", len(frames))
		err = s.redo(frames)
		if err == nil {
			err = s.reclaim(frames)
		}
		if err != nil {
			return err
		}
		segment := s.at.segment
		for i := range frames {
			if err := s.take(&frames[i], false); err != nil {
				return err
			}
		}
		if err := s.writeEnd(); err != nil {
			return err
		}
		if s.at.segment == segment {
			return nil
		}
	}
	return nil
}

// writeEnd makes what the state has part of the vault.
func (s *Store) writeEnd() error {
	_, err := s.end.WriteAt(ending{s.at, s.upkeep.boot}.encode(), 0)
	if err != nil {
		return fmt.Errorf("write vault: %w", engine.DiskError(err))
	}
	return nil
}

// redo restores files and the audit log from frames. It repeats only the last
// change to a file, and only if the file is absent, torn, or has one of the
// texts that earlier frames gave it.
func (s *Store) redo(frames []frame) error {
	if err := s.audit.current(); err != nil {
		return fmt.Errorf("open audit log: %w", engine.DiskError(err))
	}
	type wanted struct {
		*change
		was map[digest]bool
	}
	last := map[string]*wanted{}
	var order []*wanted // in commit order: readers may see a commit in progress
	for i := range frames {
		if err := s.audit.ensure(&frames[i]); err != nil {
			return fmt.Errorf("write audit log: %w", engine.DiskError(err))
		}
		for j := range frames[i].changes {
			c := &frames[i].changes[j]
			if c.dir == "" {
				continue
			}
			rel := c.dir + "/" + c.name
			w := last[rel]
			if w == nil {
				w = &wanted{was: map[digest]bool{}}
				last[rel] = w
				order = append(order, w)
			} else {
				w.was[w.after] = true
			}
			w.change = c
			w.was[c.before] = true
		}
	}
	for _, w := range order {
		if err := s.redoFile(w.change, w.was); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) redoFile(c *change, was map[digest]bool) error {
	path := filepath.Join(s.root, c.dir, c.name)
	text, _, err := s.readText(c.dir, c.name)
	there := !errors.Is(err, fs.ErrNotExist)
	var alien *errNoDocument
	if err != nil && there && !errors.As(err, &alien) {
		return fmt.Errorf("read vault: %w", err)
	}
	sum := digestOf(text)
	switch {
	case c.kind == opPutDoc && there && err == nil && sum == c.after, c.kind == opDeleteDoc && !there:
		return nil
	case !there, err == nil && (was[sum] || torn(text, c.value)):
	default:
		s.logger.Warn("vault: a file was changed by another hand after a commit that a crash cut short: it stays", "file", path)
		return nil
	}
	if c.kind == opDeleteDoc {
		err = os.Remove(path)
	} else {
		err = s.putFile(c.dir, c.name, c.value, time.Unix(0, c.stat.mtime))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, engine.DiskError(err))
	}
	return nil
}

// torn reports whether a text may be what a power loss left of another.
func torn(text, of []byte) bool {
	text = bytes.TrimRight(text, "\x00")
	return bytes.HasPrefix(of, text) && len(text) < len(of)
}

// putFile writes a file and puts it in place.
func (s *Store) putFile(dir, name string, text []byte, mtime time.Time) error {
	temp, err := s.tempFile(dir, text, mtime)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(s.root, dir, name)); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// tempFile writes a temporary file with a given time, creating the directory
// that it is for.
func (s *Store) tempFile(dir string, text []byte, mtime time.Time) (temp string, err error) {
	if err := s.who.mkdirAll(s.root, dir); err != nil {
		return "", err
	}
	if temp, _, err = s.writeTemp(text, s.layout.Load().isSpace(top(dir))); err != nil {
		return "", err
	}
	if err := os.Chtimes(temp, mtime, mtime); err != nil {
		return "", errors.Join(err, os.Remove(temp))
	}
	return temp, nil
}

// mark adds a frame with a single mark to the log. The caller holds the lock.
func (s *Store) mark(c change) error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	f := frame{seq: s.seq, time: s.tick(), changes: []change{c}}
	end, err := s.cur.write(s.at.at, f.encode(), s.opts.Durability == storage.Full)
	if err != nil {
		return fmt.Errorf("write log: %w", engine.DiskError(err))
	}
	f.end = end
	if err := s.take(&f, true); err != nil {
		return err
	}
	return s.writeEnd()
}

// tick returns the time for the log, which never decreases.
func (s *Store) tick() int64 { return max(time.Now().UnixNano(), s.clock+1) }

// roll continues in a new segment if the current one is full, or if anyhow is
// set. The caller holds the lock.
func (s *Store) roll(anyhow bool) error {
	if s.at.at < segmentMost && !anyhow {
		return nil
	}
	next := s.at.segment + 1
	if err := s.createSegment(next); err != nil {
		return fmt.Errorf("write log: %w", engine.DiskError(err))
	}
	return s.mark(change{kind: opNext, seq: next})
}
