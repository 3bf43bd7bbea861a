package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"syscall"

	"github.com/stratamem/strata/storage"
)

// DiskError adds to an error of the file system what it means for a store: it
// becomes a [storage.ErrDiskFull] or a [storage.ErrReadOnly] as well, if it is
// one. Others are returned as they are.
func DiskError(err error) error {
	const windowsDiskFull = syscall.Errno(112)
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) {
			return fmt.Errorf("%w: %w", storage.ErrDiskFull, err)
		}
	}
	switch {
	case runtime.GOOS == "windows" && errors.Is(err, windowsDiskFull):
		return fmt.Errorf("%w: %w", storage.ErrDiskFull, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %w", storage.ErrReadOnly, err)
	}
	return err
}
