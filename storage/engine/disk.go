package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"syscall"

	"github.com/stratamem/strata/storage"
)

// DiskError wraps an error of the file system so that it is also a
// [storage.ErrDiskFull] or a [storage.ErrReadOnly], if it means one of these.
// Other errors are returned unchanged, including that a file may not be read.
func DiskError(err error) error {
	const windowsDiskFull = syscall.Errno(112)
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) {
			return fmt.Errorf("%w: %w", storage.ErrDiskFull, err)
		}
	}
	switch {
	case Unreadable(err):
		return err
	case runtime.GOOS == "windows" && errors.Is(err, windowsDiskFull):
		return fmt.Errorf("%w: %w", storage.ErrDiskFull, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %w", storage.ErrReadOnly, err)
	}
	return err
}

// Unreadable reports whether a file system error means that a file or directory
// may not be read, so that making it writable would not help.
func Unreadable(err error) bool {
	failed, ok := errors.AsType[*fs.PathError](err)
	if !ok || !errors.Is(err, fs.ErrPermission) {
		return false
	}
	info, err := os.Stat(failed.Path)
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() { // a pipe might block until somebody writes to it
		return errors.Is(err, fs.ErrPermission)
	}
	f, err := os.Open(failed.Path)
	if err == nil {
		f.Close()
	}
	return errors.Is(err, fs.ErrPermission)
}
