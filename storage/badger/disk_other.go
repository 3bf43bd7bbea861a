//go:build !(darwin || linux)

package badger

import (
	"io/fs"
	"math"
	"path/filepath"
)

// diskFree is unknown on this system.
func diskFree(string) (int64, error) { return math.MaxInt64, nil }

// diskUsage returns the sizes of the files of dir.
func diskUsage(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n, err
}
