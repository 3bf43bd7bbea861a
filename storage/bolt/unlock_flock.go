//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package bolt

import (
	"os"
	"syscall"
)

// unlock gives up bbolt's lock of a file that bbolt will not close any more.
// Closing the file is not enough: the lock lives on with the memory mapping.
func unlock(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
