//go:build !linux

package bolt

// resident returns 0: nothing is released here.
func resident() int { return 0 }

func release(_, _ uintptr) {}
