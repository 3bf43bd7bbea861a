//go:build linux || darwin || freebsd

package vault

import "golang.org/x/sys/unix"

// freeSpace returns how many bytes can still be written to the file system of
// an open file.
var freeSpace = func(fd uintptr) (uint64, bool) {
	var st unix.Statfs_t
	if unix.Fstatfs(int(fd), &st) != nil {
		return 0, false
	}
	return uint64(st.Bavail) * uint64(st.Bsize), true
}
