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

// bootID tells one run of the system from the next, "" if it cannot.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
