package memory

import (
	"slices"
	"sync"
)

// family is the place of a run among those that were spawned. Children come and
// go at any time: the methods lock.
type family struct {
	parent   *Run // nil at depth 0 and after Resume
	parentID string
	depth    int
	merging  token // while a child returns

	mu       sync.Mutex
	children []*Run
}

// add adds a child.
func (f *family) add(child *Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.children = append(f.children, child)
}

// remove removes a child that has ended.
func (f *family) remove(child *Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.children = slices.DeleteFunc(f.children, func(c *Run) bool { return c == child })
}

// living returns the children that have not ended, oldest first.
func (f *family) living() []*Run {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.children)
}
