package vault

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// dataSync makes the content of a file durable.
func dataSync(_ *os.File, fd uintptr) error {
	for {
		if err := unix.Fdatasync(int(fd)); err != unix.EINTR {
			return err
		}
	}
}

// syncAll makes everything in the file system of dir durable.
func syncAll(dir *os.File) (bool, error) { return true, unix.Syncfs(int(dir.Fd())) }

// swap puts a temporary file in the place of another, and returns where that one
// is now, "" if there was none. What is at path is exchanged in one step, so that
// nothing that another program saves there is overwritten.
func swap(temp, path string) (old string, err error) {
	for {
		err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
		if err == unix.ENOENT {
			if err = unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE); err == nil {
				return "", nil
			}
		}
		switch err {
		case nil:
			return temp, nil
		case unix.EEXIST, unix.EINTR: // it has just come
		case unix.EINVAL, unix.ENOSYS, unix.ENOTSUP: // of this file system or kernel
			return replace(temp, path)
		default:
			return "", &os.LinkError{Op: "rename", Old: temp, New: path, Err: err}
		}
	}
}

// bootID tells one run of the system from the next, "" if it cannot.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
