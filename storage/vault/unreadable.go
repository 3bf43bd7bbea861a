package vault

import (
	"context"
	"errors"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratamem/strata/storage"
)

// Unreadable implements [storage.UnreadableLister]. It lists the directories
// that prefix admits, and opens only files that are not documents or whose
// names were cut. The loop body runs after that.
//
// It yields files that cannot be read as documents or records, files whose
// names reveal no key or whose key belongs to another file, whatever is in the
// place of a directory without being one, and unreadable directories. A
// directory whose name was cut may belong to any type.
func (s *Store) Unreadable(ctx context.Context, prefix string) iter.Seq2[storage.Fault, error] {
	return func(yield func(storage.Fault, error) bool) {
		var faults []storage.Fault
		// List first: then the state knows what is listed and sound.
		listed, err := s.list(prefix)
		if err == nil {
			err = s.with(ctx, true, func(v view) error {
				faults = append(badDocs(v, prefix), s.strays(listed)...)
				return nil
			})
		}
		yieldAll(faults, err, yield)
	}
}

// badDocs returns the files whose keys have the prefix and that are not
// documents.
func badDocs(v view, prefix string) (faults []storage.Fault) {
	v.st.items.Ascend(prefix, func(key string, it item) bool {
		if it.doc != nil && it.doc.bad != "" && strings.HasPrefix(key, prefix) {
			faults = append(faults, it.doc.fault(key, v.root))
		}
		return strings.HasPrefix(key, prefix)
	})
	return faults
}

func (d *doc) fault(key, root string) storage.Fault {
	return storage.Fault{Key: key, Path: d.path(root), Reason: d.bad, Repair: repairText}
}

// listing is the content of some directories.
type listing struct {
	files  []string // relative to the vault
	faults []storage.Fault
}

// list lists the directories that may contain files whose keys have the prefix.
func (s *Store) list(prefix string) (l listing, err error) {
	if s.closed.Load() {
		return l, storage.ErrClosed
	}
	dirs, err := s.directories()
	if err != nil {
		return l, err
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if s.layout.Load().mayHold(dir, prefix) {
			err := s.isDir(dir)
			s.listDir(dir, err == nil, &l)
		}
	}
	return l, nil
}

func (s *Store) listDir(dir string, isDir bool, l *listing) {
	path := filepath.Join(s.root, dir)
	if !isDir {
		l.add(path, errLinked.Error(), "put the directory there, or give the file a name with an extension")
		return
	}
	entries, err := readDir(path)
	names := s.layout.Load()
	for _, e := range entries {
		switch name := e.Name(); {
		case names.isFile(dir, name):
			l.files = append(l.files, dir+"/"+name)
		// A file without an extension is in the place of a directory; others are
		// foreign notes.
		case names.isFolder(dir, name) && (e.IsDir() || e.Type()&os.ModeSymlink != 0 || !strings.Contains(name, ".")):
			s.listDir(dir+"/"+name, e.IsDir(), l)
		}
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		l.add(path, err.Error(), "let the directory be read")
	}
}

func (l *listing) add(path, reason, repair string) {
	l.faults = append(l.faults, storage.Fault{Path: path, Reason: reason, Repair: repair})
}

// mayHold reports whether a directory may hold a key with the prefix.
func (l *layout) mayHold(dir, prefix string) bool {
	kind, ok := dir, l.isSpace(dir)
	if !ok {
		kind, ok = l.kindOf(dir)
	}
	if !ok { // the name was cut
		return prefix == "" || storage.IsDocument(prefix)
	}
	kind += "/"
	return strings.HasPrefix(kind, prefix) || strings.HasPrefix(prefix, kind)
}

// known reports whether the state has a document in a file, or a commit is at it.
func (s *Store) known(dir, name string) bool {
	s.mu.RLock()
	busy := s.busy[dir+"/"+name] // read before the state
	s.mu.RUnlock()
	return busy || s.docAt(dir, name) != nil
}

// strays returns the faults of a listing, and its files that the state does not
// have, although it has been brought up to date since.
func (s *Store) strays(l listing) []storage.Fault {
	for _, rel := range l.files {
		dir, name := cutRel(rel)
		if s.known(dir, name) {
			continue
		}
		reason, repair := "the name of the file gives no key", "rename the file"
		if key, ok := s.keyAt(dir, name); ok {
			if s.peek(key) == nil {
				continue // it is gone
			}
			reason = "another file has the same key: " + key
		} else if !s.layout.Load().isSpace(top(dir)) && (isCut(dir) || isCut(name)) {
			text, was, err := s.readText(dir, name)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err == nil {
				// It may have come back since the state was asked, or be gone again.
				known := s.known(dir, name)
				if _, now, err := s.readText(dir, name); known || err != nil || now != was {
					continue
				}
			}
			if err == nil {
				_, err = decode(text, true)
			}
			if alien, ok := errors.AsType[*errNoDocument](err); ok {
				reason, repair = alien.reason, "edit the file"
			}
		}
		l.add(filepath.Join(s.root, dir, name), reason, repair)
	}
	return l.faults
}
