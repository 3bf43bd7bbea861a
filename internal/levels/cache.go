package levels

import (
	"cmp"
	"slices"
	"sync"
)

// Cache keeps what was read of segments lately, up to a number of bytes. Get and
// Put may be called at once; what else there is wants the lock of the set for
// writing.
type Cache[K comparable, V any] struct {
	Size func(K, V) int // bytes

	mu    sync.Mutex
	items map[K]*cached[V]
	bytes int
	uses  uint64
}

type cached[V any] struct {
	value V
	bytes int
	used  uint64
}

// Get returns the value of a key, if there is one.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.items[key]
	if e == nil {
		return value, false
	}
	c.uses++
	e.used = c.uses
	return e.value, true
}

// Put keeps a value, unless it takes more than a quarter of most, and drops what
// was not used for longest where all is more than most.
func (c *Cache[K, V]) Put(key K, value V, most int) {
	size := c.Size(key, value)
	if size > most/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.items == nil {
		c.items = make(map[K]*cached[V])
	}
	if e := c.items[key]; e != nil {
		c.bytes -= e.bytes
	}
	c.uses++
	c.items[key] = &cached[V]{value, size, c.uses}
	if c.bytes += size; c.bytes > most {
		c.shrink(most)
	}
}

// shrink drops what was not used for longest, until a fifth of most is free.
func (c *Cache[K, V]) shrink(most int) {
	type used struct {
		key  K
		when uint64
	}
	order := make([]used, 0, len(c.items))
	for k, e := range c.items {
		order = append(order, used{k, e.used})
	}
	slices.SortFunc(order, func(a, b used) int { return cmp.Compare(a.when, b.when) })
	for _, o := range order {
		if c.bytes <= most*4/5 {
			return
		}
		c.bytes -= c.items[o.key].bytes
		delete(c.items, o.key)
	}
}

// Change replaces all values by what f returns.
func (c *Cache[K, V]) Change(f func(K, V) V) {
	for k, e := range c.items {
		e.value = f(k, e.value)
		c.bytes -= e.bytes
		e.bytes = c.Size(k, e.value)
		c.bytes += e.bytes
	}
}

// Update replaces the value of a key, if there is one, by what f returns.
func (c *Cache[K, V]) Update(key K, f func(V) V, most int) {
	e := c.items[key]
	if e == nil {
		return
	}
	c.bytes -= e.bytes
	e.value = f(e.value)
	e.bytes = c.Size(key, e.value)
	if c.bytes += e.bytes; c.bytes > most {
		c.shrink(most)
	}
}

// Clear drops everything.
func (c *Cache[K, V]) Clear() { c.items, c.bytes = nil, 0 }
