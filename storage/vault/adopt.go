package vault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/stratamem/strata/storage"
	"golang.org/x/text/unicode/norm"
)

// Folder is a directory that a person created and that is part of the vault
// under its own name.
type Folder struct {
	Path  string `json:"path"`  // in the vault, with slashes; "." is the vault's directory
	Type  string `json:"type"`  // of the documents in it
	Notes int    `json:"notes"` // how many of them can be read
}

// Folders returns the directories that [Options] Adopt has taken in, ordered by
// path.
func (s *Store) Folders(ctx context.Context) (list []Folder, err error) {
	err = s.with(ctx, true, func(v view) error {
		l := s.layout.Load()
		for _, dir := range l.all() {
			kind, _ := l.kind(dir)
			f := Folder{Path: dir, Type: kind}
			v.st.items.Ascend(kind+"/", func(key string, it item) bool {
				within := strings.HasPrefix(key, kind+"/")
				if within && it.doc != nil && it.doc.bad == "" {
					f.Notes++
				}
				return within
			})
			list = append(list, f)
		}
		return nil
	})
	return list, err
}

// adopt gives a type to each folder with notes that has none. The caller holds
// the lock.
func (s *Store) adopt() error {
	v, err := s.readFormat(markerName)
	fresh := errors.Is(err, fs.ErrNotExist) && !exists(filepath.Join(s.root, vaultName)) && !exists(filepath.Join(s.root, indexName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if fresh {
		if err := s.ownDirectory(); err != nil {
			return err
		}
	}
	a := adoption{s: s, folders: map[string]string{}}
	for folder, kind := range v.Folders {
		if exists(filepath.Join(s.root, folder)) {
			a.folders[folder] = kind
		}
	}
	notes, err := a.survey(rootFolder)
	if err != nil {
		return err
	}
	if _, ok := a.folders[rootFolder]; !ok && (notes || len(a.folders) > 0 || exists(filepath.Join(s.root, ".obsidian"))) {
		a.folders[rootFolder] = a.unused("note")
	}
	if maps.Equal(a.folders, v.Folders) {
		return nil
	}
	v.Folders = a.folders
	if err := s.makeDirs(); err != nil {
		return err
	}
	if err := s.writeFormat(markerName, v); err != nil {
		return err
	}
	return s.readLayout()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// ownDirectory returns an error if a person's directory has the name of one of
// ours.
func (s *Store) ownDirectory() error {
	entries, err := os.ReadDir(filepath.Join(s.root, dataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if rel := path.Join(dataDir, e.Name()); !slices.Contains([]string{logDir, tempDir, lostDir, endName}, rel) {
			return &storage.FormatError{Path: filepath.Join(s.root, dataDir), Reason: "does not belong to the vault, which needs a directory of this name: rename it"}
		}
	}
	return nil
}

// adoption determines which folders hold notes.
type adoption struct {
	s       *Store
	folders map[string]string
}

// survey examines a folder and its subfolders, gives types to those with notes,
// and reports whether there are any.
func (a *adoption) survey(dir string) (notes bool, err error) {
	entries, err := readDir(filepath.Join(a.s.root, dir))
	if errors.Is(err, fs.ErrPermission) {
		return false, nil // Left lists it
	}
	if err != nil {
		return false, err
	}
	slices.SortFunc(entries, func(x, y fs.DirEntry) int { return cmp.Compare(x.Name(), y.Name()) })
	for _, e := range entries {
		rel := path.Join(dir, e.Name())
		switch {
		case e.Name()[0] == '.', a.s.ours(rel):
		case !e.IsDir():
			notes = notes || e.Type().IsRegular() && strings.HasSuffix(rel, extension)
		case a.alike(rel), odd(rel):
		case a.s.leaves(rel) != "":
			a.folders[rel] = ""
		default:
			inner, err := a.survey(rel)
			if err != nil {
				return false, err
			}
			if notes = notes || inner && dir != rootFolder; inner {
				a.take(rel)
			} else if _, had := a.folders[rel]; !had && isSpace(rel) {
				a.folders[rel] = "" // no namespace of records
			}
		}
	}
	return notes, nil
}

// alike reports whether another folder has the same name in a different Unicode
// normalization.
func (a *adoption) alike(dir string) bool {
	for other := range a.folders {
		if other != dir && norm.NFC.String(other) == norm.NFC.String(dir) {
			return true
		}
	}
	return false
}

// take gives a type to a folder that has none.
func (a *adoption) take(dir string) {
	if kind, had := a.folders[dir]; had && kind != "" {
		return
	}
	_, plain := (*layout)(nil).kindOf(dir)
	if plain && !isCut(dir) {
		delete(a.folders, dir)
		return // its name is its type
	}
	a.folders[dir] = a.unused(typeName(dir))
}

// unused returns a type that no folder has.
func (a *adoption) unused(name string) string {
	kind := name
	for n := 2; ; n++ {
		used := slices.Contains(a.s.opts.Taken, kind)
		for _, other := range a.folders {
			used = used || other == kind
		}
		if !used && !a.named(kind) {
			return kind
		}
		kind = fmt.Sprintf("%s-%d", name, n)
	}
}

// named reports whether the vault has a directory with the name of a type.
func (a *adoption) named(kind string) bool {
	entries, _ := readDir(a.s.root) // an error shows up elsewhere
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == kind })
}

// typeName turns the name of a folder into a type.
func typeName(folder string) string {
	const most = 100
	var b strings.Builder
	gap := false
	for _, r := range norm.NFKD.String(strings.ToLower(folder)) {
		switch {
		case unicode.Is(unicode.Mn, r):
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			if gap {
				b.WriteByte('-')
			}
			gap = false
			b.WriteRune(r)
		default:
			gap = b.Len() > 0
		}
	}
	name := b.String()
	if name == "" || name[0] < 'a' {
		name = strings.TrimRight("folder-"+name, "-")
	}
	return strings.TrimRight(name[:min(len(name), most)], "-")
}

// ours reports whether a path belongs to the store itself.
func (s *Store) ours(rel string) bool {
	switch {
	case rel == dataDir, rel == markerName, rel == indexName, rel == lockName,
		strings.HasPrefix(rel, "_mutations.") && strings.HasSuffix(rel, ".jsonl"):
		return true
	case !isSpace(rel):
		return false
	}
	return slices.ContainsFunc(s.opts.Files, func(name string) bool { return strings.TrimSuffix(name, "/") == rel }) || s.hasRecords(rel)
}

// hasRecords reports whether a directory contains records in files.
func (s *Store) hasRecords(dir string) (has bool) {
	_ = filepath.WalkDir(filepath.Join(s.root, dir), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && strings.HasSuffix(e.Name(), recordExtension) {
			has = true
			return fs.SkipAll
		}
		return nil
	})
	return has
}

// leaves returns why a folder is left alone, or "".
func (s *Store) leaves(dir string) string {
	switch {
	case odd(dir):
		return "has a name that not every system takes"
	case exists(filepath.Join(s.root, dir, markerName)):
		return "is a vault of its own"
	case slices.Contains(s.templates(), norm.NFC.String(dir)):
		return "holds templates of Obsidian"
	}
	return ""
}

// odd reports whether _vault.json cannot express the name of a folder.
func odd(folder string) bool { return !fs.ValidPath(folder) || strings.ContainsRune(folder, '\\') }

// templates returns the folders that hold templates according to Obsidian's
// settings. The front matter of a template is not filled in yet.
func (s *Store) templates() (folders []string) {
	for _, file := range []string{"templates.json", "plugins/templater-obsidian/data.json"} {
		text, err := os.ReadFile(filepath.Join(s.root, ".obsidian", file))
		if err != nil {
			continue
		}
		var v struct {
			Folder    string `json:"folder"`
			Templater string `json:"templates_folder"`
		}
		if json.Unmarshal(text, &v) != nil {
			continue
		}
		if folder := strings.Trim(cmp.Or(v.Folder, v.Templater), "/"); folder != "" {
			folders = append(folders, norm.NFC.String(folder))
		}
	}
	return folders
}

// Left is something in the directory of a vault that is not part of the vault.
type Left struct {
	Path   string `json:"path"` // in the vault, with slashes
	Files  int    `json:"files"`
	Reason string `json:"reason"`
}

// Left returns what is in the directory but is neither a document nor the
// store's own, by path, each with the reason. It lists folders as a whole, and
// combines the files of a folder that are not Markdown. It changes nothing.
func (s *Store) Left(ctx context.Context) (list []Left, err error) {
	bad := map[string]string{}
	for f, err := range s.Unreadable(ctx, "") {
		if err != nil {
			return nil, err
		}
		if rel, err := filepath.Rel(s.root, f.Path); err == nil {
			bad[filepath.ToSlash(rel)] = f.Reason
		}
	}
	err = s.leftIn(ctx, rootFolder, bad, &list)
	slices.SortFunc(list, func(a, b Left) int { return cmp.Compare(a.Path, b.Path) })
	return list, err
}

func (s *Store) leftIn(ctx context.Context, dir string, bad map[string]string, list *[]Left) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := readDir(filepath.Join(s.root, dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		*list = append(*list, Left{dir, 0, "the directory cannot be read"})
		return nil
	}
	l := s.layout.Load()
	other := Left{Path: dir}
	kinds := map[string]bool{}
	for _, e := range entries {
		rel := path.Join(dir, e.Name())
		whole := func(reason string) {
			*list = append(*list, Left{rel, s.files(rel), reason})
		}
		switch {
		case rel == ignoreName, s.ours(rel):
		case bad[rel] != "":
			*list = append(*list, Left{rel, 1, bad[rel]})
		case e.Type()&fs.ModeSymlink != 0:
			*list = append(*list, Left{rel, 1, "a symbolic link, which is not followed"})
		case e.IsDir() && e.Name()[0] == '.':
			whole("its name begins with a dot")
		case e.IsDir():
			if kind, ok := l.kind(rel); kind == "" && s.leaves(rel) != "" && (ok || odd(rel)) {
				whole("it " + s.leaves(rel))
			} else if err := s.leftIn(ctx, rel, bad, list); err != nil {
				return err
			}
		case strings.HasSuffix(e.Name(), extension) && e.Name()[0] != '.':
			if !l.holdsDocuments(dir) {
				*list = append(*list, Left{rel, 1, "its folder is no part of the vault: strata vault rebuild --adopt takes it in, if no other has its name in another spelling"})
			}
		default:
			other.Files++
			kinds[cmp.Or(strings.TrimPrefix(path.Ext(e.Name()), "."), "no extension")] = true
		}
	}
	if other.Files > 0 {
		names := slices.Sorted(maps.Keys(kinds))
		if len(names) > 5 {
			names = append(names[:5], "…")
		}
		other.Reason = "no Markdown: " + strings.Join(names, ", ")
		*list = append(*list, other)
	}
	return nil
}

// files counts the files in a directory.
func (s *Store) files(dir string) (n int) {
	_ = filepath.WalkDir(filepath.Join(s.root, dir), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			n++
		}
		return nil
	})
	return n
}
