package search

// filter tells most of the terms that a segment has not: a set of bits of which two
// are set for each that it has (Bloom, 1970), of some 16 for each, so that it
// mistakes one in 70.
type filter string

func hashTerm(term string) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(term) {
		h = (h ^ uint64(term[i])) * 1099511628211
	}
	return h ^ h>>29
}

func (f filter) bits(hash uint64) (a, b uint64) {
	n := uint64(len(f)) * 8
	return (hash & 0xffffffff) * n >> 32, (hash >> 32) * n >> 32
}

// may reports whether the segment may have a term, by its hash.
func (f filter) may(hash uint64) bool {
	if len(f) == 0 {
		return false
	}
	a, b := f.bits(hash)
	return f[a/8]&(1<<(a%8)) != 0 && f[b/8]&(1<<(b%8)) != 0
}

// filterOf makes the filter of the terms of blocks, whose data are at hand. Those
// of a segment without terms, and of a damaged one, are empty.
func filterOf(blocks []block) filter {
	var hashes []uint64
	for t := (termReader{blocks: blocks}); t.next(); {
		hashes = append(hashes, hashTerm(string(t.term)))
	}
	bits := make([]byte, 2*len(hashes))
	f := filter(bits) // of the same length
	for _, h := range hashes {
		a, b := f.bits(h)
		bits[a/8] |= 1 << (a % 8)
		bits[b/8] |= 1 << (b % 8)
	}
	return filter(bits)
}
