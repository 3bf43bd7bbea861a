package bench

import (
	"context"
	"strings"
	"sync"

	"github.com/stratamem/strata/storage"
)

// meter is a store that counts what it is given to write. The underlying store
// has every capability, and so does the meter.
type meter struct {
	capable
	mu      sync.Mutex
	applied applied
}

// capable is everything that package memory or a layer uses of an engine of
// Strata.
type capable interface {
	storage.Adapter
	storage.Scanner
	storage.Finder
}

// applied is what a store was given to write.
type applied struct {
	ops   int
	bytes map[part]int // of keys and values
}

// part is what an op is about: the state or the records of a layer, or what the
// runtime keeps.
type part struct{ of, kind string }

// The parts that belong to no layer.
var (
	turnPart  = part{"turns", "records"}     // the records of turns, with their items
	headPart  = part{"heads", "records"}     // where threads and executions stand
	otherPart = part{"documents", "records"} // what is not below a prefix of package memory
)

// partOf returns what a key of package memory is about.
func partOf(key string) part {
	space, rest, _ := strings.Cut(key, "/")
	switch space {
	case "_layers":
		layer, rest, _ := strings.Cut(rest, "/")
		if strings.Count(rest, "/") == 2 && (strings.HasSuffix(rest, "/state") || strings.HasSuffix(rest, "/base")) {
			return part{layer, "state"}
		}
		return part{layer, "records"}
	case "_threads":
		if strings.Contains(rest, "/turns/") {
			return turnPart
		}
		return headPart
	case "_runs":
		return headPart
	}
	return otherPart
}

func (m *meter) count(ops ...storage.Op) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.applied.bytes == nil {
		m.applied.bytes = make(map[part]int)
	}
	m.applied.ops += len(ops)
	for i := range ops {
		m.applied.bytes[partOf(ops[i].Key)] += len(ops[i].Key) + len(ops[i].Value)
	}
}

// take returns what was counted since the last call.
func (m *meter) take() applied {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.applied
	m.applied = applied{}
	return a
}

// total is the bytes of all parts.
func (a applied) total() (n int) {
	for _, b := range a.bytes {
		n += b
	}
	return n
}

func (m *meter) Apply(ctx context.Context, ops ...storage.Op) error {
	m.count(ops...)
	return m.capable.Apply(ctx, ops...)
}
