package bench

import (
	"runtime"
	"time"
)

// usage is what the process has used.
type usage struct {
	cpu            time.Duration
	mallocs, bytes uint64
}

func readUsage() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{cpuTime(), m.Mallocs, m.TotalAlloc}
}

func (u usage) since(before usage) usage {
	return usage{u.cpu - before.cpu, u.mallocs - before.mallocs, u.bytes - before.bytes}
}

func (u *usage) add(v usage) {
	u.cpu += v.cpu
	u.mallocs += v.mallocs
	u.bytes += v.bytes
}
