package vault

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/engine"
)

// Open opens the vault in a directory. If there is no directory, or an empty
// one, it creates a vault, unless it is to be read only. nil opts are the
// defaults. It starts a goroutine that renews _index.json and compacts the log;
// Close ends it.
//
// Open finishes what a process that died had begun, removes leftover temporary
// files, and looks at the size and time of every file. If the directory holds
// something else, or a vault of a newer version, the error is a
// [*storage.FormatError]; if another process keeps its lock, a
// [*storage.LockedError].
func Open(ctx context.Context, dir string, opts *Options) (*Store, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	s := &Store{
		root: root, opened: time.Now(), now: newState(), audit: auditFile{root: root},
		dirty: map[string]bool{}, later: map[string]bool{}, sweeps: map[string]bool{},
		segments: map[uint64]*segment{}, aliases: map[string]string{}, busy: map[string]bool{},
	}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Actor == "" {
		s.opts.Actor = "strata"
	}
	if s.logger = s.opts.Logger; s.logger == nil {
		s.logger = slog.Default()
	}
	for _, name := range s.opts.Files {
		if !isSpace(strings.TrimSuffix(name, "/")) {
			return nil, &storage.InvalidError{Key: name, Rule: "namespace of files is not _[a-z][a-z0-9-]*, or is _data"}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.group = engine.NewGroup(mostGroup, weigh, s.commit)
	s.upkeep.boot, s.upkeep.name = bootID(), randomName()
	if err := s.prepare(); err != nil {
		return nil, err
	}
	if !s.opts.ReadOnly {
		if s.who, err = accessTo(root); err != nil {
			return nil, fmt.Errorf("open %s: %w", root, engine.DiskError(err))
		}
		s.audit.who = s.who
		s.lock, err = openLock(root, s.who, s.opts.LockWait)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", root, err)
		}
	}
	if err := s.load(ctx); err != nil {
		return nil, errors.Join(err, s.release())
	}
	s.startUpkeep()
	return s, nil
}

// prepare examines the directory, creating it if there is none.
func (s *Store) prepare() error {
	info, err := os.Stat(s.root)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !s.opts.ReadOnly:
		if err := os.MkdirAll(s.root, 0o755); err != nil {
			return fmt.Errorf("create %s: %w", s.root, engine.DiskError(err))
		}
		return nil
	case err != nil:
		return fmt.Errorf("open: %w", engine.DiskError(err))
	case !info.IsDir():
		return &storage.FormatError{Path: s.root, Reason: "is not a directory: name a directory"}
	}
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return fmt.Errorf("open: %w", engine.DiskError(err))
	}
	foreign := false
	for _, e := range entries {
		switch name := e.Name(); {
		case name == markerName:
			return s.readMarker()
		case name == indexName || name == lockName:
			if name == indexName {
				if err := recognizeIndex(s.root); err != nil {
					return err
				}
			}
			return nil
		case name == filepath.Base(dataDir):
			if err := s.ownDirs(logDir, tempDir, lostDir); err != nil {
				return err
			}
		case name[0] != '.' && !strings.HasPrefix(name, "_mutations."):
			foreign = true
		}
	}
	if _, err := os.Lstat(filepath.Join(s.root, vaultName)); err == nil {
		return nil
	}
	switch {
	case foreign && !s.opts.Adopt:
		return &storage.FormatError{Path: s.root, Reason: "holds files and is not a vault: name an empty directory, or make it one by strata vault rebuild --adopt"}
	case !foreign && s.opts.ReadOnly:
		return &storage.FormatError{Path: s.root, Reason: "is not a vault: name one; the first write to an empty directory makes it one"}
	}
	return nil
}

// ownDirs returns an error if something other than a directory is in the place
// of one of the store's own. It is called before each write to one, because
// somebody may put a link there while the store is open.
func (s *Store) ownDirs(dirs ...string) error {
	for _, dir := range dirs {
		if s.isDir(dir) == errLinked {
			return &storage.FormatError{Path: s.root, Reason: "its " + dir + " is not a directory of its own: a vault does not follow links"}
		}
	}
	return nil
}

