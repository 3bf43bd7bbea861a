//go:build !(goexperiment.simd && amd64)

package vector

// inner returns the inner product of two vectors of equal length.
func inner(a, b []int16) int32 { return plainInner(a, b) }

// differences returns, for each of eight interleaved codes, the number of bits
// in which it differs from code.
func differences(d *[lanes]uint16, codes, code []uint64) { plainDifferences(d, codes, code) }
