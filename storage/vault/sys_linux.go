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

// swap puts a temporary file in the place of another, which it moves to out, and
// returns where that one is now, "" if there was none. What is at path is exchanged
// in one step, so that nothing that another program saves there is overwritten.
func swap(temp, out, path string) (old string, err error) {
	for {
		err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
		if err == unix.EEXIST {
			if temp != out {
				if err := os.Rename(temp, out); err != nil {
					return "", err
				}
				temp = out
			}
			err = unix.Renameat2(unix.AT_FDCWD, out, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
			if err == nil {
				return out, nil
			}
			if err == unix.ENOENT { // it has just gone
				continue
			}
		}
		switch err {
		case nil:
			return "", nil
		case unix.EINTR:
		case unix.EINVAL, unix.ENOSYS, unix.ENOTSUP: // of this file system or kernel
			return replace(temp, out, path)
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
