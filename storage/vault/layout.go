package vault

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratamem/strata/storage"
	"golang.org/x/text/unicode/norm"
)

// Folders that people made and that [Options] Adopt took in keep their names
// and places: _vault.json says which type the notes in each have.
//
//	{"format":"strata-vault","version":3,"folders":{".":"note","Daily Notes":"daily-notes","Templates":""}}
//
// "." is the directory of the vault itself, a nested folder has its path with
// slashes, and "" is the type of a folder that is left alone. The documents of
// a type with a folder are files in it, with the names of name.go, and never in
// a directory named like the type. All other directories work as if there were
// no folders.

// rootFolder is the directory of the vault, if it holds notes.
const rootFolder = "."

// layout says which folders hold the documents of which types. It is immutable;
// nil is the layout of a vault without folders made by people.
type layout struct {
	kinds   map[string]string // by folder in NFC; "" is left alone
	folders map[string]string // by type, as the file system spells it
}

// newLayout returns the layout for the folders in the vault's file. It returns
// false if this program would not have written them: the file may come from
// anywhere, and what is written to a folder must stay in the vault.
func newLayout(folders map[string]string) (*layout, bool) {
	if len(folders) == 0 {
		return nil, true
	}
	l := &layout{kinds: map[string]string{}, folders: map[string]string{}}
	for folder, kind := range folders {
		if odd(folder) || strings.Contains("/"+folder, "/.") && folder != rootFolder || top(folder) == dataDir {
			return nil, false
		}
		l.kinds[norm.NFC.String(folder)] = kind
		if kind == "" {
			continue
		}
		if _, twice := l.folders[kind]; twice || !storage.IsDocument(kind) || storage.ValidateKey(kind+"/x") != nil || strings.Contains(kind, "/") {
			return nil, false
		}
		l.folders[kind] = folder
	}
	return l, len(l.kinds) == len(folders)
}

// kind returns the type of a person's folder, which is "" if the folder is left
// alone, and whether it is one.
func (l *layout) kind(folder string) (string, bool) {
	if l == nil {
		return "", false
	}
	kind, ok := l.kinds[norm.NFC.String(folder)]
	if !ok && folder != rootFolder {
		// What is in a folder that is left alone is left alone as well.
		for i := strings.LastIndexByte(folder, '/'); i > 0; i = strings.LastIndexByte(folder[:i], '/') {
			if kind, ok := l.kinds[norm.NFC.String(folder[:i])]; ok && kind == "" {
				return "", true
			}
		}
	}
	return kind, ok
}

// folder returns the folder of a type.
func (l *layout) folder(kind string) (string, bool) {
	if l == nil {
		return "", false
	}
	folder, ok := l.folders[kind]
	return folder, ok
}

// all returns the folders that hold documents, in order.
func (l *layout) all() []string {
	if l == nil {
		return nil
	}
	return slices.Sorted(maps.Values(l.folders))
}

// isSpace reports whether a directory of the vault belongs to a namespace.
func (l *layout) isSpace(dir string) bool {
	if !isSpace(dir) {
		return false
	}
	_, theirs := l.kind(dir)
	return !theirs
}

// readLayout brings the layout up to date with the vault's file. The caller
// holds syncing, or the store is not shared yet.
func (s *Store) readLayout() error {
	v, err := s.readFormat(markerName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	old := s.layout.Load()
	if old == nil && len(v.Folders) == 0 {
		return nil
	}
	l, ok := newLayout(v.Folders)
	if !ok {
		return &storage.FormatError{Path: filepath.Join(s.root, markerName), Reason: "names folders that a vault cannot have: repair it, or restore it"}
	}
	if l == nil || old == nil || !maps.Equal(old.kinds, l.kinds) || !maps.Equal(old.folders, l.folders) {
		s.layout.Store(l)
	}
	return nil
}
