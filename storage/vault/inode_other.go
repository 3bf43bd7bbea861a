//go:build !unix

package vault

import "os"

// inode is not to be had here: size and time have to do.
func inode(os.FileInfo) uint64 { return 0 }

// owners is not to be had here.
func owners(os.FileInfo) (group int, ours, ok bool) { return 0, false, false }

const noFollow, nonBlock = 0, 0
