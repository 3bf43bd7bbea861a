package vault

import (
	"errors"

	"golang.org/x/sys/windows"
)

// The lock lies beyond the text of the file, so that others can read the text.
const lockAt = 1 << 30

// tryLock takes the exclusive lock of a file if it is free. The system releases
// it when the process dies.
func tryLock(fd uintptr) (bool, error) {
	err := windows.LockFileEx(windows.Handle(fd), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{Offset: lockAt})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

func unlock(fd uintptr) error {
	return windows.UnlockFileEx(windows.Handle(fd), 0, 1, 0, &windows.Overlapped{Offset: lockAt})
}