// load reads the vault, holding its lock unless it is read only.
func (s *Store) load(ctx context.Context) error {
	if !s.opts.ReadOnly {
		if err := s.lock.lock(ctx); err != nil {
			return err
		}
		defer s.lock.unlock()
	}
	if err := s.recognize(); err != nil {
		return err
	}
	if err := s.read(); err != nil || s.opts.ReadOnly {
		return err
	}
	return s.refile()
}

// read builds the state.
func (s *Store) read() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	known, err := s.loadLog()
	if err != nil {
		return err
	}
	for _, name := range s.opts.Files {
		s.learn(strings.TrimSuffix(name, "/"))
	}
	s.watch = newWatcher(s.root)
	s.sweepAll, s.trusting = true, !known
	defer func() { s.trusting = false }()
	return s.observe()
}

// loadLog reads index and log and finishes what a process that died had begun.
// known reports whether the index was usable.
func (s *Store) loadLog() (known bool, err error) {
	if s.opts.ReadOnly {
		known = s.readIndex()
		if s.end, err = os.Open(filepath.Join(s.root, endName)); errors.Is(err, fs.ErrNotExist) {
			return known, nil // a clone: it has no records
		} else if err != nil {
			return known, fmt.Errorf("open %s: %w", s.root, engine.DiskError(err))
		}
		err = s.reread()
		if damage, ok := errors.AsType[*storage.CorruptError](err); ok {
			damage.Repair = "run strata vault rebuild, which repairs what a crash of the system left"
		}
		s.indexAt = position{}
		return known, err
	}
	s.removeTemporaries()
	end, err := s.openLog()
	if err != nil {
		return false, err
	}
	known = s.readIndex()
	if err := s.reloadTo(end); err != nil {
		return known, err
	}
	s.indexAt = position{}
	if err := s.audit.current(); err != nil {
		return known, fmt.Errorf("open audit log: %w", engine.DiskError(err))
	}
	if err := s.finish(); err != nil {
		return known, err
	}
	if err := s.reclaim(nil); err != nil {
		return known, err
	}
	return known, s.writeEnd()
}

// putWhole puts a file in place so that a power loss leaves either the old or
// the new one.
func (s *Store) putWhole(path string, text []byte) error {
	private := path != filepath.Join(s.root, markerName) && path != filepath.Join(s.root, ignoreName)
	err := s.place(path, func(temp string) error { return s.writeWhole(temp, text, private) })
	if err == nil && s.opts.Durability == storage.Full {
		err = syncDir(filepath.Dir(path))
	}
	return err
}

