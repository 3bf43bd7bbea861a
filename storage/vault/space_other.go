//go:build !(linux || darwin || freebsd)

package vault

// freeSpace is not known here.
var freeSpace = func(uintptr) (uint64, bool) { return 0, false }
