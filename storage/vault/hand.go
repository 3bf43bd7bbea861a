package vault

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/stratamem/strata/storage"
)

// mostText bounds the size of a file that is read as a document: a document of
// 8 MiB plus what comments and white space may add.
const mostText = 4 * storage.MaxValue

// errLinked says why nothing is read through a link in place of a directory.
var errLinked = noDocument("the directory is a symbolic link or a file")

// readText reads the file of a document or record, with the metadata that
// identifies its version. If the path holds something else, the error is an
// [errNoDocument].
func (s *Store) readText(dir, name string) ([]byte, stat, error) {
	if err := s.isDir(dir); err != nil {
		return nil, stat{}, err
	}
	path := filepath.Join(s.root, dir, name)
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow|nonBlock, 0)
	if err != nil {
		return nil, stat{}, unreadable(path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, stat{}, err
	}
	switch st := statOf(info); {
	case !info.Mode().IsRegular():
		return nil, st, noDocument("the file is not a regular file")
	case info.Size() > mostText:
		return nil, st, noDocument("the file is over 32 MiB")
	default:
		text := make([]byte, info.Size(), info.Size()+1)
		n, err := io.ReadFull(f, text)
		if err == io.ErrUnexpectedEOF { // it shrank while we read
			err = nil
		}
		if err == io.EOF {
			err = nil
		}
		return text[:n], st, err
	}
}

// isDir reports whether a path is one of directories, with no symbolic link
// among them.
func (s *Store) isDir(dir string) error {
	if dir == rootFolder {
		return nil
	}
	for i := range len(dir) + 1 {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		info, err := os.Lstat(filepath.Join(s.root, dir[:i]))
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return errLinked
		}
	}
	return nil
}

// unreadable reports whether an error means that a file cannot be read, rather
// than that it does not exist.
func unreadable(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if info, statErr := os.Lstat(path); statErr == nil && info.Mode()&fs.ModeSymlink != 0 {
		return noDocument("the file is a symbolic link")
	}
	if errors.Is(err, fs.ErrPermission) {
		return noDocument("the file may not be read: permission denied")
	}
	return err
}

// parse turns the text of a file into a doc. A file that cannot be read yields
// a doc too, with the reason in bad.
func parse(key, dir, name string, st stat, content []byte, declared []string) *doc {
	d := &doc{dir: dir, name: name, stat: st, digest: digestOf(content)}
	document, err := valueOf(key, dir, name, content)
	if err != nil {
		d.bad = err.Error()
		return d
	}
	d.index(key, document, declared)
	return d
}

// valueOf returns the value in the text of a file.
func valueOf(key, dir, name string, content []byte) ([]byte, error) {
	if !storage.IsDocument(key) {
		if len(content) > storage.MaxValue {
			return nil, noDocument("the file is over 8 MiB")
		}
		return content, nil
	}
	f, err := decode(content, isCut(dir) || isCut(name))
	if err != nil {
		return nil, err
	}
	if f.key != "" && f.key != key {
		return nil, noDocument("the key in the front matter does not belong to the name of the file")
	}
	return f.document(key)
}

// observe brings the state up to date with the files, using the file system
// events since the last time or, where there are none, looking at all files.
// The caller holds syncing.
func (s *Store) observe() error {
	if s.watch == nil {
		s.sweepAll = true
	} else {
		s.drain()
	}
	if s.sweepAll {
		s.sweepAll = false
		if err := s.sweep(); err != nil {
			s.sweepAll = true
			return err
		}
	}
	for dir := range s.sweeps {
		delete(s.sweeps, dir)
		if err := s.sweepDir(dir); err != nil {
			s.sweeps[dir] = true
			return err
		}
	}
	return s.resolveAll()
}

// drain processes the file system events.
func (s *Store) drain() {
	l := s.layout.Load()
	overflow := s.watch.drain(func(dir, name string, gone bool) {
		rel := dir + "/" + name
		if dir == "" {
			dir, rel = rootFolder, name
		}
		switch {
		case gone:
			s.sweeps[dir] = true
		case rel == markerName: // another process may have adopted folders
			s.sweepAll = true
		case l.holdsDocuments(dir) && l.isFile(dir, name), l.isSpace(top(dir)) && l.isFile(dir, name):
			s.dirty[dir+"/"+name] = true
		case l.isFolder(dir, name), l.holdsFiles(rel):
			s.sweeps[rel] = true
		}
	})
	if overflow {
		s.sweepAll = true
	}
}

