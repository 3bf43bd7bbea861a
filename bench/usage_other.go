//go:build !unix

package bench

import (
	"io/fs"
	"time"
)

// cpuTime is not known on this system.
func cpuTime() time.Duration { return 0 }

// allocated is the size of a file: how much it takes of the disk is not known.
func allocated(info fs.FileInfo) int64 { return info.Size() }
