//go:build unix

package vault

import (
	"os"
	"syscall"
)

// tryLock takes the exclusive lock of a file if it is free. The system releases
// it when the process dies.
func tryLock(fd uintptr) (bool, error) {
	for {
		switch err := syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB); err {
		case nil:
			return true, nil
		case syscall.EWOULDBLOCK:
			return false, nil
		case syscall.EINTR:
		default:
			return false, os.NewSyscallError("flock", err)
		}
	}
}

func unlock(fd uintptr) error { return syscall.Flock(int(fd), syscall.LOCK_UN) }
