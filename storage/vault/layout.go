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

// Folders that people made, and which [Options] Adopt took in, keep their names
// and their places: _vault.json says which type the notes of each are of.
//
//	{"format":"strata-vault","version":3,"folders":{".":"note","Daily Notes":"daily-notes","Templates":""}}
//
// "." is the directory of the vault itself, a folder in a folder has its path with
// slashes, and "" is the type of a folder that is left alone. A document of a
// type that has a folder is a file in it, with the names of name.go, and never in
// a directory that is named as the type. All other directories are as if there were no folders.

// rootFolder is the directory of the vault, where it holds notes.
const rootFolder = "."

// layout says which folders hold the documents of which types. It is never
// changed; nil is that of a vault without folders of people's.
type layout struct {
	kinds   map[string]string // by folder, NFC; "" is left alone
	folders map[string]string // by type, as the file system spells it
}

// newLayout makes the layout of the folders that a vault's file names, and says
// false to any that this program does not write: the file may come from anywhere, and
// what is written to a folder stays in the vault.
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

// kind returns the type of a folder of a person's, "" if it is left alone, and
// whether it is one.
func (l *layout) kind(folder string) (string, bool) {
	if l == nil {
		return "", false
	}
	kind, ok := l.kinds[norm.NFC.String(folder)]
	if !ok && folder != rootFolder {
		// What is in a folder that is left alone is left as well.
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

// all are the folders that hold documents, in order.
func (l *layout) all() []string {
	if l == nil {
		return nil
	}
	return slices.Sorted(maps.Values(l.folders))
}

// isSpace reports whether a directory of the vault is a namespace's.
func (l *layout) isSpace(dir string) bool {
	if !isSpace(dir) {
		return false
	}
	_, theirs := l.kind(dir)
	return !theirs
}

// readLayout brings the layout up to date with the vault's file. Under syncing, or
// before the store is shared.
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
		return &storage.FormatError{Path: filepath.Join(s.root, markerName), Reason: "names folders that no vault has: mend it, or restore it"}
	}
	if l == nil || old == nil || !maps.Equal(old.kinds, l.kinds) || !maps.Equal(old.folders, l.folders) {
		s.layout.Store(l)
	}
	return nil
}
