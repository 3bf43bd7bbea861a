//go:build unix

package vault

import (
	"os"
	"syscall"
)

// inode is the number of a file, which an editor that saves to a new file
// changes.
func inode(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino) & (1<<63 - 1)
	}
	return 0
}

// owners are the group of a file, and whether it is of our user.
func owners(info os.FileInfo) (group int, ours, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false, false
	}
	return int(st.Gid), int(st.Uid) == os.Geteuid(), true
}

// noFollow makes opening a symbolic link an error, nonBlock opening a pipe none.
const noFollow, nonBlock = syscall.O_NOFOLLOW, syscall.O_NONBLOCK
