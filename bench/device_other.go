//go:build !linux

package bench

// deviceWrites is unknown on this system.
func deviceWrites(string) (int64, bool) { return 0, false }

func flush() {}

// writeCalls is unknown on this system.
func writeCalls() (int64, bool) { return 0, false }
