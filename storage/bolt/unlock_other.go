//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package bolt

import "os"

// unlock does nothing: the lock ends with the process.
func unlock(*os.File) {}