// writeWhole writes a new file.
func (s *Store) writeWhole(path string, text []byte, private bool) error {
	f, err := s.who.open(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, private)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil && s.opts.Durability == storage.Full {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// place puts in place what write writes to a temporary file. Unless the caller
// has the lock, a process that opens the vault may remove that file meanwhile;
// then it is written again, up to a hundred times.
func (s *Store) place(path string, write func(temp string) error) (err error) {
	if err := s.ownDirs(tempDir); err != nil {
		return err
	}
	for range 100 {
		temp := s.tempName()
		if err = write(temp); err == nil {
			err = os.Rename(temp, path)
		}
		if err == nil {
			return nil
		}
		_ = os.Remove(temp)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// removeTemporaries removes what a process that died has left. A living process
// writes its file again.
func (s *Store) removeTemporaries() {
	dirs := []string{filepath.Join(s.root, dataDir), filepath.Join(s.root, tempDir), filepath.Join(s.root, logDir)}
	entries, _ := os.ReadDir(s.root) // an error shows up later
	l := s.layout.Load()
	if l == nil { // older programs left some next to documents; none had people's folders
		dirs = append(dirs, s.root)
	}
	for _, e := range entries {
		if _, theirs := l.kind(e.Name()); e.IsDir() && !theirs && l.holdsFiles(e.Name()) {
			dirs = append(dirs, filepath.Join(s.root, e.Name()))
		}
	}
	for _, dir := range dirs {
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		names, _ := f.Readdirnames(-1)
		f.Close()
		for _, name := range names {
			if strings.HasPrefix(name, tempPrefix) {
				_ = os.Remove(filepath.Join(dir, name))
			}
		}
	}
}

// openLog opens _data/end and determines how much of the log is part of the
// vault. After a reboot it restores the files that may not have reached the
// disk.
func (s *Store) openLog() (position, error) {
	base, numbers, err := segmentsOf(s.root)
	if err != nil {
		return position{}, fmt.Errorf("open %s: %w", s.root, engine.DiskError(err))
	}
	if len(numbers) == 0 {
		if err := s.createSegment(base + 1); err != nil {
			return position{}, fmt.Errorf("create log: %w", engine.DiskError(err))
		}
		numbers = []uint64{base + 1}
	}
	s.end, err = s.who.open(filepath.Join(s.root, endName), os.O_RDWR|os.O_CREATE|noFollow, true)
	if err != nil {
		return position{}, fmt.Errorf("open %s: %w", s.root, engine.DiskError(err))
	}
	start := position{numbers[0], int64(len(segmentMagic))}
	end, ok := readEnd(s.end)
	if !ok || end.segment < start.segment {
		end = ending{position: start}
	}
	if ok && end.boot == s.upkeep.boot && end.boot != "" {
		return end.position, nil
	}
	return s.recover(numbers, end.position)
}

// recover repeats what segments that are not settled say. The log may be
// shorter than its end if it was not synced.
func (s *Store) recover(numbers []uint64, end position) (position, error) {
	settled := s.settled()
	var frames []frame
	for _, no := range numbers {
		if no <= settled && no != end.segment || no > end.segment {
			continue
		}
		g, err := openSegment(s.root, no, false)
		if err != nil {
			return end, fmt.Errorf("open log: %w", err)
		}
		got, _, err := g.read(int64(len(segmentMagic)), -1)
		g.f.Close()
		if err != nil {
			return end, fmt.Errorf("open log: %w", err)
		}
		if no == end.segment {
			last := int64(len(segmentMagic))
			if len(got) > 0 {
				last = got[len(got)-1].end
			}
			if last < end.at {
				s.logger.Warn("vault: the log lost its end in a crash of the system", "dir", s.root, "segment", no, "at", last)
				end.at = last
			}
			for len(got) > 0 && got[len(got)-1].end > end.at {
				got = got[:len(got)-1] // finish does these
			}
		}
		frames = append(frames, got...)
	}
	return end, s.redo(frames)
}

// settled returns the last segment whose documents are on disk.
func (s *Store) settled() uint64 {
	b, err := os.ReadFile(filepath.Join(s.root, settledName))
	if err != nil || len(b) != 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// reload reads all records again because another process compacted the log.
func (s *Store) reload() error {
	s.indexAt = s.at
	s.sweepAll = true
	return s.reread()
}

// reread reads the log up to its end.
func (s *Store) reread() error {
	for range 10 { // it may be compacted again meanwhile
		end, ok := readEnd(s.end)
		if !ok {
			break
		}
		if err := s.reloadTo(end.position); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return &storage.CorruptError{Path: filepath.Join(s.root, endName), Reason: "the log does not have what it says", Repair: repairLog}
}

// reloadTo reads the log up to a position. The caller holds syncing.
func (s *Store) reloadTo(end position) error {
	base, numbers, err := segmentsOf(s.root)
	if err != nil {
		return err
	}
	if len(numbers) == 0 {
		return fmt.Errorf("read log: %w", fs.ErrNotExist)
	}
	s.mu.Lock()
	var records []string
	s.now.logged(func(key string, _ item) bool {
		records = append(records, key)
		return true
	})
	for _, key := range records {
		s.now.remove(key)
	}
	s.shared = nil
	for no, g := range s.segments {
		s.upkeep.old = append(s.upkeep.old, g)
		delete(s.segments, no)
	}
	s.mu.Unlock()
	if base > 0 {
		if err := s.readBase(base); err != nil {
			return err
		}
	}
	if err := s.enter(numbers[0]); err != nil {
		return err
	}
	if end.segment < s.at.segment {
		return nil
	}
	return s.follow(end)
}
