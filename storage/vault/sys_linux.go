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

// swap puts a temporary file in the place of another, which it moves to out. It
// returns where that is now, or "" if there was none. The two are exchanged in
// one step, so that nothing saved at path by another program is overwritten.
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
			if err == unix.ENOENT { // it has just been removed
				continue
			}
		}
		switch err {
		case nil:
			return "", nil
		case unix.EINTR:
		case unix.EINVAL, unix.ENOSYS, unix.ENOTSUP: // unsupported by this file system or kernel
			return replace(temp, out, path)
		default:
			return "", &os.LinkError{Op: "rename", Old: temp, New: path, Err: err}
		}
	}
}

// bootID identifies a run of the system, or is "" if it cannot.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
