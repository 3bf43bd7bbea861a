//go:build unix

package vault

import (
	"os"
	"syscall"
)

// inode returns the number of a file, which changes when an editor saves to a
// new file.
func inode(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino) & (1<<63 - 1)
	}
	return 0
}

// owners returns the group of a file, and whether it belongs to our user.
func owners(info os.FileInfo) (group int, ours, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false, false
	}
	return int(st.Gid), int(st.Uid) == os.Geteuid(), true
}

// noFollow makes opening a symbolic link an error; nonBlock makes opening a
// pipe return at once.
const noFollow, nonBlock = syscall.O_NOFOLLOW, syscall.O_NONBLOCK
