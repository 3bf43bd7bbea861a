package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// A copy says all that its source says, so whoever is kept out of one is to be kept
// out of the other. Files of bolt and directories of badger are their owner's alone;
// a vault is made for everyone to read, as directories of notes are.

// everyone is the access of group and others to read.
const everyone fs.FileMode = 0o044

// forAll reports whether everyone may read a file, or all of a directory that a vault
// does not keep to its owner by itself.
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
			return fs.SkipAll // what may not be read by us is not for everyone
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

// keepOut makes the directory of a vault that is to be filled from a file or a
// directory that not everyone may read, for its owner alone: a group of the source
// may not be that of the destination. A directory that is there is somebody's to
// decide about, and only told of.
func (t *tool) keepOut(spec, from string) error {
	if runtime.GOOS == "windows" || !strings.HasPrefix(storeSpec(spec), "vault:") {
		return nil
	}
	if from == "-" {
		from = "the backup" // of which nobody knows who may read it
	} else if open, err := forAll(from); err != nil || open {
		return nil // an error is better said by who opens it
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
