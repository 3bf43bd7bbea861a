// Package recent keeps what was used lately.
//
// The one decision: two generations instead of a list in order of use. What is used
// moves to the young one; when that is full, it becomes the old one, and what was old
// is forgotten. A Get is one or two looks into a map.
package recent

// Cache keeps values whose sizes are at most Limit together, twice: as much is young
// and as much old. The zero Cache with a Limit is ready. It is for one goroutine at a
// time.
type Cache[K comparable, V any] struct {
	Limit      int            // of sizes
	Size       func(K, V) int // nil: each is 1; a pair has the same as long as it is kept
	young, old map[K]V
	size       int // of young
}

// Get returns the value of a key that was put or got lately.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	v, ok := c.young[key]
	if !ok {
		if v, ok = c.old[key]; ok {
			delete(c.old, key)
			c.Put(key, v)
		}
	}
	return v, ok
}

// Put keeps a value, unless its size is over a quarter of the limit, which would push
// out all else.
func (c *Cache[K, V]) Put(key K, value V) {
	size := c.sizeOf(key, value)
	if size > c.Limit/4 {
		return
	}
	if had, ok := c.young[key]; ok {
		c.size -= c.sizeOf(key, had)
	}
	if c.size += size; c.young == nil || c.size > c.Limit {
		c.young, c.old, c.size = make(map[K]V), c.young, size
	}
	c.young[key] = value
}

func (c *Cache[K, V]) sizeOf(key K, value V) int {
	if c.Size == nil {
		return 1
	}
	return c.Size(key, value)
}
