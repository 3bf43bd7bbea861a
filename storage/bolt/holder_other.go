//go:build !linux

package bolt

// holder is unknown on this system.
func holder(string) string { return "" }
