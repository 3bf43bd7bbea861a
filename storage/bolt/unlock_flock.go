//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package bolt

import (
	"os"
	"syscall"
)

// unlock releases bbolt's lock of a file that bbolt will no longer close.
// Closing the file is not enough: the memory mapping keeps the lock alive.
func unlock(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
