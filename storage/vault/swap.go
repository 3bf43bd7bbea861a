package vault

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// placeFile puts the file of a change in place, or removes it. was is what the
// change was planned on: whatever another hand has saved since is kept. Until
// this is decided, the old file has a special name, so that a process that
// finds it after a crash does not take it for a temporary file.
func (s *Store) placeFile(c *change, temp string, was *doc) error {
	path, out := filepath.Join(s.root, c.dir, c.name), s.swapName(c)
	if c.kind == opDeleteDoc {
		err := os.Rename(path, out)
		if errors.Is(err, fs.ErrNotExist) { // or someone removed the temporary file
			if err = s.who.mkdirAll(s.root, tempDir); err == nil {
				err = os.Rename(path, out)
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		crashPoint("swapped")
		return s.discardOld(c, out, was)
	}
	old, err := swap(temp, out, path)
	if errors.Is(err, fs.ErrNotExist) { // someone removed the temporary file or the directory
		_ = os.Remove(temp)
		if temp, err = s.tempFile(c.dir, c.value, time.Unix(0, c.stat.mtime)); err == nil {
			old, err = swap(temp, out, path)
		}
	}
	if err != nil || old == "" {
		_ = os.Remove(temp) // if it is there still
		return err
	}
	crashPoint("swapped")
	return s.discardOld(c, old, was)
}

// discardOld removes a file that was replaced, or keeps it if it is not what
// the change was planned on.
func (s *Store) discardOld(c *change, old string, was *doc) error {
	info, err := os.Lstat(old)
	if err != nil {
		return err
	}
	known := was != nil && !info.IsDir() && (was.stat == statOf(info) || was.bad != "" && was.stat == stat{})
	if !known && was != nil && info.Mode().IsRegular() && info.Size() == was.stat.size {
		if text, err := os.ReadFile(old); err == nil {
			known = digestOf(text) == was.digest
		}
	}
	if known {
		return os.Remove(old)
	}
	return s.keepOld(c, old)
}

// keepOld keeps a file that was replaced.
func (s *Store) keepOld(c *change, old string) error {
	rel, err := s.lostPlace(c.dir, c.name, time.Now().UnixNano())
	if err == nil {
		err = os.Rename(old, filepath.Join(s.root, rel))
	}
	if err != nil {
		return fmt.Errorf("keep %s: %w", filepath.Join(c.dir, c.name), err)
	}
	s.logger.Warn("vault: a text that was saved during a commit is replaced; it is kept", "file", filepath.Join(s.root, c.dir, c.name), "kept", rel)
	return nil
}

const swapPrefix = ".swap."

// swapName is where a file is moved when a change replaces it.
func (s *Store) swapName(c *change) string {
	return filepath.Join(s.root, tempDir, swapPrefix+digestOf([]byte(c.dir+"/"+c.name)).String())
}

// reclaim decides about files left by a process that died after moving a file
// out of its place and before discarding it: a text that the frames replace is
// removed, and one unknown to them was written by a person and is kept. The
// caller holds the lock, as does any process that swaps.
func (s *Store) reclaim(frames []frame) error {
	dir := filepath.Join(s.root, tempDir)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read vault: %w", err)
	}
	known := map[digest]bool{}
	places := map[string]*change{}
	for i := range frames {
		for j := range frames[i].changes {
			if c := &frames[i].changes[j]; c.dir != "" {
				known[c.before], known[c.after] = true, true
				places[filepath.Base(s.swapName(c))] = c
			}
		}
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), swapPrefix) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		var text []byte
		if e.Type().IsRegular() {
			if text, err = os.ReadFile(path); err != nil {
				return fmt.Errorf("read vault: %w", err)
			}
		}
		if e.Type().IsRegular() && known[digestOf(text)] {
			err = os.Remove(path)
		} else {
			c := cmp.Or(places[strings.TrimSuffix(e.Name(), ".old")], &change{name: e.Name()[len(swapPrefix):]})
			err = s.keepOld(c, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replace is swap for systems that cannot exchange files: what is saved between
// its two steps is lost, and so is everything if the file system has no links.
func replace(temp, out, path string) (old string, err error) {
	out += ".old"
	linked := os.Link(path, out) == nil
	if err := os.Rename(temp, path); err != nil || !linked {
		if linked {
			err = errors.Join(err, os.Remove(out))
		}
		return "", err
	}
	return out, nil
}