func (s *Store) resolveAll() error {
	for rel := range s.dirty {
		delete(s.dirty, rel)
		dir, name := cutRel(rel)
		if err := s.resolve(dir, name); err != nil {
			s.dirty[rel] = true
			return err
		}
	}
	return nil
}

// sweep looks at all files.
func (s *Store) sweep() error {
	if err := s.readLayout(); err != nil {
		return err
	}
	dirs, err := s.directories()
	if err != nil {
		return fmt.Errorf("read vault: %w", err)
	}
	s.mu.RLock()
	s.now.files(func(key string, d *doc) bool { // including files in a directory that is gone
		if storage.IsDocument(key) {
			dirs[d.dir] = true
		} else {
			dirs[top(d.dir)] = true
		}
		return true
	})
	s.mu.RUnlock()
	for dir := range dirs {
		if err := s.sweepDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// directories returns the directories of the vault that hold files, those in
// namespaces separately.
func (s *Store) directories() (map[string]bool, error) {
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return nil, err
	}
	l := s.layout.Load()
	dirs := map[string]bool{}
	for _, e := range entries {
		if l.holdsFiles(e.Name()) {
			dirs[e.Name()] = true
		}
	}
	for _, dir := range l.all() {
		if _, err := os.Lstat(filepath.Join(s.root, dir)); err == nil {
			dirs[dir] = true
		}
	}
	return dirs, nil
}

// sweepDir finds and marks the files in a directory and its subdirectories that
// differ from the state.
func (s *Store) sweepDir(dir string) error {
	err := s.isDir(dir)
	if err == nil && s.layout.Load().isSpace(dir) {
		s.learn(dir)
	}
	there := map[string]bool{}
	switch {
	case err == nil:
		err = s.sweepFiles(dir, there)
	case err == errLinked || errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return fmt.Errorf("read vault: %w", err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.now.within(s.layout.Load(), dir, func(d *doc) {
		if rel := d.rel(); strings.HasPrefix(rel, dir+"/") && !there[rel] {
			s.dirty[rel] = true
		}
	})
	return nil
}

// sweepFiles marks the files in a directory that differ from the state, and
// adds all files to there.
func (s *Store) sweepFiles(dir string, there map[string]bool) error {
	if s.watch != nil { // before listing, so that no change is missed
		if err := s.watch.add(dir); err != nil {
			s.unwatch(err)
		}
	}
	path := filepath.Join(s.root, dir)
	entries, err := readDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	l := s.layout.Load()
	for _, e := range entries {
		name := e.Name()
		rel := dir + "/" + name
		if l.isFolder(dir, name) && e.IsDir() {
			if err := s.sweepFiles(rel, there); err != nil {
				return err
			}
		}
		if !l.isFile(dir, name) {
			continue
		}
		there[rel] = true
		if d := s.docAt(dir, name); d != nil {
			if info, err := os.Lstat(filepath.Join(path, name)); err == nil && statOf(info) == d.stat {
				continue
			}
		}
		s.dirty[rel] = true
	}
	return nil
}

// readDir lists a directory, in no order.
func readDir(path string) ([]fs.DirEntry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

// unwatch stops using events because the system has no more to offer.
func (s *Store) unwatch(err error) {
	s.logger.Warn("vault: no more file events, files are listed instead", "dir", s.root, "error", err)
	s.watch.close()
	s.watch = nil
}

// keyAt returns the key of a file if its name or the state reveals it.
func (s *Store) keyAt(dir, name string) (string, bool) {
	s.mu.RLock()
	key, ok := s.aliases[dir+"/"+name]
	s.mu.RUnlock()
	if ok {
		return key, true
	}
	return s.layout.Load().keyOf(dir, name)
}

// docAt returns the doc that was read from a file.
func (s *Store) docAt(dir, name string) *doc {
	key, ok := s.keyAt(dir, name)
	if !ok {
		return nil
	}
	if d := s.peek(key); d != nil && d.dir == dir && d.name == name {
		return d
	}
	return nil
}

// peek returns the doc of a key as the state has it.
func (s *Store) peek(key string) *doc {
	s.mu.RLock()
	defer s.mu.RUnlock()
	it, _ := s.now.items.Get(key)
	return it.doc
}

// resolve makes the state agree with one file. The caller holds syncing.
func (s *Store) resolve(dir, name string) error {
	rel := dir + "/" + name
	s.mu.RLock()
	busy := s.busy[rel]
	s.mu.RUnlock()
	if busy {
		s.later[rel] = true
		return nil
	}
	key, known := s.keyAt(dir, name)
	cur := s.docAt(dir, name)
	if cur != nil {
		if info, err := os.Lstat(cur.path(s.root)); err == nil && statOf(info) == cur.stat {
			return nil
		}
	}
	text, st, err := s.readText(dir, name)
	var alien *errNoDocument
	switch {
	case errors.Is(err, fs.ErrNotExist), err == errLinked:
		if cur != nil {
			s.change(func() { s.dropDoc(key, cur) })
			s.publish(cur.bad == "", storage.EventDelete, key)
		}
		return nil
	case errors.As(err, &alien):
		if known {
			s.seeDoc(key, cur, &doc{dir: dir, name: name, stat: st, bad: alien.reason, unseen: true})
		}
		return nil
	case err != nil:
		return fmt.Errorf("read vault: %w", err)
	}
	if sum := digestOf(text); cur != nil && cur.digest == sum {
		same := *cur
		same.stat = st
		s.change(func() { s.putDoc(key, &same) })
		return nil
	}
	if !known {
		if key, known = s.layout.Load().keyInside(dir, name, text); !known {
			return nil
		}
	}
	d := parse(key, dir, name, st, text, s.declared())
	d.unseen = !s.trusting
	s.seeDoc(key, cur, d)
	return nil
}

// keyInside returns the key of a file whose name was cut.
func (l *layout) keyInside(dir, name string, text []byte) (string, bool) {
	if l.isSpace(top(dir)) || !isCut(dir) && !isCut(name) {
		return "", false
	}
	f, err := decode(text, true)
	if err != nil || storage.ValidateKey(f.key) != nil || !storage.IsDocument(f.key) {
		return "", false
	}
	madeDir, madeName, _ := l.fileOf(f.key)
	return f.key, madeDir == dir && madeName == name
}

// seeDoc updates the state for a file that another hand changed from cur.
func (s *Store) seeDoc(key string, cur, d *doc) {
	if other := s.peek(key); other != nil && cur == nil {
		// Two files have one key: the one with the name that we would give wins.
		if _, err := os.Lstat(other.path(s.root)); err == nil && !s.layout.Load().canonical(key, d) {
			return
		}
	}
	s.change(func() { s.putDoc(key, d) })
	if d.bad != "" && (cur == nil || cur.bad != d.bad) {
		s.logger.Warn("vault: file cannot be read and is skipped", "file", d.path(s.root), "reason", d.bad)
	}
	s.publish(!s.trusting, storage.EventSet, key)
}

func (l *layout) canonical(key string, d *doc) bool {
	dir, name, _ := l.fileOf(key)
	return d.dir == dir && d.name == name
}

// alias reports whether the name of a file does not reveal its key.
func (l *layout) alias(key string, d *doc) bool {
	return !l.canonical(key, d) || storage.IsDocument(key) && (isCut(d.dir) || isCut(d.name))
}

func (s *Store) publish(really bool, kind storage.EventKind, key string) {
	if really && s.hub.Watched() {
		s.hub.Publish(storage.Event{Kind: kind, Key: key})
	}
}

// change changes the state.
func (s *Store) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared = nil
	s.changes++
	f()
}

// putDoc and dropDoc are called inside change.
func (s *Store) putDoc(key string, d *doc) {
	if old, _ := s.now.items.Get(key); old.doc != nil && old.doc.rel() != d.rel() {
		delete(s.aliases, old.doc.rel())
	}
	if s.layout.Load().alias(key, d) {
		s.aliases[d.rel()] = key
	}
	s.now.put(key, item{doc: d})
}

func (s *Store) dropDoc(key string, d *doc) {
	delete(s.aliases, d.rel())
	s.now.remove(key)
}

// endBusy allows files that a commit has written to be looked at again.
func (s *Store) endBusy() {
	s.mu.Lock()
	clear(s.busy)
	s.mu.Unlock()
	maps.Copy(s.dirty, s.later)
	clear(s.later)
}

// seen notes that a caller has read a text, so that replacing it loses nothing
// unknown.
func (s *Store) seen(key string, sum digest) {
	s.mu.RLock()
	it, _ := s.now.items.Get(key)
	s.mu.RUnlock()
	if it.doc == nil || !it.doc.unseen || it.doc.digest != sum {
		return
	}
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.change(func() {
		if it, _ := s.now.items.Get(key); it.doc != nil && it.doc.digest == sum {
			d := *it.doc
			d.unseen = false
			s.now.put(key, item{doc: &d})
		}
	})
}

// notice looks at one file now, because a reader found that it differs from the
// state.
func (s *Store) notice(dir, name string) {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	if err := s.resolve(dir, name); err != nil {
		s.dirty[dir+"/"+name] = true
	}
}
