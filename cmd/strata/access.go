package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// A copy reveals everything that its source does, so whoever may not read one
// may not read the other. Files of bolt and directories of badger are private
// to their owner; a vault is made for everyone to read, as directories of notes
// are.

// everyone is read access for group and others.
const everyone fs.FileMode = 0o044

// forAll reports whether everyone may read a file, or everything in a directory
// except what a vault always keeps private.
func forAll(from string) (open bool, err error) {
	info, err := os.Stat(from)
	if err != nil || !info.IsDir() || info.Mode()&everyone != everyone {
		return err == nil && info.Mode()&everyone == everyone, err
	}
	open = true
	err = filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			open = false
			return fs.SkipAll // what we may not read is not for everyone
		case path == from:
			return nil
		case strings.HasPrefix(e.Name(), "_"), strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.Type()&fs.ModeSymlink != 0:
			return nil
		}
		info, err := e.Info()
		if err != nil || info.Mode()&everyone != everyone {
			open = false
			return fs.SkipAll
		}
		return nil
	})
	return open, err
}

// keepOut makes the directory of a vault private to its owner if it is to be
// filled from a file or directory that not everyone may read: the source's
// group may differ from the destination's. An existing directory is left alone,
// and only reported.
func (t *tool) keepOut(spec, from string) error {
	if runtime.GOOS == "windows" || !strings.HasPrefix(storeSpec(spec), "vault:") {
		return nil
	}
	if from == "-" {
		from = "the backup" // it is unknown who may read it
	} else if open, err := forAll(from); err != nil || open {
		return nil // whoever opens it reports errors better
	}
	_, dir, _ := strings.Cut(storeSpec(spec), ":")
	if there, err := os.Stat(dir); err == nil {
		if there.IsDir() && there.Mode()&everyone != 0 {
			fmt.Fprintf(t.err, "strata: others may read %s, who may not read %s: 'chmod go-rx %s' keeps them out\n",
				printable(dir), printable(from), shellQuote(dir))
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o700)
}
