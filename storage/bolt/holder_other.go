//go:build !linux

package bolt

// holder cannot tell on this system.
func holder(string) string { return "" }
