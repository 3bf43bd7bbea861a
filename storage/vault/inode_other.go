//go:build !unix

package vault

import "os"

// inode is not available here: size and time must suffice.
func inode(os.FileInfo) uint64 { return 0 }

// owners is not available here.
func owners(os.FileInfo) (group int, ours, ok bool) { return 0, false, false }

const noFollow, nonBlock = 0, 0
