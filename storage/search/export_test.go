package search

import "testing"

// SealEarly has segments merged and sealed when they are small, in small blocks of
// which few are held, until the test ends. Tests that use it run alone.
func SealEarly(tb testing.TB) {
	levels, bytes, each, held := fanIn, sealBytes, blockBytes, cacheBytes
	fanIn, sealBytes, blockBytes, cacheBytes = [...]int{8, 4, 4}, 6<<10, 400, 4<<10
	tb.Cleanup(func() { fanIn, sealBytes, blockBytes, cacheBytes = levels, bytes, each, held })
}

// CheckBlock reads whatever as a block.
func CheckBlock(data []byte) {
	c := openBlock(data)
	c.term("boat")
	for i := range min(c.wholes(), 4) {
		c.seek(i)
		for c.next() {
			_, list := c.list()
			for range postings(list) {
			}
		}
	}
}

// Held returns how many bytes of blocks an index holds.
func (ix *Index) Held() int {
	ix.cache.mu.Lock()
	defer ix.cache.mu.Unlock()
	n := 0
	for _, b := range ix.cache.ring {
		n += len(b.data)
	}
	return n
}

// StemEnglish is the stemmer of English words.
var StemEnglish = stemEnglish
