//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package badger

import (
	"errors"
	"os"
	"syscall"
)

// locks says that lockDir locks, so badger need not.
const locks = true

// lockDir locks a directory, either for writing or shared with other readers.
// If it would have to wait, the error is errHeld.
func lockDir(dir string, shared bool) (*dirLock, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	for {
		err = syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return &dirLock{dir: f}, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errHeld
	}
	return nil, err
}

func running(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
