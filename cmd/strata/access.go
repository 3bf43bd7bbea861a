package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// A copy says all that its source says, so whoever is kept out of one is to be kept
// out of the other. Files of bolt and directories of badger are their owner's alone;
// a vault is made for everyone to read, as directories of notes are.

// keepOut makes the directory of a vault that is to be filled from a file or a
// directory that not everyone may read, for its owner alone: a group of the source
// may not be that of the destination. A directory that is there is somebody's to
// decide about, and only told of.
func (t *tool) keepOut(spec, from string) error {
	if runtime.GOOS == "windows" || !strings.HasPrefix(storeSpec(spec), "vault:") {
		return nil
	}
	const all = 0o044
	if from == "-" {
		from = "the backup" // of which nobody knows who may read it
	} else if info, err := os.Stat(from); err != nil || info.Mode()&all == all {
		return nil // an error is better said by who opens it
	}
	_, dir, _ := strings.Cut(storeSpec(spec), ":")
	if there, err := os.Stat(dir); err == nil {
		if there.IsDir() && there.Mode()&all != 0 {
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
