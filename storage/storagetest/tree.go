package storagetest

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"
)

// file is the content of a file, without the zeros at its end, of which
// preallocated files have many.
type file struct {
	content []byte
	size    int64 // including the zeros
}

// tree is the files of a directory, by their names with slashes.
type tree map[string]file

func readTree(t *testing.T, dir string) tree {
	t.Helper()
	files := tree{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		files[name] = file{bytes.TrimRight(content, "\x00"), int64(len(content))}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// write writes the files into a directory.
func (files tree) write(t *testing.T, dir string) {
	t.Helper()
	for name, f := range files {
		target := filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(target), 0o755)
		if err == nil {
			err = os.WriteFile(target, f.content, 0o644)
		}
		if err == nil {
			err = os.Truncate(target, f.size)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// with returns a new directory with the files, one of them replaced.
func (files tree) with(t *testing.T, name string, f file) string {
	t.Helper()
	files = maps.Clone(files)
	files[name] = f
	dir := t.TempDir()
	files.write(t, dir)
	return dir
}

// matching returns the names that match a pattern, in order. Every pattern must
// match one.
func (files tree) matching(t *testing.T, patterns []string) (names []string) {
	t.Helper()
	for name := range files {
		if matches(patterns, name) {
			names = append(names, name)
		}
	}
	for _, p := range patterns {
		if !slices.ContainsFunc(names, func(name string) bool { return matches([]string{p}, name) }) {
			t.Errorf("no file matches %q", p)
		}
	}
	slices.Sort(names)
	return names
}

// matches reports whether a name with slashes matches one of the patterns.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}
